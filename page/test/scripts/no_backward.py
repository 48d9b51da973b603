import torch

net = torch.nn.Linear(4, 2)
with torch.no_grad():
    out = net(torch.ones(3, 4))
print(out.shape)
