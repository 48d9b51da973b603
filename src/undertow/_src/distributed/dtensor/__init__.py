"""Distributed tensors: how a tensor lies on a mesh of ranks, how that is changed, and operators on such tensors."""
