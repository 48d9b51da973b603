"""What the tables of small programs in this folder are written with.

cases = Table()

@cases
def hook_sees_the_gradient(torch, log):
    ...

@cases.test
def test_tensor_hooks(program):
    agree(program, graph=True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.oracle.facts import opening
from undertow._src.base.modes import slow_path

Program = Callable[..., Any]


class Table:
    """A list of programs, filled by decorating them, that parametrises one test."""

    def __init__(self) -> None:
        self.programs: list[Program] = []

    def __call__(self, program: Program) -> Program:
        self.programs.append(program)
        return program

    def test(self, function: Callable[[Program], None]) -> Any:
        """Run `function` once for each program, by the program's name."""
        return pytest.mark.parametrize("program", self.programs, ids=lambda program: program.__name__)(function)


@pytest.fixture(params=["usual path", "general path"])
def on_both_paths(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test twice: as usual, and as while a rare mode is on somewhere in the process."""
    rarely = request.param == "general path"
    slow_path.count += rarely
    yield
    slow_path.count -= rarely


def leaf(torch: Any, *values: float) -> Any:
    """A new leaf with the given values, or with 1 and 2."""
    return torch.tensor(values or (1.0, 2.0), requires_grad=True)


def function(torch: Any, forward: Any, backward: Any, setup_context: Any = None, **more: Any) -> Any:
    """A custom Function class called `Made` of the given static methods."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if setup_context is not None:
        body["setup_context"] = staticmethod(setup_context)
    return type("Made", (torch.autograd.Function,), body | more)


def attempt(log: Any, label: Any, action: Callable[[], Any], words: int = 8) -> Any:
    """Log what `action()` returns, or the built-in class and the opening words of what it raises."""
    try:
        result = action()
    except NameError:  # a slip in the program, which both libraries would agree on
        raise
    except Exception as error:
        builtin = next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
        log(label, "raises", builtin.__name__, opening(str(error), words))
        return None
    log(label, "gives", result)
    return result


def succeeds(log: Any, label: Any, action: Callable[[], Any], words: int = 8) -> None:
    """Log whether `action()` raises, and not what it returns."""
    attempt(log, label, lambda: _nothing(action()), words)


def _nothing(_: Any) -> str:
    return "no error"


def names(node: Any, depth: int = 4) -> Any:
    """The graph below `node` as nested names, with the output number of each edge."""
    if node is None:
        return None
    if depth == 0:
        return node.name()
    return [node.name(), [(names(child, depth - 1), index) for child, index in node.next_functions]]


def note(log: Any, label: str, returns: Callable[[Any], Any] | None = None) -> Callable[[Any], Any]:
    """A hook of one argument that logs it and returns nothing, or what `returns` makes of it."""

    def hook(value: Any) -> Any:
        log(label, value)
        return None if returns is None else returns(value)

    return hook
