"""A training loop on device "hammock"; nothing but the name of the device is Hammock's."""

import io

import hammock_torch.device
import torch
from torch import nn

torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(256, 8), torch.randint(0, 3, (256,)))
loader = torch.utils.data.DataLoader(data, batch_size=32)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)).to("hammock")
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
losses = []
for epoch in range(8):
    for batch, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch.to("hammock")), labels.to("hammock"))
        loss.backward()
        optimizer.step()
    losses.append(loss.item())
print(f"{torch.hammock.device_name()}: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
assert losses[-1] < losses[0]

file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
model.load_state_dict(torch.load(file))
assert hammock_torch.fallbacks() == {}
