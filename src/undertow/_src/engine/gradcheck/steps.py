"""Steps of gradcheck under PyTorch's names, for packages and tests with their own checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.engine.gradcheck.checks import FAILED_NONDET_MSG, _mismatch
from undertow._src.engine.gradcheck.checks import _check_inputs as check_inputs
from undertow._src.engine.gradcheck.demands import check_batched, check_batched_forward, check_product, check_undefined
from undertow._src.engine.gradcheck.jacobians import (
    Function,
    analytical_jacobian,
    is_inexact,
    numerical_jacobian,
    stepped_jacobian,
)
from undertow._src.tensor import creation
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.dtypes import complex64, complex128, float32, float64
from undertow.autograd.gradcheck import GradcheckError

if TYPE_CHECKING:
    from undertow._tensor import Tensor


def _as_tuple(x: object) -> tuple[Any, ...]:
    if isinstance(x, tuple):
        return x
    return tuple(x) if isinstance(x, list) else (x,)


def _differentiable_outputs(x: object) -> tuple[Any, ...]:
    return tuple([output for output in _as_tuple(x) if output.requires_grad])


_is_float_or_complex_tensor = is_inexact


def _is_sparse_compressed_tensor(obj: TensorCore) -> bool:
    return str(obj.layout) in ("torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc")


def _is_sparse_any_tensor(obj: TensorCore) -> bool:
    return _is_sparse_compressed_tensor(obj) or str(obj.layout) == "torch.sparse_coo"


def _get_inp_tensors(tupled_inputs: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """Return the positions of the differentiated inputs, and these inputs."""
    places = [place for place, value in enumerate(tupled_inputs) if is_inexact(value) and value.requires_grad]
    return places, [tupled_inputs[place] for place in places]


def _iter_tensors(x: Any, only_requiring_grad: bool = False) -> Iterator[Any]:
    """Yield every tensor in nested iterables."""
    if is_inexact(x) or isinstance(x, TensorCore):
        if x.requires_grad or not only_requiring_grad:
            yield x
    elif isinstance(x, Iterable) and not isinstance(x, str):
        for each in x:
            yield from _iter_tensors(each, only_requiring_grad)


def _iter_tensor(x_tensor: TensorCore) -> Iterator[tuple[Any, tuple[int, ...], int]]:
    """Yield for each element of a tensor: the tensor's data, the element's index, and its number."""
    for number, index in enumerate(np.ndindex(*x_tensor.shape)):
        yield x_tensor.data, index, number


def _transpose(matrix_of_tensors: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return list(zip(*matrix_of_tensors, strict=True))


def _to_real_dtype(dtype: Any) -> Any:
    return {complex128: float64, complex64: float32}.get(dtype, dtype)


def _allclose_with_type_promotion(a: TensorCore, b: TensorCore, rtol: float, atol: float) -> bool:
    return bool(np.allclose(a._array, b._array, rtol, atol))


def _dot_with_type_promotion(u: Tensor, v: Tensor) -> Tensor:
    """Return the dot product of two vectors, of their real parts too if one is complex."""
    if u.dim() != 1 or v.dim() != 1:
        raise AssertionError(f"Expected u and v to be 1D tensors, but got {u.dim()}D and {v.dim()}D")
    return (u * v).sum()


def _mul_tensor_or_tuple(u: object, k: Any) -> Any:
    return (k * u[0], k * u[1]) if isinstance(u, tuple) else k * u


def _reshape_tensor_or_tuple(u: TensorCore | tuple[TensorCore, TensorCore], shape: Sequence[int]) -> Any:
    return (u[0].reshape(shape), u[1].reshape(shape)) if isinstance(u, tuple) else u.reshape(shape)


def _adjusted_atol(atol: float, u: TensorCore | tuple[TensorCore, TensorCore], v: TensorCore | None) -> float:
    """Return the tolerance of a whole Jacobian for its product with vectors on both sides."""
    slack = u[0].sum() + u[1].sum() if isinstance(u, tuple) else u.sum()
    return atol * float(slack) * (1.0 if v is None else float(v.sum()))


def _densify(x: object) -> Any:
    """Convert sparse tensors in nested tuples and lists to dense ones."""
    if isinstance(x, (list, tuple)):
        return type(x)([_densify(each) for each in x])
    return x.to_dense() if isinstance(x, TensorCore) and _is_sparse_any_tensor(x) else x


def _allocate_jacobians_with_inputs(input_tensors: Sequence[Any], numel_output: int) -> tuple[Any, ...]:
    """Return zeros for the Jacobian by each input: a row per element of it, a column per element of the output."""
    return tuple(
        [
            creation.zeros((given.numel(), numel_output), dtype=given.dtype)
            for given in input_tensors
            if is_inexact(given) and given.requires_grad
        ]
    )


def _allocate_jacobians_with_outputs(
    output_tensors: Sequence[Any], numel_input: int, dtype: object = None, device: object = None
) -> tuple[Any, ...]:
    """Return zeros for the Jacobian of each output by one input."""
    return tuple(
        [
            creation.zeros((numel_input, output.numel()), dtype=dtype or output.dtype)
            for output in output_tensors
            if is_inexact(output)
        ]
    )


# --- Jacobians


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any], input_idx: int, inputs: object, outputs: object, eps: float, input: object = None,
    is_forward_ad: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Return Jacobians of each output by one input, by finite differences."""
    function = Function(fn, _as_tuple(inputs))
    if input is not None and input is not function.given[input_idx]:
        function.given = (*function.given[:input_idx], input, *function.given[input_idx + 1 :])
    found = (stepped_jacobian if is_forward_ad else numerical_jacobian)(function, input_idx, eps)
    return tuple([wrap(np.asarray(jacobian)) for jacobian in found])


def _get_numerical_jacobian(
    fn: Callable[..., Any], inputs: object, outputs: object = None, target: object = None, eps: float = 1e-3,
    is_forward_ad: bool = False,
) -> list[tuple[Any, ...]]:  # fmt: skip
    """Return Jacobians by finite differences for every differentiated input in `target` (default: all)."""
    given = _as_tuple(inputs)
    wanted = {id(each) for each in _as_tuple(inputs if target is None else target)}
    return [
        get_numerical_jacobian_wrt_specific_input(fn, place, given, outputs, eps, is_forward_ad=is_forward_ad)
        for place in _get_inp_tensors(given)[0]
        if id(given[place]) in wanted
    ]


def _check_analytical_jacobian_attributes(
    inputs: object, output: TensorCore, nondet_tol: float, check_grad_dtypes: bool, fast_mode: bool = False,
    v: object = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return Jacobians of one output by every input, by backward passes; check that a second run gives the same."""
    sources = _get_inp_tensors(_as_tuple(inputs))[1]
    first, second = (analytical_jacobian(output, sources) for _ in range(2))
    if not all(np.all(np.abs(one - two) <= nondet_tol) for one, two in zip(first, second, strict=True)):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output again gives "
            f"other values, by more than nondet_tol={nondet_tol}." + FAILED_NONDET_MSG
        )
    return tuple([wrap(np.asarray(jacobian)) for jacobian in first])


def _get_analytical_jacobian(inputs: object, outputs: object, input_idx: int, output_idx: int) -> TensorCore:
    """Return the Jacobian of one output by one input, by backward passes."""
    return wrap(np.asarray(analytical_jacobian(_as_tuple(outputs)[output_idx], [_as_tuple(inputs)[input_idx]])[0]))


def _check_jacobians_equal(j1: Sequence[Any], j2: Sequence[Any], atol: float) -> bool:
    return all(one.numel() == 0 or bool((one - two).abs().max() <= atol) for one, two in zip(j1, j2, strict=True))


# --- demands


def _check_inputs(tupled_inputs: Sequence[Any]) -> bool:
    """Check that finite differences can be taken of the inputs."""
    check_inputs(tuple(tupled_inputs))
    return True


def _check_outputs(outputs: Iterable[object]) -> None:
    """Refuse sparse outputs."""
    if any(_is_sparse_any_tensor(output) for output in outputs if isinstance(output, TensorCore)):
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Let the function return its to_dense(masked_grad=...)."
        )


def _test_backward_mul_by_grad_output(outputs: object, inputs: object, masked: bool) -> bool:
    """Check that a backward pass from zeros gives zeros."""
    check_product(Function(lambda *_: outputs, _as_tuple(inputs)))
    return True


def _test_undefined_backward_mode(func: Callable[..., Any], outputs: object, inputs: object) -> bool:
    """Check that a backward pass from undefined gradients gives undefined ones or zeros."""
    check_undefined(Function(func, _as_tuple(inputs)))
    return True


def _test_batched_grad(input: object, output: object, output_idx: int) -> bool:
    """Check that a batch of vectors gives the same as one at a time."""
    check_batched(Function(lambda *_: output, _as_tuple(input)), output, output_idx)
    return True


def _test_batched_grad_forward_ad(func: Callable[..., Any], inputs: object) -> bool:
    check_batched_forward(Function(func, _as_tuple(inputs)))
    return True


def _get_notallclose_msg(
    analytical: Tensor, numerical: Tensor, output_idx: int, input_idx: int, complex_indices: Sequence[int] | None,
    test_imag: bool = False, is_forward_ad: bool = False,
) -> str:  # fmt: skip
    """Return gradcheck's message about two Jacobians that differ."""
    about = ""
    if complex_indices and (input_idx if is_forward_ad else output_idx) in complex_indices:
        part, of = "imaginary" if test_imag else "real", "inputs" if is_forward_ad else "outputs"
        about = f"While considering the {part} part of complex {of} only, "
    return about + _mismatch(output_idx, input_idx, numerical, analytical, is_forward_ad)
