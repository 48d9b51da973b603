"""`GradScaler`: scale the loss so that float16 gradients do not underflow, and adapt the scale."""

from __future__ import annotations

from collections import abc, defaultdict
from enum import Enum
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import values_known
from undertow._src.arrays.quiet import quietly
from undertow._src.base import tracer
from undertow._src.base.sites import warn
from undertow._src.engine.outputs import bump
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types import dtypes
from undertow._src.types.devices import device as Device

__all__ = ["OptState", "GradScaler"]


class OptState(Enum):
    """The stage of an optimizer since the last update of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


# The settings, under their names in a checkpoint.
_SETTINGS = ("growth_factor", "backoff_factor", "growth_interval")


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses by a factor that grows while gradients are finite, and shrinks when they are not.

        scaler.scale(loss).backward()
        scaler.step(optimizer)      # divides the gradients by the scale, and steps if all of them are finite
        scaler.update()

    `unscale_(optimizer)` divides earlier, for clipping. With enabled=False, all methods do nothing.
    """

    _growth_factor: float
    _backoff_factor: float
    _growth_interval: int

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if enabled and device == "cuda":
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            enabled = False
        self._device, self._enabled = device, enabled
        if not enabled:
            return
        if not growth_factor > 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if not backoff_factor < 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._set(
            {"growth_factor": growth_factor, "backoff_factor": backoff_factor, "growth_interval": growth_interval}
        )
        self._scale: Any = None  # this and the tracker are made at the first use
        self._growth_tracker: Any = None
        self._set_start(init_scale, 0)
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    def _set(self, settings: dict[str, Any]) -> None:
        for name in _SETTINGS:
            setattr(self, f"_{name}", settings[name])

    def _set_start(self, scale: float, tracker: int) -> None:
        """Set the scale and the number of steps since it grew; at first use they become tensors."""
        self._init_scale, self._init_growth_tracker = scale, tracker
        for held, value in ((self._scale, scale), (self._growth_tracker, tracker)):
            if held is not None:
                held.fill_(value)

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Any, Any]:
        fix = "This may indicate that scaler.scale(loss) was not called in this iteration."
        if self._scale is None:
            raise AssertionError(f"Attempted {funcname} but _scale is None.  {fix}")
        if self._growth_tracker is None:
            raise AssertionError(f"Attempted {funcname} but _growth_tracker is None.  {fix}")
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, dev: Any = None) -> None:
        if self._growth_tracker is not None:
            raise AssertionError("_growth_tracker initialized before _scale")
        self._scale = wrap(np.asarray(self._init_scale, np.float32))
        self._growth_tracker = wrap(np.asarray(self._init_growth_tracker, np.int32))

    # --- the four steps of an iteration

    def scale(self, outputs: Any) -> Any:
        """Return a loss, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, TensorCore):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker()
            return outputs * self._scale
        if isinstance(outputs, abc.Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool) -> dict[Any, Any]:
        """Multiply every gradient by `inv_scale`, and set `found_inf` if one is not finite."""
        factor, flag, any_found = inv_scale._array, found_inf._array, False
        for group in optimizer.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if not allow_fp16 and grad.dtype is dtypes.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                any_found = True
                if grad.is_sparse:  # in float16, the sum of elements at one index may overflow
                    grad = (grad.coalesce() if grad.dtype is dtypes.float16 else grad)._values()
                finite = np.isfinite(grad._array).all()
                flag[...] = np.maximum(flag, (~finite).astype(flag.dtype))
                if not values_known(factor) or factor != 1.0:
                    quietly(np.multiply, grad._array, factor.astype(grad._array.dtype), out=grad._array)
                    bump(grad)
        return {Device("cpu"): found_inf} if any_found else {}

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale; `step` then does not divide them again."""
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = wrap((1.0 / self._scale._array.astype(np.float64)).astype(np.float32))
        found = wrap(np.zeros((), np.float32))
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        found = [flag._array for flag in optimizer_state["found_inf_per_device"].values()]
        if values_known(*found):
            return None if any(found) else optimizer.step(*args, **kwargs)
        with tracer.running().run_if(sum(found) == 0):  # the step is being compiled
            return optimizer.step(*args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients, and run `optimizer.step(*args, **kwargs)` if all of them are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Shrink the scale if gradients were not finite, grow it after `growth_interval` good steps, or set it."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            if isinstance(new_scale, float):
                scale.fill_(new_scale)
            else:
                single = new_scale.device.type == "cpu" and new_scale.numel() == 1
                if not single or new_scale.requires_grad:
                    raise AssertionError(
                        "new_scale should be a float or a 1-element torch.cuda.FloatTensor, or one on the CPU, "
                        "without requires_grad."
                    )
                scale.copy_(new_scale)
        else:
            states = self._per_optimizer_states.values()
            found = [flag._array for state in states for flag in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._move_scale(scale, tracker, sum(found) > 0)
        self._per_optimizer_states.clear()

    def _move_scale(self, scale: Any, tracker: Any, found_inf: Any) -> None:
        now, good = scale._array.astype(np.float64), tracker._array + 1
        grown = quietly((now * self._growth_factor).astype, np.float32)
        full = good == self._growth_interval
        rest = np.where(full & np.isfinite(grown), grown, now)
        scale.copy_(wrap(np.where(found_inf, now * self._backoff_factor, rest).astype(np.float32)))
        tracker.copy_(wrap(np.where(found_inf | full, 0, good)))

    # --- settings and state

    def _get_scale_async(self) -> Any:
        return self._scale

    def get_scale(self) -> float:
        """Return the scale, 1.0 if scaling is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs; empty if scaling is disabled."""
        if not self._enabled:
            return {}
        settings = {name: getattr(self, f"_{name}") for name in _SETTINGS}
        return {"scale": self.get_scale(), **settings, "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the scale and its settings."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it is that of a GradScaler with enabled=False."
            )
        self._set_start(state_dict["scale"], state_dict["_growth_tracker"])
        self._set(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        if not self._enabled:
            return dict(vars(self))
        if self._per_optimizer_states:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration: before scale(), or once "
                "update() has been called."
            )
        numbers = {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker()}
        return {**vars(self), **numbers, "_scale": None, "_growth_tracker": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer: Any) -> Any:
        """Check for gradients that are not finite, without unscaling them."""
        self._check_scale_growth_tracker("_check_inf_per_device")
        one, found = wrap(np.ones((), np.float32)), wrap(np.zeros((), np.float32))
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, found, True)
        return state["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer: Any) -> Any:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]


class DeprecatedGradScaler(GradScaler):
    """Base of the deprecated scalers whose path names the device, such as `torch.cpu.amp.GradScaler`."""

    _named_device: str

    def __init__(
        self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        device = self._named_device
        warn(
            f"`torch.{device}.amp.GradScaler(args...)` is deprecated. Please use "
            f"`torch.amp.GradScaler('{device}', args...)` instead.",
            FutureWarning,
        )
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
