"""Every call of a rule that the oracle's samples make, as arrays: what other namespaces are compared with NumPy on.

The samples run once on undertow with a rare mode on, so that every op takes the general path, and `run_forward` notes what
it is given. A call replays a rule's forward formula and all its gradient formulas on any namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import undertow
from tests.oracle import test_functions as functions
from tests.oracle.sampling import Sample
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.quiet import quietly
from undertow._src.base.modes import slow_path
from undertow._src.engine import operands
from undertow._src.rules.rule import Rule, Spec

INEXACT = "fcV"


class Call(NamedTuple):
    """A rule with its operands, and the sample that made the call."""

    rule: Rule
    arrays: list[Any]
    statics: dict[str, Any]
    sample: str

    def signature(self) -> Any:
        """Calls that look alike differ in values only."""
        shapes = [None if array is None else (np.shape(array), np.asarray(array).dtype.str) for array in self.arrays]
        return self.rule.node_name, self.rule.name, str(shapes), str(sorted(self.statics.items(), key=str))


def calls_of(samples: list[Sample]) -> list[Call]:
    """The calls of rules that these samples make, forward and backward, each kind of call once."""
    found: dict[Any, Call] = {}
    original, running = operands.run_forward, ""
    unread: Any = lambda *facts: None

    def note(rule: Rule, arrays: Any, statics: dict[str, Any], target: Any) -> Any:
        copies = [array.copy() if isinstance(array, np.ndarray) else array for array in arrays]
        call = Call(rule, copies, dict(statics), running)
        found.setdefault(call.signature(), call)
        return original(rule, arrays, statics, target)

    operands.run_forward = note
    slow_path.enter()
    try:
        for sample in samples:
            running = sample.name
            try:
                functions.run_call(sample, undertow, unread)
            except Exception:
                continue  # what undertow refuses is the oracle's affair
    finally:
        slow_path.leave()
        operands.run_forward = original
    return list(found.values())


def results(call: Call, xp: Any, arrays: list[Any], known: tuple[Any, ...] | None = None) -> Iterator[tuple[str, Any]]:
    """What the rule computes on a namespace, forward and backward, by name.

    `known` are NumPy's forward results: both namespaces differentiate from the same ones. What a rule keeps for its
    gradient and does not show is each namespace's own affair.
    """
    rule = call.rule
    values = rule.forward(xp, *arrays, **call.statics)
    values = (values,) if rule.outputs == 1 and not rule.hidden else tuple(values)
    shown, kept = values[: len(values) - len(rule.hidden)], values[len(values) - len(rule.hidden) :]
    for place, value in enumerate(shown):
        yield f"result {place}", value
    if known is not None:
        shown = known
    directions = tuple([_direction(value, seed) for seed, value in enumerate(shown)])[: rule.differentiable or None]
    g = directions[0] if rule.outputs == 1 else directions
    if not all(direction is not None for direction in directions):
        return
    given = [*arrays[: len(rule.inputs) - 1], tuple(arrays[len(rule.inputs) - 1 :])] if rule.variadic else arrays
    context = {"xp": xp, "g": g, **dict(zip(rule.inputs, given, strict=True)), **call.statics}
    context |= {"result": shown[0] if rule.outputs == 1 else shown}
    context |= dict(zip(rule.names, shown)) | dict(zip(rule.hidden, kept))
    for name, array in zip(rule.inputs, given):
        spec = [_spec(each) for each in array] if isinstance(array, tuple) else _spec(array)
        context[f"{name}_spec"] = spec
    wanted = [_is_inexact(each) for each in arrays]
    context["needs"] = tuple(wanted[: rule.slots])
    if rule.joint is not None:
        gradients = rule.joint.formula(*[context[name] for name in rule.joint.names])
        for place, gradient in enumerate(gradients):
            if gradient is not None:
                yield f"gradient {place}", gradient
        return
    for name, formula, want in zip(rule.inputs, rule.gradients, wanted):
        if formula is not None and want:
            gradient = formula.formula(*[context[each] for each in formula.names])
            for place, part in enumerate(gradient if isinstance(gradient, (tuple, list)) else [gradient]):
                if part is not None:
                    yield f"gradient of {name} {place}", part


def on_numpy(call: Call) -> dict[str, Any] | None:
    """NumPy's results, up to where a gradient is refused; None if the rule itself is."""

    def compute() -> dict[str, Any]:
        found: dict[str, Any] = {}
        try:
            for name, value in results(call, numpy_xp, call.arrays):
                if value is not None:
                    found[name] = value
        except (RuntimeError, NotImplementedError, np.linalg.LinAlgError):
            pass
        return found

    return quietly(compute) or None


def _spec(array: Any) -> Spec | None:
    return None if array is None else Spec(tuple(array.shape), array.dtype)


def _is_inexact(array: Any) -> bool:
    return array is not None and array.dtype.kind in INEXACT


def _direction(value: Any, seed: int) -> Any:
    """A fixed random gradient of a result; None for whole numbers."""
    if not _is_inexact(value):
        return None
    random = np.random.default_rng(seed)
    numbers: Any = random.uniform(0.5, 1.5, value.shape) * random.choice([-1.0, 1.0], value.shape)
    if value.dtype.kind == "c":
        numbers = numbers + 1j * random.uniform(-1.0, 1.0, value.shape)
    return np.asarray(numbers).astype(value.dtype)
