"""Taking calls over: `__torch_function__`, `__torch_dispatch__`, and operators of a program's own."""
