"""`undertow.compile`: a step that compiles itself when it is called, and again when what it depends on has changed."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from undertow._core import TensorCore
from undertow.sites import user_stacklevel
from undertow.tree import leaves
from undertow.xla.errors import CompileWarning
from undertow.xla.program import Baked, Program

MANY = 8  # recompiles of one step after which a warning says why


class Compiled:
    """A function whose calls run as one program."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.programs: dict[Any, list[Program]] = {}
        self.causes: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments = []
        key: list[Any] = []
        for leaf in leaves((args, kwargs)) if args or kwargs else ():
            if isinstance(leaf, TensorCore):
                array = leaf._array
                arguments.append(leaf)
                key += (array.shape, array.dtype, leaf._requires_grad)
            else:
                key.append(leaf)
        programs = self.programs.setdefault(tuple(key), [])
        for program in programs:
            if program.fits():
                return program.run(arguments)
        return self._compile(programs, args, kwargs).run(arguments)

    def _compile(self, programs: list[Program], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        if programs:
            self._note(programs[0].entry.difference())
        elif len(self.programs) > 1:
            self._note("the arguments have other shapes, dtypes or values")
        try:
            program = Program(self.function, args, kwargs)
        except Baked:
            program = Program(self.function, args, kwargs, plain_numbers=True)
        programs.insert(0, program)
        return program

    def _note(self, cause: str) -> None:
        self.causes.append(cause)
        if len(self.causes) == MANY:
            warnings.warn(
                f"{getattr(self, '__name__', 'a step')} was compiled {MANY + 1} times, the last time because {cause}. "
                "compile.explain() has them all.",
                CompileWarning,
                stacklevel=user_stacklevel(),
            )


def compile(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Makes one XLA program of a step: forward, backward, hooks and optimizer."""
    if function is None:
        return functools.partial(compile, **options)
    return Compiled(function)
