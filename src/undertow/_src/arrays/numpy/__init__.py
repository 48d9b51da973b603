"""The array functions on NumPy arrays, on the CPU; `namespace.py` is what rules get as `xp`."""
