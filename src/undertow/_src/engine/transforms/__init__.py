"""Nested derivatives, for `torch.func` and forward-mode AD."""
