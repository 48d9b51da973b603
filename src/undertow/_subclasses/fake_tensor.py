"""Fake tensors, which have no values. Packages test for them; here none can be made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake", "unset_fake_temporarily"]


@dataclass
class MetadataMismatchError(RuntimeError):
    """Two tensors that should match differ in shape, dtype or device."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass
class DynamicOutputShapeException(RuntimeError):
    """The shape of an operator's result depends on values."""

    func: Any


@dataclass
class DataDependentOutputException(RuntimeError):
    """An operator's result depends on values."""

    func: Any


@dataclass
class UnsupportedFakeTensorException(RuntimeError):
    """A kind of tensor that cannot be faked."""

    reason: str


@dataclass
class UnsupportedOperatorException(RuntimeError):
    """An operator that needs values."""

    func: Any


class FakeTensor:
    """A tensor with a shape and no values. It cannot be created."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"undertow has no torch._subclasses.fake_tensor.{type(self).__name__}")


class FakeTensorMode(FakeTensor):
    """A context in which new tensors have no values. It cannot be created."""


def is_fake(x: Any) -> bool:
    """Whether a tensor is a fake one: never."""
    return False


@contextmanager
def unset_fake_temporarily() -> Iterator[None]:
    """Do nothing: tensors always have values."""
    yield
