"""What a test must leave as it found it, and how to put it back.

Policed for undertow and for torch alike: a test that leaks a mode into the oracle misleads the tests after it just as
badly. The random state is not here: every oracle run seeds for itself.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch as real_torch

import undertow

# Library-wide settings, read through the public names that both libraries have. Print options show in what is printed.
LIBRARY: dict[str, Callable[[ModuleType], Any]] = {
    "gradient mode": lambda torch: torch.is_grad_enabled(),
    "inference mode": lambda torch: torch.is_inference_mode_enabled(),
    "default dtype": lambda torch: str(torch.get_default_dtype()),
    "anomaly mode": lambda torch: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
    "print options": lambda torch: repr(torch.tensor([[0.123456789, 1e-9], [1e9, float("nan")]])),
}

PROCESS: dict[str, Callable[[], Any]] = {
    "garbage collector": gc.isenabled,
    "recursion limit": sys.getrecursionlimit,
    "NumPy's floating-point errors": np.geterr,
    "modules named torch": lambda: sys.modules["torch"] is real_torch,
}


def undertow_hooks() -> dict[str, Any]:
    """Hooks and rare modes that undertow holds for this thread and process: a leaked one would fire in the next test."""
    thread, special = undertow.modes.local.modes, undertow.modes.special
    return {
        "undertow's saved-tensor hooks": list(thread.saved_hooks),
        "undertow's ban on saved-tensor hooks": thread.saved_hooks_disabled,
        "undertow's function modes": list(thread.function_modes),
        "undertow's listeners": list(special.listeners),
        "undertow's count of rare modes": special.active,
    }


def torch_hooks() -> dict[str, Any]:
    """The same for torch: whether a saved-tensor hook pair is in force."""
    top = real_torch._C._autograd._top_saved_tensors_default_hooks(True)
    return {"torch's saved-tensor hooks": top}


def snapshot() -> dict[str, Any]:
    """Everything policed, by name."""
    state: dict[str, Any] = {name: read() for name, read in PROCESS.items()}
    for library in (undertow, real_torch):
        state |= {f"{library.__name__}'s {name}": read(library) for name, read in LIBRARY.items()}
    return state | undertow_hooks() | torch_hooks()


def leaks(before: dict[str, Any]) -> list[str]:
    """What differs from `before`, one line each."""
    after = snapshot()
    return [f"{name}: was {before[name]!r}, is {after[name]!r}" for name in before if before[name] != after[name]]


def restore() -> None:
    """Put the defaults back, so that only the test that leaked fails."""
    gc.enable()
    np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
    sys.modules["torch"] = real_torch
    thread, special = undertow.modes.local.modes, undertow.modes.special
    thread.inference, thread.saved_hooks_disabled = False, None
    thread.saved_hooks.clear()
    thread.function_modes.clear()
    special.listeners.clear()
    special.active = 0
    while torch_hooks()["torch's saved-tensor hooks"] is not None:
        real_torch._C._autograd._pop_saved_tensors_default_hooks()
    for library in (undertow, real_torch):
        library.set_grad_enabled(True)
        library.set_default_dtype(library.float32)
        library.autograd.set_detect_anomaly(False)
        library.set_printoptions(profile="default")
