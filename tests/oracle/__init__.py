"""Tests that run the same program on PyTorch and on undertow and want the same answer."""
