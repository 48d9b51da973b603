"""`torch._utils_internal`: hooks for PyTorch's internal infrastructure, with their public defaults."""

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
    """Return the joined path."""
    return os.path.join(*path_components)


def get_writable_path(path: str) -> str:
    """Return the path, or a new temporary folder if the path is not writable."""
    return path if os.access(path, os.W_OK) else tempfile.mkdtemp(suffix=os.path.basename(path))


def prepare_multiprocessing_environment(path: str) -> None:
    """Do nothing."""


def resolve_library_path(path: str) -> str:
    """Return a path with links resolved."""
    return os.path.realpath(path)


def is_fb_unit_test() -> bool:
    """Whether an internal unit test is running: never."""
    return False


def justknobs_check(name: str, default: bool = True) -> bool:
    """Return the default of a remotely set switch."""
    return default


def justknobs_getval_int(name: str) -> int:
    """Return 0, the default of a remotely set number."""
    return 0


def get_torch_source_version() -> str:
    """Return the version of the source."""
    return str(version.git_version)


def signpost_event(category: str, name: str, parameters: dict[str, Any]) -> None:
    """Do nothing: PyTorch would send telemetry."""


def _no_telemetry(*args: Any, **kwargs: Any) -> None:
    """Do nothing: PyTorch would send telemetry."""


log_export_usage = log_draft_export_usage = log_trace_structured_event = log_cache_bypass = _no_telemetry
log_torchscript_usage = _no_telemetry
log_compilation_event = upload_graph = add_mlhub_insight = _no_telemetry
