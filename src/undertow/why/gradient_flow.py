"""`why.flow`: the gradients of a model over training steps."""

from __future__ import annotations

import math
from typing import Any

from undertow.why.ledgers import ledger
from undertow.why.objects import norm, package_of, part
from undertow.why.report import Report, Table


class Sample:
    """One parameter's gradient at one step. state: `ok`, `zero`, `nan`, `none` or `frozen`."""

    __slots__ = ("edited", "norm", "state", "zeros")

    def __init__(self, parameter: Any, edited: bool) -> None:
        gradient = parameter.grad
        self.edited = edited  # by a hook
        self.norm: float | None = None
        self.zeros: float | None = None  # share of exact zeros
        if gradient is None:
            self.state = "none" if parameter.requires_grad else "frozen"
            return
        self.norm = norm(gradient)
        values = gradient.detach()
        values = values.coalesce().values() if values.is_sparse else values
        count = values.numel()
        self.zeros = (values == 0).sum().item() / count if count else None
        finite = self.norm is None or math.isfinite(self.norm)
        self.state = "nan" if not finite else "zero" if self.zeros == 1 else "ok"
        if not parameter.requires_grad:
            self.state = "frozen"


class flow(Report):
    """Record the gradients of each parameter and module over steps.

    In a `with` block, they are recorded just before each step of an optimizer that holds parameters of the model.
    `step()` records them by hand, inside a block or without one.

    >>> from undertow import why
    >>> layer = torch.nn.Linear(2, 1)
    >>> flow = why.flow(layer)
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> flow.step()
    >>> [sample.norm for sample in flow.samples["bias"]]
    [1.0]
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.steps = 0
        self.samples: dict[str, list[Sample]] = {name: [] for name, _ in model.named_parameters()}
        self._ledger: ledger | None = None
        self._entered = 0  # the number of ledger entries that earlier steps have used
        self._handle: Any = None

    def __enter__(self) -> flow:
        self._ledger = ledger(self.model)
        self._ledger.__enter__()
        self._entered = 0
        optimizers = part(package_of(self.model), "optim.optimizer")
        self._handle = optimizers.register_optimizer_step_pre_hook(self._before_step)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._handle.remove()
        assert self._ledger is not None
        self._ledger.__exit__(*exception)
        self._ledger = None

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if any(id(parameter) in held for parameter in self.model.parameters()):
            self.step()

    def step(self) -> None:
        """Record the gradients as they are now."""
        edited: set[int] = set()
        if self._ledger is not None:
            edited = {firing.target for firing in self._ledger.entries[self._entered :] if firing.changed}
            self._entered = len(self._ledger.entries)
        for name, parameter in self.model.named_parameters():
            self.samples.setdefault(name, []).append(Sample(parameter, id(parameter) in edited))
        self.steps += 1

    def modules(self) -> dict[str, list[float | None]]:
        """Return, for each module with direct parameters, their joint gradient norm at each step."""
        found: dict[str, list[float | None]] = {}
        for name, samples in self.samples.items():
            owner = name.rpartition(".")[0] or f"({type(self.model).__name__})"
            before = found.setdefault(owner, [None] * len(samples))
            found[owner] = [
                one if sample.norm is None else math.hypot(one or 0.0, sample.norm)
                for one, sample in zip(before, samples)
            ]
        return found

    def title(self) -> str:
        return f"gradients of {type(self.model).__name__} over {self.steps} step{'' if self.steps == 1 else 's'}"

    def tables(self) -> list[Table]:
        if not self.steps:
            return []
        rows: list[tuple[Any, ...]] = []
        for name, samples in self.samples.items():
            norms = [sample.norm for sample in samples if sample.norm is not None]
            zeros = [sample.zeros for sample in samples if sample.zeros is not None]
            states = [sample.state for sample in samples]
            counts = [states.count(state) for state in ("zero", "nan", "none", "frozen")]
            rows.append((
                name, norms[0] if norms else None, norms[-1] if norms else None, max(norms) if norms else None,
                sum(zeros) / len(zeros) if zeros else None, *counts, sum(sample.edited for sample in samples),
            ))  # fmt: skip
        columns = ("parameter", "first", "last", "largest", "zero share", "zero", "nan", "none", "frozen", "edited")
        modules: list[tuple[Any, ...]] = [
            (name, norms[0], norms[-1]) for name, norms in self.modules().items() if norms
        ]
        return [Table(columns, rows, "parameters"), Table(("module", "first", "last"), modules, "modules")]

    def notes(self) -> list[str]:
        return ["first, last, largest: norms; zero, nan, none, frozen, edited: in how many steps"] if self.steps else []

    def data(self) -> dict[str, Any]:
        return super().data() | {
            "samples": {
                name: [
                    {"norm": _number(s.norm), "zeros": s.zeros, "state": s.state, "edited": s.edited} for s in samples
                ]
                for name, samples in self.samples.items()
            }
        }


def _number(value: float | None) -> Any:
    return str(value) if value is not None and not math.isfinite(value) else value
