"""`torch.xpu`: there is no such device."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "device", "device_count", "empty_cache", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "init",
    "initial_seed", "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved", "memory_stats",
    "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "set_stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether such a device is available: never."""
    return False


is_initialized = is_available


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_tf32_supported() -> bool:
    return False


def device_count() -> int:
    """Return the number of devices: 0."""
    return 0


def get_arch_list() -> list[str]:
    """Return the supported architectures: none."""
    return []


def manual_seed(seed: int) -> None:
    """Do nothing: there is no device whose generator could be seeded."""


def seed() -> None:
    """Do nothing, like `manual_seed`."""


manual_seed_all = manual_seed
seed_all = seed


def get_rng_state_all() -> list[Any]:
    """Return the generator states of all devices: an empty list."""
    return []


def empty_cache() -> None:
    """Do nothing: there is no device memory to free."""


def memory_allocated(device: Any = None) -> int:
    """Return the number of bytes of tensors on the device: 0."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return the statistics of the allocator: an empty dict."""
    return {}


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise the error of a PyTorch build without such devices."""
    raise AssertionError("Torch not compiled with XPU enabled")


def set_rng_state_all(new_states: Any) -> None:
    """Set the generator states of all devices: raise if there are any."""
    for state in new_states:
        refuse(state)


current_device = current_stream = get_device_capability = get_device_name = get_device_properties = refuse
get_rng_state = init = initial_seed = mem_get_info = set_device = set_rng_state = set_stream = synchronize = refuse


class device:
    """A block with a current device; entering it raises."""

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> NoReturn:
        raise NotImplementedError("PyTorch was compiled without XPU support")

    def __exit__(self, *exception: object) -> None:
        pass


class Stream:
    """A queue of work on a device; creating it raises."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Tried to instantiate dummy base class {cls.__name__}")


class Event(Stream):
    """A point in a queue of work on a device; creating it raises."""
