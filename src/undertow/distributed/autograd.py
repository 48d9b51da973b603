"""`torch.distributed.autograd`: gradients across processes, which is not available."""


def is_available() -> bool:
    """Whether gradients can pass between processes: not here."""
    return False
