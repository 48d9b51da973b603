"""Process groups on JAX's multi-process runtime: joining, collectives, stores, and errors when they fail."""
