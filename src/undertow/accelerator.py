"""`torch.accelerator`: there is no accelerator."""

from __future__ import annotations

from typing import Any, NoReturn


def is_available() -> bool:
    """Whether there is an accelerator: never."""
    return False


def device_count() -> int:
    """Return the number of accelerators: 0."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """Return the current accelerator: None."""
    return None


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is no accelerator."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_index = current_device_idx = set_device_index = set_device_idx = current_stream = set_stream = _refuse
synchronize = empty_cache = memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _refuse
memory_stats = reset_peak_memory_stats = reset_accumulated_memory_stats = get_memory_info = _refuse


class device_index:
    """A block with a current device; it raises unless the device is None."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _refuse()

    def __exit__(self, *exception: object) -> None:
        pass
