"""Fine-tunes a PyTorch model: its module becomes Hammock's, is trained here, and the weights go back. Needs PyTorch.

    python fine_tune.py
"""

import sys

import hammock as hm
from hammock import nn, optim

try:
    import torch
except ImportError:
    sys.exit("this example needs PyTorch")


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 3))
    ours = nn.from_torch(theirs)
    x = hm.randn(256, 8)
    assert hm.allclose(ours(x), hm.from_torch(theirs(hm.to_torch(x)).detach()), atol=1e-5)

    target = (x[:, :3] * 2).argmax(1)
    optimizer = optim.AdamW([*ours.parameters()][-2:], lr=0.02)  # the last layer alone

    @hm.compile
    def train() -> hm.Tensor:
        optimizer.zero_grad()
        loss = hm.cross_entropy(ours(x), target)
        loss.backward()
        optimizer.step()
        return loss

    losses = [train() for _ in range(60)]
    theirs.load_state_dict({name: hm.to_torch(value) for name, value in ours.state_dict().items()})
    with torch.no_grad():
        final = torch.nn.functional.cross_entropy(theirs(hm.to_torch(x)), hm.to_torch(target)).item()
    print(f"loss {losses[0]:.3f} before, {losses[-1]:.3f} after, {final:.3f} by PyTorch with the new weights")
    return losses[0].item(), final


if __name__ == "__main__":
    main()
