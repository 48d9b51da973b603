"""The records of one run, as plain data. The watcher (`why.watch`) writes them; causes and reports only read them.

Records refer to each other by id, which is an index: `trace.tensors[n]` is the tensor with id n, and likewise for ops,
nodes, modules, calls, hooks, firings, backwards and optimizers. `time` counts events: an earlier event has a smaller
time. Places are lines of the user's program (`why.places`). No record refers to a tensor, a module or a node, so a
trace keeps none of the program's memory alive.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from undertow.why.places import Place

# The state of a tensor's values. BAD: NaN or Inf that the program did not write on purpose.
FINE, INFINITE_ON_PURPOSE, NAN_GIVEN, BAD = range(4)


@dataclass(slots=True)
class Flag:
    """`requires_grad` of a leaf was set."""

    time: int
    value: bool
    place: Place | None


@dataclass(slots=True)
class TensorRecord:
    """One tensor object, since it was first observed. In-place changes do not make a new record."""

    id: int
    time: int
    place: Place | None  # where it was made; if that was not observed, where it was first used
    shape: tuple[int, ...]
    dtype: str
    floating: bool
    leaf: bool  # when first observed
    requires_grad: bool  # when first observed; `flags` holds later changes
    parameter: bool = False
    op: int | None = None  # the last op that made or changed it
    maker: int | None = None  # the op that made it
    node: int | None = None  # its grad_fn, as last observed
    memory: int = -1  # the first tensor that owned this memory: equal for a tensor, its views, .data and detach()
    gradient_of: int | None = None  # it was read as `.grad` of that tensor
    retained: int | None = None  # when retain_grad() was called
    peak: float | None = None  # largest absolute value as last observed; None where it was not measured
    peak_version: int = -1  # of a gradient: the version of its memory when `peak` was measured
    state: int = FINE
    flags: list[Flag] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # expressions of the program for it, best first
    died: int | None = None  # when the Python object was freed
    module: int | None = None  # the module that it was last registered in, as a parameter
    copied_from: int | None = None  # by copy.deepcopy
    attribute_of: int | None = None  # the module that has it as a plain attribute, directly or in a container

    @property
    def size(self) -> int:
        total = 1
        for length in self.shape:
            total *= length
        return total


_OPERATORS = {
    "__getitem__": "[...]", "__setitem__": "[...] =", "__iadd__": "+=", "__isub__": "-=", "__imul__": "*=",
    "__itruediv__": "/=", "__rsub__": "-", "__rpow__": "**", "__matmul__": "@", "__float__": "float()",
    "data.set": ".data =", "__and__": "&", "__or__": "|", "__gt__": ">", "__lt__": "<", "__eq__": "==", "__ne__": "!=",
    "__ge__": ">=", "__le__": "<=",
}  # fmt: skip


@dataclass(slots=True)
class OpRecord:
    """One call of a torch function, method or attribute that read or made tensors, as the user's line called it.

    `kind`: "op"; "cut" (detach, .data, torch.tensor(t), nn.Parameter(t): the result has the values and no graph);
    "leaves" (item, float, numpy, tolist: the values go to Python); "enters" (from_numpy, torch.tensor(numbers):
    values come from Python); "copy" (copy.deepcopy); "grad" (the results of autograd.grad, or of a recorded backward);
    "unseen" (made inside the engine's code, known only from the graph); "function" (a custom autograd.Function);
    "module" (a library module that used parameters where ops are not observed).
    """

    id: int
    time: int
    name: str
    kind: str
    place: Place | None
    inputs: tuple[int, ...]
    inputs_require_grad: tuple[bool, ...]  # at the call
    outputs: tuple[int, ...]
    outputs_require_grad: tuple[bool, ...]
    grad_mode: bool
    off: Place | None = None  # the line that had switched gradient mode off
    writes: tuple[int, ...] = ()  # inputs that it changed in place
    scalars: tuple[int, ...] = ()  # tensors whose item()/float() was passed as a number
    peaks: tuple[float | None, ...] = ()  # of the outputs
    born: bool = False  # NaN or Inf appeared here, from inputs that had none
    firing: int | None = None  # inside this firing of a hook
    call: int | None = None  # inside this module call (the innermost)
    nodes: tuple[int, ...] = ()  # graph nodes that it made
    output_nodes: tuple[int | None, ...] = ()  # the grad_fn of each output after it
    internal: bool = False  # a cut or copy inside library code: state_dict, a straight-through estimator

    @property
    def shown(self) -> str:
        """Its name in findings: `.T` for T.get, `[...]` for __getitem__, `+=` for __iadd__."""
        if self.name.endswith(".get"):
            return f".{self.name.removesuffix('.get')}"
        return _OPERATORS.get(self.name, self.name)


@dataclass(slots=True)
class RefusedRecord:
    """A torch function that raised."""

    time: int
    name: str
    place: Place | None
    inputs: tuple[int, ...]
    error: str


@dataclass(slots=True)
class NodeRecord:
    """One node of the autograd graph."""

    id: int
    name: str
    op: int | None
    next: tuple[int, ...]
    leaf: int | None = None  # AccumulateGrad: the tensor whose .grad it writes
    reached: list[int] = field(default_factory=list)  # backward passes whose roots lead to it
    ran: list[int] = field(default_factory=list)  # backward passes in which it was observed to run


@dataclass(slots=True)
class BackwardRecord:
    """One call of backward() or autograd.grad()."""

    id: int
    time: int
    place: Place | None
    kind: str  # "backward" or "grad"
    roots: tuple[int, ...]
    inputs: tuple[int, ...] | None  # `inputs=`; None when not given
    retain: bool | None  # `retain_graph=` as given
    create: bool
    end: int = -1
    parent: int | None = None  # the backward inside which it started
    firing: int | None = None  # the firing of a hook that started it
    error: str | None = None
    nodes: int = 0
    root_peaks: tuple[float | None, ...] = ()
    leaves: list[int] = field(default_factory=list)  # tensors whose accumulators the roots lead to
    written: dict[int, float | None] = field(default_factory=dict)  # .grad written: tensor -> peak of what was added
    births: list[int] = field(default_factory=list)  # nodes that first made NaN or Inf of finite gradients, in order
    stops: list[int] = field(default_factory=list)  # nodes that turned non-zero gradients into zeros, in order
    zeros: list[int] = field(default_factory=list)  # nodes that gave all zeros on some edges, but not on all
    left_out: list[int] = field(default_factory=list)  # inputs of autograd.grad for which it returned None
    nones: list[tuple[int, int]] = field(default_factory=list)  # (node of a custom Function, the node that got None)
    returns: list[Place] = field(default_factory=list)  # the return statements of custom Functions' backwards that ran
    frees: bool = True  # it freed the graph that it went through
    damaged: list[int] = field(default_factory=list)  # after an error: nodes whose saved values had been overwritten


@dataclass(slots=True)
class GradEvent:
    """One event on the `.grad` of a tensor.

    `kind`: "write" (a backward added to it), "read" (user code read it), "clear" (set to None, or zeroed), "set" (user
    code assigned a tensor), "edit" (user code changed it in place), "step" (an optimizer's step read it).
    """

    time: int
    kind: str
    tensor: int
    place: Place | None
    found: bool = False  # a gradient existed: before a write or clear, at a read or step
    peak: float | None = None  # of the gradient that was found or written; None without one
    backward: int | None = None
    optimizer: int | None = None
    direct: bool = True  # user code did it directly, not through library code


@dataclass(slots=True)
class WriteRecord:
    """A tensor's memory was changed in place."""

    time: int
    tensor: int
    place: Place | None
    name: str  # the operation, or "step" for an optimizer
    op: int | None
    version: int  # after the write


@dataclass(slots=True)
class ModuleRecord:
    """One nn.Module."""

    id: int
    time: int
    place: Place | None
    type: str
    library: bool  # its class belongs to the engine
    callable: bool  # its class has a forward (ModuleList and ModuleDict have none)
    parameters: dict[str, int] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    copied_from: int | None = None
    hidden_in: tuple[str, str, str] | None = None  # (file, class, attribute) of a plain list, tuple or dict that has it
    sharded: bool = False  # by fully_shard


@dataclass(slots=True)
class CallRecord:
    """One run of a module's forward."""

    id: int
    time: int
    module: int
    place: Place | None
    direct: bool  # through module.forward(...), which skips __call__ and its hooks
    parent: int | None
    grad_mode: bool
    inputs: tuple[int, ...]
    end: int = -1
    outputs: tuple[int, ...] = ()
    outputs_require_grad: tuple[bool, ...] = ()
    result: str = ""  # "tensor", "tuple", or the type's name
    loose: bool = False  # the result holds tensors that require grad in containers that full backward hooks skip
    returned: Place | None = None  # the return statement, where it was recorded
    error: str | None = None
    training: bool = True  # the module's mode


@dataclass(slots=True)
class BindingRecord:
    """A module's attribute was bound to a parameter or a submodule."""

    time: int
    module: int
    name: str
    place: Place | None
    tensor: int | None  # the new parameter
    child: int | None  # or the new submodule
    old_tensor: int | None = None
    old_child: int | None = None


@dataclass(slots=True)
class HookRecord:
    """One registration of a hook.

    `kind`: tensor, post-accumulate, multi-grad, node, node-pre, forward, forward-pre, full-backward, full-backward-pre,
    backward (the legacy kind).
    """

    id: int
    time: int
    kind: str
    place: Place | None
    name: str  # of the hook function
    defined: Place | None  # its def
    same: Any  # equal for hooks that do the same; `duplicate-hook` compares it
    tensor: int | None = None
    node: int | None = None  # the hooked node, or the tensor's node when the hook was registered
    others: tuple[tuple[int, int | None], ...] = ()  # the further tensors of a multi-grad hook, and their nodes
    module: int | None = None
    everywhere: bool = False  # on every module
    expression: str = ""  # the source text of the hooked object
    user: bool = True  # registered by user code, not by a library
    removed: int | None = None  # when it was removed
    removed_at: Place | None = None
    error: str | None = None  # the registration raised
    copied_from: int | None = None  # the hook object was copied along by copy.deepcopy
    firings: list[int] = field(default_factory=list)

    @property
    def in_graph(self) -> bool:
        """Whether the hook is on tensors or a node of the graph, not on modules."""
        return self.tensor is not None or self.node is not None


@dataclass(slots=True)
class FiringRecord:
    """One run of a hook: what it got and what it returned."""

    id: int
    time: int
    hook: int
    backward: int | None
    call: int | None
    end: int = -1
    before: tuple[float | None, ...] = ()  # peaks of the tensors that it may replace
    before_norms: tuple[float | None, ...] = ()
    after: tuple[float | None, ...] = ()  # peaks of the tensors after the hook
    after_norms: tuple[float | None, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()  # of the tensors that it may replace
    given: tuple[int, ...] = ()  # their records
    answer: str = "none"  # "none", "same" (returned what it got) or "new"
    changed: bool = False  # it wrote into what it got
    returned: Place | None = None  # the return statement that ended it
    refused: str | None = None  # why the engine will refuse the returned value
    error: str | None = None  # the exception that the hook itself raised


@dataclass(slots=True)
class StepRecord:
    """One step of an optimizer."""

    time: int
    place: Place | None
    closure: bool  # it ran a closure, with forward and backward inside
    end: int = -1


@dataclass(slots=True)
class OptimizerRecord:
    """One optimizer, and the tensors that it holds."""

    id: int
    time: int
    type: str
    place: Place | None
    tensors: dict[int, Place | None] = field(default_factory=dict)  # tensor -> where it was given
    steps: list[StepRecord] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    error: str | None = None  # the construction raised
    refused: tuple[int, ...] = ()  # tensors that the constructor refused


@dataclass(slots=True)
class CopyRecord:
    """One copy.deepcopy: its tensors and modules, as original -> copy."""

    time: int
    place: Place | None
    tensors: dict[int, int] = field(default_factory=dict)
    modules: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class ScalingEvent:
    """One use of a GradScaler, or one clipping of gradients: "scale", "unscale", "step" or "clip"."""

    time: int
    kind: str
    name: str
    place: Place | None
    tensors: tuple[int, ...] = ()  # that a clipping was given


@dataclass(slots=True)
class FalseFlag:
    """An attribute of a tensor or a module whose name is like requires_grad, and which has no effect."""

    time: int
    name: str
    value: bool
    tensor: int | None = None
    module: int | None = None


@dataclass(slots=True)
class ErrorRecord:
    """The exception that ended the program, or one of its threads."""

    time: int
    type: str
    message: str
    place: Place | None
    backward: int | None = None  # the backward that raised it
    firing: int | None = None  # the last hook that ran before it


@dataclass(slots=True)
class ParallelForward:
    """One forward of a DistributedDataParallel."""

    time: int
    place: Place | None
    grad_mode: bool
    synced: bool  # whether its backward averages the gradients: no `no_sync` block was open
    block: Place | None = None  # that block


@dataclass(slots=True)
class ParallelRecord:
    """One DistributedDataParallel."""

    id: int
    time: int
    place: Place | None
    module: int  # the wrapper
    inner: int  # the model in it
    parameters: dict[str, int]  # those whose gradients it averages
    finds_unused: bool
    static: bool
    forwards: list[ParallelForward] = field(default_factory=list)
    blocks: list[tuple[int, int, Place | None]] = field(default_factory=list)  # of no_sync: begin, end, line


@dataclass(slots=True)
class CollectiveRecord:
    """One collective, or one message to a rank."""

    time: int
    op: str
    place: Place | None
    tensors: tuple[int, ...]
    end: int = -1
    error: str | None = None


@dataclass(slots=True)
class LaterRecord:
    """What sampling saw after it stopped recording everything."""

    whole: int  # the optimizer steps that were recorded in full
    steps: int = 0  # the last step
    bad: tuple[int, int | None, Place | None] | None = None  # the first step seen with NaN or Inf, its tensor, its line


@dataclass(slots=True)
class Trace:
    """All records of one run."""

    engine: str = ""
    script: str | None = None
    time: int = 0
    tensors: list[TensorRecord] = field(default_factory=list)
    ops: list[OpRecord] = field(default_factory=list)
    refused: list[RefusedRecord] = field(default_factory=list)
    nodes: list[NodeRecord] = field(default_factory=list)
    backwards: list[BackwardRecord] = field(default_factory=list)
    grads: list[GradEvent] = field(default_factory=list)
    writes: list[WriteRecord] = field(default_factory=list)
    modules: list[ModuleRecord] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    bindings: list[BindingRecord] = field(default_factory=list)
    hooks: list[HookRecord] = field(default_factory=list)
    firings: list[FiringRecord] = field(default_factory=list)
    optimizers: list[OptimizerRecord] = field(default_factory=list)
    copies: list[CopyRecord] = field(default_factory=list)
    functions: dict[int, Place] = field(default_factory=dict)  # op of a custom Function -> the def of its backward
    scalings: list[ScalingEvent] = field(default_factory=list)
    false_flags: list[FalseFlag] = field(default_factory=list)
    parallel: list[ParallelRecord] = field(default_factory=list)
    collectives: list[CollectiveRecord] = field(default_factory=list)
    error: ErrorRecord | None = None
    thread_errors: list[ErrorRecord] = field(default_factory=list)
    later: LaterRecord | None = None  # sampling: the steps after those that were recorded
    complete: bool = True  # False: the limit was reached, and later events were not recorded
    problems: list[str] = field(default_factory=list)  # errors inside the watcher itself
    freed: deque[Any] = field(default_factory=deque)  # weak references to objects freed since the last event

    def tick(self) -> int:
        """Advance the time and return it."""
        if self.freed:
            self.note_freed()
        self.time += 1
        return self.time

    def note_freed(self) -> None:
        """Record that the objects in `freed` were freed now."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self.freed.popleft().note_freed(self.time)

    def name(self, tensor: int) -> str:
        """Return the program's name for a tensor, or a phrase with the line that made it."""
        record = self.tensors[tensor]
        if record.names:
            return record.names[0]
        made = record.place
        if made is None:
            return "a tensor"
        where = f"line {made.line}" if self.script in (None, made.file) else repr(made)
        return f"the tensor made at {where}"
