"""Hooks of a compiled step: where each one runs, and the tensors and containers that it sees on the host."""
