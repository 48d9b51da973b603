"""`torch.distributed.elastic`: the part that programs use inside a rank."""
