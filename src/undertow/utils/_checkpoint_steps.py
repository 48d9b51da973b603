"""Private helpers of checkpointing under PyTorch's names, for packages with their own checkpoint function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.compat import process_settings
from undertow._src.tensor.core import TensorCore
from undertow.amp import casting
from undertow.utils._default_device_type import DefaultDeviceType
from undertow.utils._pytree import tree_leaves
from undertow.utils._selective_checkpoint import CheckpointPolicy

_DEFAULT_DETERMINISM_MODE = "default"


def _infer_device_type(*args: Any) -> str:
    """Return the kind of accelerator among the arguments; the default one if there is none."""
    kinds = [
        leaf.device.type for leaf in tree_leaves(args) if isinstance(leaf, TensorCore) and leaf.device.type != "cpu"
    ]
    return kinds[0] if kinds else DefaultDeviceType.get_device_type()


def _get_device_module(device: str = "cuda") -> Any:
    """Return the module of a device type: `torch.cuda` for "cuda"."""
    return process_settings.get_device_module(device)


def _get_autocast_kwargs(device_type: str = "cuda") -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the arguments of `autocast` that restore its current state: for a device, and for the CPU."""
    one, cpu = ({
        "enabled": casting.is_autocast_enabled(kind), "dtype": casting.get_autocast_dtype(kind),
        "cache_enabled": casting.is_autocast_cache_enabled(),
    } for kind in (device_type, "cpu"))  # fmt: skip
    return one, cpu


def _default_meta_extractor(x: Any) -> dict[str, Any]:
    """Return the metadata of a saved tensor that both runs must agree on."""
    return {"shape": x.shape, "dtype": x.dtype, "device": x.device}


_allowed_determinism_checks_to_fns: dict[str, Callable[[Any], Any]] = {
    "default": _default_meta_extractor,
    "none": lambda _: None,
}


def _policy_from_bool(b: bool) -> CheckpointPolicy:
    """Return a policy for a list of operators: those in it are saved."""
    return CheckpointPolicy.MUST_SAVE if b else CheckpointPolicy.PREFER_RECOMPUTE


class _VersionWrapper:
    """A value with its version, so that a later in-place write is detected."""

    def __init__(self, val: Any) -> None:
        self.val = val
        self.version = val._version if isinstance(val, TensorCore) else None

    def get_val(self, allow_cache_entry_mutation: bool) -> Any:
        if self.version is not None and not allow_cache_entry_mutation and self.val._version != self.version:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated. Pass "
                "allow_cache_entry_mutation=True if that is intended."
            )
        return self.val


def _detach_helper(x: Any) -> Any:
    """Return a tensor detached, and anything else as it is."""
    return x.detach() if isinstance(x, TensorCore) else x


def _internal_assert(cond: bool) -> None:
    if not cond:
        raise AssertionError("Something went unexpectedly wrong in activation checkpoint.")


def _is_compiling(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether PyTorch's compiler is tracing: never."""
    return False
