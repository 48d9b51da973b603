import torch

def scalar_mult_hook(grad):
    return grad * 0.5

x = torch.tensor(2.0, requires_grad=True)
y = x**2
y.register_hook(scalar_mult_hook)
z = y*3
w = y*2
output = z + w
output.backward()

print("Gradient of x:", x.grad)
