"""The parts of `torch.autograd.profiler`: its enumerations and its tables."""
