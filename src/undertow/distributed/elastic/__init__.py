"""`torch.distributed.elastic`: what programs use of it in a rank."""
