"""`torch.testing._internal`: tools that test suites written for PyTorch import."""
