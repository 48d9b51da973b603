"""What a test must leave as it found it, and how to put it back.

Policed for undertow and for torch alike: a test that leaks a mode into the oracle misleads the tests after it just as
badly. undertow's settings are read where they live, below the public package. The random state is not here: every
oracle run seeds for itself.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np

from undertow._src.arrays.device.memory import BufferOffCpu
from undertow._src.base import modes
from undertow._src.tensor import printing
from undertow._src.tensor.core import GradDtype
from undertow._src.types import dtypes

try:
    from tests import oracle_state
except ImportError:  # `make test-pythons` does without torch
    oracle_state = None  # type: ignore[assignment]


def of_process() -> dict[str, Any]:
    return {
        "the garbage collector": gc.isenabled(),
        "the recursion limit": sys.getrecursionlimit(),
        "NumPy's floating-point errors": np.geterr(),
        "the module named torch": sys.modules.get("torch"),
    }


def of_undertow() -> dict[str, Any]:
    """Settings, and the hooks and rare modes held for this thread and process: a leaked one acts in the next test."""
    thread, slow_path = modes.local.modes, modes.slow_path
    return {
        "undertow's gradient mode": thread.grad_enabled,
        "undertow's inference mode": thread.inference,
        "undertow's default dtype": dtypes.get_default_dtype(),
        "undertow's print options": printing.get_printoptions(),
        "undertow's anomaly mode": (slow_path.anomaly, slow_path.anomaly_check_nan),
        "undertow's saved-tensor hooks": list(thread.saved_hooks),
        "undertow's ban on saved-tensor hooks": thread.saved_hooks_disabled,
        "undertow's function modes": list(thread.function_modes),
        "undertow's dispatch modes": list(thread.dispatch_modes),
        "undertow's listeners": list(slow_path.listeners),
        "undertow's count of rare modes": slow_path.count,
    }


def snapshot() -> dict[str, Any]:
    """Everything policed, by name."""
    return of_process() | of_undertow() | (oracle_state.of_torch() if oracle_state else {})


def leaks(before: dict[str, Any]) -> list[str]:
    """What differs from `before`, one line each."""
    after = snapshot()
    if after != before:
        gc.collect()  # tensors on a device count until they are gone, those in cycles of references, too
        after = snapshot()
    return [f"{name}: was {before[name]!r}, is {after[name]!r}" for name in before if before[name] != after[name]]


def restore() -> None:
    """Put the defaults back, so that only the test that leaked fails."""
    gc.enable()
    np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")

    fresh, slow_path = modes.ThreadModes(), modes.slow_path
    fresh.sequence = modes.local.modes.sequence  # nodes made before and after keep their order
    modes.local.modes = fresh
    # Tensors on a device that a failed test's traceback holds go on counting.
    slow_path.count = sum(issubclass(type(each), (BufferOffCpu, GradDtype)) for each in gc.get_objects())
    slow_path.anomaly, slow_path.anomaly_check_nan = False, True
    slow_path.listeners.clear()
    dtypes.set_default_dtype(dtypes.float32)
    printing.set_printoptions(profile="default", sci_mode=None)
    if oracle_state:
        oracle_state.restore()
    else:
        sys.modules.pop("torch", None)
