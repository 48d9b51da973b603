"""`torch.__config__`: the libraries and threads that undertow uses."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from undertow._src.compat.process_settings import get_num_threads
from undertow.torch_version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return the versions of undertow's libraries, as text."""
    return (
        f"undertow, with the behaviour of PyTorch {__version__}\n"
        f"  - NumPy {np.__version__}\n  - ml_dtypes {ml_dtypes.__version__}\n"
    )


def parallel_info() -> str:
    """Return the number of threads, as text."""
    return f"threads: {get_num_threads()}\n"
