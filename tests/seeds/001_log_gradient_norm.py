import torch

def log_grad_norm(grad):
    norm = torch.norm(grad)
    print(f"Gradient norm: {norm.item()}")

# create a tensor requiring gradients
x = torch.randn(2, 2, requires_grad=True)
y = x * 2  # simple operation
z = y.sum()

# register the hook on x before .backward()
x.register_hook(log_grad_norm)

z.backward()
