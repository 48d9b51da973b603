"""`opcheck`: whether a program's own operator behaves as registered."""

from __future__ import annotations

from typing import Any

from undertow._src.base import tree
from undertow._src.base.modes import no_grad
from undertow._src.overrides.custom_operators import Operator, registered
from undertow._src.tensor.core import TensorCore

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """An operator does not behave as registered."""


_CHECKS = (
    "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static", "test_aot_dispatch_dynamic",
)  # fmt: skip
_USUAL_CHECKS = tuple(name for name in _CHECKS if name != "test_aot_dispatch_static")


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, test_utils: Any = _USUAL_CHECKS,
    raise_exception: bool = True, atol: float | None = None, rtol: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Check that an operator runs, writes only to what its schema says, has gradients, and gives the shapes it declares."""
    wanted = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(wanted) <= set(_CHECKS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={wanted}), expected test_utils to be subset of {_CHECKS} but it was not"
        )
    results: dict[str, Any] = {}
    for name in wanted:
        try:
            _CHECKED_BY.get(name, _check_gradient)(op, args, kwargs or {})
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            results[name] = error
    return results


def _copies(args: Any) -> Any:
    return tree.map_leaves(lambda x: x.detach().clone().requires_grad_(x.requires_grad) if _is_tensor(x) else x, args)


def _check_schema(op: Any, args: Any, kwargs: Any) -> None:
    """Check that only arguments which the schema marks as mutable change."""
    operator = _operator_of(op)
    given, named = _copies((args, kwargs))
    before = _copies((given, named))
    with no_grad():
        op(*given, **named)
    written = {argument.name for argument in operator.schema.arguments if argument.is_written}
    names = [argument.name for argument in operator.schema.arguments]
    now, then = dict(zip(names, given, strict=False)) | named, dict(zip(names, before[0], strict=False)) | before[1]
    for name, value in now.items():
        if name not in written and _is_tensor(value) and not value.equal(then[name]):
            raise RuntimeError(f"Argument {name} is not defined as mutable but was mutated")


def _check_gradient(op: Any, args: Any, kwargs: Any) -> None:
    """Check that the gradient can be taken."""
    given, named = _copies((args, kwargs))
    for value in tree.leaves(op(*given, **named)):
        if _is_tensor(value) and value.requires_grad:
            value.sum().backward(retain_graph=True)


def _check_shapes(op: Any, args: Any, kwargs: Any) -> None:
    """Check that results have the shapes and dtypes that the fake function gives."""
    operator = _operator_of(op)
    if not operator.is_custom and operator.fake is None:
        return
    with no_grad():
        given, named = tree.map_leaves(lambda x: x.detach().to("meta") if _is_tensor(x) else x, (args, kwargs))
        said = [value for value in tree.leaves(operator._without_values()(*given, **named)) if _is_tensor(value)]
        copies, more = _copies((args, kwargs))
        real = [value for value in tree.leaves(op(*copies, **more)) if _is_tensor(value)]
    for one, two in zip(said, real, strict=True):
        if one.shape != two.shape or one.dtype is not two.dtype:
            raise RuntimeError(
                f"the fake function gives {one.dtype} of {list(one.shape)}, not {two.dtype} of {list(two.shape)}"
            )


_CHECKED_BY = {"test_schema": _check_schema, "test_faketensor": _check_shapes}


def _operator_of(op: Any) -> Operator:
    return op._operator if isinstance(getattr(op, "_operator", None), Operator) else registered(op.name())


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorCore)
