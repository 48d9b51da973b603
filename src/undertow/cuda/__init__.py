"""CUDA, answered truthfully: there is none. What a program asks before it uses a GPU works; using one is refused."""

from __future__ import annotations

from typing import Any, NoReturn

from undertow.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"amp": "undertow.cuda.amp"})

_ABSENT = "Torch not compiled with CUDA enabled"


def is_available() -> bool:
    """Whether a GPU can be used."""
    return False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def device_count() -> int:
    """How many GPUs there are."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current GPU: there is none, so nothing happens."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Gives back unused GPU memory: there is none."""


def memory_allocated(device: Any = None) -> int:
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Forgets the peak of GPU memory: there is none."""


def get_rng_state_all() -> list[Any]:
    """The generator states of all GPUs: of none."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Sets the generator states of all GPUs: of none."""


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError(_ABSENT)


current_device = get_device_name = get_device_properties = get_device_capability = synchronize = set_device = _refuse
get_rng_state = set_rng_state = current_stream = default_stream = mem_get_info = _refuse
