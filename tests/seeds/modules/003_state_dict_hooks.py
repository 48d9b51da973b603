import torch

my_module = torch.nn.Sequential(
    torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)
)


# can be used to perform pre-processing before the `state_dict` call is made.
def pre_hook_fn(_module, state_dict, keep_vars):
    # state_dict is not actually a dict here, as call is yet to be made.
    print()
    print(f" Inside state dict pre-hook ".center(50, "-"))
    print(f"module: {_module.__class__.__name__}")
    print(f"state_dict keys: {type(state_dict)}")  # str
    print(f"keep_vars: {keep_vars}")
    print()


# can modify the state_dict inplace
def post_hook_fn(_module, state_dict, prefix, local_metadata):
    print()
    print(f" Inside state dict post-hook ".center(50, "-"))
    print(f"module: {_module.__class__.__name__}")
    print(f"state_dict keys: {list(state_dict.keys())}")
    print(f"prefix: {prefix}")
    print(f"local_metadata: {local_metadata}")
    print()


pre_handle = my_module.register_state_dict_pre_hook(pre_hook_fn)
post_handle = my_module.register_state_dict_post_hook(post_hook_fn)
torch.save(my_module.state_dict(), "model_state.pth")

# cleanup: remove hook handles
pre_handle.remove()
post_handle.remove()
