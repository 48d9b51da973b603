x = torch.tensor(1.0, requires_grad=True)
y = x ** 2

y.backward(retain_graph=True)
print(x.grad)   # 2.0

y.backward()
print(x.grad)   # 4.0 (gradients accumulate)
