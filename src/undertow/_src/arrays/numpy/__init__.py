"""The array functions on NumPy's arrays, in the memory of the CPU; `namespace.py` is what rules get as `xp`."""
