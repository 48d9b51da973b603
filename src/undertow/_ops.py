"""`torch.ops`: operators by namespace and name: `torch.ops.aten.add.Tensor`, and those that a program registers.

The operators of `aten` are undertow's public functions. All overloads (`.Tensor`, `.default`) are one function, which
handles every kind of arguments. Operators of other namespaces are made with `torch.library`.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from undertow._src.base.modes import slow_path
from undertow._src.overrides.custom_operators import REGISTRY, Operator

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket"]


class OpOverload:
    """One overload of an operator: `torch.ops.aten.add.Tensor`."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self._packet, self._overload = packet, overload
        self.namespace = packet.namespace
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__module__ = packet.__module__
        self.__qualname__ = self.name()
        self.py_kernels: dict[Any, Callable[..., Any]] = {}

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if slow_path.dispatcher is not None and slow_path.dispatcher.takes_call(args, kwargs):
            return slow_path.dispatcher.called(self, args, kwargs)
        operator = self._packet.operators.get(self._overload)
        return (self._packet if operator is None else operator)(*args, **kwargs)

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        return self._packet

    _overloadpacket = overloadpacket

    @property
    def _overloadname(self) -> str:
        return self._overload

    @property
    def _schema(self) -> Any:
        operator = self._packet.operators.get(self._overload)
        if operator is not None:
            return operator.schema
        signatures = importlib.import_module("undertow._src.overrides.dispatch.schemas")
        schema = signatures.overloads(self._packet.__name__).get(self._overload)
        if schema is None:
            raise NotImplementedError(f"undertow has no torch.ops.{self}._schema")
        return schema

    def py_impl(self, k: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a function that computes the operator for a dispatch key or a mode.

        Such functions are for compilers: as in PyTorch, a call of the operator does not use them.
        """

        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            if k in self.py_kernels:
                raise RuntimeError(f"Trying to override a python impl for {k} on operator {self.name()}")
            self.py_kernels[k] = fn
            return fn

        return register

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator's registered decomposition; NotImplemented if there is none."""
        for key, kernel in self.py_kernels.items():
            if getattr(key, "name", "") == "CompositeImplicitAutograd":
                return kernel(*args, **kwargs)
        return NotImplemented

    def has_kernel_for_dispatch_key(self, k: Any) -> bool:
        """Whether there is an implementation for a dispatch key: a device or a mode."""
        return k in self.py_kernels or getattr(k, "name", "") in ("CPU", "Meta")

    @property
    def is_view(self) -> bool:
        """Whether the result is a view of an argument."""
        written = [argument for argument in self._schema.arguments if argument.alias_info is not None]
        return bool(written) and not self._schema.is_mutable

    def name(self) -> str:
        """Return the qualified name: `aten::add.Tensor`."""
        suffix = "" if self._overload == "default" else f".{self._overload}"
        return f"{self._packet._qualified_op_name}{suffix}"

    def __str__(self) -> str:
        return f"{self._packet}.{self._overload}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._packet}', overload='{self._overload}')>"

    def __hash__(self) -> int:
        return id(self)


class OpOverloadPacket:
    """An operator with all its overloads: `torch.ops.aten.add`."""

    def __init__(self, namespace: str, name: str, call: Callable[..., Any] | None) -> None:
        self.namespace, self.__name__, self._call = namespace, name, call
        self._qualified_op_name = f"{namespace}::{name}"
        self.__module__ = f"torch.ops.{namespace}"
        self._overloads: dict[str, OpOverload] = {}

    @property
    def operators(self) -> dict[str, Operator]:
        """The overloads that a program has registered."""
        return _registered(self._qualified_op_name)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._call is not None:
            return self._call(*args, **kwargs)
        errors: list[Exception] = []
        for operator in self.operators.values():  # call the first overload that accepts the arguments
            try:
                operator.schema.bind(args, kwargs)
            except RuntimeError as error:
                errors.append(error)
            else:
                return operator(*args, **kwargs)
        raise errors[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"'{self}' can't have an overload name beginning with '__' and has no such attribute")
        if name not in self._overloads:
            if name not in self.overloads():
                raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
            self._overloads[name] = OpOverload(self, name)
        return self._overloads[name]

    def overloads(self) -> list[str]:
        """Return the names of the overloads."""
        return list(self.operators) or _aten_overloads()[self.__name__]

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


def _registered(name: str) -> dict[str, Operator]:
    return {each.schema.overload_name or "default": each for each in REGISTRY.values() if each.name == name}


class HigherOrderOperator:
    """An operator that takes functions as arguments."""

    def __init__(self, name: str, **options: Any) -> None:
        self.__name__, self.namespace = name, "higher_order"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"undertow has no torch.ops.higher_order.{self.__name__}")


class _OpNamespace:
    """The operators of one namespace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = f"torch.ops.{name}"

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if _registered(f"{self.name}::{name}"):
            packet = OpOverloadPacket(self.name, name, None)
        elif self.name == "aten" and name in _aten_overloads():
            packet = OpOverloadPacket(self.name, name, _aten(name))
        else:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        setattr(self, name, packet)
        return packet

    def __dir__(self) -> list[str]:
        start = f"{self.name}::"
        return sorted({*super().__dir__(), *[name.removeprefix(start) for name in REGISTRY if name.startswith(start)]})


_namespaces: dict[str, _OpNamespace] = {}


def namespace(name: str) -> _OpNamespace:
    """Return the operators under `torch.ops.<name>`."""
    if name not in _namespaces:
        _namespaces[name] = _OpNamespace(name)
    return _namespaces[name]


def load_library(path: str) -> None:
    """Raise: compiled operators need PyTorch's own tensors."""
    refused_libraries.add(os.path.abspath(path))
    raise OSError(f"Could not load this library: {os.path.abspath(path)}")


loaded_libraries: set[str] = set()
refused_libraries: set[str] = set()

# --- aten


@cache
def _aten_overloads() -> dict[str, list[str]]:
    """Return PyTorch's operators, with the overloads of each."""
    text = (Path(__file__).parent / "_src/overrides/aten_operators.txt").read_text()
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if not line.startswith("#")}


# Operators whose public function has a different name or signature.
_SPELLED: dict[str, Callable[..., Any]] = {
    "_log_softmax": lambda self, dim, half_to_float: self.log_softmax(dim),
    "_softmax": lambda self, dim, half_to_float: self.softmax(dim),
    "_to_copy": lambda self, *, dtype=None, **rest: self.clone() if dtype is None else self.to(dtype, copy=True),
    "_unsafe_view": lambda self, size: self.reshape(size),
    "alias": lambda self: self.view_as(self),
    "index": lambda self, indices: self[tuple([slice(None) if index is None else index for index in indices])],
    "lift_fresh": lambda self: self,
    "log_sigmoid": lambda self: importlib.import_module("undertow").nn.functional.logsigmoid(self),
    "slice": lambda self, dim=0, start=None, end=None, step=1: self[(slice(None),) * dim + (slice(start, end, step),)],
    "sym_numel": lambda self: self.numel(),
    "sym_size": lambda self, dim=None: self.size() if dim is None else self.size(dim),
    "sym_stride": lambda self, dim=None: self.stride() if dim is None else self.stride(dim),
}


# Losses whose operators take the mean by default; torch's functions of these names leave the losses as they are.
_MEAN_BY_DEFAULT = frozenset(
    "binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss hinge_embedding_loss kl_div margin_ranking_loss "
    "triplet_margin_loss".split()
)


def _with_mean(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loss with the mean as its default reduction."""
    parameters = inspect.signature(function)

    def loss(*args: Any, **kwargs: Any) -> Any:
        bound = parameters.bind(*args, **kwargs)
        bound.arguments.setdefault("reduction", 1)
        return function(*bound.args, **bound.kwargs)

    return loss


def _aten(name: str) -> Callable[..., Any]:
    """Return the function of an operator of `aten`: from undertow, one of its namespaces, or a tensor method.

    Programs' tables of costs and decompositions name further operators; calling one of these raises.
    """
    if name in _SPELLED:
        return _SPELLED[name]
    package = importlib.import_module("undertow")
    compiled = [importlib.import_module(f"undertow.nn._compiled{end}") for end in ("", "_layers")]
    first, _, rest = name.partition("_")
    places = [
        (package, name),
        *[(part, name) for part in compiled],
        (package.nn.functional, name),
        (package.Tensor, name),
    ]
    if first in ("linalg", "special", "fft"):
        places.insert(0, (getattr(package, first), rest))
    for place, spelled in places:
        found = getattr(place, spelled, None)
        if callable(found):
            return _with_mean(found) if name in _MEAN_BY_DEFAULT else found

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"undertow has no torch.ops.aten.{name}")

    return refuse
