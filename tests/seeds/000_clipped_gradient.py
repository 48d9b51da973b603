import torch

def clip_hook(grad):
    return torch.clamp(grad, -1, 1)

x = torch.tensor(10.0, requires_grad=True)
y = x**2
y.register_hook(clip_hook)
z = y*3
z.backward()
print("Gradient of x:", x.grad)
