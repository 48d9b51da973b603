"""`NestedIOFunction`, the base of functions from before static methods, which PyTorch still has and no longer runs."""

from __future__ import annotations

from typing import Any

from undertow.autograd.function import Function


class NestedIOFunction(Function):
    """A function of nested inputs and outputs in the old style: made, but not called any more."""

    def forward_extended(self, *input: Any) -> Any:
        """Computed the result. To be overridden."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> Any:
        """Computed the gradients. To be overridden."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise AttributeError(
            "'super' object has no attribute '_do_forward': functions in the old style can't be called. Write static "
            "forward and backward, and call apply()."
        )
