"""Distributed tensors: their placement on a mesh of ranks, redistribution, and operators on them."""
