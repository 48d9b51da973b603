"""Where PyTorch was built: not inside its makers' own repository."""


def is_fbcode() -> bool:
    return False


def is_prod() -> bool:
    return False
