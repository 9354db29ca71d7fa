import torch
from hammock_torch.dynamo import hammock

model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
compiled = torch.compile(model, backend=hammock)  # installed by pip: backend="hammock"
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(64, 8)
y = x.square().sum(1, keepdim=True)
for step in range(50):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(compiled(x), y)
    loss.backward()
    optimizer.step()
print(loss.item())
