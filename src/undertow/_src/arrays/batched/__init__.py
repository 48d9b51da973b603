"""Arrays that stand for a batch of arrays: what a backward pass carries when it runs for many gradients at once."""
