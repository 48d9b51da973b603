"""`torch.xpu`, answered truthfully: there is no such device."""

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
    """Whether such a device can be used."""
    return False


is_initialized = is_available


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_tf32_supported() -> bool:
    return False


def device_count() -> int:
    """How many there are."""
    return 0


def get_arch_list() -> list[str]:
    """Return the architectures that this was built for: none."""
    return []


def manual_seed(seed: int) -> None:
    """Seeds the generator of the device: there is none, so nothing happens."""


def seed() -> None:
    """Seed it unpredictably."""


manual_seed_all = manual_seed
seed_all = seed


def get_rng_state_all() -> list[Any]:
    """Return the states of the generators of all devices: of none."""
    return []


def empty_cache() -> None:
    """Give back unused memory of the device: there is none."""


def memory_allocated(device: Any = None) -> int:
    """How many bytes tensors take."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Numbers of the allocator: none."""
    return {}


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse with the error of a PyTorch without such devices."""
    raise AssertionError("Torch not compiled with XPU enabled")


def set_rng_state_all(new_states: Any) -> None:
    """Set the states of the generators of all devices."""
    for state in new_states:
        refuse(state)


current_device = current_stream = get_device_capability = get_device_name = get_device_properties = refuse
get_rng_state = init = initial_seed = mem_get_info = set_device = set_rng_state = set_stream = synchronize = refuse


class device:
    """A block in which a device is the current one."""

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> NoReturn:
        raise NotImplementedError("PyTorch was compiled without XPU support")

    def __exit__(self, *exception: object) -> None:
        pass


class Stream:
    """A queue of work on a device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Tried to instantiate dummy base class {cls.__name__}")


class Event(Stream):
    """A point in a queue of work on a device."""
