"""`torch.autograd.grad_mode`: the grad modes under PyTorch's module name, and settings of its engine."""

from __future__ import annotations

from undertow._src.base.modes import ContextDecorator
from undertow._src.base.modes import enable_grad as enable_grad
from undertow._src.base.modes import inference_mode as inference_mode
from undertow._src.base.modes import no_grad as no_grad
from undertow._src.base.modes import set_grad_enabled as set_grad_enabled
from undertow._src.engine.views import replaying
from undertow.autograd.graph import _unsafe_preserve_version_counter as _unsafe_preserve_version_counter

__all__ = [
    "_unsafe_preserve_version_counter", "enable_grad", "enforce_grad_layout_policy", "inference_mode", "no_grad",
    "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip


class _Switches:
    """Settings of PyTorch's engine. Only `view_replay` has an effect: a backward pass runs in the thread that starts it."""

    multithreading = True
    view_replay = False
    layout_policy = True


class _Switch(ContextDecorator):
    """Set a switch at once; as a context manager, restore it on exit."""

    name = ""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._before = getattr(_Switches, self.name)
        setattr(_Switches, self.name, mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        setattr(_Switches, self.name, self._before)

    def clone(self) -> _Switch:
        return type(self)(self.mode)


class set_multithreading_enabled(_Switch):
    """Set whether PyTorch may use several threads for one backward pass."""

    name = "multithreading"

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            kind = type(mode).__name__
            raise TypeError(f"set_multithreading_enabled(): argument 'enabled' (position 1) must be bool, not {kind}")
        super().__init__(mode)


class _force_original_view_tracking(_Switch):
    """Set whether views of written memory are recomputed by their functions rather than by strides."""

    name = "view_replay"

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        replaying.on = mode

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        replaying.on = self._before


class enforce_grad_layout_policy(_Switch):
    """Set whether PyTorch gives `.grad` the memory layout of its parameter."""

    name = "layout_policy"

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)


def is_multithreading_enabled() -> bool:
    """Return the last setting of `set_multithreading_enabled`."""
    return _Switches.multithreading


def is_view_replay_enabled() -> bool:
    """Whether views are recomputed by their functions."""
    return _Switches.view_replay
