"""Programs that are interpreted, operation by operation, instead of compiled by XLA, which takes half of a test's time.

    with interpreted():
        step(x)

What the compiler of undertow does is the same, up to the jaxpr: guards, inputs, outputs, hooks on the host. NumPy computes
the frequent primitives. What XLA does with donated buffers is imitated: they are gone after the call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import jax
import numpy as np
from jax.extend.core import Literal

from tests.xla import numpy_primitives
from undertow._src.compile.lowering import compiled_backward, lower
from undertow._src.compile.tracing import capture

_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Let programs of compiled steps be interpreted."""
    with contextlib.ExitStack() as stack:
        for module in (compiled_backward, lower, capture):
            stack.enter_context(mock.patch.object(module, "jax", _Jax()))
        yield


class _Jax:
    """JAX, with another `jit`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jax, name)

    def jit(self, function: Callable[..., Any], donate_argnums: Sequence[int] = (), **options: Any) -> Any:
        known: dict[Any, Any] = {}

        def run(*args: Any) -> Any:
            leaves, tree = jax.tree.flatten(args)
            key = tree, *[(each.shape, each.dtype) if hasattr(each, "shape") else type(each) for each in leaves]
            if key not in known:
                closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
                known[key] = closed, jax.tree.structure(shapes)
            closed, made = known[key]
            results = interpret(closed, leaves)
            donated = {id(args[place]): args[place] for place in donate_argnums}
            results = [
                jax.numpy.array(each) if isinstance(each, np.ndarray) or id(each) in donated else each
                for each in results
            ]
            for each in donated.values():
                if isinstance(each, jax.Array):
                    each.delete()
            return jax.tree.unflatten(made, results)

        return run


def interpret(closed: Any, args: Sequence[Any]) -> list[Any]:
    """Compute the results of a closed jaxpr."""
    return _evaluate(closed.jaxpr, closed.consts, args)


def _evaluate(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return np.asarray(atom.val, atom.aval.dtype) if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        given, params, name = [read(atom) for atom in equation.invars], equation.params, equation.primitive.name
        if name in _CALLS:
            inner = params[_CALLS[name]]
            made = _evaluate(inner.jaxpr, inner.consts, given)
        elif name == "cond":
            branch = params["branches"][int(given[0])]
            made = _evaluate(branch.jaxpr, branch.consts, given[1:])
        elif name == "io_callback":
            made = _call_back(params["callback"], given)
        elif (computed := numpy_primitives.evaluate(equation, given)) is not None:
            made = computed
        else:
            found = equation.primitive.bind(*given, **equation.primitive.get_bind_params(params))
            made = found if equation.primitive.multiple_results else [found]
        known.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _call_back(function: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
    """Call Python in a thread of its own and hide its errors, as XLA does; `bind` would compile a program for each call."""
    with ThreadPoolExecutor(1) as thread:
        called = thread.submit(function, *map(jax.numpy.asarray, given))
    if (error := called.exception()) is not None:
        raise jax.errors.JaxRuntimeError(str(error)) from error
    return [np.asarray(each) for each in called.result()]
