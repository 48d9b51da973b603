import torch
from torch import nn
import torch.nn.functional as F

order, captured, logged = [], [], {}
stepped = 0


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + F.gelu(self.fc(self.norm(x)))


class Model(nn.Module):
    def __init__(self, width=6, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def scale_input(module, args):
    order.append("pre")
    return (args[0] / 2,)


def add_noise(module, args, output):
    order.append("post")
    if module.training:
        return output + 0.01 * torch.randn_like(output)


def log_gradients(name):
    def hook(module, grad_input, grad_output):
        logged.setdefault(name, []).append(grad_output[0].abs().mean().item())
    return hook


def attach_optimizers(model, lr):
    optimizers = {p: torch.optim.SGD([p], lr=lr) for p in model.parameters()}

    def step(p):
        global stepped
        optimizers[p].step()
        optimizers[p].zero_grad()
        stepped += 1

    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]


torch.manual_seed(0)
model = Model()
handles = [model.blocks[0].register_forward_pre_hook(scale_input), model.blocks[1].register_forward_hook(add_noise)]
for name, module in model.named_modules():
    if isinstance(module, Block):
        handles.append(module.register_full_backward_hook(log_gradients(name)))
handles += attach_optimizers(model, 0.05)
for step in range(2):
    x, y = torch.randn(8, 6), torch.randint(0, 2, (8,))
    logits = model(x)
    handle = logits.register_hook(lambda g: captured.append(g.clone()))
    loss = F.cross_entropy(logits, y)
    loss.backward()
    handle.remove()
for handle in handles:
    handle.remove()
with torch.no_grad():
    model.eval()
    final = model(torch.randn(3, 6))
print(order, len(captured), {k: len(v) for k, v in logged.items()}, final.shape)
