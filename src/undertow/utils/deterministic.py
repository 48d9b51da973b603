"""`torch.utils.deterministic`: whether new memory is filled, so that what a program reads from it is the same each time."""

fill_uninitialized_memory = True
