"""The modes that are on: gradient recording per thread, and the rare modes that send an op down its general path.

A thread's modes are one plain object, `local.modes`, so that an op reads them with one thread-local lookup. Each rare
mode (inference mode, function modes, anomaly mode) also raises `slow_path.count`, a process-wide count: while it is
zero, an op takes its fast path without further checks.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from undertow._src.base.sites import warn

F = TypeVar("F", bound=Callable[..., Any])


class ThreadModes:
    """The modes of one thread."""

    __slots__ = (
        "grad_enabled",
        "inference",
        "sequence",
        "saved_hooks",
        "saved_hooks_disabled",
        "function_modes",
        "function_off",
        "backward_pass",
        "backward_depth",
        "in_formula",
        "transforms",
        "captured",
        "pushing",
        "autocast",
        "dispatch_modes",
        "dispatch_off",
        "dispatch_depth",
        "dispatch_calls",
        "home",
        "device_is_busy",
    )

    def __init__(self) -> None:
        self.grad_enabled = True
        self.inference = False
        self.sequence: Iterator[int] = itertools.count()  # numbers the nodes made by this thread
        self.saved_hooks: list[tuple[Callable[..., Any], Callable[..., Any], bool]] = []  # the last one is in force
        self.saved_hooks_disabled: str | None = None
        self.function_modes: list[Any] = []
        self.function_off = 0  # inside DisableTorchFunctionSubclass
        self.backward_pass: Any = None  # the engine's run in progress
        self.autocast: Any = None
        self.backward_depth = 0  # depth of backward passes started by hooks of backward passes
        self.in_formula = False  # inside a rule's gradient that is recorded
        self.transforms = 0  # derivatives of `torch.func` in progress
        self.captured: tuple[
            list[Any], ...
        ] = ()  # per transform, tensors around its function, which it may not write to
        self.pushing: Any = None  # the innermost forward-mode one, see engine/transforms/levels.py
        self.dispatch_modes: list[Any] = []  # see undertow._src.overrides.dispatch: modes that may override operators
        self.dispatch_off = 0  # above 0 inside a block where no override applies
        self.dispatch_depth = 0  # handlers that are running
        self.dispatch_calls: list[Any] = []  # the calls they handle
        self.home: Any = None  # the device of the running op and of the tensors it makes, if not the CPU
        self.device_is_busy = False  # inside a hook that a program on a device waits for


class _Local(threading.local):
    modes: ThreadModes

    def __init__(self) -> None:
        self.modes = ThreadModes()


local = _Local()


class SlowPath:
    """The number of rare modes on anywhere in the process, and the process-wide modes themselves.

    `anomaly` is PyTorch's anomaly mode.
    `listeners` observe backward passes; only the last one is called, after each node has run, with the gradients as the
    pass carries them: `listener(node, gradients in, gradients out)`, for an accumulator `listener(node, what it adds, ())`.
    `stepper` runs each node of a pass in anomaly mode instead of the engine, which it calls: `stepper(task, node, g)`.
    `duals` is the active forward-mode level, if any: what depends on its duals is recorded even under no_grad.
    `as_written` counts the tools that observe single calls: meanwhile compiled steps run eagerly, as written.
    `stance` is what calls of compiled steps do, see `torch.compiler.set_stance`.
    `dispatcher` is called before a rule runs, once a program has defined overrides of operators.
    """

    __slots__ = (
        "count", "anomaly", "anomaly_check_nan", "as_written", "dispatcher", "duals", "listeners", "stance",
        "stepper", "_lock",
    )  # fmt: skip

    def __init__(self) -> None:
        self.count = 0
        self.anomaly = False
        self.anomaly_check_nan = True
        self.as_written = 0
        self.stance = "default"
        self.duals: Any = None
        self.dispatcher: Any = None
        self.listeners: list[Any] = []
        self.stepper: Any = None
        self._lock = threading.RLock()  # reentrant: the garbage collector may run a `leave` meanwhile

    def enter(self) -> None:
        """Count a rare mode that is switched on."""
        with self._lock:
            self.count += 1

    def leave(self) -> None:
        """Count a rare mode that is switched off."""
        with self._lock:
            self.count -= 1


slow_path = SlowPath()


class Deterministic:
    """The settings of `torch.use_deterministic_algorithms`, and whether uninitialised memory is filled under them."""

    wanted = warn_only = False
    fills_memory = True


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread."""
    return local.modes.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return local.modes.inference


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return slow_path.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode also looks for NaN."""
    return slow_path.anomaly_check_nan


class ContextDecorator:
    """A context manager that also decorates functions and generators; each call enters it again."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: Any) -> None:
        raise NotImplementedError

    def clone(self) -> ContextDecorator:
        """Return a new instance of the same kind, for one call."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. The result is a function that "
                "makes instances in this mode: decorate the class's __init__ method instead.",
                FutureWarning,
            )
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self, function)  # type: ignore[return-value]

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def _wrap_generator(context: ContextDecorator, function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the mode on while the generator's own code runs, not between its yields."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        try:
            with context.clone():
                item = generator.send(None)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    with context.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    with context.clone():
                        item = generator.throw(error)
                else:
                    with context.clone():
                        item = generator.send(sent)
        except StopIteration as stop:
            return stop.value

    return inside


class _SetGrad(ContextDecorator):
    """Sets gradient mode on entry and restores it on exit.

    As in PyTorch one object remembers one mode: entered again inside itself, it ends in its own mode.
    """

    mode: bool
    prev = False

    def __enter__(self) -> None:
        modes = local.modes
        self.prev = modes.grad_enabled
        modes.grad_enabled = self.mode

    def __exit__(self, *exc: Any) -> None:
        local.modes.grad_enabled = self.prev


class no_grad(_SetGrad):
    """Operations inside are not recorded."""

    __module__ = "undertow.autograd.grad_mode"  # where PyTorch has it
    mode = False

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        if function is None:
            return self
        self.__init__()  # type: ignore[misc]
        return self(function)  # `@no_grad` without parentheses

    def __init__(self, function: Any = None) -> None:
        pass


class enable_grad(no_grad):
    """Operations inside are recorded, also within no_grad."""

    __module__ = "undertow.autograd.grad_mode"  # where PyTorch has it
    mode = True


class set_grad_enabled(_SetGrad):
    """Sets gradient mode at once; as a context manager it restores the mode on exit."""

    __module__ = "undertow.autograd.grad_mode"  # where PyTorch has it

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self.mode = mode
        self.prev = local.modes.grad_enabled
        local.modes.grad_enabled = self.mode

    def __enter__(self) -> None:
        local.modes.grad_enabled = self.mode

    def __exit__(self, *exc: Any) -> None:
        local.modes.grad_enabled = self.prev

    def __call__(self, function: F) -> F:
        local.modes.grad_enabled = self.prev  # decorating must not change the mode here
        return super().__call__(function)

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __str__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"

    __repr__ = __str__


class inference_mode(ContextDecorator):
    """Like no_grad, and tensors made inside never take part in autograd."""

    __module__ = "undertow.autograd.grad_mode"  # where PyTorch has it

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        if isinstance(mode, bool):
            return self
        self.__init__()  # type: ignore[misc]
        return self(mode)  # `@inference_mode` without parentheses

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        modes = local.modes
        self._before.append((modes.inference, modes.grad_enabled))
        if self.mode:
            slow_path.enter()
        modes.inference = self.mode
        modes.grad_enabled = not self.mode

    def __exit__(self, *exc: Any) -> None:
        modes = local.modes
        modes.inference, modes.grad_enabled = self._before.pop()
        if self.mode:
            slow_path.leave()

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)
