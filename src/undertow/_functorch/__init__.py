"""`torch._functorch`: where PyTorch has the code of `torch.func`."""
