"""Comparing a function with a script of it."""

from __future__ import annotations

from typing import Any

from undertow._src.base.tree import leaves
from undertow.autograd import grad
from undertow.testing._internal.common_utils import TestCase
from undertow.testing._internal.jit_utils import clone_inputs


class JitCommonTestCase(TestCase):
    """A test of scripts and of what is made of them."""


def check_output_types(self: Any, func: Any, ref_outputs: Any, args: Any, kwargs: Any) -> None:
    """Return a script's types are those of the Python code that it is: there is nothing to compare."""


def check_against_reference(
    self: Any, func: Any, reference_func: Any, output_func: Any, args: Any, kwargs: Any = None, allow_unused: bool = True,
    check_types: bool = True, no_grad: bool = False, no_gradgrad: bool = False,
) -> None:  # fmt: skip
    """Whether two functions return the same and have the same gradients, first and second."""
    kwargs = kwargs or {}
    found = []
    for function in (reference_func, func):
        given = clone_inputs(args)
        wanted = [each for each in leaves((given, kwargs)) if getattr(each, "requires_grad", False)]
        outputs = output_func(function(*given, **kwargs))
        rows = [outputs]
        if wanted and not no_grad:
            first = _gradients(outputs, wanted, allow_unused)
            rows.append(first)
            if not no_gradgrad and any(each is not None and each.requires_grad for each in first):
                rows.append(_gradients([each for each in first if each is not None], wanted, True))
        found.append(rows)
    self.assertEqual(found[1], found[0])


def _gradients(outputs: Any, wanted: list[Any], allow_unused: bool) -> Any:
    total = sum(each.abs().sum() for each in leaves(outputs) if getattr(each, "requires_grad", False))
    return grad(total, wanted, create_graph=True, allow_unused=allow_unused)
