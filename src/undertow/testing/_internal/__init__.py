"""`torch.testing._internal`: the tools that tests written for PyTorch are made with, so that they run here."""
