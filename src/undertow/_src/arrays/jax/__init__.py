"""The array functions on JAX arrays and tracers; `namespace.py` is what rules get as `xp` on a device and in a trace."""
