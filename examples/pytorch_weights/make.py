"""Makes weights.safetensors and expected.safetensors with PyTorch, in the layout of the safetensors format.

    python3 make.py
"""
import json
import struct
import torch
from torch import nn

TYPES = {torch.float32: "F32", torch.int64: "I64"}


def save(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
        self.encoder = nn.LSTM(16, 12, batch_first=True)
        self.attention = nn.MultiheadAttention(12, 3, batch_first=True)
        self.classifier = nn.Linear(12, 10)

    def forward(self, x):
        x, _ = self.encoder(self.features(x).flatten(2))
        x, _ = self.attention(x, x, x)
        return self.classifier(x.mean(1))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
for _ in range(20):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(torch.rand(8, 1, 8, 8)), torch.randint(10, (8,))).backward()
    optimizer.step()
net.eval()
x = torch.rand(4, 1, 8, 8)
save("weights.safetensors", net.state_dict())
save("expected.safetensors", {"x": x, "y": net(x)})
