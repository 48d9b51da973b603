import torch

def my_hook(grad):
    print("Original gradient:", grad)
    modified_grad = grad * 2
    print("Modified gradient:", modified_grad)
    return modified_grad

x = torch.tensor(2.0, requires_grad=True)
y = x**2
y.register_hook(my_hook)
z = y*3
z.backward()

print("Final gradient of x:", x.grad)
