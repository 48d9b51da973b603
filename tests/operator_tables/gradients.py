"""The base of tests of the gradients of operators."""

from __future__ import annotations

import functools
from typing import Any

from undertow.testing._internal.common_utils import TestCase, gradcheck, gradgradcheck
from undertow.testing._internal.common_utils.facts import GRADCHECK_NONDET_TOL
from undertow.utils._pytree import tree_flatten, tree_unflatten


class TestGradients(TestCase):
    """The base of tests of the gradients of operators."""

    exact_dtype = True

    def _get_safe_inplace(self, inplace_variant: Any) -> Any:
        """Return a variant that writes in place, applied to a copy."""

        @functools.wraps(inplace_variant)
        def on_a_copy(t: Any, *args: Any, **kwargs: Any) -> Any:
            return inplace_variant(t.clone(), *args, **kwargs)

        return on_a_copy

    def _check_helper(
        self, device: Any, dtype: Any, op: Any, variant: Any, check: str, *, check_forward_ad: bool = False,
        check_backward_ad: bool = True, check_batched_grad: Any = None, check_batched_forward_grad: bool = False,
    ) -> None:  # fmt: skip
        if variant is None:
            self.skipTest("Skipped! Variant not implemented.")
        if not op.supports_dtype(dtype, device):
            self.skipTest(f"Skipped! {op.name} does not support dtype {dtype}")
        in_place = variant is op.get_inplace()
        conjugated = op.test_conjugated_samples
        for sample in op.sample_inputs(device, dtype, requires_grad=True, include_conjugated_inputs=conjugated):
            if sample.broadcasts_input and in_place:
                continue
            inputs, form = tree_flatten((sample.input, sample.args, sample.kwargs))
            places = [place for place, leaf in enumerate(inputs) if getattr(leaf, "requires_grad", False)]
            if not places:
                continue

            def apply(*values: Any, sample: Any = sample, all_inputs: Any = inputs, form: Any = form) -> Any:
                changed, given = iter(values), list(all_inputs)
                for place, leaf in enumerate(all_inputs):
                    if getattr(leaf, "requires_grad", False):
                        given[place] = next(changed)
                first, args, kwargs = tree_unflatten(given, form)
                chosen = self._get_safe_inplace(variant) if in_place else variant
                result = sample.output_process_fn_grad(op.gradcheck_wrapper(chosen, first, *args, **kwargs))
                return tuple(result) if isinstance(result, (list, tuple)) else result

            inputs = [inputs[place] for place in places]

            options: dict[str, Any] = {
                "nondet_tol": op.gradcheck_nondet_tol or GRADCHECK_NONDET_TOL,
                "fast_mode": op.gradcheck_fast_mode is not False,
                "check_batched_grad": op.check_batched_grad if check_batched_grad is None else check_batched_grad,
            }  # fmt: skip
            if check == "gradcheck":
                options |= {
                    "check_forward_ad": check_forward_ad, "check_backward_ad": check_backward_ad, "check_grad_dtypes": True,
                    "check_undefined_grad": True, "check_batched_forward_grad": check_batched_forward_grad,
                }  # fmt: skip
                self.assertTrue(gradcheck(apply, tuple(inputs), **options))
            else:
                if check not in ("bwgrad_bwgrad", "fwgrad_bwgrad"):
                    self.fail(f"Unknown check {check!r}")
                options |= {
                    "check_fwd_over_rev": check == "fwgrad_bwgrad", "check_rev_over_rev": check != "fwgrad_bwgrad",
                    "check_undefined_grad": False, "gen_non_contig_grad_outputs": False,
                    "check_batched_grad": check == "bwgrad_bwgrad" and op.check_batched_gradgrad,
                }  # fmt: skip
                self.assertTrue(gradgradcheck(apply, tuple(inputs), **options))

    def _grad_test_helper(self, device: Any, dtype: Any, op: Any, variant: Any, **options: Any) -> None:
        self._check_helper(device, dtype, op, variant, "gradcheck", **options)

    def _skip_helper(self, op: Any, device: Any, dtype: Any) -> None:
        if dtype not in op.supported_backward_dtypes(device):
            self.skipTest("Skipped! Op doesn't support autograd for this dtype.")
        if not op.supports_autograd and not op.supports_forward_ad:
            self.skipTest("Skipped! autograd not supported.")
