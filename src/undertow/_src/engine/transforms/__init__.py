"""Derivatives inside derivatives: what `torch.func` and forward-mode AD are made of."""
