import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
forwards, backwards, nodes, multi = [], [], [], []
h1 = register_module_forward_hook(lambda m, a, o: forwards.append(type(m).__name__))
h2 = register_module_full_backward_hook(lambda m, gi, go: backwards.append(type(m).__name__))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
h3 = register_multi_grad_hook(list(net.parameters()), lambda grads: multi.append(sum(g is not None for g in grads)))
for _ in range(2):
    opt.zero_grad()
    loss = net(torch.randn(4, 3)).square().mean()
    loss.grad_fn.register_hook(lambda gi, go: nodes.append(go[0].item()))
    loss.grad_fn.next_functions[0][0].register_prehook(lambda go: nodes.append(go[0].norm().item()))
    loss.backward()
    opt.step()
for h in (h1, h2, h3):
    h.remove()
net(torch.randn(1, 3))
print(len(forwards), len(backwards), len(nodes), multi)
