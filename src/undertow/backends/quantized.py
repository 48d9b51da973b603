"""Engines of quantized operators: PyTorch's names, and none that computes."""

engine = "none"
supported_engines: list[str] = ["none"]
