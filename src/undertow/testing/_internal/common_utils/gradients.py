"""Gradient checks for tests."""

from __future__ import annotations

from typing import Any

from undertow.autograd import gradcheck as _gradcheck
from undertow.autograd import gradgradcheck as _gradgradcheck
from undertow.testing._internal.common_utils.facts import TEST_WITH_SLOW_GRADCHECK
from undertow.utils._pytree import tree_leaves, tree_map


def gradcheck(fn: Any, inputs: Any, **kwargs: Any) -> bool:
    """Compare a function's gradient with finite differences: in one direction, or in all if gradchecks are slow."""
    defaults = {"check_batched_grad": False, "fast_mode": not TEST_WITH_SLOW_GRADCHECK, "nondet_tol": 0.0}
    return _gradcheck(fn, inputs, **defaults | kwargs)


def gradgradcheck(fn: Any, inputs: Any, grad_outputs: Any = None, **kwargs: Any) -> bool:
    """Compare a function's second gradient with finite differences."""
    defaults = {"check_batched_grad": False, "fast_mode": not TEST_WITH_SLOW_GRADCHECK, "nondet_tol": 0.0}
    return _gradgradcheck(fn, inputs, grad_outputs, **defaults | kwargs)


def _assertGradAndGradgradChecks(test_case: Any, apply_fn: Any, inputs: Any, **kwargs: Any) -> None:
    """Check the first and the second gradient."""
    test_case.assertTrue(gradcheck(apply_fn, inputs, **kwargs))
    test_case.assertTrue(gradgradcheck(apply_fn, inputs, **kwargs))


def outs_and_grads(fn: Any, graph_inps: Any, inps: Any) -> tuple[Any, list[Any]]:
    """Return the results of a function, and the gradients of its inputs."""
    outs = fn(*graph_inps)
    for out in tree_leaves(outs):
        if getattr(out, "requires_grad", False):
            out.sum().backward(retain_graph=True)
    grads = []
    for leaf in tree_leaves(inps):
        if hasattr(leaf, "grad"):
            grads.append(leaf.grad)
            leaf.grad = None
    return outs, grads


def compare_equal_outs_and_grads(test: Any, m1: Any, m2: Any, inps: Any) -> None:
    """Check that two functions have the same results and gradients."""
    one, other = outs_and_grads(m1, inps, inps), outs_and_grads(m2, inps, inps)
    test.assertEqual(one[0], other[0])
    test.assertEqual(one[1], other[1])


def clone_input_helper(input: Any) -> Any:
    """Return a copy of a tensor, or of a sequence of them."""
    return tree_map(lambda value: value.clone() if hasattr(value, "clone") else value, input)
