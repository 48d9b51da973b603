import torch
import torch.nn as nn


def is_register_hook(name: str):
    return name.startswith("register") and name.endswith("hook")


def get_all_register_hooks(obj: object):
    return [fn for fn in dir(obj) if is_register_hook(fn)]

def main():
    # tensor register hooks
    x = torch.tensor(1.0, requires_grad=True)
    print(f"Tensor Register Hooks: {get_all_register_hooks(x)}")

    print("\n")

    # module register hooks
    linear_module = nn.Linear(2, 2)
    print(f"Module Register Hooks: {get_all_register_hooks(linear_module)}")


if __name__ == "__main__":
    main()
