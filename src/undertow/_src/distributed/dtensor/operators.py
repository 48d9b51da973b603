"""How operators run on distributed tensors: for each dim of the mesh, the placements of operands and results.

A rule gets a call and the placements of its operands along one dim of the mesh. It returns the placements to which
they are redistributed, and those of the results. An operator without a rule runs on whole tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.distributed.dtensor.placements import NormPartial, Partial, Placement, Replicate, Shard

Along = list[Placement]
Result = Placement | list[Placement]
R = Replicate()


class Operation:
    """A call of an operator: its name, arguments by name, and the shapes of its distributed operands and results."""

    def __init__(self, func: Any, args: Any, kwargs: Any, tensors: list[Any], shapes_of_results: Callable[[], Any]):
        self.name = func._schema.name.rpartition("::")[2]
        self.in_place = self.name.endswith("_") and not self.name.endswith("__")
        names = [each.name for each in func._schema.arguments]
        self.values = {**dict(zip(names, args, strict=False)), **kwargs}
        self.tensors, self.mesh = tensors, tensors[0].device_mesh
        self.shapes = [tuple(each.shape) for each in tensors]
        self._results = shapes_of_results

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name)

    @property
    def results(self) -> list[tuple[int, ...]]:
        """The shapes of the results."""
        return self._results()

    def dim(self, name: str = "dim", ndim: int | None = None) -> int:
        """Return a dim among the arguments, as a non-negative number."""
        ndim = len(self.shapes[0]) if ndim is None else ndim
        value = self[name] or 0
        return value + max(ndim, 1) if value < 0 else value

    def dims(self, name: str = "dim") -> set[int]:
        """Return the dims among the arguments; all of them if none are given."""
        ndim, value = len(self.shapes[0]), self[name]
        if value is None or value == []:
            return set(range(ndim))
        return {each % ndim if ndim else 0 for each in ([value] if isinstance(value, int) else value)}

    @property
    def followed(self) -> int:
        """The operand whose placements the others get: the one in most parts, or the one that is written to."""
        if self.in_place:
            return 0
        counts = [each._spec.num_shards if len(each.shape) else 0 for each in self.tensors]
        return counts.index(max(counts))


Rule = Callable[[Operation, Along, int], tuple[Along, Result]]


def whole(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Give every rank the whole of each operand."""
    return [R] * len(along), R


# --- elementwise operators

_SUMS = ("sum", "avg")


def pointwise(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Split all operands as one of them is; terms stay terms if the operator is linear."""
    name = op.name.rstrip("_")
    terms = [each for each in along if isinstance(each, Partial)]
    if terms:
        return _linear(op, along, name, terms[0])
    lead = along[op.followed]
    if not isinstance(lead, Shard):
        return whole(op, along, number)
    sizes = _broadcast(op.shapes)
    dim = lead.dim + len(sizes) - len(op.shapes[op.followed])
    if op.shapes[op.followed][lead.dim] != sizes[dim]:
        return whole(op, along, number)
    wanted: Along = []
    for shape in op.shapes:
        own = dim - len(sizes) + len(shape)
        wanted.append(Shard(own) if own >= 0 and shape[own] == sizes[dim] else R)
    return wanted, Shard(dim)


def _linear(op: Operation, along: Along, name: str, term: Partial) -> tuple[Along, Result]:
    if type(term) is Partial and term.reduce_op in _SUMS and not any(isinstance(each, Shard) for each in along):
        count = len(along)
        if (name in _KEEP_TERMS and count == 1) or (name == "copy" and along[0] == term):
            return [term] * count, term
        if name in ("add", "sub") and count == 2:
            return [term, term], term
        if name == "mul" or (name == "div" and isinstance(along[0], Partial)):
            first = along.index(term)
            return [term if place == first else R for place in range(count)], term
    elif name in ("clone", "detach", "alias") and len(along) == 1:
        return [term], term
    return [R] * len(along), R


_KEEP_TERMS = {"neg", "clone", "_to_copy", "positive", "detach", "alias", "mul", "div"}


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    ndim = max(map(len, shapes))
    sizes = [1] * ndim
    for shape in shapes:
        for place, size in enumerate(shape, ndim - len(shape)):
            if size != 1:
                sizes[place] = size
    return tuple(sizes)


def like(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Make a new tensor with the placements of a given one."""
    own = along[0]
    same = op.results[0] == op.shapes[0]
    return [own, *[R] * (len(along) - 1)], own if isinstance(own, Shard) and same else R


# --- reductions


def reduction(kind: str) -> Rule:
    """Return the rule of a reduction: if the reduced dim is split, each rank gets a term of the result."""

    def rule(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
        own = along[0]
        if type(own) is Partial and own.reduce_op == "sum" and kind in ("sum", "avg"):
            return [own], own
        if not isinstance(own, Shard) or len(op.results) > 1:
            return along_dims(op, along, number) if isinstance(own, Shard) else whole(op, along, number)
        dims = op.dims()
        if own.dim not in dims:
            return [own], _after_reduction(own, dims, bool(op["keepdim"]))
        if kind == "avg" and op.shapes[0][own.dim] % op.mesh.size(number):
            return whole(op, along, number)
        if kind == "norm":
            power = 2 if op["ord"] is None and op["p"] is None else op["ord"] if op["p"] is None else op["p"]
            if math.isinf(power):
                return [own], Partial("max" if power > 0 else "min")
            return [own], NormPartial(power)
        return ([own], Partial(kind)) if kind else whole(op, along, number)

    return rule


def _after_reduction(own: Shard, dims: set[int], keepdim: bool) -> Placement:
    return own if keepdim else Shard(own.dim - sum(dim < own.dim for dim in dims))


def along_dims(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Keep a split along a dim that the operator does not work along."""
    lead = next((each for each in along if isinstance(each, Shard)), None)
    if lead is None or any(isinstance(each, Partial) for each in along):
        return whole(op, along, number)
    dims = op.dims() if op["dim"] is not None else {len(op.shapes[0]) - 1}
    shape = op.shapes[along.index(lead)]
    if lead.dim in dims or any(each != shape for each in op.shapes):
        return whole(op, along, number)
    after = lead if len(op.results[0]) == len(shape) else _after_reduction(lead, dims, False)
    return [lead] * len(along), after


def loss(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Split an elementwise loss as its operands are; each rank's sum or mean is a term."""
    operands, result = pointwise(op, along, number)
    kind = 1 if op["reduction"] is None else op["reduction"]
    if not isinstance(result, Shard) or kind == 0:
        return operands, result
    if kind == 1 and op.shapes[0][result.dim] % op.mesh.size(number):
        return whole(op, along, number)
    return operands, Partial("avg" if kind == 1 else "sum")


def layer_norm(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Keep a split along a dim before those that are normalized."""
    own = along[0]
    if isinstance(own, Shard) and own.dim < len(op.shapes[0]) - len(op["normalized_shape"]):
        return [own, *[R] * (len(along) - 1)], own
    return whole(op, along, number)


def layer_norm_backward(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Keep a split along a dim before those that are normalized: the gradients of weight and bias are terms."""
    own, count = along[1], len(along)
    if isinstance(own, Shard) and own.dim < len(op.shapes[1]) - len(op["normalized_shape"]):
        results = [own, Partial(), Partial()]
        kept = [each for each, needed in zip(results, op["output_mask"], strict=True) if needed]
        return [own] * 4 + [R] * (count - 4), kept
    return [R] * count, R


def embedding_backward(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Keep a split along the columns of the table; with split indices, the gradient is a term."""
    gradient, indices = along
    if gradient == Shard(len(op.shapes[0]) - 1):
        return [gradient, R], Shard(1)
    if isinstance(indices, Shard):
        return [indices, indices], Partial()
    return whole(op, along, number)


def embedding(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Keep a split of the indices or the table. If its rows are split, each rank looks up those that it has."""
    table, indices = along
    if isinstance(indices, Shard):
        return [R, indices], indices
    if table == Shard(1):
        return [table, R], Shard(len(op.shapes[1]))
    return ([table, R], Partial()) if table == Shard(0) else whole(op, along, number)


# --- products of matrices


def product(*strategies: tuple[tuple[Placement, ...], Placement]) -> Rule:
    """Return a rule that chooses the strategy that sends the fewest elements."""

    def rule(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
        count = len(strategies[0][0])
        best = min(strategies, key=lambda each: _cost(op, along[-count:], each[0], number))
        wanted, result = list(best[0]), best[1]
        for shape in op.shapes[:-count]:  # what is added
            if isinstance(result, Shard):
                ndim = len(op.results[0])
                own = result.dim - ndim + len(shape)
                wanted.insert(0, Shard(own) if own >= 0 and shape[own] == op.results[0][result.dim] else R)
            else:
                wanted.insert(0, result)
        return wanted, result

    return rule


def _cost(op: Operation, along: Along, wanted: tuple[Placement, ...], number: int) -> float:
    """Estimate how many elements are sent to redistribute operands to these placements."""
    total = 0.0
    for shape, now, then in zip(op.shapes[-len(wanted) :], along, wanted, strict=True):
        size = math.prod(shape)
        if isinstance(then, Shard) and shape[then.dim] < op.mesh.size(number):
            return math.inf
        if now == then or (now.is_replicate() and then.is_shard()):
            continue
        if isinstance(then, Partial):
            return math.inf
        total += size * (2 if now.is_partial() and then.is_replicate() else 1) + now.is_shard() * then.is_shard()
    return total


S0, S1, S2, P = Shard(0), Shard(1), Shard(2), Partial()
_MM = product(((R, R), R), ((S0, R), S0), ((S1, S0), P), ((R, S1), S1), ((P, R), P), ((R, P), P))
_BMM = product(
    ((R, R), R), ((S0, S0), S0), ((S1, R), S1), ((S2, S1), P), ((R, S2), S2), ((P, R), P), ((R, P), P)
)  # fmt: skip
_MV = product(((R, R), R), ((S0, R), S0), ((S1, S0), P), ((P, R), P), ((R, P), P))
_DOT = product(((R, R), R), ((S0, S0), P), ((P, R), P), ((R, P), P))


# --- views and parts


def moved(where: Callable[[Operation, int], int | None], only_first: bool = True) -> Rule:
    """Return the rule of an operator that moves dims; `where` is the new place of a dim, None if it can't stay split."""

    def rule(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
        own = along[0]
        if isinstance(own, Shard):
            dim = where(op, own.dim)
            return whole(op, along, number) if dim is None else ([own] * len(along), Shard(dim))
        return [own] * len(along), own

    return rule


def _transposed(op: Operation, dim: int) -> int:
    ndim = len(op.shapes[0])
    if op.name == "t":
        return ndim - 1 - dim
    first, second = op.dim("dim0"), op.dim("dim1")
    return second if dim == first else first if dim == second else dim


def _permuted(op: Operation, dim: int) -> int:
    ndim = len(op.shapes[0])
    return [each % ndim for each in op["dims"]].index(dim)


def _unsqueezed(op: Operation, dim: int) -> int:
    return dim + (op.dim(ndim=len(op.shapes[0]) + 1) <= dim)


def _squeezed(op: Operation, dim: int) -> int | None:
    shape = op.shapes[0]
    gone = {n for n in (range(len(shape)) if op["dim"] is None else op.dims()) if shape[n] == 1}
    return None if dim in gone else dim - sum(each < dim for each in gone)


def _expanded(op: Operation, dim: int) -> int | None:
    shape, result = op.shapes[0], op.results[0]
    place = dim + len(result) - len(shape)
    return place if shape[dim] == result[place] else None


def _sliced(op: Operation, dim: int) -> int | None:
    return None if dim == op.dim() and op.results[0] != op.shapes[0] else dim


def _selected(op: Operation, dim: int) -> int | None:
    own = op.dim()
    return None if dim == own else dim - (own < dim)


def _split(op: Operation, dim: int) -> int | None:
    return None if dim == op.dim() else dim


def _stacked(op: Operation, dim: int) -> int | None:
    return None if len(set(op.shapes)) > 1 else dim + (op.dim(ndim=len(op.shapes[0]) + 1) <= dim)


def joined(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Keep a split along a dim that tensors are not joined along, and terms of sums."""
    lead = next((each for each in along if isinstance(each, Shard)), along[0])
    if isinstance(lead, Shard):
        keeps = lead.dim != op.dim() and len({len(shape) for shape in op.shapes}) == 1
    else:
        keeps = all(each == lead for each in along)
    return ([lead] * len(along), lead) if keeps else whole(op, along, number)


def _viewed(op: Operation, dim: int, count: int) -> int | None:
    """Return which dim of a view is split: the first of those that the split dim becomes."""
    shape, result = op.shapes[0], op.results[0]
    before, after = math.prod(shape[:dim]), 1
    for place, size in enumerate(result):
        if after == before and size != 1:
            same = size == shape[dim] and math.prod(result[place + 1 :]) == math.prod(shape[dim + 1 :])
            return place if same or (size % count == 0 and shape[dim] % count == 0) else None
        after *= size
    return None


def viewed(op: Operation, along: Along, number: int) -> tuple[Along, Result]:
    """Keep a split if each part is still one block in the new shape."""
    own = along[0]
    if not isinstance(own, Shard):
        return [own], own
    dim = _viewed(op, own.dim, op.mesh.size(number))
    return whole(op, along, number) if dim is None else ([own], Shard(dim))


def _names(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


POINTWISE = (
    "abs acos acosh add addcdiv addcmul alias angle asin asinh atan atan2 atanh bernoulli bitwise_and bitwise_not "
    "bitwise_or bitwise_xor ceil celu clamp clamp_max clamp_min clone conj_physical copy copysign cos cosh deg2rad "
    "detach digamma div elu elu_backward eq erf erfc erfinv exp exp2 expm1 exponential fill float_power floor "
    "floor_divide fmax fmin fmod frac ge gelu gelu_backward gt hardsigmoid hardswish hardtanh heaviside hypot i0 "
    "isfinite isinf isnan ldexp le leaky_relu leaky_relu_backward lerp lgamma log log10 log1p log2 log_normal "
    "log_sigmoid_forward logaddexp logical_and logical_not logical_or logical_xor logit lt masked_fill maximum "
    "minimum mish mul nan_to_num native_dropout native_dropout_backward ne neg nextafter normal positive pow "
    "rad2deg random reciprocal relu remainder round rsqrt rsub sgn sigmoid sigmoid_backward sign signbit silu "
    "silu_backward sin sinc sinh softplus softplus_backward sqrt square sub tan tanh tanh_backward "
    "threshold_backward trunc uniform where xlogy zero _to_copy cauchy geometric"
)
RULES: dict[str, Rule] = {
    **_names(pointwise, POINTWISE),
    **_names(
        like,
        "empty_like full_like ones_like zeros_like rand_like randn_like randint_like new_empty new_empty_strided new_full "
        "new_ones new_zeros",
    ),
    "sum": reduction("sum"),
    "nansum": reduction("sum"),
    "mean": reduction("avg"),
    "prod": reduction("product"),
    "any": reduction("sum"),
    **_names(reduction("max"), "max amax"),
    **_names(reduction("min"), "min amin"),
    **_names(reduction("norm"), "norm linalg_vector_norm"),
    **_names(reduction(""), "var std argmax argmin all logsumexp var_mean median"),
    **_names(
        along_dims,
        "_softmax _log_softmax softmax log_softmax cumsum cumprod sort topk _softmax_backward_data "
        "_log_softmax_backward_data",
    ),
    **_names(loss, "mse_loss l1_loss smooth_l1_loss huber_loss"),
    "native_layer_norm": layer_norm,
    "native_layer_norm_backward": layer_norm_backward,
    "embedding": embedding,
    "embedding_dense_backward": embedding_backward,
    **_names(_MM, "mm addmm"),
    **_names(_BMM, "bmm baddbmm"),
    **_names(_MV, "mv addmv"),
    "dot": _DOT,
    **_names(moved(_transposed), "t transpose"),
    "permute": moved(_permuted),
    "unsqueeze": moved(_unsqueezed),
    "squeeze": moved(_squeezed),
    "expand": moved(_expanded),
    "slice": moved(_sliced),
    **_names(moved(_selected), "select unbind"),
    **_names(moved(_split), "split split_with_sizes chunk narrow"),
    "stack": moved(_stacked),
    "cat": joined,
    **_names(viewed, "view _unsafe_view reshape _reshape_alias"),
}
# The argument that is a shape: each rank passes the shape of its part.
SIZES = {
    "view": "size", "_unsafe_view": "size", "reshape": "shape", "expand": "size", "new_empty": "size",
    "new_empty_strided": "size", "new_full": "size", "new_ones": "size", "new_zeros": "size",
}  # fmt: skip


def rule_of(name: str) -> Rule:
    """Return an operator's rule."""
    return RULES.get(name) or RULES.get(name.rstrip("_")) or whole
