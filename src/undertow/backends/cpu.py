"""The CPU."""


def get_cpu_capability() -> str:
    """Which instructions kernels are written for; NumPy chooses its own."""
    return "DEFAULT"
