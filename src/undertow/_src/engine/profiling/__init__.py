"""What `torch.autograd.profiler` is made of: its enumerations and its tables."""
