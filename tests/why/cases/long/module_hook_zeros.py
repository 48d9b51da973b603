import torch
from torch import nn


class StopGradient:
    def __init__(self, module, until):
        self.step, self.until = 0, until
        module.register_full_backward_hook(self)

    def __call__(self, module, grad_input, grad_output):
        self.step += 1
        if self.step <= self.until:
            return tuple(torch.zeros_like(g) if g is not None else None for g in grad_input)


torch.manual_seed(0)
body, head = nn.Linear(3, 4), nn.Linear(4, 1)
StopGradient(head, until=100)
opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for _ in range(4):
    opt.zero_grad()
    head(torch.tanh(body(torch.randn(5, 3)))).mean().backward()
    opt.step()
print(body.weight.grad.abs().max())
