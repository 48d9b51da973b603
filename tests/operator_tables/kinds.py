"""Other kinds of operators: reductions, Fourier transforms, those that move elements, those of lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from typing import Any

from tests.operator_tables.op_info import OpInfo, S, SampleInput
from undertow._tensor import Tensor
from undertow.masked._ops import _output_mask
from undertow.testing._creation import make_tensor
from undertow.testing._internal.common_dtype import _floating_and_complex_types, _floating_types

Samples = Iterator[SampleInput]

# --- reductions


def _generate_reduction_inputs(device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Iterator[Any]:
    """Tensors of several numbers of dims, one of them empty."""
    for shape in ((), (2,), (2, 3), (S, 2, S), (3, 0)):
        yield make_tensor(shape, device=device, dtype=dtype, requires_grad=requires_grad)


def _generate_reduction_kwargs(ndim: int, supports_multiple_dims: bool = True) -> Iterator[dict[str, Any]]:
    """Which dims to reduce, and whether to keep them."""
    several = supports_multiple_dims and ndim > 1
    yield {}
    for dim, keepdim, possible in (
        (0, True, True), (-1, False, True), (ndim // 2, True, ndim > 2),
        (tuple(range(ndim)), False, several), ((0, -1), True, several),
    ):  # fmt: skip
        if possible:
            yield {"dim": dim, "keepdim": keepdim}


def sample_inputs_reduction(op_info: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    """Every tensor with every choice of dims."""
    several = getattr(op_info, "supports_multiple_dims", kwargs.get("supports_multiple_dims", True))
    generate = getattr(op_info, "generate_args_kwargs", kwargs.get("generate_args_kwargs", lambda *a, **k: (((), {}),)))
    for each in _generate_reduction_inputs(device, dtype, requires_grad):
        if 0 in each.shape and op_info.name not in ("sum", "prod", "nansum", "all", "any", "count_nonzero"):
            continue
        for reduction in _generate_reduction_kwargs(each.dim(), several):
            for args, more in generate(each, **reduction):
                copy = each.detach().requires_grad_(requires_grad)
                yield SampleInput(copy, args=args, kwargs={**more, **reduction})


class ReductionOpInfo(OpInfo):
    """An operator that makes one element of many."""

    def __init__(
        self, name: str, *, identity: Any = None, nan_policy: str | None = None, supports_multiple_dims: bool = True,
        promotes_int_to_float: bool = False, promotes_int_to_int64: bool = False, result_dtype: Any = None,
        complex_to_real: bool = False,
        generate_args_kwargs: Callable[..., Any] = lambda t, dim=None, keepdim=False: (((), {}),), **kwargs: Any,
    ) -> None:  # fmt: skip
        if nan_policy not in (None, "propagate", "omit"):
            raise AssertionError(f"nan_policy is 'propagate' or 'omit', not {nan_policy!r}")
        kwargs.setdefault("sample_inputs_func", sample_inputs_reduction)
        super().__init__(name, promotes_int_to_float=promotes_int_to_float, **kwargs)
        self.identity, self.nan_policy, self.supports_multiple_dims = identity, nan_policy, supports_multiple_dims
        self.promotes_int_to_int64, self.result_dtype = promotes_int_to_int64, result_dtype
        self.complex_to_real, self.generate_args_kwargs = complex_to_real, generate_args_kwargs


# --- Fourier transforms


class SpectralFuncType(Enum):
    """Over how many dims a transform goes."""

    OneD = 1
    TwoD = 2
    ND = 3


def sample_inputs_spectral_ops(
    self: Any, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any
) -> Samples:
    """Tensors with other lengths, dims and norms."""

    def signal() -> Any:
        return make_tensor((3, 4, 6), device=device, dtype=dtype, low=-1, high=1, requires_grad=requires_grad)

    if self.ndimensional is SpectralFuncType.OneD:
        options: Any = ({}, {"n": 4}, {"dim": 0}, {"n": 8, "dim": 1, "norm": "ortho"}, {"norm": "forward"})
    else:
        options = ({}, {"norm": "ortho"}, {"s": (4, 4), "dim": (0, 1)}, {"dim": (-1, 0), "norm": "backward"})
    for each in options:
        yield SampleInput(signal(), kwargs=dict(each))


class SpectralFuncInfo(OpInfo):
    """A Fourier transform."""

    def __init__(
        self, name: str, *, ref: Any = None, dtypes: Any = _floating_and_complex_types, ndimensional: SpectralFuncType,
        sample_inputs_func: Any = sample_inputs_spectral_ops, decorators: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            name, ref=ref, dtypes=dtypes, sample_inputs_func=sample_inputs_func, decorators=decorators or (), **kwargs
        )
        self.ndimensional = ndimensional


# --- those that move elements, and those of lists


class ShapeFuncInfo(OpInfo):
    """An operator that moves elements."""

    def __init__(
        self, name: str, *, ref: Any, dtypes: Any = _floating_types, sample_inputs_func: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(name, ref=ref, dtypes=dtypes, sample_inputs_func=sample_inputs_func, **kwargs)


def get_foreach_method_names(name: str) -> tuple[Any, Any, Any, Any]:
    """`_foreach_add`, `_foreach_add_`, and the methods of tensors that they stand for."""
    library = import_module("undertow")
    many = f"_foreach_{name}"
    return (
        getattr(library, many, None), getattr(library, f"{many}_", None),
        getattr(library, name, None) or getattr(Tensor, name, None), getattr(Tensor, f"{name}_", None),
    )  # fmt: skip


def sample_inputs_foreach(
    self: Any, device: Any, dtype: Any, N: int, *, noncontiguous: bool = False, same_size: bool = False,
    low: Any = None, high: Any = None, zero_size: bool, requires_grad: bool, intersperse_empty_tensors: bool = False,
) -> list[Any]:  # fmt: skip
    """So many tensors, of one size or of different ones."""
    if zero_size:
        return [make_tensor((0,), dtype=dtype, device=device, requires_grad=requires_grad) for _ in range(N)]
    made = []
    for number in range(N):
        length = N if same_size else N - number
        shape = (0,) if intersperse_empty_tensors and number % 3 == 2 else (length, length)
        options: Any = {"low": low, "high": high, "noncontiguous": noncontiguous, "requires_grad": requires_grad}
        made.append(make_tensor(shape, dtype=dtype, device=device, **options))
    return made


class ForeachFuncInfo(OpInfo):
    """An operator on lists of tensors."""

    supports_alpha_param = supports_scalar_self_arg = backward_requires_result = False

    def __init__(self, name: str, **kwargs: Any) -> None:
        op, in_place, single, single_in_place = get_foreach_method_names(name)
        kwargs.setdefault("sample_inputs_func", _lists)
        super().__init__(
            f"_foreach_{name}", op=kwargs.pop("op", op), method_variant=op, inplace_variant=in_place,
            ref=kwargs.pop("ref", single), **kwargs,
        )  # fmt: skip
        self.ref_inplace = single_in_place

    def sample_zero_size_inputs(self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Samples:
        """List of empty tensors."""
        yield SampleInput(sample_inputs_foreach(self, device, dtype, 3, zero_size=True, requires_grad=requires_grad))


_LISTS_TAKEN = dict.fromkeys("add sub mul div maximum minimum clamp_min clamp_max pow lerp".split(), 2)
_LISTS_TAKEN |= {"addcmul": 3, "addcdiv": 3}


def _lists(self: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Samples:
    name = self.name.removeprefix("_foreach_")
    for count in (1, 4):
        lists = [
            sample_inputs_foreach(
                self, device, dtype, count, zero_size=False, requires_grad=requires_grad, low=1, high=5
            )
            for _ in range(_LISTS_TAKEN.get(name, 1))
        ]
        yield SampleInput(lists[0], args=(*lists[1:], 0.5) if name == "lerp" else tuple(lists[1:]))


# --- functions for gradcheck: a change of one element must leave an input what it has to be


def gradcheck_wrapper_hermitian_input(op: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the operator of a matrix that is made Hermitian."""
    return op(input + input.mH, *args, **kwargs)


def gradcheck_wrapper_triangular_input(op: Any, *args: Any, upper: bool = False, idx: int = 0, **kwargs: Any) -> Any:
    """Return the operator of a matrix that is made triangular."""
    matrix = args[idx].triu() if upper else args[idx].tril()
    return op(*args[:idx], matrix, *args[idx + 1 :], upper=upper, **kwargs)


def gradcheck_wrapper_triangular_input_real_positive_diagonal(
    op: Any, *args: Any, upper: bool = False, idx: int = 0, **kwargs: Any
) -> Any:
    """Return the operator of a triangular matrix whose diagonal is made real and positive."""
    matrix = args[idx]
    diagonal = matrix.diagonal(0, -2, -1)
    positive = matrix - diagonal.diag_embed() + (diagonal * diagonal.conj()).real.sqrt().to(matrix.dtype).diag_embed()
    return gradcheck_wrapper_triangular_input(
        op, *args[:idx], positive, *args[idx + 1 :], upper=upper, idx=idx, **kwargs
    )


def gradcheck_wrapper_masked_operation(op: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the operator with zeros where its mask lets nothing through."""
    output = op(input, *args, **kwargs)
    if kwargs.get("mask") is None:
        return output
    return output.where(_output_mask(op, input, *args, **kwargs), output.new_zeros(()))


def gradcheck_wrapper_masked_pointwise_operation(op: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a function of two tensors with masks, and zeros where both are masked out."""
    output = op(input, *args, **kwargs)
    masks = kwargs.get("input_mask"), kwargs.get("other_mask")
    if masks[0] is None or masks[1] is None:
        return output
    return output.where(masks[0] | masks[1], output.new_zeros(()))


def gradcheck_wrapper_ctc_loss(op: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the loss of probabilities that are made to sum to one."""
    return op(input.log_softmax(dim=2), *args, **kwargs)


__all__ = [
    "ForeachFuncInfo", "ReductionOpInfo", "ShapeFuncInfo", "SpectralFuncInfo", "SpectralFuncType",
    "get_foreach_method_names", "gradcheck_wrapper_ctc_loss", "gradcheck_wrapper_hermitian_input",
    "gradcheck_wrapper_masked_operation", "gradcheck_wrapper_masked_pointwise_operation",
    "gradcheck_wrapper_triangular_input", "gradcheck_wrapper_triangular_input_real_positive_diagonal",
    "sample_inputs_foreach", "sample_inputs_reduction", "sample_inputs_spectral_ops",
]  # fmt: skip
