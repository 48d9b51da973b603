"""`gradcheck`: compare gradients with finite differences. The implementation is in `_src/engine/gradcheck`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.base.lazy import late_function, lazy_names

if TYPE_CHECKING:
    from undertow._tensor import Tensor


class GradcheckError(RuntimeError):
    """A gradient disagrees with finite differences."""


_CHECKS = "undertow._src.engine.gradcheck.checks"
_DEMANDS = "undertow._src.engine.gradcheck.demands"
check = late_function(__name__, _CHECKS, "check")
first_derivative = late_function(__name__, _CHECKS, "first_derivative")


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[object],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Return whether func's gradients at `inputs` agree with finite differences; raise GradcheckError if they don't.

    Gradients always have their input's dtype here, so `check_grad_dtypes` has no effect. For sparse inputs, only the
    specified elements are checked, whatever `masked` is.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    try:
        check(
            func, inputs, eps=eps, atol=atol, rtol=rtol, nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
            check_batched_grad=check_batched_grad, check_batched_forward_grad=check_batched_forward_grad,
            check_forward_ad=check_forward_ad, check_backward_ad=check_backward_ad, fast_mode=fast_mode,
        )  # fmt: skip
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[object],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Return whether the gradients of func's gradients agree with finite differences."""
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    derivative, arguments = first_derivative(func, inputs, grad_outputs, gen_non_contig_grad_outputs)
    return gradcheck(
        derivative, arguments, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(
        "FAILED_NONDET_MSG FAST_FAIL_SLOW_OK_MSG get_analytical_jacobian get_numerical_jacobian".split(), _CHECKS
    )
    | dict.fromkeys("FAILED_BATCHED_GRAD_MSG FAILED_BATCHED_GRAD_MSG_FWD_AD".split(), _DEMANDS)
    | dict.fromkeys(
        "_adjusted_atol _allclose_with_type_promotion _allocate_jacobians_with_inputs _allocate_jacobians_with_outputs "
        "_as_tuple _check_analytical_jacobian_attributes _check_inputs _check_jacobians_equal _check_outputs _densify "
        "_differentiable_outputs _dot_with_type_promotion _get_analytical_jacobian _get_inp_tensors _get_notallclose_msg "
        "_get_numerical_jacobian _is_float_or_complex_tensor _is_sparse_any_tensor _is_sparse_compressed_tensor "
        "_iter_tensor _iter_tensors _mul_tensor_or_tuple _reshape_tensor_or_tuple _test_backward_mul_by_grad_output "
        "_test_batched_grad _test_batched_grad_forward_ad _test_undefined_backward_mode _to_real_dtype _transpose "
        "get_numerical_jacobian_wrt_specific_input".split(),
        "undertow._src.engine.gradcheck.steps",
    ),
)
