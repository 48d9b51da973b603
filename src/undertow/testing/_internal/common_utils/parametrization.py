"""`parametrize`: run a test for many values. A class of such tests is turned into plain tests.

A parametrizer's `_parametrize_test(test, generic_cls, device_cls)` yields, for each case of a test, the test, a suffix of
its name, its arguments, and a function from the arguments to the decorators of that case. `ops`, `modules` and `optims`
are parametrizers, too. A test with several parametrizers runs for every combination.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import dtype as Dtype
from undertow.testing._internal.common_utils.marks import wrapSwapTensorsTest

Test = Callable[..., Any]
Case = tuple[Test, str, dict[str, Any], Callable[[dict[str, Any]], list[Any]]]


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype without its module: `float32`."""
    return str(dtype).split(".")[1]


def no_decorators(arguments: dict[str, Any]) -> list[Any]:
    """Return no decorators, for cases without any."""
    return []


class _TestParametrizer:
    """A decorator that makes many tests from one."""

    def _parametrize_test(self, test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
        raise NotImplementedError

    def __call__(self, fn: Any) -> Any:
        inner = getattr(fn, "parametrize_fn", None)
        own = self._parametrize_test
        fn.parametrize_fn = own if inner is None else compose_parametrize_fns(inner, own)
        return fn


def compose_parametrize_fns(old_parametrize_fn: Any, new_parametrize_fn: Any) -> Callable[..., Iterator[Case]]:
    """Return a parametrization over all combinations of the cases of two."""

    def both(test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
        for outer, outer_name, outer_arguments, outer_decorators in new_parametrize_fn(test, generic_cls, device_cls):
            for inner, name, arguments, decorators in old_parametrize_fn(outer, generic_cls, device_cls):
                twice = set(arguments) & set(outer_arguments)
                if twice:
                    raise RuntimeError(
                        "Parametrization over the same parameter by multiple parametrization decorators: "
                        f'test "{test.__name__}" is given {twice} by more than one'
                    )
                yield (
                    inner, "_".join(filter(None, (outer_name, name))), {**outer_arguments, **arguments},
                    functools.partial(_both_decorators, decorators, outer_decorators),
                )  # fmt: skip

    return both


def _both_decorators(first: Any, second: Any, arguments: dict[str, Any]) -> list[Any]:
    return [*first(arguments), *second(arguments)]


class subtest:
    """The values of one case of `parametrize`, with its own name or decorators."""

    __slots__ = ("arg_values", "name", "decorators")

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Iterable[Any] | None = None) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, decorators or []


class parametrize(_TestParametrizer):
    """Run a test for each of several values: `@parametrize("x,y", [(1, 2), (3, 4)])`."""

    def __init__(self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None) -> None:
        self.arg_str = arg_str
        self.arg_names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.arg_values, self.name_fn = arg_values, name_fn

    def _formatted_str_repr(self, idx: int, name: str, value: Any) -> str:
        """Return the text for a value in a test's name: the value itself if it is short, otherwise its index."""
        if isinstance(value, Dtype):
            return dtype_name(value)
        if isinstance(value, Device):
            return str(value)
        if isinstance(value, (int, float, str)):
            return f"{name}_{str(value).replace('.', '_')}"
        if type(value).__name__ in ("OpInfo", "ModuleInfo", "OptimizerInfo"):
            return value.formatted_name
        return f"{name}{idx}"

    def _default_subtest_name(self, idx: int, values: Any) -> str:
        pairs = zip(self.arg_names, values, strict=True)
        return "_".join(self._formatted_str_repr(idx, name, value) for name, value in pairs)

    def _get_subtest_name(self, idx: int, values: Any, explicit_name: str | None = None) -> str:
        if explicit_name:
            return explicit_name
        return self.name_fn(*values) if self.name_fn else self._default_subtest_name(idx, values)

    def _parametrize_test(self, test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
        if not self.arg_names:
            yield test, "", {}, no_decorators
            return
        values = list(self.arg_values)
        if not values:
            raise ValueError(
                f"{test}: An empty arg_values was passed to @parametrize. A generator yields its values only once: pass "
                "a list."
            )
        for number, given in enumerate(values):
            case = given if isinstance(given, subtest) else subtest(given)
            items = list(case.arg_values) if len(self.arg_names) > 1 else [case.arg_values]
            if len(items) != len(self.arg_names):
                raise RuntimeError(
                    f"Expected # values == # arg names, but got: {len(items)} values and {len(self.arg_names)} names "
                    f'for test "{test.__name__}"'
                )
            name = self._get_subtest_name(number, items, case.name)
            own = functools.partial(_always, list(case.decorators))
            yield test, name, dict(zip(self.arg_names, items, strict=True)), own


def _always(decorators: list[Any], arguments: dict[str, Any]) -> list[Any]:
    return decorators


class reparametrize(_TestParametrizer):
    """Change the cases of another parametrization: `adapter(name, arguments)` yields the pairs that replace a case."""

    def __init__(self, parametrizer: _TestParametrizer, adapter_fn: Callable[..., Any]) -> None:
        self.parametrizer, self.adapter_fn = parametrizer, adapter_fn

    def _parametrize_test(self, test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
        for each, name, arguments, decorators in self.parametrizer._parametrize_test(test, generic_cls, device_cls):
            for new_name, new_arguments in self.adapter_fn(name, arguments):
                yield each, new_name, new_arguments, decorators


class decorateIf(_TestParametrizer):
    """Decorate the cases of a test whose arguments a predicate accepts."""

    def __init__(self, decorator: Any, predicate_fn: Callable[[dict[str, Any]], bool]) -> None:
        self.decorator, self.predicate_fn = decorator, predicate_fn

    def _parametrize_test(self, test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
        yield test, "", {}, lambda arguments: [self.decorator] if self.predicate_fn(arguments) else []


class swap(_TestParametrizer):
    """Run a test with the parameter swapping of `torch.__future__` on and off."""

    def __init__(self, swap_values: Iterable[bool]) -> None:
        self.swap_values = swap_values

    def _parametrize_test(self, test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
        for value in self.swap_values:
            yield wrapSwapTensorsTest(value)(test), f"swap_{value}", {}, no_decorators


def bound(test: Test, arguments: dict[str, Any], decorators: Iterable[Any], name: str) -> Test:
    """Return a test bound to these arguments, under a new name."""

    @functools.wraps(test)
    def run(self: Any, *args: Any) -> Any:
        copies = {key: value.clone() if isinstance(value, TensorCore) else value for key, value in arguments.items()}
        return test(self, *args, **copies)

    del run.__wrapped__  # pytest would take its parameters for fixtures
    run.__name__ = name
    run.__qualname__ = f"{test.__qualname__.rpartition('.')[0]}.{name}"
    decorated: Any = run
    for decorator in decorators:
        decorated = decorator(decorated)
    return decorated


def instantiate_parametrized_tests(generic_cls: Any) -> Any:
    """Replace the parametrized tests of a class by one plain test for each case."""
    for name, test in list(vars(generic_cls).items()):
        if not name.startswith("test") or not hasattr(test, "parametrize_fn"):
            continue
        delattr(generic_cls, name)
        for case, suffix, arguments, decorators in test.parametrize_fn(test, generic_cls, None):
            full = f"{name}_{suffix}" if suffix else name
            if hasattr(generic_cls, full):
                raise AssertionError(f"Redefinition of test {full}")
            setattr(generic_cls, full, bound(case, arguments, decorators(arguments), full))
    return generic_cls
