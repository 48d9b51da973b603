"""The deprecated module of functional_call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from undertow._src.base.sites import warn
from undertow.nn.utils import _functional_call
from undertow.nn.utils._functional_call import _reparametrize_module as _reparametrize_module
from undertow.nn.utils._functional_call import _untie_named_tensors_map as _untie_named_tensors_map

if TYPE_CHECKING:
    from undertow._tensor import Tensor
    from undertow.nn.modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module, parameters_and_buffers: Mapping[str, Any], args: object = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Tensor:  # fmt: skip
    """Call `torch.func.functional_call` (a deprecated name)."""
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and has become "
        "`torch.func.functional_call`, which takes the same arguments.",
        FutureWarning,
    )
    return _functional_call.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
