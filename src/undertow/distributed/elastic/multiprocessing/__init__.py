"""`torch.distributed.elastic.multiprocessing`: the errors of ranks."""
