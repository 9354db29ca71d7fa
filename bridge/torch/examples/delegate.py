import hammock_torch  # registers the delegate
import torch

model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval())
lowered = torch._C._jit_to_backend("hammock", model, {"forward": {"device": "cpu"}})
print(lowered.forward(torch.randn(2, 4)))
torch.jit.save(lowered, "lowered.pt")  # loads wherever hammock_torch is imported
