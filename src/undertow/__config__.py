"""`torch.__config__`: what undertow computes with."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from undertow._src.compat.process_settings import get_num_threads
from undertow.torch_version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return the libraries behind undertow, in readable form."""
    return (
        f"undertow, with the behaviour of PyTorch {__version__}\n"
        f"  - NumPy {np.__version__}\n  - ml_dtypes {ml_dtypes.__version__}\n"
    )


def parallel_info() -> str:
    """How many threads there are."""
    return f"threads: {get_num_threads()}\n"
