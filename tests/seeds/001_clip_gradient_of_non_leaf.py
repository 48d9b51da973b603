import torch

def clip_grad(grad, clip_value=1.0):
  return torch.clamp(grad, -clip_value, clip_value)

# create a tensor requiring gradients
x = torch.randn(2, 2, requires_grad=True) * 10 # create a large value that might lead to large gradients
y = x * 2
z = y.sum()

# register the clip hook on x before .backward()
x.register_hook(clip_grad)

z.backward()

print(x.grad)
