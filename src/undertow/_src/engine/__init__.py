"""Autograd: running rules on tensors, recording nodes, views and writes, and the backward pass."""
