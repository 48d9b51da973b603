"""Custom functions as operators, for tests: some use NumPy and bring their own rules, some leave vmap to be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tests.operator_tables.op_info import OpInfo, SampleInput
from undertow._src.ops.index import take_along_dim
from undertow._src.ops.sort import argsort
from undertow._src.tensor.creation import zeros
from undertow._src.tensor.from_data import tensor as new_tensor
from undertow._src.types.dtypes import bool as bool_dtype
from undertow._src.types.dtypes import half
from undertow.autograd.function import Function
from undertow.testing._creation import make_tensor
from undertow.testing._internal.common_dtype import all_types_and

Samples = Iterator[SampleInput]


def to_numpy(tensor: Any) -> Any:
    """Return the values of a tensor."""
    return tensor.detach().cpu().numpy()


def _from_numpy(values: Any, like: Any) -> Any:
    return new_tensor(values, device=like.device)


def _moved(tensor: Any, dim: int | None, to: int) -> Any:
    return tensor if dim is None else tensor.movedim(dim, to)


class _AllAtOnce(Function):
    """Elementwise of one tensor: all examples of a vmap are one larger tensor."""

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, x: Any) -> Any:
        out = cls.apply(x)
        dim = in_dims[0]
        return out, (dim,) * len(out) if isinstance(out, tuple) else dim


# --- with NumPy


class NumpyCube(_AllAtOnce):
    """x³, and its slope."""

    @staticmethod
    def forward(input: Any) -> Any:
        values = to_numpy(input)
        return _from_numpy(values**3, input), _from_numpy(3 * values**2, input)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output[1])
        ctx.save_for_forward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, grad_output: Any, grad_saved: Any) -> Any:
        input, slope = ctx.saved_tensors
        return NumpyMul.apply(grad_output, slope) + 6 * NumpyMul.apply(grad_saved, input)

    @staticmethod
    def jvp(ctx: Any, input_tangent: Any) -> Any:
        input, slope = ctx.saved_tensors
        return NumpyMul.apply(input_tangent, slope), 6 * NumpyMul.apply(input_tangent, input)


class NumpyMul(Function):
    """x y."""

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return _from_numpy(to_numpy(x) * to_numpy(y), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, y = ctx.saved_tensors
        needs_x, needs_y = ctx.needs_input_grad
        return (
            NumpyMul.apply(grad_output, y).sum_to_size(x.shape) if needs_x else None,
            NumpyMul.apply(grad_output, x).sum_to_size(y.shape) if needs_y else None,
        )

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, y_tangent: Any) -> Any:
        x, y = ctx.saved_tensors
        return x_tangent * y + y_tangent * x

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
        depth = max(x.dim() - (in_dims[0] is not None), y.dim() - (in_dims[1] is not None))
        x, y = (_lined_up(each, dim, depth) for each, dim in zip((x, y), in_dims, strict=True))
        return NumpyMul.apply(x, y), 0


def _lined_up(tensor: Any, dim: int | None, depth: int) -> Any:
    """Return a tensor with its examples first and ones before its own dims, so that others broadcast with it."""
    if dim is None:
        return tensor
    tensor = tensor.movedim(dim, 0)
    return tensor.reshape(tensor.shape[0], *(1,) * (depth - tensor.dim() + 1), *tensor.shape[1:])


class NumpyExp_(_AllAtOnce):
    """The exponential, written over its input."""

    @staticmethod
    def forward(x: Any) -> Any:
        values = to_numpy(x)
        np.exp(values, out=values)
        return x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(inputs[0])
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return NumpyMul.apply(grad_output, ctx.saved_tensors[0])

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any) -> Any:
        return x_tangent.mul_(ctx.saved_tensors[0])


class NumpyCubeNotComposable(Function):
    """x³ with a gradient that has none itself."""

    @staticmethod
    def forward(input: Any) -> Any:
        values = to_numpy(input)
        return _from_numpy(values**3, input), values

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.values, ctx.like = output[1], inputs[0]

    @staticmethod
    def backward(ctx: Any, grad_output: Any, _: Any) -> Any:
        return _from_numpy(3 * to_numpy(grad_output) * ctx.values**2, ctx.like)


class NumpySort(Function):
    """A tensor sorted along a dim, where its elements came from, and where they went."""

    @staticmethod
    def forward(x: Any, dim: int) -> Any:
        order = np.argsort(to_numpy(x), axis=dim)
        back = np.argsort(order, axis=dim)
        return _from_numpy(np.take_along_axis(to_numpy(x), order, dim), x), _from_numpy(order, x), _from_numpy(back, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, order, back = output
        ctx.mark_non_differentiable(order, back)
        ctx.save_for_backward(order, back)
        ctx.save_for_forward(order, back)
        ctx.dim = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad_output: Any, _0: Any, _1: Any) -> Any:
        order, back = ctx.saved_tensors
        return NumpyTake.apply(grad_output, back, order, ctx.dim), None

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, _: Any) -> Any:
        order, back = ctx.saved_tensors
        return NumpyTake.apply(x_tangent, order, back, ctx.dim), None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, dim: int) -> Any:
        x = x.movedim(in_dims[0], 0)
        return NumpySort.apply(x, dim if dim < 0 else dim + 1), (0, 0, 0)


class NumpyTake(Function):
    """The elements of a tensor in another order along a dim; the way back is given, too."""

    @staticmethod
    def forward(x: Any, ind: Any, ind_inv: Any, dim: int) -> Any:
        return _from_numpy(np.take_along_axis(to_numpy(x), to_numpy(ind), dim), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[1:3])
        ctx.save_for_forward(*inputs[1:3])
        ctx.dim = inputs[3]

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        ind, ind_inv = ctx.saved_tensors
        return NumpyTake.apply(grad_output, ind_inv, ind, ctx.dim), None, None, None

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, ind_tangent: Any, ind_inv_tangent: Any, _: Any) -> Any:
        if ind_tangent is not None or ind_inv_tangent is not None:
            raise AssertionError("places have no tangents")
        ind, ind_inv = ctx.saved_tensors
        return NumpyTake.apply(x_tangent, ind, ind_inv, ctx.dim)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, ind: Any, ind_inv: Any, dim: int) -> Any:
        depth = max(each.dim() - (at is not None) for each, at in zip((x, ind, ind_inv), in_dims, strict=False))
        several = [
            _lined_up(each, at, depth) if at is not None else each.expand(info.batch_size, *each.shape)
            for each, at in zip((x, ind, ind_inv), in_dims, strict=False)
        ]
        return NumpyTake.apply(*several, dim if dim < 0 else dim + 1), 0


# --- with tensors


class Select(Function):
    """One row."""

    @staticmethod
    def forward(x: Any, idx: int) -> Any:
        return x[idx]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.x_shape, ctx.idx = inputs[0].shape, inputs[1]

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        result = grad_output.new_zeros(ctx.x_shape)
        result[ctx.idx] = grad_output
        return result, None

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, _: Any) -> Any:
        return Select.apply(x_tangent, ctx.idx)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, idx: int) -> Any:
        return Select.apply(x.movedim(in_dims[0], 1), idx), 0


class ForwardHasDefaultArgs(Select):
    """One row, the third unless another is asked for."""

    @staticmethod
    def forward(x: Any, idx: int = 2) -> Any:
        return x[idx]

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, _: Any) -> Any:
        return ForwardHasDefaultArgs.apply(x_tangent, ctx.idx)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, idx: int) -> Any:
        return ForwardHasDefaultArgs.apply(x.movedim(in_dims[0], 1), idx), 0


class SelectGenVmap(Select):
    """The same, and vmap is made from forward and backward."""

    generate_vmap_rule = True
    vmap: Any = staticmethod(Function.vmap)

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, _: Any) -> Any:
        return SelectGenVmap.apply(x_tangent, ctx.idx)


class CubeGenVmap(Function):
    """x³, and its slope."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3, 3 * x**2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output[1])
        ctx.save_for_forward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, grad_output: Any, grad_saved: Any) -> Any:
        input, slope = ctx.saved_tensors
        return grad_output * slope + 6 * grad_saved * input

    @staticmethod
    def jvp(ctx: Any, input_tangent: Any) -> Any:
        input, slope = ctx.saved_tensors
        return MulGenVmap.apply(slope, input_tangent), 6 * NumpyMul.apply(input_tangent, input)


class MulGenVmap(Function):
    """x y."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, y = ctx.saved_tensors
        needs_x, needs_y = ctx.needs_input_grad
        return (
            MulGenVmap.apply(grad_output, y).sum_to_size(x.shape) if needs_x else None,
            MulGenVmap.apply(grad_output, x).sum_to_size(y.shape) if needs_y else None,
        )

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, y_tangent: Any) -> Any:
        x, y = ctx.saved_tensors
        return x_tangent * y + y_tangent * x


class SortGenVmap(Function):
    """A tensor sorted along a dim, where its elements came from, and where they went."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, dim: int) -> Any:
        order = argsort(x, dim=dim)
        return take_along_dim(x, order, dim=dim), order, argsort(order, dim=dim)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, order, back = output
        ctx.mark_non_differentiable(order, back)
        ctx.save_for_backward(order, back)
        ctx.save_for_forward(order, back)
        ctx.dim = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad_output: Any, _0: Any, _1: Any) -> Any:
        order, back = ctx.saved_tensors
        return TakeGenVmap.apply(grad_output, back, order, ctx.dim), None

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, _: Any) -> Any:
        order, back = ctx.saved_tensors
        return TakeGenVmap.apply(x_tangent, order, back, ctx.dim), None, None


class TakeGenVmap(Function):
    """The elements of a tensor in another order along a dim."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, ind: Any, ind_inv: Any, dim: int) -> Any:
        return take_along_dim(x, ind, dim)

    setup_context = NumpyTake.setup_context

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        ind, ind_inv = ctx.saved_tensors
        return TakeGenVmap.apply(grad_output, ind_inv, ind, ctx.dim), None, None, None

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, ind_tangent: Any, ind_inv_tangent: Any, _: Any) -> Any:
        ind, ind_inv = ctx.saved_tensors
        return TakeGenVmap.apply(x_tangent, ind, ind_inv, ctx.dim)


class ScaleGradGenVmap(Function):
    """A copy whose gradient is scaled."""

    generate_vmap_rule = True
    scale = 3.14

    @staticmethod
    def forward(x: Any) -> Any:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output * ScaleGradGenVmap.scale

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any) -> Any:
        return x_tangent * ScaleGradGenVmap.scale


class ZeroGradientsGenVmap(Function):
    """Copies without gradients: zeros, of the right shapes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x.clone(), y.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gx: Any, gy: Any) -> Any:
        return zeros(gx.shape, dtype=gx.dtype, device=gx.device), zeros(gy.shape, dtype=gy.dtype, device=gy.device)

    jvp = backward


# --- as operators


def sample_inputs_numpy_cube(opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    yield SampleInput(make_tensor(1, device=device, dtype=dtype, requires_grad=requires_grad, low=0.8, high=2), args=())


def sample_inputs_numpy_mul(opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    make = partial(make_tensor, device=device, dtype=dtype, requires_grad=requires_grad, low=0.9, high=2)
    yield SampleInput(make(4), args=(make(3, 4),))


def sample_inputs_numpy_mul_scalar(opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    make = partial(make_tensor, device=device, dtype=dtype, requires_grad=requires_grad, low=0.9, high=2)
    yield SampleInput(make(4), args=(), kwargs={"scalar": 3.14})


def sample_inputs_numpy_sort(opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    yield SampleInput(make_tensor(3, 5, device=device, dtype=dtype, requires_grad=requires_grad), args=(1,))


def sample_inputs_numpy_take(opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    x = make_tensor(3, 5, device=device, dtype=dtype, requires_grad=requires_grad)
    _, order, back = NumpySort.apply(x.detach(), 1)
    yield SampleInput(x, args=(order, back, 1))


def sample_inputs_select(opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    yield SampleInput(make_tensor(3, 5, device=device, dtype=dtype, requires_grad=requires_grad), args=(2,))


def sample_inputs_forward_default_args(
    opinfo: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Samples:
    yield SampleInput(make_tensor(3, 5, device=device, dtype=dtype, requires_grad=requires_grad))


def _info(name: str, op: Callable[..., Any], samples: Callable[..., Any], forward: bool = True) -> OpInfo:
    return OpInfo(
        f"{name}AutogradFunction", op=op, dtypes=all_types_and(bool_dtype, half), supports_out=False,
        supports_forward_ad=forward, supports_fwgrad_bwgrad=forward, sample_inputs_func=samples,
    )  # fmt: skip


autograd_function_db = [
    _info("NumpyCube", NumpyCube.apply, sample_inputs_numpy_cube),
    _info("NumpyExpMarkDirty", lambda x: NumpyExp_.apply(x.clone()), sample_inputs_numpy_cube),
    _info("NumpyMul", NumpyMul.apply, sample_inputs_numpy_mul),
    _info("NumpyCubeNotComposable", lambda x: NumpyCubeNotComposable.apply(x)[0], sample_inputs_numpy_cube, False),
    _info("NumpySort", NumpySort.apply, sample_inputs_numpy_sort, False),
    _info("NumpyTake", NumpyTake.apply, sample_inputs_numpy_take, False),
    _info("Select", Select.apply, sample_inputs_select),
    _info("CubeGenVmap", CubeGenVmap.apply, sample_inputs_numpy_cube),
    _info("MulGenVmap", MulGenVmap.apply, sample_inputs_numpy_mul),
    _info("SortGenVmap", SortGenVmap.apply, sample_inputs_numpy_sort),
    _info("SelectGenVmap", SelectGenVmap.apply, sample_inputs_select),
    _info("ScaleGradGenVmap", ScaleGradGenVmap.apply, sample_inputs_numpy_cube),
    _info("ZeroGradientsGenVmap", ZeroGradientsGenVmap.apply, sample_inputs_numpy_mul),
    _info("ForwardHasDefaultArgs", ForwardHasDefaultArgs.apply, sample_inputs_forward_default_args),
]
