"""The array functions that rules are written with: the words, and how NumPy, JAX and undertow's own tensors say them."""
