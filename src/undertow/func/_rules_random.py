"""Random functions inside vmap: refused, drawn once for all examples, or drawn for each example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow import overrides
from undertow import random as random_state
from undertow._src.base.modes import local
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import ones
from undertow.func._batched import stacked
from undertow.func._vmapping import MappedLevel, open_levels, required_in_place, to_whole
from undertow.utils import _pytree as pytree

# Functions that take sizes, and the position of the sizes among the arguments.
_SIZED = {"rand": 0, "randn": 0, "randint": -1, "normal": -1}
_LIKE = frozenset(
    "rand_like randn_like randint_like bernoulli poisson binomial _standard_gamma _sample_dirichlet".split()
)
_DROPOUTS = frozenset(
    "dropout alpha_dropout feature_dropout feature_alpha_dropout dropout1d dropout2d dropout3d rrelu".split()
)
_IN_PLACE = frozenset("uniform_ normal_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_".split())
# Functions that draw in the middle of other work, by the condition on which they do.
_INSIDE: dict[str, Callable[[dict[str, Any]], bool]] = {
    "gumbel_softmax": lambda given: True,
    "native_dropout": lambda given: given.get("train") is not False,
    "scaled_dot_product_attention": lambda given: given.get("dropout_p", 0) > 0,
    "multi_head_attention_forward": lambda given: given.get("training", True) and given.get("dropout_p", 0) > 0,
    **dict.fromkeys(
        ["fractional_max_pool2d", "fractional_max_pool3d"], lambda given: given.get("_random_samples") is None
    ),
}
RANDOM = frozenset([*_SIZED, *_LIKE, *_DROPOUTS, *_IN_PLACE, *_INSIDE, "randperm", "multinomial"])


class RefusesRandom(overrides.TorchFunctionMode):
    """Refuse random functions: in PyTorch, a function differentiated for all directions at once runs under a vmap."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _draws(func, args, kwargs or {}):
            raise _error_mode()
        return func(*args, **kwargs or {})


def random(level: MappedLevel, function: Any, args: Any, kwargs: Any) -> Any:
    """Run a call inside vmap, random or not."""
    if not _draws(function, args, kwargs):
        return function(*args, **kwargs)
    name = function.__name__
    args, kwargs = required_in_place(function, args, kwargs)
    if level.is_legacy:
        raise _legacy_refusal()
    if level.randomness == "error":
        raise _error_mode()
    if level.randomness == "same":
        mapped = any(level.holds(value) for value in [*args, *kwargs.values()])
        return _same(level, name, mapped, function, args, kwargs)
    return _different(level, name, function, args, kwargs)


def _draws(function: Any, args: Any, kwargs: Any) -> bool:
    name = getattr(function, "__name__", "")
    if name in _INSIDE:
        code = getattr(function, "__wrapped__", function).__code__
        return _INSIDE[name]({**dict(zip(code.co_varnames, args, strict=False)), **kwargs})
    return name in RANDOM and (name not in _DROPOUTS or _active(name, args, kwargs))


def _legacy_refusal() -> RuntimeError:
    return RuntimeError(
        "vmap: We do not yet support calling random operations inside of vmap, and hooks of a batched pass are in one. "
        "Draw the numbers before the pass."
    )


def _error_mode() -> RuntimeError:
    return RuntimeError(
        "vmap: called random operation while in randomness error mode. Give randomness='same' or 'different', or draw "
        "the numbers outside and pass them in"
    )


def _active(name: str, args: Any, kwargs: Any) -> bool:
    if name == "rrelu":
        return bool(kwargs.get("training", args[3] if len(args) > 3 else False))
    usual = {"p": 0.5, "training": True}
    given = {**usual, **dict(zip(("input", "p", "training"), args, strict=False)), **kwargs}
    return bool(given.get("training", given.get("train", True))) and given["p"] != 0


def _same(level: MappedLevel, name: str, mapped: bool, function: Any, args: Any, kwargs: Any) -> Any:
    """Draw once for all examples."""
    if not mapped:
        return function(*args, **kwargs)
    if name in _INSIDE or "alpha" in name:
        return _one_by_one(level, function, args, kwargs, random_state.get_rng_state())
    first, *rest = args
    if name in ("rand_like", "randn_like", "randint_like"):
        return level.wrap(level.whole(function(first._value[0], *rest, **kwargs)).contiguous())
    if name in _DROPOUTS and name != "rrelu" and "alpha" not in name:
        options = {key: value for key, value in kwargs.items() if key != "inplace"}
        return first * function(ones(first.shape, dtype=first.dtype), *rest, **options)
    if name in _IN_PLACE and name != "bernoulli_":
        drawn = function(first._value[0].detach().clone(), *rest, **kwargs)
        first._value.copy_(drawn.unsqueeze(0).expand(first._value.shape))
        return first
    if name not in _DROPOUTS and not (name in _IN_PLACE and level.holds(first)):
        given, named = pytree.tree_map(lambda value: _repeated(level, value), (list(args), kwargs))
        return function(*given, **named)
    raise _refusal()


def _repeated(level: MappedLevel, value: Any) -> Any:
    """Return one example of a value that a derivative has repeated for all examples; other values unchanged."""
    if not level.holds(value):
        return value
    place = level.number - 1
    whole = to_whole(value._value, open_levels()[:place]).detach()
    if local.modes.transforms == level.number or not (whole == whole.narrow(place, 0, 1)).all():
        raise _refusal()
    return value._value[0]


def _refusal() -> RuntimeError:
    return RuntimeError(
        "Vmap does not currently support same randomness with a batched tensor input. Draw outside of vmap, or use "
        "randomness='different'."
    )


def _different(level: MappedLevel, name: str, function: Any, args: Any, kwargs: Any) -> Any:
    """Draw different numbers for each example."""
    if name in _SIZED and not any(isinstance(value, TensorCore) for value in args):
        return level.wrap(_sized(level, name, function, args, kwargs))
    if name in _IN_PLACE:
        if not level.holds(args[0]):
            raise RuntimeError(
                f"vmap: inplace {name[:-1]}(self, *extra_args) is not possible because there exists a Tensor `other` in "
                "extra_args that has more elements than `self`: self is not mapped, and other is."
                if any(map(level.holds, args))
                else "vmap: Cannot ask for different inplace randomness on an unbatched tensor, which cannot hold a value "
                "for each example"
            )
        rest = [level.whole(value) if isinstance(value, TensorCore) else value for value in args[1:]]
        function(args[0]._value, *rest, **kwargs)
        return args[0]
    if (
        name in ("randperm", "multinomial")
        or name in _INSIDE
        or ("dropout" in name and name != "dropout" and name != "alpha_dropout")
    ):
        return _one_by_one(level, function, args, kwargs)
    whole = [level.whole(value) if isinstance(value, TensorCore) else value for value in args]
    return level.wrap(function(*whole, **kwargs))


def _one_by_one(level: MappedLevel, function: Any, args: Any, kwargs: Any, state: Any = None) -> Any:
    """Run a function once per example; from the same state of the generator, if one is given."""
    leaves, spec = pytree.tree_flatten((list(args), kwargs))
    rows = []
    for index in range(level.size):
        if state is not None:
            random_state.set_rng_state(state)
        given, named = spec.unflatten([leaf._value[index] if level.holds(leaf) else leaf for leaf in leaves])
        rows.append(function(*given, **named))
    return stacked(level, rows)


def _sized(level: MappedLevel, name: str, function: Any, args: Any, kwargs: Any) -> Any:
    args, kwargs = list(args), dict(kwargs)
    if "size" in kwargs:
        kwargs["size"] = (level.size, *kwargs["size"])
    elif name in ("rand", "randn"):
        sizes = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        args = [(level.size, *sizes)]
    else:
        args[-1] = (level.size, *args[-1])
    return function(*args, **kwargs)
