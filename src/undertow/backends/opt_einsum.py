"""The opt_einsum package, which einsum does without: it contracts from left to right."""

enabled = False
strategy = None


def is_available() -> bool:
    """Whether einsum uses it."""
    return False
