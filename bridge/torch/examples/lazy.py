import hammock_torch
import torch
import torch._lazy

hammock_torch.lazy.init()  # or init("cuda:0"), or a plug-in's name
w = torch.randn(4, 4, device="lazy", requires_grad=True)
for step in range(3):
    loss = torch.relu(w @ w).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.01 * w.grad
    w.grad = None
    torch._lazy.mark_step()
print(w.cpu())
print(hammock_torch.fallbacks())  # {}: nothing ran by PyTorch
