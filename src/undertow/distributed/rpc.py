"""`torch.distributed.rpc`: calls into other processes, which is not available."""


def is_available() -> bool:
    """Whether processes can call each other: not here."""
    return False
