"""The part of `global_state` that is real PyTorch's, the oracle's."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import _tensor_str as torch_printing

torch_autograd: Any = torch._C._autograd


def of_torch() -> dict[str, Any]:
    """The same for the oracle."""
    return {
        "torch's gradient mode": torch.is_grad_enabled(),
        "torch's inference mode": torch.is_inference_mode_enabled(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's print options": vars(torch_printing.PRINT_OPTS).copy(),
        "torch's anomaly mode": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "torch's saved-tensor hooks": torch_autograd._top_saved_tensors_default_hooks(True),
    }


def restore() -> None:
    """Put torch's defaults back, and torch itself where programs look for it."""
    sys.modules["torch"] = torch
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.autograd.set_detect_anomaly(False)
    torch.set_printoptions(profile="default", sci_mode=None)
    while torch_autograd._top_saved_tensors_default_hooks(True) is not None:
        torch_autograd._pop_saved_tensors_default_hooks()
