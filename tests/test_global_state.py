"""The police are policed: each kind of leak is seen, named and mended."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests import global_state
from undertow._src.base import modes
from undertow._src.tensor import printing
from undertow._src.types import dtypes

LEAKS: dict[str, Callable[[], Any]] = {
    "the garbage collector": gc.disable,
    "NumPy's floating-point errors": lambda: np.seterr(all="ignore"),
    "the module named torch": lambda: sys.modules.update(torch=modes),
    "undertow's gradient mode": lambda: modes.set_grad_enabled(False),
    "undertow's inference mode": lambda: modes.inference_mode().__enter__(),
    "undertow's default dtype": lambda: dtypes.set_default_dtype(dtypes.float64),
    "undertow's print options": lambda: printing.set_printoptions(sci_mode=True),
    "undertow's anomaly mode": lambda: setattr(modes.slow_path, "anomaly", True),
    "undertow's saved-tensor hooks": lambda: modes.local.modes.saved_hooks.append((id, id, False)),
    "undertow's function modes": lambda: modes.local.modes.function_modes.append(None),
    "undertow's listeners": lambda: modes.slow_path.listeners.append(None),
    "undertow's count of rare modes": modes.slow_path.enter,
    "torch's gradient mode": lambda: torch.set_grad_enabled(False),
    "torch's default dtype": lambda: torch.set_default_dtype(torch.float64),
    "torch's print options": lambda: torch.set_printoptions(sci_mode=True),
    "torch's anomaly mode": lambda: torch.autograd.set_detect_anomaly(True),
    "torch's saved-tensor hooks": lambda: torch.autograd.graph.saved_tensors_hooks(id, id).__enter__(),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_seen_and_mended(name: str) -> None:
    before = global_state.snapshot()
    LEAKS[name]()
    seen = global_state.leaks(before)
    global_state.restore()
    assert any(line.startswith(f"{name}: was ") for line in seen)
    assert global_state.leaks(before) == []
