"""Why a step is compiled again, in words: which guard failed, or which argument or mode differs from earlier calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.arrays.precision import Precision
from undertow._src.base.modes import Deterministic, local
from undertow._src.compile.guards.places import PLAIN, described
from undertow._src.compile.guards.settings import unusual_dtypes
from undertow._src.compile.tracing.records import Record
from undertow._src.overrides.torch_function import DisableTorchFunctionSubclass
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import get_default_device
from undertow._src.types.dtypes import SCALAR_DTYPE

if TYPE_CHECKING:
    from undertow._src.compile.program import Program
    from undertow._src.compile.tracing.data_dependent_branches import Answer

_ANOTHER = ", object "  # the rest distinguishes objects


def reason_for(
    programs: Sequence[Program], answers: tuple[Answer, ...], arguments: list[Any], signature: dict[str, str],
    earlier: list[dict[str, str]],
) -> str:  # fmt: skip
    """Return why none of the programs serves a call; "" for the first call of a step.

    `programs` serve calls with the same signature, the last one first; `earlier` are the signatures of other calls.
    """
    if programs:
        return programs[0].decisions.difference(answers) or programs[0].guard_failure(arguments)
    return difference(earlier, signature) if earlier else ""


def argument_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[str, Any]]:
    """Return the values in a call's arguments, also those in containers, each with its name in the function."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    more = [f"argument {place}" for place in range(len(positional), len(args))]
    return [*_leaves(dict(zip([*positional, *more], args)) | kwargs, "")]


def _leaves(tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Record):
        yield name, tree
        for key, part in tree.values.items():
            yield from _leaves(part, f"{name}.{key}")
    elif isinstance(tree, (tuple, list)):
        for place, part in enumerate(tree):
            yield from _leaves(part, f"{name}[{place}]")
    elif isinstance(tree, dict):
        for key, part in tree.items():
            yield from _leaves(part, f"{name}[{key!r}]" if name else key)
    else:
        yield name, tree


def call_signature(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
    """Return the key by which programs are chosen, in words: each argument and each mode."""
    modes = local.modes
    autocast = modes.autocast and ", ".join(f"{kind} to {dtype}" for kind, dtype in modes.autocast.lower.items())
    around = {
        "grad mode": "on" if modes.grad_enabled else "off",
        "inference mode": "on" if modes.inference else "off",
        "autocast": autocast or "off",
        "the default dtype": str(SCALAR_DTYPE[float]),
        "the default device": str(get_default_device()),
        "the dtypes of autocast": ", ".join(f"{kind} to {dtype}" for kind, dtype in unusual_dtypes())
        or "the usual ones",
        "deterministic algorithms": "wanted" if Deterministic.wanted else "not wanted",
        "the precision of products": str(Precision.float32_products),
        "the number of hooks on saved tensors": str(len(modes.saved_hooks)),
    }
    with DisableTorchFunctionSubclass():  # reading a tensor for the message is not part of the step
        return {name: _look(value) for name, value in argument_names(function, args, kwargs)} | around


def _look(value: Any) -> str:
    if type(value) in (int, float):
        return f"{'an' if type(value) is int else 'a'} {type(value).__name__}"  # the value does not matter
    if isinstance(value, Record):
        return f"a {value.kind.__name__} that is compared by its contents"
    if not isinstance(value, TensorCore):
        return described(value) + ("" if isinstance(value, PLAIN) else f"{_ANOTHER}{id(value)}")
    strides = "" if not value._is_strided or value._array.flags.c_contiguous else f", not contiguous {value.stride()}"
    device = "" if value.device.type == "cpu" else f" on {value.device}"
    wanted = " that requires a gradient" if value.requires_grad else ""
    return f"a {value.dtype} tensor of shape {list(value.shape)}{device}{wanted}{strides}".replace("torch.", "")


def difference(earlier: list[dict[str, str]], now: dict[str, str]) -> str:
    """Describe the differences from the most similar earlier call."""
    candidates = [
        (before, [name for name in {**before, **now} if before.get(name) != now.get(name)]) for before in earlier
    ]
    before, found = min(reversed(candidates), key=lambda each: len(each[1]))
    if not found and list(before) != list(now):
        return "the keyword arguments are in a different order"
    if not found:
        return "an argument's hooks changed, or its .grad appeared or disappeared"
    name, more = found[0], f", and {len(found) - 1} more" if len(found) > 1 else ""
    was, is_now = [look.get(name, "not given").partition(_ANOTHER)[0] for look in (before, now)]
    if was == is_now:
        cure = ". Give the step a tensor instead, from_numpy of it" if was == "a ndarray" else ""
        return f"{name} is another {was.removeprefix('a ')} than before{more}{cure}"
    return f"{name} was {was} and is {is_now}{more}"
