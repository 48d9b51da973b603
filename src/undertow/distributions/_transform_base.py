"""`Transform`, its inverse, and transforms made of others."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.utils import _sum_rightmost, lazy_property


class Transform:
    """An invertible map y = f(x). Subclasses define `_call`, `_inverse` and `log_abs_det_jacobian`.

    `domain` and `codomain` are constraints; `sign` is +1 or -1 for a monotone map of numbers. With cache_size=1 the
    last pair is cached, so that inverting the last result is free and exact.

    A transform of this package declares in `_arguments` the attributes that its constructor takes, for `with_cache`, and
    in `_compared` those that must agree for two of its instances to be equal.
    """

    bijective = False
    domain: Any
    codomain: Any
    _arguments: tuple[str, ...] | None = None
    _compared: tuple[str, ...] | None = None

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        if cache_size:
            self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inv": None}

    def _declaring(self, name: str) -> type:
        """Return the class that declares `_arguments` or `_compared` for this instance."""
        return next(base for base in type(self).__mro__ if name in vars(base))

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the same transform with this cache size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        if self._arguments is None:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        arguments = [getattr(self, name) for name in self._arguments]
        return self._declaring("_arguments")(*arguments, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if self._compared is None:
            return self is other
        kind = self._declaring("_compared")
        return isinstance(other, kind) and all(_same(getattr(self, n), getattr(other, n)) for n in self._compared)

    __hash__ = None  # type: ignore[assignment]

    @property
    def event_dim(self) -> int:
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Any:
        """Return the inverse transform, whose inverse is this one."""
        found = self._inv and self._inv()
        if found is None:
            found = self._make_inverse()
            self._inv = weakref.ref(found)
        return found

    def _make_inverse(self) -> Transform:
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """Return the sign of the derivative."""
        raise NotImplementedError

    def __call__(self, x: Any) -> Any:
        """Return y."""
        if self._cache_size == 0:
            return self._call(x)
        known, y = self._cached_x_y
        if x is not known:
            y = self._call(x)
            self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        x, known = self._cached_x_y
        if y is not known:
            x = self._inverse(y)
            self._cached_x_y = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |dy/dx|, one number per event."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of y for a shape of x."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of x for a shape of y."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _same(one: Any, other: Any) -> bool:
    """Return whether two arguments of transforms are equal: numbers, tensors, or lists of transforms."""
    equal = one == other
    return equal if isinstance(equal, bool) else bool(equal.all())


def need_dims(shape: Any, count: int) -> None:
    """Refuse a shape with fewer dims than this."""
    if len(shape) < count:
        raise ValueError("Too few dimensions on input")


class _InverseTransform(Transform):
    """The inverse of a transform."""

    _compared = ("_inv",)

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    inv = torch.alias("_inv")

    @property
    def _forward(self) -> Any:
        """Return the transform that this is the inverse of."""
        if self._inv is None:
            raise AssertionError("_inv must not be None. Pickles and copies of an inverse lose it: copy its `.inv`.")
        return self._inv

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._forward.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._forward.domain

    bijective = torch.alias("_forward.bijective")
    sign = torch.alias("_forward.sign")

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._forward.with_cache(cache_size).inv

    def __call__(self, x: Any) -> Any:
        return self._forward._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._forward.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


def log_jacobian(parts: Sequence[Transform], points: Sequence[Any], event_dim: int) -> Any:
    """Return log |dy/dx| of composed transforms, given the values before, between and after them.

    `event_dim` is the number of dims of an event of the first value.
    """
    total: Any = 0.0
    for part, x, y in zip(parts, points[:-1], points[1:], strict=True):
        own = part.domain.event_dim
        total = total + _sum_rightmost(part.log_abs_det_jacobian(x, y), event_dim - own)
        event_dim += part.codomain.event_dim - own
    return total


class ComposeTransform(Transform):
    """A composition of transforms, applied in order."""

    _arguments = _compared = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def _make_inverse(self) -> Transform:
        inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
        inverse._inv = weakref.ref(self)
        return inverse

    def _event_dims(self) -> tuple[int, int]:
        """Return how many dims an event needs before and after the transforms, so that each part has enough."""
        needed = gained = 0
        for part in self.parts:
            needed = max(needed, part.domain.event_dim - gained)
            gained += part.codomain.event_dim - part.domain.event_dim
        return needed, needed + gained

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return _widened(self.parts[0].domain, self._event_dims()[0]) if self.parts else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return _widened(self.parts[-1].codomain, self._event_dims()[1]) if self.parts else constraints.real

    @lazy_property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        return math.prod((part.sign for part in self.parts), start=1)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return torch.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        return log_jacobian(self.parts, [*points, y], self._event_dims()[0])

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {parts}\n)"


def _widened(constraint: Any, event_dim: int) -> Any:
    """Return a constraint for events of more dims."""
    extra = event_dim - constraint.event_dim
    return constraints.independent(constraint, extra) if extra > 0 else constraint


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dims count as event dims: log |dy/dx| is summed over them."""

    _arguments = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    bijective = torch.alias("base_transform.bijective")
    sign = torch.alias("base_transform.sign")

    def _call(self, x: Any) -> Any:
        need_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        need_dims(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Reshapes the last dims."""

    bijective = True
    _arguments = ("in_shape", "out_shape")

    def __init__(self, in_shape: torch.Shape, out_shape: torch.Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = torch.Size(in_shape), torch.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _batch_of(self, x: Any, event: torch.Size) -> tuple[int, ...]:
        return tuple(x.shape[: x.dim() - len(event)])

    def _call(self, x: Any) -> Any:
        return x.reshape(self._batch_of(x, self.in_shape) + self.out_shape)

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self._batch_of(y, self.out_shape) + self.in_shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(self._batch_of(x, self.in_shape))

    def forward_shape(self, shape: Any) -> Any:
        return self._reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._reshaped(shape, self.out_shape, self.in_shape)

    def _reshaped(self, shape: Any, before: torch.Size, after: torch.Size) -> Any:
        need_dims(shape, len(before))
        cut = len(shape) - len(before)
        if shape[cut:] != before:
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {before}")
        return shape[:cut] + after
