"""A weight computed from other parameters by a forward pre-hook: what the older spectral and weight norm share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from undertow._src.base.modes import no_grad
from undertow.nn.parameter import Parameter, UninitializedParameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from undertow._tensor import Tensor
    from undertow.nn.modules.module import Module


class WeightHook:
    """A forward pre-hook that sets the weight `name` to what `_weight` computes from its parts."""

    _function: ClassVar[str]  # the public function, for error messages
    _parts: ClassVar[tuple[str, ...]]  # the suffixes of the names of the parts
    name: str

    def _weight(self, module: Module, training: bool) -> Tensor:
        raise NotImplementedError

    def __call__(self, module: Module, inputs: Sequence[Tensor]) -> None:
        setattr(module, self.name, self._weight(module, module.training))

    @classmethod
    def _on(cls, module: Module, name: str) -> tuple[int, Self] | None:
        """Return this class's hook on a weight and its id, if there is one."""
        for number, hook in module._forward_pre_hooks.items():
            if isinstance(hook, cls) and hook.name == name:
                return number, hook
        return None

    @classmethod
    def _refuse_a_second(cls, module: Module, name: str) -> None:
        if cls._on(module, name):
            raise RuntimeError(f"Cannot register two {cls._function} hooks on the same parameter {name}")

    def _refuse_lazy(self, weight: object) -> None:
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                f"The module passed to `{type(self).__name__}` can't have uninitialized parameters. Run a forward on a "
                "small batch first: it gives them their shapes"
            )

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self._weight(module, training=False)
        for part in ("", *self._parts):
            delattr(module, self.name + part)
        module.register_parameter(self.name, Parameter(weight.detach()))

    @classmethod
    def _take_off(cls, module: Module, name: str) -> None:
        found = cls._on(module, name)
        if found is None:
            raise ValueError(f"{cls._function} of '{name}' not found in {module}")
        number, hook = found
        hook.remove(module)
        del module._forward_pre_hooks[number]
