import torch
import torch.nn as nn

class MyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 5)

    def forward(self, x):
        return self.linear(x)

model = MyModel()
custom_gradients = {}

def hook_fn(module, input, output):
    custom_gradients['linear'] = torch.randn_like(module.weight) # Placeholder, replace with actual calculation

hook = model.linear.register_forward_hook(hook_fn)

input_tensor = torch.randn(1, 10)
output = model(input_tensor)

loss = torch.sum(output**2)
loss.backward()
hook.remove()
print(f"PyTorch Calculated Gradient: {model.linear.weight.grad}")
print(f"Custom Gradient: {custom_gradients['linear']}")

