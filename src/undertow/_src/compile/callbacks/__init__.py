"""Hooks of a compiled step: where each one runs, and the tensors and containers that it meets on the host."""
