"""What tests of TorchScript share. Scripts run as the Python code that they were made from, as with `PYTORCH_JIT=0`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from undertow import jit
from undertow._src.base.tree import map_leaves
from undertow._src.tensor.core import TensorCore
from undertow.testing._internal.common_utils import IS_WINDOWS as IS_WINDOWS
from undertow.testing._internal.common_utils import TestCase, freeze_rng_state

RUN_CUDA = RUN_CUDA_MULTI_GPU = RUN_CUDA_HALF = TEST_BAILOUTS = False
FUSION_GROUP = "prim::TensorExprGroup"


def execWrapper(code: str, glob: Any, loc: Any) -> None:
    """Run the source of a program."""
    exec(code, glob, loc)


def do_input_map(fn: Callable[[Any], Any], input: Any) -> Any:
    """Return a function of every tensor among the arguments."""
    return map_leaves(lambda value: fn(value) if isinstance(value, TensorCore) else value, input)


def clone_inputs(args: Any) -> Any:
    """Copy of the arguments, which require a gradient where those do."""
    return do_input_map(lambda x: x.detach().clone().requires_grad_(x.requires_grad), args)


def clear_class_registry() -> None:
    """Forgets compiled classes: there are none."""


def is_lambda(lamb: Any) -> bool:
    """Whether a function was written as a lambda."""
    return inspect.isfunction(lamb) and lamb.__name__ == "<lambda>"


def make_global(*args: Any) -> None:
    """Make functions and classes known by their names in the module that calls."""
    scope = sys.modules[sys._getframe(1).f_globals["__name__"]]
    for each in args:
        setattr(scope, each.__name__, each)


def attrs_with_prefix(module: Any, prefix: str) -> list[str]:
    """Return the names of a module's attributes that begin so."""
    return [name for name in vars(module) if name.startswith(prefix)]


def warmup_backward(f: Any, *args: Any) -> list[Any]:
    """Return the gradients of three calls."""
    results = []
    for _ in range(3):
        results.append(_backward_of(f, *args))
    return results


def _backward_of(f: Any, *args: Any) -> Any:
    f.backward(retain_graph=True)
    found = [each.grad.detach().clone() if each.grad is not None else None for each in args]
    for each in args:
        each.grad = None
    return found


@contextlib.contextmanager
def _as_it_is(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Return a block about how scripts are compiled: they are not."""
    yield


inline_everything_mode = set_fusion_group_inlining = disable_autodiff_subgraph_inlining = _as_it_is


def _inline_everything(fn: Any) -> Any:
    """Return a test of scripts whose calls are written out: nothing has to be."""
    return fn


_tmp_donotuse_dont_inline_everything = enable_cpu_fuser = _inline_everything


def enable_cpu_fuser_if(cond: Any) -> Any:
    """Return a decorator that leaves a test as it is."""
    return _inline_everything


def _trace(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a decorator that traces a function."""
    return lambda func: jit.trace(func, args, **kwargs)


class NoTracerWarnContextManager:
    """A block without the warnings of traces."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


class JitTestCase(TestCase):
    """A test of scripts."""

    def checkScript(self, script: Any, inputs: Any, name: str = "func", **options: Any) -> Any:
        """Whether a function and its script return the same; the source of a program is run to get the function."""
        if isinstance(script, str):
            scope: dict[str, Any] = {}
            exec(script, sys._getframe(1).f_globals, scope)
            script = scope[name]
        scripted = jit.script(script)
        with freeze_rng_state():
            expected = script(*clone_inputs(inputs))
        with freeze_rng_state():
            self.assertEqual(scripted(*clone_inputs(inputs)), expected)
        return scripted

    def checkModule(self, nn_module: Any, args: Any) -> Any:
        """Whether a module and its script return the same."""
        scripted = jit.script(nn_module)
        with freeze_rng_state():
            expected = nn_module(*args)
        with freeze_rng_state():
            self.assertEqual(scripted(*args), expected)
        return scripted

    def checkTrace(self, func: Any, reference_tensors: Any, *more: Any, **options: Any) -> Any:
        """Whether a function and its trace return the same."""
        traced = jit.trace(func, clone_inputs(reference_tensors))
        self.assertEqual(traced(*clone_inputs(reference_tensors)), func(*clone_inputs(reference_tensors)))
        return traced

    def assertRaisesRegexWithHighlight(self, exception: Any, regex: str, highlight: str) -> Any:
        """`assertRaisesRegex`; there is no compiler to point at a place."""
        return self.assertRaisesRegex(exception, regex)

    def checkScriptRaisesRegex(self, script: Any, inputs: Any, exception: Any, regex: str, **options: Any) -> None:
        """Whether a function raises, and its script does."""
        for function in (script, jit.script(script)):
            with self.assertRaisesRegex(exception, regex):
                function(*inputs)


def get_forward(c: Any) -> Any:
    """Return a module's forward."""
    return functools.partial(type(c).forward, c)
