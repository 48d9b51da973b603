"""Activation checkpointing: a function keeps no saved tensors and runs again when backward needs them.

Two kinds. Reentrant: one node whose backward runs the function again with recording on and starts a nested backward
pass. Non-reentrant (recommended): forward is recorded as usual, but pack hooks keep only a placeholder for each saved
tensor; the first unpack runs the function again and fills them in.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from undertow import autograd, random
from undertow._src.base import tree
from undertow._src.base.lazy import late_function, lazy_names
from undertow._src.base.modes import enable_grad, local
from undertow._src.base.sites import warn
from undertow._src.random.generators import cuda_generators
from undertow._src.tensor.core import TensorCore, wrap
from undertow.amp.casting import autocast_as_it_was
from undertow.autograd.function import Function
from undertow.autograd.graph import all_saved_hooks

operator_log = late_function(__name__, "undertow.utils._checkpoint_debug", "OperatorLog")
differing_runs = late_function(__name__, "undertow.utils._checkpoint_debug", "differing_runs")

ContextFactory = Callable[[], tuple[Any, Any]]

DEFAULT_DETERMINISM_MODE = "default"
_settings: dict[str, bool | None] = {"early_stop": None, "debug": None}


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function differed from the first."""


def noop_context_fn() -> tuple[Any, Any]:
    """Return two contexts that do nothing, for the forward run and for the recomputation."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set, inside the block, whether the recomputation stops early; overrides the argument of `checkpoint`."""
    before, _settings["early_stop"] = _settings["early_stop"], enable
    try:
        yield
    finally:
        _settings["early_stop"] = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Set, inside the block, whether mismatch errors list the operators of both runs; overrides the argument."""
    before, _settings["debug"] = _settings["debug"], enabled
    try:
        yield
    finally:
        _settings["debug"] = before


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs with tensors detached, each with the same requires_grad."""
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: ", type(inputs).__name__)
    return tuple(
        [
            part.detach()._with_requires_grad(part.requires_grad) if isinstance(part, TensorCore) else part
            for part in inputs
        ]
    )


def check_backward_validity(inputs: Sequence[Any]) -> None:
    """Warn if no input requires grad: a reentrant checkpoint then computes no gradients."""
    if not any(isinstance(part, TensorCore) and part.requires_grad for part in inputs):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Return the GPUs of the arguments, by number, and the states of their generators."""
    tensors = [leaf for leaf in tree.leaves(args) if isinstance(leaf, TensorCore)]
    found = list(dict.fromkeys([tensor.device.index or 0 for tensor in tensors if tensor.is_cuda]))
    return found, [cuda_generators()[index].get_state() for index in found]


def set_device_states(devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None) -> None:
    """Set the states that `get_device_states` returned."""
    for index, state in zip(devices, states, strict=True):
        cuda_generators()[index].set_state(state)


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: ContextFactory = noop_context_fn, determinism_check: str = DEFAULT_DETERMINISM_MODE,
    debug: bool = False, early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call function(*args) without keeping its saved tensors; backward runs it again."""
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended; the default is use_reentrant=True."
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    return _without_reentry(function, preserve, context_fn, determinism_check, debug, early_stop, args, kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Checkpoint a chain of functions in segments; the last segment keeps its saved tensors."""
    if use_reentrant is None:
        warn("torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly.")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def run(part: list[Any]) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value

        return forward

    size = len(steps) // segments
    if not size:
        raise ValueError(f"range() arg 3 must not be zero. {len(steps)} functions make no {segments} segments")
    for segment in range(segments - 1):
        part = steps[segment * size : (segment + 1) * size]
        input = checkpoint(run(part), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(steps[(segments - 1) * size :])(input)


class CheckpointFunction(Function):
    """The reentrant kind: one node that runs the function again and a backward pass inside."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.rng_state = _random_state(args) if preserve_rng_state else None
        ctx.autocast = local.modes.autocast
        ctx.others = [None if isinstance(arg, TensorCore) else arg for arg in args]
        ctx.tensor_places = [place for place, arg in enumerate(args) if isinstance(arg, TensorCore)]
        ctx.save_for_backward(*[args[place] for place in ctx.tensor_places])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if local.modes.backward_pass.executed is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
                "`inputs` argument to .backward(). Pass use_reentrant=False, or call .backward() for all leaves."
            )
        inputs = list(ctx.others)
        for place, tensor in zip(ctx.tensor_places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        detached = detach_variable(tuple(inputs))
        with _as_before(ctx.rng_state, ctx.autocast), enable_grad():
            outputs = ctx.run_function(*detached)
        several = (outputs,) if isinstance(outputs, TensorCore) else outputs
        live = [
            (output, grad)
            for output, grad in zip(several, grads, strict=False)
            if isinstance(output, TensorCore) and output.requires_grad
        ]
        if not live:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([output for output, _ in live], [grad for _, grad in live])  # which `why` observes
        return (None, None) + tuple([part.grad if isinstance(part, TensorCore) else None for part in detached])


@contextlib.contextmanager
def _as_before(state: Any, autocast: Any) -> Iterator[None]:
    """Restore the random states (unless None) and autocast of forward inside the block."""
    if state is None:
        with autocast_as_it_was(autocast):
            yield
        return
    of_cpu, gpus, of_gpus = state
    before = random.get_rng_state(), [cuda_generators()[gpu].get_state() for gpu in gpus]
    random.set_rng_state(of_cpu)
    set_device_states(gpus, of_gpus)
    try:
        with autocast_as_it_was(autocast):
            yield
    finally:
        random.set_rng_state(before[0])
        set_device_states(gpus, before[1])


def _random_state(args: Any) -> tuple[Any, list[int], list[Any]]:
    """Return the state of the CPU's generator, and those of the arguments' GPUs."""
    return random.get_rng_state(), *get_device_states(*args)


# --- the non-reentrant kind


class _Ticket:
    """A placeholder for a saved tensor: its number in the order of saving."""

    __slots__ = ("number", "__weakref__")

    def __init__(self, number: int) -> None:
        self.number = number


class _EnoughRecomputed(Exception):
    """Ends the recomputation once every tensor that backward may need is there."""


class GraphExecGroup:
    """Makes backward passes inside the block share one recomputation of each checkpointed call.

    They must not need the same saved tensor: each is released after its first use.
    """

    current: GraphExecGroup | None = None

    def __enter__(self) -> GraphExecGroup:
        if GraphExecGroup.current is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Exit {GraphExecGroup.current} first.")
        GraphExecGroup.current = self
        return self

    def __exit__(self, *exc: Any) -> None:
        if GraphExecGroup.current is not self:
            raise RuntimeError("This GraphExecGroup was not entered, or has been left.")
        GraphExecGroup.current = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return cls.current


class _Frame:
    """One checkpointed call: the placeholders of its first run, and a recomputation for each backward pass."""

    def __init__(
        self, rerun: Callable[[], Any], early_stop: bool, determinism_check: str, explain: Callable[[str], str]
    ) -> None:
        self.rerun, self.early_stop, self.determinism_check = rerun, early_stop, determinism_check
        self.explain = explain  # the error for a recomputation that differs
        self.tickets: list[weakref.ref[_Ticket]] = []
        self.metadata: list[dict[str, Any]] = []
        # By backward pass, or by the group of passes that share one.
        self.reruns: weakref.WeakKeyDictionary[Any, _Rerun] = weakref.WeakKeyDictionary()

    def pack(self, tensor: Any) -> _Ticket:
        ticket = _Ticket(len(self.tickets))
        self.tickets.append(weakref.ref(ticket))
        self.metadata.append(_metadata(tensor))
        return ticket

    def unpack(self, ticket: _Ticket) -> Any:
        task = GraphExecGroup.current or local.modes.backward_pass
        rerun = None if task is None else self.reruns.get(task)
        if rerun is None:
            rerun = _Rerun(self)
            if task is not None:
                self.reruns[task] = rerun
            rerun.run()
        return rerun.take(ticket.number)


class _Rerun:
    """The recomputation of a checkpointed call: what it saved, by number."""

    def __init__(self, frame: _Frame) -> None:
        self.frame = frame
        self.tensors: dict[int, Any] = {}
        self.taken: set[int] = set()
        self.metadata: list[dict[str, Any]] = []

    def run(self) -> None:
        try:
            with all_saved_hooks(self.store, lambda tensor: tensor), enable_grad():
                self.frame.rerun()
        except _EnoughRecomputed:
            pass
        self._compare()

    def store(self, tensor: Any) -> Any:
        tickets, number = self.frame.tickets, len(self.metadata)
        self.metadata.append(_metadata(tensor))
        if number >= len(tickets):
            raise CheckpointError(
                self.frame.explain(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than in the "
                    f"forward pass, which saved {len(tickets)}."
                )
            )
        if tickets[number]() is not None:
            self.tensors[number] = tensor.detach()
        if self.frame.early_stop and number + 1 == len(tickets):
            raise _EnoughRecomputed
        return tensor.detach()

    def take(self, number: int) -> Any:
        """Return a tensor, only once, so that it is freed as soon as backward is done with it."""
        if number in self.tensors:
            self.taken.add(number)
            return self.tensors.pop(number)
        if number not in self.taken:
            what = "was never recomputed"
        else:
            what = "was already unpacked once"
            if GraphExecGroup.current is not None:
                what += (
                    ". Performing two backward calls that overlap is not allowed inside one GraphExecGroup: they share one "
                    "recomputation, which gives each saved tensor away once"
                )
        raise CheckpointError(
            f"torch.utils.checkpoint: Unpack is being triggered for a tensor that {what}. Read "
            "ctx.saved_tensors once in backward, and keep what it returns."
        )

    def _compare(self) -> None:
        first_run = self.frame.metadata
        if len(self.metadata) != len(first_run):
            raise CheckpointError(
                self.frame.explain(
                    "torch.utils.checkpoint: A different number of tensors was saved during the original forward than "
                    f"during the recomputation.\nNumber of tensors saved during forward: {len(first_run)}\n"
                    f"Number of tensors saved during recomputation: {len(self.metadata)}."
                )
            )
        if self.frame.determinism_check == "none":
            return
        differing = [
            f"tensor at position {nr}:\nsaved metadata: {first}\nrecomputed metadata: {second}"
            for nr, (first, second) in enumerate(zip(first_run, self.metadata, strict=True))
            if first != second
        ]
        if differing:
            raise CheckpointError(
                self.frame.explain(
                    "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata "
                    "than in the forward pass."
                    "\n" + "\n".join(differing)
                )
            )


def _with_a_tip(found: str) -> str:
    return (
        f"{found}\nTip: to see the operators of both runs, pass debug=True to checkpoint(), or call it inside "
        "set_checkpoint_debug_enabled(True)."
    )


def _metadata(tensor: Any) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


class NoopSaveInputs(Function):
    """Keeps the inputs as saved tensors, so that hooks around the checkpoint and version checks apply to them."""

    @staticmethod
    def forward(*tensors: Any) -> Any:
        return _nothing()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("nothing is ever differentiated with respect to the kept inputs")


def _keep_inputs(tensors: list[Any]) -> Any:
    # The empty first input ensures that a node is made, whether or not the others require gradients.
    return NoopSaveInputs.apply(_nothing()._with_requires_grad(True), *tensors).grad_fn


def _nothing() -> Any:
    return wrap(np.empty(0, np.float32))


def _without_reentry(
    function: Callable[..., Any], preserve: bool, context_fn: ContextFactory, determinism_check: str, debug: bool,
    early_stop: bool, args: tuple[Any, ...], kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    debug = debug if _settings["debug"] is None else bool(_settings["debug"])
    explain = _with_a_tip
    if debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn. It uses its own contexts.")
        logs = operator_log(), operator_log()
        context_fn, explain = (lambda: logs), functools.partial(differing_runs, *logs)
    forward_context, recompute_context = context_fn()
    if not local.modes.grad_enabled:
        return function(*args, **kwargs)
    state, autocast = _random_state(args) if preserve else None, local.modes.autocast
    places = [place for place, arg in enumerate(args) if isinstance(arg, TensorCore)]
    others = [None if isinstance(arg, TensorCore) else arg for arg in args]
    keeper = _keep_inputs([args[place] for place in places])

    def rerun() -> Any:
        inputs = list(others)
        for place, tensor in zip(places, keeper.saved_tensors, strict=True):
            inputs[place] = tensor
        with _as_before(state, autocast), recompute_context:
            return function(*inputs, **kwargs)

    stops = early_stop if _settings["early_stop"] is None else bool(_settings["early_stop"])
    frame = _Frame(rerun, stops, determinism_check, explain)
    with all_saved_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


# Selective checkpointing is rarely used: it is imported on demand.
_SELECTIVE = "CheckpointPolicy SAC_IGNORED_OPS SelectiveCheckpointContext create_selective_checkpoint_contexts".split()
_HOMES = dict.fromkeys(_SELECTIVE, "undertow.utils._selective_checkpoint")
_HOMES["DefaultDeviceType"] = "undertow.utils._default_device_type"
_HOMES["_StopRecomputationError"] = f"{__name__}:_EnoughRecomputed"
_HOMES |= dict.fromkeys(
    "_DEFAULT_DETERMINISM_MODE _VersionWrapper _allowed_determinism_checks_to_fns _default_meta_extractor _detach_helper "
    "_get_autocast_kwargs _get_device_module _infer_device_type _internal_assert _is_compiling _policy_from_bool".split(),
    "undertow.utils._checkpoint_steps",
)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [  # noqa: F822
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType", "GraphExecGroup",
    "SelectiveCheckpointContext", "check_backward_validity", "checkpoint", "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
]  # fmt: skip
