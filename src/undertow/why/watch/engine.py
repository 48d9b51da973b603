"""The engine that is watched: real PyTorch or undertow, through the names that both offer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from math import inf
from typing import Any


class Engine:
    """One torch-like package, and the questions that watching asks of it."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        package = torch.__name__
        self.name = "undertow" if package == "undertow" else "torch"
        self.overrides = importlib.import_module(f"{package}.overrides")
        self.nn = importlib.import_module(f"{package}.nn")
        self.module_file = importlib.import_module(f"{package}.nn.modules.module")
        self.optim = importlib.import_module(f"{package}.optim.optimizer")
        self.handles = importlib.import_module(f"{package}.utils.hooks")
        self.autograd = torch.autograd
        self.Tensor: Any = torch.Tensor
        self.Module: Any = self.nn.Module
        self.Parameter: Any = self.nn.Parameter
        self.vector_norm = torch.linalg.vector_norm
        self.is_grad_enabled = torch.is_grad_enabled
        # Attributes of tensors arrive as `descriptor.__get__`: which descriptor is which attribute.
        self.attributes: dict[int, str] = {}
        for cls in reversed(self.Tensor.__mro__):
            for name, value in vars(cls).items():
                if hasattr(type(value), "__set__"):
                    self.attributes[id(value)] = name

    def name_of(self, function: Any) -> str:
        """`grad.get`, `data.set`, or a function's own name without what leads to it."""
        name = getattr(function, "__name__", None)
        if name == "__get__" or name == "__set__":
            attribute = self.attributes.get(id(getattr(function, "__self__", None)))
            if attribute is not None:
                return attribute + (".get" if name == "__get__" else ".set")
        return name if name is not None else type(function).__name__

    def tensors_in(self, value: Any, depth: int = 4) -> Iterator[Any]:
        """The tensors in nested lists, tuples and dicts."""
        if isinstance(value, self.Tensor):
            yield value
        elif depth and isinstance(value, (list, tuple)):
            for part in value:
                yield from self.tensors_in(part, depth - 1)
        elif depth and isinstance(value, dict):
            for part in value.values():
                yield from self.tensors_in(part, depth - 1)

    def peak(self, tensor: Any) -> float | None:
        """The largest absolute value: 0 if all are zero, NaN or inf if any is; None where there is nothing to see."""
        return self._norm(tensor, inf)

    def norm(self, tensor: Any) -> float | None:
        """The length of a tensor as a vector."""
        return self._norm(tensor, 2)

    def _norm(self, tensor: Any, order: float) -> float | None:
        try:
            if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
                return None
            return self.vector_norm(tensor.detach(), order).item()
        except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantized, meta
            return None

    def node(self, tensor: Any) -> Any:
        """A tensor's grad_fn; None also for a view that autograd has given up on."""
        try:
            return tensor.grad_fn
        except RuntimeError:
            return None

    def version(self, tensor: Any) -> int:
        """How often a tensor's memory was changed in place."""
        try:
            return tensor._version
        except RuntimeError:  # an inference tensor does not count
            return -1
