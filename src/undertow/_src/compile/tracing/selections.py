"""`x[mask]` inside a step, where only the running program knows how many rows the mask selects.

A program's shapes are fixed, so there are two ways to trace this. `MaskedRows` stands for the selection if code works on
each row separately and then adds the rows up: elementwise functions, layers that work on the last axes, losses, `sum` and
`mean`. It has as many rows as the mask has elements. The selected ones come first. Each of the others repeats the first
one, so that it gives no value that the selected rows do not give, and is left out of sums and gradients.

All other code needs the rows themselves. Then the step is traced again, and the number of rows is a branch on a value (see
`data_dependent_branches`): each number has its own program, as each shape has.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.device.array import DeviceArray, is_known
from undertow._src.base import tree
from undertow._src.base.modes import local
from undertow._src.compile.plan import Retrace
from undertow._src.compile.tracing.current_trace import running_trace
from undertow._src.compile.tracing.data_dependent_branches import Line
from undertow._src.compile.tracing.masked_rows import HANDLERS, Handler, MaskedRows, Selection, among, masked_rows
from undertow._src.engine.apply import apply
from undertow._src.ops.compare import where
from undertow._src.ops.join import stack
from undertow._src.rules import index as rules
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import bool as bool_dtype
from undertow._src.types.dtypes import int64
from undertow._tensor import Tensor


class Selections:
    """The selections of one trace."""

    def __init__(self) -> None:
        self._by_mask: dict[int, tuple[Any, Selection]] = {}  # by the id of the mask's value, which is kept
        # Lines for whose selections Python got the number of rows, or a stand-in for it.
        self.counted: set[Line] = set()

    def of(self, mask: DeviceArray) -> Selection:
        """Return the selection of a mask; the same one for the same mask."""
        if not HANDLERS:
            fill_handlers()
        value = mask.value
        if id(value) not in self._by_mask:
            self._by_mask[id(value)] = value, Selection(value)
        return self._by_mask[id(value)][1]

    def places(self, mask: DeviceArray) -> list[Any]:
        """Return where a mask is true, a vector for each axis: each number of places has its own program."""
        if not mask.size or is_known(mask):
            known = np.asarray(mask.value) if mask.size else np.zeros(mask.shape, bool)
            return [wrap(each) for each in np.nonzero(known)]
        selection = self.of(mask)
        rows = selection.places._array.value[: running_trace().whole(selection.count)]
        return [wrap(DeviceArray(each.astype(np.int64))) for each in jnp.unravel_index(rows, mask.shape)]

    def select(self, x: Any, indices: Sequence[Any], line: Line | None) -> Any:
        """Return x[indices], where masks are among the indices."""
        mask = indices[0]
        if len(indices) == 1 and mask._array.size and may_stand_in(line):
            selection = self.of(mask._array)
            rows = x.reshape(selection.size, *x.shape[mask.dim() :])[selection.places]
            return masked_rows(selection.counting(rows), selection, {line})
        given: list[Any] = []
        for each in indices:
            given += [each] if each is None or each._array.dtype.kind == "i" else self.places(each._array)
        return apply(rules.index, x, *given)

    def materialize_counted(self) -> None:
        """Raise Retrace, to trace with exact rows, if code got a stand-in for the number of rows."""
        if self.counted:
            running_trace().placer.plan.selected.update(self.counted)
            raise Retrace

    def found(self, mask: DeviceArray, line: Line | None) -> Any:
        """Return the result of `nonzero`: the places where a mask is true, a row for each."""
        if not mask.size or not may_stand_in(line):
            return stack(self.places(mask), 1)
        selection = self.of(mask)
        each = jnp.unravel_index(selection.places._array.value, mask.shape)
        rows = jnp.stack([axis.astype(np.int64) for axis in each], 1)
        return masked_rows(wrap(DeviceArray(rows)), selection, {line})


def may_stand_in(line: Line | None) -> bool:
    """Return whether a selection on a line may be padded: nothing has needed more, or could see the difference."""
    plan = running_trace().placer.plan
    exact = plan.splitter is not None and plan.splitter.exact_tensors
    return not (line is None or line in plan.selected or exact or local.modes.function_off)


# --- what is right row by row


def _matched(args: Any, kwargs: Any) -> MaskedRows | None:
    """Return the rows whose selection all masked rows among the arguments share; None if they differ."""
    found = list(among((args, kwargs)))
    first = found[0]
    for other in found[1:]:
        ours, theirs = first._selection, other._selection
        if other.dim() != first.dim() or theirs.size != ours.size:
            return None
        if ours is not theirs and not running_trace().decide(ours.count == theirs.count, True):
            return None
    return first


def _on_rows(args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
    return tree.map_leaves(lambda leaf: leaf._rows if type(leaf) is MaskedRows else leaf, (args, kwargs))


def _as_rows(result: Any, args: Any, kwargs: Any) -> Any:
    """Return a function's result as rows of the same selection."""
    found = list(among((args, kwargs)))
    lines = set().union(*[each._lines for each in found])
    return tree.map_leaves(
        lambda leaf: masked_rows(leaf, found[0]._selection, lines) if isinstance(leaf, TensorCore) else leaf, result
    )


def _each(function: Any, args: Any, kwargs: Any) -> Any:
    """Call an elementwise function: other operands have no axis for the rows, or one of length 1."""
    like = _matched(args, kwargs)
    if like is None or "out" in kwargs or kwargs.get("inplace"):
        return NotImplemented
    for leaf in tree.leaves((args, kwargs)):
        if isinstance(leaf, TensorCore) and type(leaf) is not MaskedRows:
            if leaf.dim() > like.dim() or (leaf.dim() == like.dim() and leaf.shape[0] != 1):
                return NotImplemented
    given, options = _on_rows(args, kwargs)
    return _as_rows(function(*given, **options), args, kwargs)


def _along(function: Any, args: Any, kwargs: Any) -> Any:
    """Call a function along axes that are not the rows'."""
    rows = args[0] if args else None
    dims = _dims(function, args, kwargs)
    if type(rows) is not MaskedRows or not dims or 0 in dims or len(list(among((args, kwargs)))) > 1 or "out" in kwargs:
        return NotImplemented
    given, options = _on_rows(args, kwargs)
    return _as_rows(function(*given, **options), args, kwargs)


def _bound(function: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """Return a call's arguments by name, with defaults; None if they can't be bound."""
    try:
        call = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    call.apply_defaults()  # `object` as a default means that there is none
    return {name: None if type(value) is object else value for name, value in call.arguments.items()}


def _dims(function: Any, args: Any, kwargs: Any) -> tuple[int, ...] | None:
    """Return the axes that a call names, counted from the front; None if it names none."""
    given = _bound(function, args, kwargs)
    dim = None if given is None else given.get("dim", given.get("axis"))
    if type(dim) is int:
        dim = (dim,)
    if not isinstance(dim, (tuple, list)) or not all(type(each) is int for each in dim):
        return None
    ndim = args[0].dim()
    return tuple([each % ndim for each in dim]) if all(-ndim <= each < ndim for each in dim) else None


def _total(function: Any, args: Any, kwargs: Any) -> Any:
    """Add the rows up, or all of their elements, or the elements of each row."""
    along = _along(function, args, kwargs)
    if along is not NotImplemented:
        return along
    given = _bound(function, args, kwargs)
    if given is None or given.get("out") is not None or given.get("keepdim"):
        return NotImplemented
    rows, dims, dtype = args[0], _dims(function, args, kwargs), given.get("dtype")
    if type(rows) is not MaskedRows or (dims is None and given.get("dim") is not None):
        return NotImplemented
    inside, selection = rows._rows, rows._selection
    if function.__name__ in ("any", "all"):
        inside = inside.bool()
        filled = inside & selection.beside(inside) if function.__name__ == "any" else inside | ~selection.beside(inside)
        if dims is None:
            return function(filled)
        return function(filled, dims[0]) if len(dims) == 1 else NotImplemented
    if function.__name__ == "mean":
        if dtype is not None or not inside.is_floating_point():
            return NotImplemented
        kind = inside.dtype
        inside = inside.float() if kind.itemsize < 4 else inside
        total = where(selection.beside(inside), inside, 0)
        total = total.sum(dims) if dims else total.sum()
        axes = range(inside.dim()) if dims is None else dims
        per_row = math.prod([inside.shape[axis] for axis in axes if axis])
        return (total / wrap(DeviceArray(selection.count * per_row))).to(kind)
    filled = where(selection.beside(inside), inside, inside.new_zeros(()))
    return filled.sum(dims, dtype=dtype) if dims else filled.sum(dtype=dtype)


def _loss(function: Any, args: Any, kwargs: Any) -> Any:
    """Call a loss that is a sum or a mean over elements."""
    given = _bound(function, args, kwargs)
    if given is None or given.get("size_average") is not None or given.get("reduce") is not None:
        return NotImplemented
    reduction = given.pop("reduction", None)
    given = {name: value for name, value in given.items() if name not in ("size_average", "reduce")}
    if given.get("weight") is not None and function.__name__ in ("mse_loss", "l1_loss", "huber_loss"):
        return NotImplemented  # their means are weighted
    if reduction not in ("none", "mean", "sum") or any(type(given.get(name)) is not MaskedRows for name in _PAIR):
        return NotImplemented
    if given["input"]._rows.shape != given["target"]._rows.shape:
        return NotImplemented
    each = _each(function, (), {**given, "reduction": "none"})
    return each if each is NotImplemented or reduction == "none" else getattr(each, reduction)()


_PAIR = ("input", "target")


def _class_loss(function: Any, args: Any, kwargs: Any) -> Any:
    """Call a loss of classes: rows that are not selected get the ignored class."""
    given = _bound(function, args, kwargs)
    if given is None or any(type(given[name]) is not MaskedRows for name in _PAIR):
        return NotImplemented
    scores, target = given["input"], given["target"]
    if scores.dim() != 2 or target.dim() != 1 or target.is_floating_point() or type(given["ignore_index"]) is not int:
        return NotImplemented
    pair = (scores, target.unsqueeze(1))
    if target._rows.shape[0] != scores._rows.shape[0] or _matched(pair, {}) is None:
        return NotImplemented
    classes = where(target._selection.is_selected, target._rows, given["ignore_index"])
    result = function(**{**given, "input": scores._rows, "target": classes})
    return _as_rows(result, args, kwargs) if result.dim() else result


def _unsqueeze(function: Any, args: Any, kwargs: Any) -> Any:
    """Add an axis after that of the rows."""
    rows = args[0]
    dim = (_bound(function, args, kwargs) or {}).get("dim")
    if type(dim) is not int or not -rows.dim() <= dim <= rows.dim() or dim == 0:
        return NotImplemented
    return _as_rows(function(rows._rows, dim), args, kwargs)


def _gather(function: Any, args: Any, kwargs: Any) -> Any:
    """Take elements of each row by indices of its own."""
    dims = _dims(function, args, kwargs)
    found = list(among((args, kwargs)))
    if len(found) != 2 or not dims or 0 in dims or _matched(args, kwargs) is None:
        return NotImplemented
    given, options = _on_rows(args, kwargs)
    return _as_rows(function(*given, **options), args, kwargs)


def _reshape(function: Any, args: Any, kwargs: Any) -> Any:
    """Give each row another shape: rows.view(-1, 4, 2)."""
    rows, *shape = args
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = [*shape[0]]
    if kwargs or not shape or not all(type(each) is int for each in shape) or shape[0] != -1:
        return NotImplemented
    inside = rows._rows
    if function.__name__ == "expand":
        fits = len(shape) == inside.dim()
    else:
        fits = min(shape[1:], default=0) >= 0 and math.prod(shape[1:]) == math.prod(inside.shape[1:])
    return _as_rows(function(inside, inside.shape[0], *shape[1:]), args, kwargs) if fits else NotImplemented


def _layer(function: Any, args: Any, kwargs: Any) -> Any:
    """Call a function that works on the last axes of its first argument, with weights that have no rows."""
    rows = args[0] if args else None
    if type(rows) is not MaskedRows or rows.dim() < 2 or len(list(among((args, kwargs)))) > 1:
        return NotImplemented
    name = function.__name__
    given = _bound(function, args, kwargs) or {}
    if name == "layer_norm" and not len(given["normalized_shape"]) < rows.dim():
        return NotImplemented
    if name in ("matmul", "mm") and not (isinstance(args[1], TensorCore) and args[1].dim() <= 2):
        return NotImplemented
    if name == "dropout" and given.get("training", True):
        return NotImplemented
    inputs, options = _on_rows(args, kwargs)
    return _as_rows(function(*inputs, **options), args, kwargs)


def _embedding(function: Any, args: Any, kwargs: Any) -> Any:
    given = _bound(function, args, kwargs)
    if given is None or type(given["weight"]) is MaskedRows or given["max_norm"] is not None:
        return NotImplemented
    if given["scale_grad_by_freq"] or given["sparse"]:
        return NotImplemented
    inputs, options = _on_rows(args, kwargs)
    return _as_rows(function(*inputs, **options), args, kwargs)


def _item(function: Any, args: Any, kwargs: Any) -> Any:
    """Take rows[:, part], or rows of a tensor by indices that were found with a mask."""
    x, key = args
    if type(x) is not MaskedRows:
        places = key if isinstance(key, tuple) else (key,)
        if not all(type(each) is MaskedRows and each.dtype is int64 and each.dim() == 1 for each in places):
            return NotImplemented
        first = _matched(places, {})
        if first is None:
            return NotImplemented
        return _as_rows(first._selection.counting(x[tuple([each._rows for each in places])]), args, kwargs)
    first, *others = key if isinstance(key, tuple) else (key,)
    axes = [part for part in others if part is not None]
    keeps_rows = first is Ellipsis or (type(first) is slice and first == slice(None))
    if not keeps_rows or len(axes) >= x.dim() or not all(type(part) is int or type(part) is slice for part in axes):
        return NotImplemented
    return _as_rows(x._rows[(first, *others)], args, kwargs)


def _put(function: Any, args: Any, kwargs: Any) -> Any:
    """Write rows where a mask is true: x[mask] = f(x[mask])."""
    x, key, value = args
    is_mask = isinstance(key, TensorCore) and type(key) is not MaskedRows and key.dtype is bool_dtype and key.dim()
    if type(x) is MaskedRows or type(value) is not MaskedRows or not is_mask:
        return NotImplemented
    if x.dim() - key.dim() + 1 != value.dim() or x.dtype is not value.dtype or key.numel() != value._selection.size:
        return NotImplemented
    ours = running_trace().selections.of(key._array)
    if ours is not value._selection and not running_trace().decide(ours.count == value._selection.count, True):
        return NotImplemented
    x[key] = value._rows
    return None


def fill_handlers() -> None:
    """Fill the table of handlers by public function."""
    spaces = (Tensor, *[importlib.import_module(f"undertow{name}") for name in ("", ".nn.functional", ".special")])
    for handler, names in _NAMES.items():
        for name in names.split():
            HANDLERS.update({getattr(space, name): handler for space in spaces if hasattr(space, name)})


_NAMES: dict[Handler, str] = {
    _each: (
        "add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow neg negative "
        "positive abs absolute exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sign sgn floor ceil "
        "round trunc frac sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc sigmoid logit "
        "clamp clip clamp_min clamp_max maximum minimum fmax fmin where eq ne lt le gt ge isnan isinf isfinite "
        "isclose logical_not logical_and logical_or logical_xor bitwise_not bitwise_and bitwise_or bitwise_xor "
        "nan_to_num lerp addcmul addcdiv hypot logaddexp xlogy masked_fill float double half bfloat16 long int short "
        "bool detach clone contiguous zeros_like ones_like full_like relu relu6 leaky_relu elu selu celu gelu silu "
        "mish hardtanh hardswish hardsigmoid softplus softsign tanhshrink softshrink hardshrink logsigmoid threshold "
        "to type_as __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __rdiv__ __floordiv__ "
        "__rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ __neg__ __pos__ __abs__ __invert__ __and__ __or__ __xor__ "
        "__rand__ __ror__ __rxor__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__"
    ),
    _along: "softmax log_softmax logsumexp argmax argmin amax amin norm normalize prod var std max min squeeze cumsum",
    _total: "sum mean any all",
    _loss: "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits",
    _class_loss: "cross_entropy nll_loss",
    _unsqueeze: "unsqueeze",
    _gather: "gather take_along_dim",
    _reshape: "view reshape expand",
    _layer: "linear matmul mm __matmul__ layer_norm rms_norm dropout",
    _embedding: "embedding",
    _item: "__getitem__",
    _put: "__setitem__",
}
