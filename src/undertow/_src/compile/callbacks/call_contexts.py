"""Contexts for calls on the host: without random draws, without packing of saved tensors, without compiled programs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from undertow._src.base.modes import local
from undertow._src.compile.errors import CompileError
from undertow._src.random.generators import alive
from undertow._src.types.devices import cpu, get_default_device
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import SCALAR_DTYPE, dtype, set_default_dtype

if TYPE_CHECKING:
    from undertow._src.compile.callbacks.host_calls import Placed

uncompiled_threads: set[int] = set()  # threads on which a program waits for a call


class _ClosedStream:
    """Replaces a random stream while a call on the host must not draw from it."""

    def __init__(self, placed: Placed) -> None:
        self._placed = placed

    def __getattr__(self, name: str) -> Any:
        raise CompileError(
            f"undertow.compile: {self._placed} runs on the host and draws random numbers, but the numbers that the "
            "step draws after it have been drawn already, so that both would differ from eager mode. Draw in the step "
            "itself, or before it."
        )


class Defaults(NamedTuple):
    """The default dtype and device of new tensors."""

    dtype: dtype
    device: Device

    @classmethod
    def now(cls) -> Defaults:
        return cls(SCALAR_DTYPE[float], get_default_device())

    @contextmanager
    def again(self) -> Iterator[None]:
        """Set the defaults that held when a hook fired; the hook may change them."""
        before = Defaults.now()
        if before == self:
            yield
            return
        set_default_dtype(self.dtype)
        try:
            with self.device:
                yield
        finally:
            set_default_dtype(before.dtype)


@contextmanager
def no_draws(placed: Placed) -> Iterator[None]:
    """Refuse random draws: they would come after those that eager mode makes later."""
    streams = [(generator, generator.stream) for generator in alive]
    for generator, _ in streams:
        generator.stream = _ClosedStream(placed)  # type: ignore[assignment]
    try:
        yield
    finally:
        for generator, stream in streams:
            generator.stream = stream


@contextmanager
def no_packing(placed: Placed) -> Iterator[None]:
    """Refuse operations that save tensors: hooks on those would be called in a different order than in eager mode."""

    def refuse(saved: Any) -> Any:
        raise CompileError(
            f"undertow.compile: {placed} runs on the host and computes with tensors that require gradients, inside "
            "saved_tensors_hooks, whose hooks can't be called from there. Compute under torch.no_grad(), or on detach()."
        )

    before, local.modes.saved_hooks = local.modes.saved_hooks, [(refuse, refuse, False)]
    try:
        yield
    finally:
        local.modes.saved_hooks = before


@contextmanager
def busy(device: Device) -> Iterator[None]:
    """Compute with tensors of a device on the host instead, because the program keeps the device busy."""
    before, local.modes.device_is_busy = local.modes.device_is_busy, device is not cpu
    try:
        yield
    finally:
        local.modes.device_is_busy = before


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run compiled functions eagerly, on this thread."""
    thread = threading.get_ident()
    uncompiled_threads.add(thread)
    try:
        yield
    finally:
        uncompiled_threads.discard(thread)
