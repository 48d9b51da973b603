"""Mirrors of tensors without a buffer of their own, such as distributed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from undertow._src.compile.callbacks.kept_memory import Memory
from undertow._src.compile.callbacks.tensor_mirrors import HostMirror, MirrorState
from undertow._src.types.devices import device as Device

if TYPE_CHECKING:
    from undertow._src.arrays.device.array import DeviceArray
    from undertow._src.compile.callbacks.host_mirrors import HostMirrors


class WrapperState(MirrorState):
    """The state of such a mirror at one hook call: those of the tensors that it holds, and what it says of them."""

    __slots__ = ("description", "inner")

    def __init__(self, mirror: WrapperMirror, inner: dict[str, MirrorState], description: Any) -> None:
        super().__init__(mirror, None, None, 0)
        self.inner, self.description = inner, description

    def restore(self) -> None:
        super().restore()
        for state in self.inner.values():
            state.restore()


class WrapperMirror(HostMirror):
    """The mirror of a tensor whose class has `__tensor_flatten__`."""

    def __init__(self, tensor: Any, is_outside: bool) -> None:
        super().__init__(tensor, Memory(), ())
        self.itself, self._outside = is_outside, tensor if is_outside else None

    @staticmethod
    def is_for(tensor: Any) -> bool:
        """Whether a tensor has no buffer of its own."""
        return hasattr(type(tensor), "__tensor_flatten__")

    def state(self, mirrors: HostMirrors, capture: Callable[[DeviceArray], int], always: bool) -> WrapperState:
        """Return the state at this point of the trace."""
        tensor = self.kept
        names, description = tensor.__tensor_flatten__()
        inner = {
            name: mirrors.state_of(mirrors.mirror_of(getattr(tensor, name), self.itself), capture, always)
            for name in names
        }
        return WrapperState(self, inner, description)

    def has_changed(self) -> bool:
        meta = self.kept._meta
        return meta is not None and (meta.grad is not self.grad or meta.retains is not self.retains)

    def host_tensor(self) -> Any:
        return self._outside if self.itself else self.present()

    def materialize(self, state: MirrorState, values: list[Any], device: Device) -> Any:
        assert isinstance(state, WrapperState)
        parts = {name: each.materialize(values, device) for name, each in state.inner.items()}
        host_tensor = self.host_tensor()
        if host_tensor is None:
            host_tensor = state.kind.__tensor_unflatten__(parts, state.description, None, None)  # type: ignore[attr-defined]
            self._host_tensor = ref(host_tensor)
        if not self.itself:
            state.position.show_on(host_tensor)
        return host_tensor

    def refresh(self, state: MirrorState, values: list[Any]) -> Any:
        return None  # the tensors that it holds have mirrors
