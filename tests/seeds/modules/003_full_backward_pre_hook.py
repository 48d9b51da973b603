my_module = torch.nn.Linear(2, 2)
input_tensor = torch.tensor([[1.0, 2.0]], requires_grad=True)

def hook_fn(_module, grad_output):
    print(f"Inside full backward pre-hook")
    print(f"module: {_module.__class__.__name__}")
    print(f"grad_output: {grad_output}")

handle = my_module.register_full_backward_pre_hook(hook_fn)
output = my_module(input_tensor)
output.backward()
handle.remove()  # Remove the hook when done
