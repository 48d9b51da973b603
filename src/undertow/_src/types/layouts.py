"""The singletons that name how elements are laid out: `layout` and `memory_format`."""

from __future__ import annotations

from typing import Any, Self

from undertow._src.base.torch_named import TorchNamed


class _Named(metaclass=TorchNamed):
    """One of a fixed set of named constants; printed as `torch.<name>`, compared with `is`."""

    __slots__ = ("name",)
    name: str

    def __new__(cls) -> Self:
        raise TypeError(f"cannot create 'torch.{cls.__name__}' instances")

    def __repr__(self) -> str:
        return "torch." + self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_name, (self.name,)

    @classmethod
    def _make(cls, name: str) -> Self:
        self = object.__new__(cls)
        self.name = name
        return self


def _of_name(name: str) -> Any:
    return globals()[name]


class layout(_Named):
    """How a tensor stores its elements. undertow's tensors are all `strided`."""

    __slots__ = ()
    __module__ = "torch"


class memory_format(_Named):
    """The order of dimensions in memory that an operation preserves or produces."""

    __slots__ = ()
    __module__ = "torch"


strided = layout._make("strided")
sparse_coo = layout._make("sparse_coo")
sparse_csr = layout._make("sparse_csr")
sparse_csc = layout._make("sparse_csc")
sparse_bsr = layout._make("sparse_bsr")
sparse_bsc = layout._make("sparse_bsc")
jagged = layout._make("jagged")
_mkldnn = layout._make("_mkldnn")

contiguous_format = memory_format._make("contiguous_format")
preserve_format = memory_format._make("preserve_format")
channels_last = memory_format._make("channels_last")
channels_last_3d = memory_format._make("channels_last_3d")
legacy_contiguous_format = contiguous_format

CHANNELS_LAST = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}  # axes, the largest stride first


def axes_of(order: memory_format, ndim: int) -> tuple[int, ...]:
    """Return the axes in the order of a memory format, the largest stride first."""
    axes = CHANNELS_LAST.get(order, tuple(range(ndim)))
    if len(axes) != ndim:
        raise RuntimeError(f"required rank {len(axes)} tensor to use {order.name} format")
    return axes
