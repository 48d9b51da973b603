"""The array functions that rules are written with, and their implementations on NumPy, JAX and undertow's own tensors."""
