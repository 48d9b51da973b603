"""NVIDIA's library for sparse matrices, which is not here."""


def is_available() -> bool:
    return False


def version() -> int | None:
    return None
