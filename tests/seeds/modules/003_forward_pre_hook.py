my_module = torch.nn.Linear(2, 2)
input_tensor = torch.tensor([[1.0, 2.0]])

def hook_fn(_module, _input):
    print(f"Inside forward pre-hook")
    print(f"module: {_module.__class__.__name__}")
    print(f"input: {_input}")

handle = my_module.register_forward_pre_hook(hook_fn)
output = my_module(input_tensor)
handle.remove()  # Remove the hook when done
