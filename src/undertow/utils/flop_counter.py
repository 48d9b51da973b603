"""`FlopCounterMode`: count the floating point operations of a program, by module.

An operator's count comes from its formula in `flop_registry`, given the shapes of its arguments and result. Operators
of the backward pass are counted for the modules they belong to.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

from undertow import _ops
from undertow._src.base.tree import map_leaves
from undertow._src.tensor.core import TensorCore
from undertow.utils._python_dispatch import TorchDispatchMode
from undertow.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "flop_registry", "register_flop_formula"]

aten: Any = _ops.namespace("aten")
flop_registry: dict[Any, Callable[..., int]] = {}


# --- formulas


def get_shape(i: Any) -> Any:
    """Return the shape of a tensor, and anything else as it is."""
    return i.shape if isinstance(i, TensorCore) else i


def shape_wrapper(f: Callable[..., int]) -> Callable[..., int]:
    """Wrap a formula of shapes as a function of tensors."""

    @functools.wraps(f)
    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        given, named, out = map_leaves(get_shape, (args, kwargs, out_val))
        return f(*given, out_shape=out, **named)

    return of_tensors


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the formula of one operator or several: `formula(*shapes, out_shape=None, **kwargs) -> int`.

    With `get_raw` it takes the tensors themselves and `out_val`.
    """

    def register(formula: Callable[..., Any]) -> Callable[..., Any]:
        wanted = formula if get_raw else shape_wrapper(formula)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not isinstance(target, (_ops.OpOverloadPacket, _ops.HigherOrderOperator)):
                raise ValueError(
                    f"register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), or JitFunction, got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = wanted
        return formula

    return register


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Count a product of two matrices."""
    rows, inner = a_shape
    if inner != b_shape[0]:
        raise AssertionError(f"matmul: inner dimensions must match, got {inner} and {b_shape[0]}")
    return rows * b_shape[1] * 2 * inner


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Count the product only."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Count products of two batches of matrices."""
    batch, rows, inner = a_shape
    return batch * rows * b_shape[2] * 2 * inner


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Count the products only."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """Count a convolution: each weight is applied at each position of the result (of the input, if transposed)."""
    places = (x_shape if transposed else out_shape)[2:]
    return math.prod(places) * math.prod(w_shape) * x_shape[0] * 2


@register_flop_formula([aten.convolution, aten._convolution])
def conv_flop(
    x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool, *args: Any,
    out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """Count a convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_out_shape: Any, x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any, _dilation: Any,
    transposed: bool, _output_padding: Any, _groups: Any, output_mask: Any, out_shape: Any,
) -> int:  # fmt: skip
    """Count the gradients of a convolution: each is a convolution of grad_output with the weight or the input."""

    def turned(shape: Any) -> list[int]:
        return [shape[1], shape[0], *shape[2:]]

    count = 0
    if output_mask[0]:
        count += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        first, second = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        count += conv_flop_count(turned(first), turned(second), turned(out_shape[1]))
    return count


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Count attention: queries times keys, weights times values."""
    batch, heads, rows, inner = query_shape
    length, width = key_shape[2], value_shape[3]
    stack = batch * heads
    return bmm_flop((stack, rows, inner), (stack, inner, length)) + bmm_flop(
        (stack, rows, length), (stack, length, width)
    )


@register_flop_formula(aten._scaled_dot_product_flash_attention)
def sdpa_flop(
    query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Count attention in one operator. Like PyTorch, the operator for CPUs is not counted."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(grad_out_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Count the gradients of attention: the scores again, and two products for each of the two."""
    batch, heads, rows, inner = query_shape
    length, width = key_shape[2], value_shape[3]
    stack = batch * heads
    scores = bmm_flop((stack, rows, inner), (stack, inner, length))
    values = bmm_flop((stack, rows, width), (stack, width, length)) + bmm_flop(
        (stack, length, rows), (stack, rows, width)
    )
    keys = bmm_flop((stack, rows, length), (stack, length, inner)) + bmm_flop(
        (stack, inner, rows), (stack, rows, length)
    )
    return scores + values + keys


def sdpa_backward_flop(
    grad_out_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None,
    **kwargs: Any,
) -> int:  # fmt: skip
    """Count the gradients of attention."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


# --- numbers as text

suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number: int) -> str:
    """Return the unit that suits a number."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """Return a number in a unit."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """Return a fraction as a percentage."""
    return f"{num / denom:.2%}" if denom else "0%"


# --- the counter


class _Counting(TorchDispatchMode):
    """The dispatch mode that counts every operator."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        return self.counter._count_flops(func.overloadpacket, out, args, kwargs)


class FlopCounterMode:
    """Counts operations inside the block; prints a table at its end if `display` is true.

    `custom_mapping` adds or replaces formulas of operators: `{torch.ops.aten.exp: lambda shape, **rest: 1}`.

    >>> with FlopCounterMode(display=False) as counter:
    ...     product = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.mod_tracker = ModuleTracker()
        self.mode: _Counting | None = None
        self.flop_registry = {
            **flop_registry,
            **{
                packet: formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
                for packet, formula in (custom_mapping or {}).items()
            },
        }

    # --- results

    def get_total_flops(self) -> int:
        """Return the number of operations in the block."""
        return sum(self.flop_counts["Global"].values()) if "Global" in self.flop_counts else 0

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return the counts by module name (`Global`: all) and by operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the counts as a table, down to a depth of modules."""
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
        return [(part, _with_suffix(count, total), convert_to_percent_str(count, total)) for part, count in parts]

    # --- the block

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Counting(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.mode is not None
        self.mode.__exit__(*exception)
        self.mode = None
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def _count_flops(self, func_packet: Any, out: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        formula = self.flop_registry.get(func_packet)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for place in set(self.mod_tracker.parents):
                self.flop_counts[place][func_packet] += count
        return out


def _with_suffix(count: int, total: int) -> str:
    """Return a number in the unit that fits the total."""
    suffix = get_suffix_str(total)
    return convert_num_with_suffix(count, suffix) if suffix else str(count)


def _as_table(rows: list[tuple[str, str, str]]) -> str:
    header = ("Module", "FLOP", "% Total")
    widths = [max(len(title) + 2, *[len(row[place]) for row in rows]) for place, title in enumerate(header)]
    lines = [header, tuple(["-" * width for width in widths]), *rows]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in lines)
