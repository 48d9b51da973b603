"""`python -m torch.utils.collect_env`: the versions and settings to put into a bug report."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from undertow.torch_version import __version__

__all__ = ["get_pretty_env_info", "main"]


def get_pretty_env_info() -> str:
    """Return the report as text."""
    rows = {
        "PyTorch version": __version__,
        "Is debug build": False,
        "CUDA used to build PyTorch": "None",
        "ROCM used to build PyTorch": "N/A",
        "": None,
        "undertow version": _version("undertow"),
        "OS": platform.platform(),
        "Python version": f"{sys.version.split()[0]} ({platform.architecture()[0]} runtime)",
        "Python platform": platform.platform(),
        "Is CUDA available": False,
        "CPU": platform.processor() or platform.machine(),
        "numpy": np.__version__,
        "ml_dtypes": _version("ml_dtypes"),
    }
    return "\n".join(f"{name}: {value}" if name else "" for name, value in rows.items())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def main() -> None:
    """Print the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
