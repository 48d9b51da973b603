import torch
import torch.nn as nn

class MyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 5)

    def forward(self, x):
        return self.linear(x)

model = MyModel()
activations = []

def hook_fn(module, input, output):
    activations.append(output.detach().cpu().numpy()) # Detach to avoid gradient tracking

hook = model.linear.register_forward_hook(hook_fn)

input_tensor = torch.randn(1, 10)
output = model(input_tensor)

loss = torch.sum(output**2) # Example loss function
loss.backward() # Initiate backpropagation

hook.remove() # Clean up the hook
print(activations) # Access activations recorded during forward pass

# Gradient computation happens during the loss.backward() call, independent of the hook.
print(model.linear.weight.grad) # Access the calculated gradients

