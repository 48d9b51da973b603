"""`Distribution`, the base class: construction, expansion, shapes and checks from what each family declares."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from undertow.distributions import _functions as torch
from undertow.distributions import constraints
from undertow.distributions.utils import broadcast_all, lazy_property

__all__ = ["Distribution"]

_SCALAR = torch.Size()
Formula = Callable[[Any, torch.Tensor], torch.Tensor]


def validated(formula: Formula) -> Formula:
    """Make a function of a value raise for values outside the support, if validation is on."""

    @functools.wraps(formula)
    def checked(self: Distribution, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return formula(self, value)

    return checked


class Distribution:
    """A family of random values.

    `batch_shape` is the shape of the parameters, `event_shape` that of one draw. `sample(shape)` draws a tensor of shape
    + batch_shape + event_shape; gradients of `rsample` reach the parameters; `log_prob(value)` is the logarithm of the
    density (or probability), one number per event.

    A family of this package declares its attributes in two lists, and is otherwise its formulas. `_batch_attributes`
    names the parameters and inner distributions whose shape begins with the batch shape: `_broadcast` sets them,
    `expand` expands them. `_shared_attributes` names what `expand` passes on unchanged. A class adds to the lists of
    its bases.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _batch_attributes: tuple[str, ...] = ()
    _shared_attributes: tuple[str, ...] = ()
    _declaring_family: type | None = None  # the class that these lists belong to

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # what the families declare

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check their arguments unless told otherwise."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = _SCALAR, event_shape: Any = _SCALAR, validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    # --- from the declarations

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for kind in ("_batch_attributes", "_shared_attributes"):
            if kind in vars(cls):
                inherited = [name for base in cls.__bases__ for name in getattr(base, kind, ())]
                setattr(cls, kind, tuple(dict.fromkeys([*vars(cls)[kind], *inherited])))
        if "_batch_attributes" in vars(cls):
            cls._declaring_family = cls

    def _broadcast(self, *parameters: Any) -> torch.Size:
        """Set the first declared parameters, broadcast against each other, and return their shape."""
        tensors = broadcast_all(*parameters)
        for name, tensor in zip(self._batch_attributes, tensors, strict=False):
            setattr(self, name, tensor)
        return tensors[0].shape

    def expand(self, batch_shape: torch.Shape, _instance: Any = None) -> Any:
        """Return the distribution for a larger batch, without copying its parameters."""
        if self._declaring_family is None:
            raise NotImplementedError
        new, batch_shape = self._get_checked_instance(self._declaring_family, _instance), torch.Size(batch_shape)
        own, held = len(self._batch_shape), vars(self)
        for name in self._batch_attributes:
            if name in held:  # of probs and logits, only those that were given or computed
                value = held[name]
                shape = value.batch_shape if isinstance(value, Distribution) else value.shape
                setattr(new, name, value.expand(batch_shape + shape[own:]))
        for name in self._shared_attributes:
            setattr(new, name, held[name])
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return the instance that `expand` fills in; a subclass with its own __init__ must pass it."""
        if _instance is not None:
            return _instance
        if type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method needs an "
                "expand() of its own, which passes the instance to fill in to super().expand()."
            )
        return type(self).__new__(type(self))

    # --- checks

    def _validate_parameters(self) -> None:
        """Raise for parameters that violate their constraints."""
        try:
            found = self.arg_constraints
        except NotImplementedError:
            found = {}
            torch.warn(
                f"{type(self)} does not define `arg_constraints`. Please set it to a dict (an empty one if there is "
                "nothing to check), or pass validate_args=False."
            )
        for name, constraint in found.items():
            derived = name not in vars(self) and isinstance(getattr(type(self), name), lazy_property)
            if not derived and not constraints.is_dependent(constraint):
                value = getattr(self, name)
                self._require(constraint, value, lambda: (
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}"
                ))  # fmt: skip

    def _validate_sample(self, value: Any) -> None:
        """Raise for a value outside the support."""
        if not isinstance(value, torch.TensorCore):
            raise ValueError("The value argument to log_prob must be a Tensor")
        given, expected = value.shape, torch.Size((*self._batch_shape, *self._event_shape))
        if given[len(given) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {given} vs {self._event_shape}.")
        if any(a != b and a != 1 and b != 1 for a, b in zip(given[::-1], expected[::-1], strict=False)):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {given} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            torch.warn(
                f"{type(self)} does not define `support` to enable sample validation. Define it, or pass "
                "validate_args=False."
            )
            return
        if support is None:
            raise AssertionError("support is None")
        self._require(support, value, lambda: (
            f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
            f"({support!r}) of the distribution {self!r}"
        ))  # fmt: skip

    def _require(self, constraint: Any, value: Any, expectation: Callable[[], str]) -> None:
        held = constraint.check(value)
        while hasattr(held, "_value"):  # one example of a vmap: all must hold
            held = held._value
        if torch.values_known(held._array) and not held.all():
            raise ValueError(f"{expectation()}, but found invalid values:\n{value}")

    # --- what families define

    @property
    def batch_shape(self) -> Any:
        """Return the shape of the parameters, one distribution per element."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """Return the shape of one draw."""
        return self._event_shape

    @property
    def arg_constraints(self) -> Any:
        """The constraint of each parameter, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """Return the constraint that draws satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """Return the square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        """Draw without recording."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: torch.Shape = ()) -> torch.Tensor:
        """Draw as a function of the parameters, so that gradients reach them."""
        raise NotImplementedError

    def sample_n(self, n: int) -> torch.Tensor:
        """Draw `sample((n,))` (a deprecated name)."""
        torch.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning)
        return self.sample(torch.Size((n,)))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        """Return the cumulative distribution function at a value."""
        raise NotImplementedError

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        """Return the inverse of `cdf` at a probability."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        """Return all values of a discrete distribution along a new first dim, for the whole batch if `expand`."""
        raise NotImplementedError

    def _enumerated(self, values: torch.Tensor, expand: bool) -> torch.Tensor:
        """Return values along the first dim, followed by one dim for each batch dim."""
        values = values.view((len(values), *[1] * len(self._batch_shape), *self._event_shape))
        return values.expand((-1, *self._batch_shape, *self._event_shape)) if expand else values

    def entropy(self) -> torch.Tensor:
        """Return the expected -log_prob."""
        raise NotImplementedError

    def perplexity(self) -> torch.Tensor:
        """Return e to the power of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: torch.Shape = ()) -> torch.Size:
        """Return the shape of draws."""
        return torch.Size((*torch.Size(sample_shape), *self._batch_shape, *self._event_shape))

    def __repr__(self) -> str:
        shown = [(name, vars(self)[name]) for name in self.arg_constraints if name in vars(self)]
        parameters = [f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in shown]
        return f"{type(self).__name__}({', '.join(parameters)})"
