"""Operators of a program's own, computed by NumPy, with samples of their inputs: for tests of `torch.library`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.operator_tables.op_info import OpInfo, SampleInput
from undertow._src.ops.join import cat
from undertow._src.tensor.creation import empty, zeros_like
from undertow._src.tensor.from_data import from_numpy, tensor
from undertow._src.types import dtypes as d
from undertow._tensor import Tensor
from undertow.library import custom_op
from undertow.testing._creation import Maker
from undertow.types import Number

_DTYPES = (d.bool, d.uint8, d.int8, d.int16, d.int32, d.int64, d.float16, d.float32, d.float64)


def to_numpy(tensor: Any) -> Any:
    """Return a tensor's values as NumPy's array."""
    return tensor.detach().cpu().numpy()


def _tensor(array: Any, device: Any) -> Any:
    return from_numpy(np.ascontiguousarray(array)).to(device)


# --- cubes and products


@custom_op("_torch_testing::numpy_cube", mutates_args=())
def numpy_cube(x: Tensor) -> tuple[Tensor, Tensor]:
    values = to_numpy(x)
    slope = _tensor(3 * values**2, x.device).to(x.dtype)
    return _tensor(values**3, x.device).to(x.dtype), slope


@numpy_cube.register_fake
def _(x: Any) -> Any:
    return x.clone(), x.clone()


def _cube_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], output[1])
    ctx.set_materialize_grads(False)


def _cube_backward(ctx: Any, grad: Any, grad_of_slope: Any) -> Any:
    x, slope = ctx.saved_tensors
    parts = [] if grad is None else [numpy_mul(grad, slope)]
    if grad_of_slope is not None:
        parts.append(6 * numpy_mul(grad_of_slope, x))
    return sum(parts[1:], parts[0]) if parts else zeros_like(x)


numpy_cube.register_autograd(_cube_backward, setup_context=_cube_context)


@custom_op("_torch_testing::numpy_mul", mutates_args=())
def numpy_mul(x: Tensor, y: Tensor) -> Tensor:
    return _tensor(to_numpy(x) * to_numpy(y), x.device)


@numpy_mul.register_fake
def _(x: Any, y: Any) -> Any:
    if x.device != y.device:
        raise AssertionError(f"both are on one device, not on {x.device} and {y.device}")
    return (x * y).contiguous()


def _mul_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _mul_backward(ctx: Any, grad: Any) -> Any:
    x, y = ctx.saved_tensors
    return _summed(grad * y, x.shape), _summed(grad * x, y.shape)


def _summed(grad: Any, shape: Any) -> Any:
    return grad.sum_to_size(shape) if grad.shape != shape else grad


numpy_mul.register_autograd(_mul_backward, setup_context=_mul_context)


@custom_op("_torch_testing::numpy_mul_scalar", mutates_args=())
def numpy_mul_scalar(x: Tensor, *, scalar: float) -> Tensor:
    return _tensor(to_numpy(x) * np.asarray(scalar, to_numpy(x).dtype), x.device)


@numpy_mul_scalar.register_fake
def _(x: Any, *, scalar: Any) -> Any:
    return x * scalar


def _scalar_context(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.scalar = keyword_only_inputs["scalar"]


numpy_mul_scalar.register_autograd(lambda ctx, grad: grad * ctx.scalar, setup_context=_scalar_context)


# --- order


@custom_op("_torch_testing::numpy_sort", mutates_args=())
def numpy_sort(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    values = to_numpy(x)
    order = np.argsort(values, axis=dim)
    back = np.argsort(order, axis=dim)
    return tuple(_tensor(each, x.device) for each in (np.take_along_axis(values, order, dim), order, back))


@numpy_sort.register_fake
def _(x: Any, dim: int) -> Any:
    return empty(x.shape, dtype=x.dtype), empty(x.shape, dtype=d.int64), empty(x.shape, dtype=d.int64)


def _sort_context(ctx: Any, inputs: Any, output: Any) -> None:
    _, order, back = output
    ctx.save_for_backward(order, back)
    ctx.mark_non_differentiable(order, back)
    ctx.dim = inputs[1]


def _sort_backward(ctx: Any, grad: Any, *rest: Any) -> Any:
    order, back = ctx.saved_tensors
    return numpy_take(grad, back, order, ctx.dim), None


numpy_sort.register_autograd(_sort_backward, setup_context=_sort_context)


@custom_op("_torch_testing::numpy_take", mutates_args=())
def numpy_take(x: Tensor, ind: Tensor, ind_inv: Tensor, dim: int) -> Tensor:
    return _tensor(np.take_along_axis(to_numpy(x), to_numpy(ind), dim), x.device)


@numpy_take.register_fake
def _(x: Any, ind: Any, ind_inv: Any, dim: int) -> Any:
    return empty(ind.shape, dtype=x.dtype)


def _take_context(ctx: Any, inputs: Any, output: Any) -> None:
    _, ind, ind_inv, ctx.dim = inputs
    ctx.save_for_backward(ind, ind_inv)


def _take_backward(ctx: Any, grad: Any) -> Any:
    ind, ind_inv = ctx.saved_tensors
    return numpy_take(grad, ind_inv, ind, ctx.dim), None, None, None


numpy_take.register_autograd(_take_backward, setup_context=_take_context)


@custom_op("_torch_testing::numpy_nonzero", mutates_args=())
def numpy_nonzero(x: Tensor) -> Tensor:
    if x.dim() == 0:
        raise RuntimeError("x.dim() must be greater than 0")
    return _tensor(np.stack(np.nonzero(to_numpy(x)), axis=1), x.device)


@custom_op("_torch_testing::numpy_nms", mutates_args=())
def numpy_nms(boxes: Tensor, scores: Tensor, iou_threshold: Number) -> Tensor:
    """Which boxes to keep: the best one, then the best of those that overlap with none before by more than a share."""
    corners, kept = to_numpy(boxes).astype(np.float64), list[int]()
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    left = np.argsort(-to_numpy(scores).astype(np.float64), kind="stable")
    while left.size:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        low = np.maximum(corners[best, :2], corners[left, :2])
        high = np.minimum(corners[best, 2:], corners[left, 2:])
        shared = np.clip(high - low, 0, None).prod(1)
        left = left[shared <= float(iou_threshold) * (areas[best] + areas[left] - shared)]
    return tensor(kept, dtype=d.int64, device=boxes.device)


# --- shapes


@custom_op("_torch_testing::numpy_view_copy", mutates_args=())
def numpy_view_copy(x: Tensor, shape: Sequence[int]) -> Tensor:
    return _tensor(np.copy(to_numpy(x).reshape(tuple(shape))), x.device)


@numpy_view_copy.register_fake
def _(x: Any, shape: Any) -> Any:
    return x.clone().view(shape).clone()


def _view_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.shape = inputs[0].shape


numpy_view_copy.register_autograd(
    lambda ctx, grad: (numpy_view_copy(grad, ctx.shape), None), setup_context=_view_context
)


@custom_op("_torch_testing::numpy_cat", mutates_args=())
def numpy_cat(xs: Sequence[Tensor], dim: int) -> Tensor:
    if not len(xs):
        raise AssertionError("there is nothing to join")
    return _tensor(np.concatenate([to_numpy(x) for x in xs], axis=dim), xs[0].device)


@numpy_cat.register_fake
def _(xs: Any, dim: int) -> Any:
    return cat(list(xs), dim=dim)


def _cat_context(ctx: Any, inputs: Any, output: Any) -> None:
    xs, ctx.dim = inputs
    ctx.ends = [int(end) for end in np.cumsum([x.shape[ctx.dim] for x in xs])[:-1]]


def _cat_backward(ctx: Any, grad: Any) -> Any:
    return list(numpy_split_copy(grad, ctx.ends, ctx.dim)), None


numpy_cat.register_autograd(_cat_backward, setup_context=_cat_context)


def _pieces(x: Any, splits: Any, dim: int) -> list[Any]:
    return [_tensor(np.copy(each), x.device) for each in np.split(to_numpy(x), list(splits), dim)]


@custom_op("_torch_testing::numpy_split_copy", mutates_args=())
def numpy_split_copy(x: Tensor, splits: Sequence[int], dim: int) -> list[Tensor]:
    return _pieces(x, splits, dim)


@numpy_split_copy.register_fake
def _(x: Any, splits: Any, dim: int) -> Any:
    return [each.clone() for each in x.tensor_split(list(splits), dim)]


def _split_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.dim = inputs[2]


numpy_split_copy.register_autograd(
    lambda ctx, grads: (numpy_cat(list(grads), ctx.dim), None, None), setup_context=_split_context
)


@custom_op("_torch_testing::numpy_split_copy_with_int", mutates_args=())
def numpy_split_copy_with_int(x: Tensor, splits: Sequence[int], dim: int) -> tuple[list[Tensor], int]:
    return _pieces(x, splits, dim), len(splits)


@numpy_split_copy_with_int.register_fake
def _(x: Any, splits: Any, dim: int) -> Any:
    return [each.clone() for each in x.tensor_split(list(splits), dim)], len(splits)


numpy_split_copy_with_int.register_autograd(
    lambda ctx, grads, _: (numpy_cat(list(grads), ctx.dim), None, None), setup_context=_split_context
)


# --- the table


def sample_inputs_numpy_cube(opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Any:
    """Return a tensor of one element."""
    yield SampleInput(Maker(device, dtype, requires_grad)(1, low=0.8, high=2))


def _samples(*arguments: Any, **named: Any) -> Any:
    """Return samples made of functions of a `Maker`, and of values as they are."""

    def samples(opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Iterator[SampleInput]:
        t = Maker(device, dtype, requires_grad)
        yield SampleInput(*[each(t) if callable(each) else each for each in arguments], **named)

    return samples


def _row(name: str, op: Any, samples: Any, autograd: bool = True) -> OpInfo:
    return OpInfo(
        f"Numpy{name}CustomOp", op=op, sample_inputs_func=samples, dtypes=_DTYPES, supports_out=False,
        supports_autograd=autograd,
    )  # fmt: skip


def _indices(t: Maker) -> Any:
    return tensor([[0, 2, 1, 4, 3]] * 3, device=t.device)


def _small(*shape: int) -> Any:
    return lambda t: t(*shape, low=0.9, high=2)


custom_op_db = [
    _row("Cube", numpy_cube._opoverload, sample_inputs_numpy_cube),
    _row("Mul", numpy_mul._opoverload, _samples(_small(4), _small(3, 4))),
    _row("MulScalar", numpy_mul_scalar._opoverload, _samples(_small(4), scalar=3.14)),
    _row("Sort", numpy_sort._opoverload, _samples(_small(3, 5), 1)),
    _row("Take", numpy_take._opoverload, _samples(_small(3, 5), _indices, _indices, 1)),
    _row("Nonzero", numpy_nonzero._opoverload, _samples(_small(10)), autograd=False),
    _row("NMS", numpy_nms, _samples(_small(8, 4), _small(8), 0.5), autograd=False),
    _row("ViewCopy", numpy_view_copy, _samples(_small(2, 3, 4), [2, 12])),
    _row("Cat", numpy_cat, _samples(lambda t: [_small(2, 3)(t), _small(4, 3)(t)], 0)),
    _row("SplitCopy", numpy_split_copy, _samples(_small(2, 9), [1, 3, 6], 1)),
    _row("SplitCopyWithInt", numpy_split_copy_with_int, _samples(_small(2, 9), [1, 3, 6], 1)),
]
