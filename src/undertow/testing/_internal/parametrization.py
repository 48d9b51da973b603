"""One test for many values: `parametrize`, and what turns a class of such tests into plain ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from undertow._core import TensorCore
from undertow.dtypes import dtype as Dtype

Test = Callable[..., Any]


class Case(NamedTuple):
    """One set of arguments of a test: what its name gets, the arguments, and decorators for it alone."""

    suffix: str
    arguments: dict[str, Any]
    decorators: tuple[Any, ...] = ()


class subtest:
    """Values for one case of `parametrize`, with a name or decorators of its own."""

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Iterable[Any] | None = None) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, tuple(decorators or ())


class parametrize:
    """Runs a test for each of several values: `@parametrize("x,y", [(1, 2), (3, 4)])`."""

    def __init__(self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None) -> None:
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values, self.name_fn = list(arg_values), name_fn

    def __call__(self, test: Any) -> Any:
        if inspect.isclass(test):
            raise RuntimeError("parametrize decorates tests, not classes")
        test.parametrizers = [self, *getattr(test, "parametrizers", [])]
        return test

    def cases(self) -> Iterator[Case]:
        """One case for each value."""
        for number, given in enumerate(self.values):
            special = given if isinstance(given, subtest) else subtest(given)
            values = [special.arg_values] if len(self.names) == 1 else list(special.arg_values)
            if special.name is not None:
                suffix = special.name
            elif self.name_fn is not None:
                suffix = self.name_fn(*values)
            else:
                suffix = "_".join(_named(name, value, number) for name, value in zip(self.names, values, strict=True))
            yield Case(suffix, dict(zip(self.names, values, strict=True)), special.decorators)


def _named(name: str, value: Any, number: int) -> str:
    if isinstance(value, Dtype):
        return f"{name}_{value.name}"
    if isinstance(value, (bool, int, float, str)) or value is None:
        return f"{name}_{str(value).replace('.', '_')}"
    if hasattr(value, "__name__"):
        return f"{name}_{value.__name__}"
    return f"{name}{number}"


class reparametrize(parametrize):
    """Changes the cases of another parametrization; `adapter(suffix, arguments)` gives the new ones."""

    def __init__(self, parametrizer: parametrize, adapter_fn: Callable[..., Any]) -> None:
        self.inner, self.adapter = parametrizer, adapter_fn

    def cases(self) -> Iterator[Case]:
        for case in self.inner.cases():
            changed = self.adapter(case.suffix, case.arguments)
            for suffix, arguments in [changed] if isinstance(changed, tuple) else changed:
                yield Case(suffix, arguments, case.decorators)


class decorateIf:
    """Decorates those cases of a test whose arguments a predicate accepts."""

    def __init__(self, decorator: Any, predicate_fn: Callable[[dict[str, Any]], bool]) -> None:
        self.decorator, self.predicate = decorator, predicate_fn

    def __call__(self, test: Test) -> Test:
        test.conditional = [self, *getattr(test, "conditional", [])]  # type: ignore[attr-defined]
        return test


def cases_of(test: Test) -> list[Case]:
    """Every combination of a test's parametrizations."""
    found = [Case("", {})]
    for parametrizer in getattr(test, "parametrizers", []):
        found = [
            Case("_".join(filter(None, (case.suffix, more.suffix))), case.arguments | more.arguments,
                 case.decorators + more.decorators)
            for case in found
            for more in parametrizer.cases()
        ]  # fmt: skip
    return found


def bound(test: Test, arguments: dict[str, Any], decorators: Sequence[Any], name: str) -> Test:
    """A test with these arguments."""

    @functools.wraps(test)
    def run(self: Any, *args: Any) -> Any:
        copies = {key: value.clone() if isinstance(value, TensorCore) else value for key, value in arguments.items()}
        return test(self, *args, **copies)

    del run.__wrapped__  # pytest would ask for the arguments of what is wrapped
    run.__name__ = name
    run.__qualname__ = f"{test.__qualname__.rpartition('.')[0]}.{name}"
    decorated: Any = run
    for condition in getattr(test, "conditional", []):
        if condition.predicate(arguments):
            decorated = condition.decorator(decorated)
    for decorator in decorators:
        decorated = decorator(decorated)
    return decorated


def instantiate_parametrized_tests(generic_cls: Any) -> Any:
    """Gives a class one plain test for each case of its parametrized ones."""
    for name, test in list(vars(generic_cls).items()):
        if not name.startswith("test") or not hasattr(test, "parametrizers"):
            continue
        delattr(generic_cls, name)
        for case in cases_of(test):
            full = f"{name}_{case.suffix}" if case.suffix else name
            if full in vars(generic_cls):
                raise AssertionError(f"Redefinition of test {full}")
            setattr(generic_cls, full, bound(test, case.arguments, case.decorators, full))
    return generic_cls
