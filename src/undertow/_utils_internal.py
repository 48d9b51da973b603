"""Places and switches of the company that PyTorch comes from: outside of it they say where files are, and no."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from undertow import version

__all__ = ["get_file_path", "get_file_path_2", "get_writable_path", "resolve_library_path"]

_ROOT = os.path.dirname(os.path.realpath(__file__))
USE_GLOBAL_DEPS = True
USE_RTLD_GLOBAL_WITH_LIBTORCH = False


def get_file_path(*path_components: str) -> str:
    """Return a path inside the package."""
    return os.path.join(_ROOT, *path_components)


def get_file_path_2(*path_components: str) -> str:
    """Return the path that these parts make."""
    return os.path.join(*path_components)


def get_writable_path(path: str) -> str:
    """Return the path, or a new folder if it may not be written to."""
    return path if os.access(path, os.W_OK) else tempfile.mkdtemp(suffix=os.path.basename(path))


def prepare_multiprocessing_environment(path: str) -> None:
    """Nothing has to be prepared."""


def resolve_library_path(path: str) -> str:
    """Return a path without links."""
    return os.path.realpath(path)


def is_fb_unit_test() -> bool:
    """No."""
    return False


def justknobs_check(name: str, default: bool = True) -> bool:
    """Return the default of a switch that PyTorch's owners set remotely."""
    return default


def justknobs_getval_int(name: str) -> int:
    """Return 0, the default of a number that PyTorch's owners set remotely."""
    return 0


def get_torch_source_version() -> str:
    """Return the version whose behaviour this is."""
    return str(version.git_version)


def signpost_event(category: str, name: str, parameters: dict[str, Any]) -> None:
    """Would tell a service what is going on."""


def _told_nobody(*args: Any, **kwargs: Any) -> None:
    """Would tell a service what is going on."""


log_export_usage = log_draft_export_usage = log_trace_structured_event = log_cache_bypass = _told_nobody
log_torchscript_usage = _told_nobody
log_compilation_event = upload_graph = add_mlhub_insight = _told_nobody
