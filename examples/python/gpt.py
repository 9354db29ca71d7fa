"""A small GPT that learns the characters of a text, by default this file's, and then writes some of its own.

    python gpt.py --steps 300
"""

import argparse
import math
import pathlib

import numpy as np

import hammock as hm
from hammock import nn, optim


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: hm.Tensor) -> hm.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = hm.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(hm.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, letters: int, context: int, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.context = context
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)

    def forward(self, tokens: hm.Tensor) -> hm.Tensor:
        x = self.letter(tokens) + self.place(hm.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def main() -> tuple[float, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--write", type=int, default=120, help="characters to write at the end")
    parser.add_argument("--text", default=__file__)
    options = parser.parse_args()

    hm.manual_seed(0)
    text = pathlib.Path(options.text).read_text()
    letters = sorted(set(text))
    numbers = np.array([letters.index(letter) for letter in text])
    random, context = np.random.RandomState(0), 48
    net = GPT(len(letters), context)
    optimizer = optim.AdamW(net.parameters(), lr=3e-3)

    @hm.compile
    def train(tokens: hm.Tensor) -> hm.Tensor:
        optimizer.zero_grad()
        logits = net(tokens[:, :-1])
        loss = hm.cross_entropy(logits.reshape(-1, len(letters)), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for step in range(options.steps):
        starts = random.randint(0, len(numbers) - context - 1, 16)
        losses.append(train(hm.tensor(np.stack([numbers[i : i + context + 1] for i in starts]))))
        if step % 50 == 0 or step == options.steps - 1:
            print(f"step {step}: loss {losses[-1]:.3f}, perplexity {math.exp(losses[-1].item()):.1f}")

    @hm.compile
    @hm.no_grad()
    def next_logits(tokens: hm.Tensor) -> hm.Tensor:
        return net(tokens)[0, -1]

    written = list(numbers[:context])
    for _ in range(options.write):
        probabilities = next_logits(hm.tensor([written[-context:]])).softmax(0)
        written.append(int(hm.multinomial(probabilities, 1)))
    print("".join(letters[number] for number in written[context:]))
    return losses[0].item(), losses[-1].item()


if __name__ == "__main__":
    main()
