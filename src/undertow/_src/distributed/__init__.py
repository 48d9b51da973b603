"""Process groups on JAX's multi-process runtime: joining, collectives, stores, and what is said when they fail."""
