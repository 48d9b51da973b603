"""Public functions that are not made of rules (factories, draws, queries with a Python result), dispatched as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.base import tree
from undertow._src.overrides.dispatch import offering
from undertow._src.overrides.dispatch.offering import CLASSES, aten, is_dispatched, offer
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import _defaults
from undertow._src.types.devices import device as Device

Given = tuple[str, tuple[Any, ...], dict[str, Any]]
Form = Callable[[tuple[Any, ...], dict[str, Any]], "Given | None"]
_OPTIONS = ("dtype", "layout", "device", "pin_memory", "memory_format")


def _size(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    given = kwargs.get("size") if not args else args[0] if isinstance(args[0], (tuple, list)) else args
    return list(given or ())


def _options(kwargs: dict[str, Any], like: bool = False) -> dict[str, Any]:
    """Return the options of a factory as PyTorch passes them."""
    found = {name: kwargs[name] for name in _OPTIONS if kwargs.get(name) is not None}
    if not like:
        found["device"] = Device(found.get("device") or _defaults.stack[-1])
    found["pin_memory"] = bool(found.get("pin_memory", False))
    return {name: found[name] for name in _OPTIONS if name in found}


def _sized(name: str) -> Form:
    return lambda args, kwargs: (name, (_size(args, kwargs),), _options(kwargs))


def _like(name: str) -> Form:
    return lambda args, kwargs: (name, args, _options(kwargs, like=True))


def _new(name: str) -> Form:
    def form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
        return name, (args[0], _size(args[1:], kwargs)), _options(kwargs, like=True)

    return form


def _full(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
    value = args[1] if len(args) > 1 else kwargs["fill_value"]
    return "full", (_size(args[:1], kwargs), value), _options(kwargs)


def _new_full(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
    value = args[2] if len(args) > 2 else kwargs["fill_value"]
    return "new_full", (args[0], _size(args[1:2], kwargs), value), _options(kwargs, like=True)


def _by_count(*names: str) -> Form:
    """Return a call whose overload depends on the number of its arguments."""

    def form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given | None:
        rest = [value for name, value in kwargs.items() if name in ("start", "end", "step", "steps", "n", "m")]
        args = (*args, *rest)
        return (names[min(len(args), len(names)) - 1], args, _options(kwargs)) if args else None

    return form


def _randint(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given | None:
    *bounds, size = (*args, kwargs["size"]) if "size" in kwargs else args
    return ("randint", "randint.low")[len(bounds) - 1], (*bounds, list(size)), _options(kwargs)


def _unchanged_call(name: str) -> Form:
    """Return a call of one tensor, and perhaps more arguments, unchanged."""
    return lambda args, kwargs: (name, args, {key: value for key, value in kwargs.items() if value is not None})


def _normal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given | None:
    values = [*args, *[kwargs[name] for name in ("mean", "std") if name in kwargs]][:2]
    kinds = "_".join("Tensor" if isinstance(value, TensorCore) else "float" for value in values)
    if kinds != "float_float":
        return f"normal.{kinds}", tuple(values), {}
    size = kwargs["size"] if "size" in kwargs else args[2]
    return "normal.float_float", (*values, list(size)), _options(kwargs)


def _bernoulli_(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
    p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    if isinstance(p, TensorCore):
        return "bernoulli_.Tensor", (args[0], p), {}
    return "bernoulli_.float", (args[0],) if p == 0.5 else (args[0], p), {}


def _scalar(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given | None:
    return ("_local_scalar_dense", args, {}) if args[0]._array.size == 1 else None


_FORMS: dict[str, Form] = {
    **{name: _sized(name) for name in "zeros ones rand randn".split()},
    "empty": _sized("empty.memory_format"),
    "full": _full,
    **{name: _like(name) for name in "zeros_like ones_like empty_like full_like rand_like randn_like".split()},
    **{name: _new(name) for name in "new_zeros new_ones new_empty".split()},
    "new_full": _new_full,
    "empty_strided": lambda args, kwargs: ("empty_strided", tuple(map(list, args)), _options(kwargs)),
    "arange": _by_count("arange", "arange.start", "arange.start_step"),
    "eye": _by_count("eye", "eye.m"),
    "linspace": _by_count("linspace"),
    "randperm": _by_count("randperm"),
    "randint": _randint,
    "normal": _normal,
    "bernoulli_": _bernoulli_,
    "item": _scalar,
    "__bool__": _scalar,
    "__float__": _scalar,
    "__int__": _scalar,
    "tril_indices": _unchanged_call("tril_indices"),
    "triu_indices": _unchanged_call("triu_indices"),
    **{
        name: _unchanged_call(name)
        for name in (
            "detach nonzero equal allclose multinomial bernoulli normal_ uniform_ exponential_ geometric_ log_normal_ "
            "cauchy_ poisson"
        ).split()
    },
}


_ANSWERS = frozenset({"_local_scalar_dense", "equal", "allclose"})  # return Python numbers

_AS: dict[str, Callable[[Any], Any]] = {
    "__bool__": bool,
    "__float__": float,
    "__int__": int,
}  # the Python types they return


def direct_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Dispatch a public function that is one operator; NotImplemented if it is none, or no override applies."""
    given = list(tree.leaves((args, kwargs)))
    if not is_dispatched(given):
        return NotImplemented
    form = _FORMS.get(function.__name__) if kwargs.get("out") is None else None
    call = form(args, kwargs) if form is not None else None
    if call is None:
        return _guarded(function, args, kwargs, given)
    name, given, options = call  # type: ignore[assignment]
    plain = {key: value for key, value in kwargs.items() if key != "requires_grad"}
    result = offer(aten(name), given, options, lambda: function(*args, **plain))
    if not isinstance(result, TensorCore) and name not in _ANSWERS:
        raise RuntimeError(f"Unable to cast {result!r} to Tensor")
    if function.__name__ in _AS:
        return _AS[function.__name__](result)
    return result._with_requires_grad(True) if kwargs.get("requires_grad") else result


def _guarded(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Any]) -> Any:
    """Run a function on tensors that may have no buffer; refuse it if none of its operators was dispatched to them."""
    if not any(type(value) in CLASSES for value in given):
        return NotImplemented
    before = offering.offers
    result = function.__wrapped__(*args, **kwargs)
    if offering.offers == before:
        for value in tree.leaves(result):
            if (
                isinstance(value, TensorCore)
                and type(value) not in CLASSES
                and not any(value is each for each in given)
            ):
                raise NotImplementedError(
                    f"undertow has no operators below {function.__name__}() that a class with __torch_dispatch__ could "
                    "override: it computes on buffers, which such tensors need not have."
                )
    return result


def lifted(fresh: Any) -> Any:
    """Return a tensor just made from data, dispatched."""
    if not is_dispatched(()) or not isinstance(fresh, TensorCore):
        return fresh
    required, fresh._requires_grad = fresh._requires_grad, False
    result = offer(aten("lift_fresh"), (fresh,), {}, lambda: fresh)
    return result._with_requires_grad(True) if required else result
