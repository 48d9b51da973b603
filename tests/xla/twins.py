"""The same step twice, from the same seed: once run eagerly, once compiled. Everything it leaves behind has to agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import undertow as torch
from undertow import nn

Build = Callable[[], Any]


class Case:
    """A step, what it is called with in turn, the objects whose state counts, and what its hooks noted down."""

    def __init__(
        self, step: Callable[..., Any], *state: Any, args: Callable[[int], tuple[Any, ...]] | None = None,
        log: list[Any] | None = None, between: Callable[[int], Any] | None = None, look: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        self.step, self.state, self.log, self.between = step, state, log, between
        self.looks, self.look = look is not None, look or (lambda: None)  # what is looked at after each call
        self.args = args or (lambda turn: ())
        self.compiled: Any = None


class Cases(dict[str, Any]):
    """The cases of a file by name: `case = Cases()`, and `@case` above a function that builds one adds it."""

    def __call__(self, build: Any) -> Any:
        self[build.__name__] = build
        return build


def seen(value: Any) -> Any:
    """Plain data to compare: arrays for tensors, with whether they ask for gradients, and their gradients."""
    if isinstance(value, torch.Tensor):
        if value.is_sparse:  # gradients of compiled steps are dense
            value = value.to_dense()
        plain = {"value": value.detach().float().numpy().copy() if value.dtype is torch.bfloat16
                 else value.detach().numpy().copy(), "dtype": str(value.dtype), "requires_grad": value.requires_grad,
                 "leaf": value.is_leaf}  # fmt: skip
        if value.is_leaf:
            plain["grad"] = seen(value.grad)
        return plain
    if isinstance(value, nn.Module):
        return {
            "parameters": {name: seen(each) for name, each in value.named_parameters()},
            "buffers": {name: seen(each) for name, each in value.named_buffers()},
            "training": [module.training for module in value.modules()],
        }
    if isinstance(value, torch.optim.Optimizer):
        return seen(value.state_dict())
    if isinstance(value, dict):
        return {key: seen(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [seen(each) for each in value]
    if hasattr(value, "__dict__") and type(value).__module__.startswith("tests"):
        return seen(vars(value))
    return value


def run(build: Build, compiled: bool, steps: int) -> dict[str, Any]:
    """What all calls returned, and everything that was left behind."""
    torch.manual_seed(0)
    case = build()
    torch.manual_seed(1)
    step = case.compiled = torch.compile(case.step) if compiled else case.step
    results = []
    for turn in range(steps):
        results.append(seen(step(*case.args(turn))))
        if case.looks:
            results.append(seen([case.look(), list(case.state)]))
        if case.between is not None:
            case.between(turn)
    return {"results": results, "state": seen(list(case.state)), "log": seen(case.log),
            "random": torch.get_rng_state().numpy().copy()}  # fmt: skip


def differences(a: Any, b: Any, where: str = "", tolerance: float = 2e-5) -> list[str]:
    """Where two such descriptions differ."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return [f"{where}: {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"]
        if a.dtype.kind in "fc":
            good = np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            good = np.array_equal(a, b)
        return [] if good else [f"{where}: {a.ravel()[:5]} and {b.ravel()[:5]}"]
    if type(a) is not type(b):
        return [f"{where}: {a!r} and {b!r}"[:300]]
    if isinstance(a, dict):
        if list(a) != list(b):
            return [f"{where}: keys {list(a)} and {list(b)}"]
        return [each for key in a for each in differences(a[key], b[key], f"{where}.{key}", tolerance)]
    if isinstance(a, list):
        if len(a) != len(b):
            return [f"{where}: {len(a)} and {len(b)} entries: {a!r} and {b!r}"[:300]]
        return [
            each for place in range(len(a)) for each in differences(a[place], b[place], f"{where}[{place}]", tolerance)
        ]
    if isinstance(a, float):
        return [] if np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True) else [f"{where}: {a} and {b}"]
    return [] if a == b else [f"{where}: {a!r} and {b!r}"[:300]]


def agree(build: Build, steps: int = 3, tolerance: float = 2e-5, programs: int | None = None) -> None:
    """Eager and compiled from the same seed leave the same behind; so many programs are enough for it."""
    compiled: list[Any] = []

    def noted() -> Case:
        compiled.append(build())
        return compiled[0]

    found = differences(run(build, False, steps), run(noted, True, steps), tolerance=tolerance)
    assert not found, "eager and compiled: " + "\n".join(found[:12])
    report = torch.compile.explain(compiled[0].compiled)
    assert programs is None or len(report.data[0]["programs"]) <= programs, report
