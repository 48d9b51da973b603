"""Overriding calls: `__torch_function__`, `__torch_dispatch__`, and a program's own operators."""
