import torch

def modify_grad(grad, tensor):
    if (tensor > 0).all():  # check if all elements of the tensor are positive
        return grad * 2
    elif (tensor < 0).all(): # check if all elements of the tensor are negative
        return grad * 0.5
    else:
      return grad

# create a tensor requiring gradients
x = torch.randn(2, 2, requires_grad=True)
y = x * 2
z = y.sum()

# Register the hook with a lambda function capturing the current value of x
x.register_hook(lambda grad: modify_grad(grad, x))

z.backward()

print(x.grad)
