my_module = torch.nn.Linear(2, 2)
input_tensor = torch.tensor([[1.0, 2.0]])

def hook_fn(_module, _input, _output):
    print(f"Inside forward hook")
    print(f"module: {_module.__class__.__name__}")
    print(f"input: {_input}")
    print(f"output: {_output}")

handle = my_module.register_forward_hook(hook_fn)
output = my_module(input_tensor)
handle.remove()  # Remove the hook when done
