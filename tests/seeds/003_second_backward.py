import torch
x = torch.tensor(1.0, requires_grad=True)
y = x ** 2

y.backward()   # computes dy/dx and frees the graph
y.backward()   # RuntimeError: graph has been freed
