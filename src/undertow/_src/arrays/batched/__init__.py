"""Batched arrays: the gradients of a backward pass that runs for many gradients at once."""
