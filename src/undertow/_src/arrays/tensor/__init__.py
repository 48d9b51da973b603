"""The array functions on undertow's own tensors, for gradients of gradients; `namespace.py` is what rules get as `xp`."""
