"""The older weight norm, by a forward pre-hook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from undertow._src.base.sites import warn
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter
from undertow.nn.utils._weight_hooks import WeightHook
from undertow.nn.utils.parametrizations import norm_except_dim, weight_from

if TYPE_CHECKING:
    from undertow._tensor import Tensor
    from undertow.nn.modules.module import ModuleT

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm(WeightHook):
    """A forward pre-hook that computes the weight from its length and direction."""

    _function = "weight_norm"
    _parts = ("_g", "_v")

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight computed from the current parameters."""
        return weight_from(getattr(module, self.name + "_g"), getattr(module, self.name + "_v"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace the weight by its length and direction and register the hook."""
        WeightNorm._refuse_a_second(module, name)
        made, weight = WeightNorm(name, dim), getattr(module, name)
        made._refuse_lazy(weight)
        del module._parameters[name]
        for part, value in zip(made._parts, (norm_except_dim(weight, made.dim), weight)):
            module.register_parameter(name + part, Parameter(value.data))
        made(module, ())
        module.register_forward_pre_hook(made)
        return made

    def _weight(self, module: Module, training: bool) -> Tensor:
        return self.compute_weight(module)


def weight_norm(module: ModuleT, name: str = "weight", dim: int | None = 0) -> ModuleT:
    """Split a weight into length (weight_g) and direction (weight_v). `parametrizations.weight_norm` is the newer one."""
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: ModuleT, name: str = "weight") -> ModuleT:
    """Remove weight norm."""
    WeightNorm._take_off(module, name)
    return module
