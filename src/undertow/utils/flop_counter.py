"""`FlopCounterMode`: how many multiplications and additions matrix products and convolutions take, by module.

The rules of these operators are wrapped while the block lasts. What an operator's backward pass takes is counted when its
node runs, for the module that called the operator.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

from undertow import _ops
from undertow.autograd.apply import specialise
from undertow.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from undertow.rules import conv, linalg

__all__ = ["FlopCounterMode"]


def _product(left: Any, right: Any) -> int:
    """Of two matrices, or two stacks of them."""
    *batch, rows, inner = left._array.shape
    return 2 * math.prod(batch) * rows * inner * right._array.shape[-1]


def _convolution(input: Any, weight: Any, result: Any, transposed: bool) -> int:
    places = (input if transposed else result)._array.shape
    return 2 * places[0] * math.prod(places[2:]) * math.prod(weight._array.shape)


class _Counted:
    """An operator: what it takes, and what its backward pass takes for each input that wants a gradient."""

    def __init__(self, rule: Any, backward: str, cost: Callable[..., int], inputs: tuple[int, int]) -> None:
        self.rule, self.backward, self.cost, self.inputs = rule, backward, cost, inputs


_OPERATORS = (
    _Counted(linalg.mm, "mm", lambda given, result, statics: _product(*given[:2]), (0, 1)),
    _Counted(linalg.bmm, "bmm", lambda given, result, statics: _product(*given[:2]), (0, 1)),
    _Counted(linalg.addmm, "mm", lambda given, result, statics: _product(*given[1:3]), (1, 2)),
    _Counted(linalg.baddbmm, "bmm", lambda given, result, statics: _product(*given[1:3]), (1, 2)),
    _Counted(
        conv.convolution, "convolution_backward",
        lambda given, result, statics: _convolution(given[0], given[1], result, statics["transposed"]), (0, 1),
    ),
)  # fmt: skip


class FlopCounterMode:
    """A block in which operations are counted; printed as a table at its end if `display` is true.

    >>> with FlopCounterMode(display=False) as counter:
    ...     product = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None) -> None:
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self._names: dict[Any, str] = {}
        self._inside: list[str] = []
        self._undo: list[Callable[[], None]] = []

    # --- answers

    def get_total_flops(self) -> int:
        """All operations of the block."""
        return sum(self.flop_counts["Global"].values()) if "Global" in self.flop_counts else 0

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Operations by the name of the module (`Global`: all) and by operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The same as text, down to a depth of modules."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        names = [name for name in sorted(self.flop_counts) if name != "Global" and name.count(".") < depth]
        rows = [row for name in names for row in self._rows(name, total)]
        if "Global" in self.flop_counts and not any(sum(self.flop_counts[name].values()) == total for name in names):
            rows = self._rows("Global", total) + rows
        return _as_table(rows or [("Global", "0", "0%")])

    def _rows(self, name: str, total: int) -> list[tuple[str, str, str]]:
        counts = self.flop_counts[name]
        parts = [(name, sum(counts.values())), *[(f"- {operator}", count) for operator, count in counts.items()]]
        return [(part, _with_suffix(count, total), f"{count / total:.2%}" if total else "0%") for part, count in parts]

    # --- the block

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self._names.clear()
        for counted in _OPERATORS:
            before, counted.rule.run = counted.rule.run, self._counting(counted)
            self._undo.append(lambda counted=counted, before=before: setattr(counted.rule, "run", before))  # type: ignore[misc]
        self._undo.append(register_module_forward_pre_hook(self._begin_module).remove)
        self._undo.append(register_module_forward_hook(self._end_module, always_call=True).remove)
        return self

    def __exit__(self, *exception: object) -> None:
        while self._undo:
            self._undo.pop()()
        if self.display:
            print(self.get_table(self.depth))

    def _begin_module(self, module: Any, args: Any) -> None:
        name = self._names.setdefault(module, type(module).__name__)
        for place, child in module.named_children():
            self._names[child] = f"{name}.{place}"
        self._inside.append(name)

    def _end_module(self, module: Any, args: Any, output: Any) -> None:
        self._inside.pop()

    def _counting(self, counted: _Counted) -> Callable[..., Any]:
        run = counted.rule.run or specialise(counted.rule)

        def count(*given: Any, **statics: Any) -> Any:
            result = run(*given, **statics)
            cost, places = counted.cost(given, result, statics), {"Global", *self._inside}
            self._add(places, counted.rule.name, cost)
            node = result.grad_fn
            if node is not None:
                wanted = [place for place in counted.inputs if given[place].requires_grad]
                groups = statics.get("groups", 1)  # the gradient of a weight is counted as if all channels met
                each = sum(cost * groups if groups > 1 and place == 1 else cost for place in wanted)
                node.register_prehook(lambda gradients: self._add(places, counted.backward, each) if self._undo else None)
            return result

        return count

    def _add(self, places: set[str], operator: str, cost: int) -> None:
        if cost:
            for place in places:
                self.flop_counts[place][getattr(_ops.namespace("aten"), operator)] += cost


def _with_suffix(count: int, total: int) -> str:
    """A number in the unit that suits the total."""
    power = min((len(str(total)) - 1) // 3, 4)
    return f"{count / 1000**power:.3f}{' KMBT'[power]}" if power else str(count)


def _as_table(rows: list[tuple[str, str, str]]) -> str:
    header = ("Module", "FLOP", "% Total")
    widths = [max(len(title) + 2, *[len(row[place]) for row in rows]) for place, title in enumerate(header)]
    lines = [header, tuple(["-" * width for width in widths]), *rows]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in lines)
