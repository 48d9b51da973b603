"""`torch.distributed.algorithms.model_averaging`: averages of the parameters of all ranks, every few steps."""
