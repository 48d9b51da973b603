"""The trace: what eager code reports and asks while `capture.py` runs the step, and the state of that run.

While a trace is on, every op goes down its general path and computes with DeviceArrays. A tensor from outside that an op
uses is adopted: its buffer becomes an input of the program. A tensor made inside is a constant until something is computed
with it. Draws from a random stream are inputs, too: each call draws from the same stream in the same order,
so that they are the numbers that eager code would have drawn. User code that needs a value gets an error.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import CellType, FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import numpy as np
from jax.experimental import io_callback

from undertow._src.arrays.device.array import DeviceArray, is_known
from undertow._src.arrays.device.memory import Buffer, DeviceMemory, NeedsValue, Target, known_value, may_be_known
from undertow._src.arrays.device.placement import jax_device, placed
from undertow._src.arrays.jax import namespace as _words  # noqa: F401  (turns on 64-bit types)
from undertow._src.base import tracer
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import Site, outside
from undertow._src.compile.callbacks.hook_closures import bound_to
from undertow._src.compile.cures import VALUE, VALUE_FOR_NUMPY
from undertow._src.compile.effects.objects import instance_dict
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.input_checks import InputChecks
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.plan import Retrace
from undertow._src.compile.tracing.conditional_updates import only_if
from undertow._src.compile.tracing.data_dependent_branches import Decisions, Line
from undertow._src.compile.tracing.host_inputs import HostInputs
from undertow._src.compile.tracing.new_objects import NewObjects, is_own
from undertow._src.compile.tracing.selections import Selections
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar, asks_undertow
from undertow._src.compile.tracing.traced_memory import TracedMemory
from undertow._src.compile.tracing.unbacked_scalars import asked
from undertow._src.engine.apply import refuse_different_devices
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types.devices import cpu
from undertow._src.types.devices import device as Device
from undertow.amp.casting import Autocast
from undertow.optim.sgd import SGD
from undertow.optim.sparse_adam import SparseAdam
from undertow.storage import memories_behind

if TYPE_CHECKING:
    from undertow._src.compile.tracing.arguments import Arguments
    from undertow._src.compile.tracing.code_coverage import Recording
    from undertow._src.compile.tracing.collectives import Collectives
    from undertow._src.compile.tracing.lengths import Lengths
    from undertow._src.compile.tracing.unread_calls import UnreadCalls

_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_OF_SPARSE = frozenset("is_sparse layout _nnz coalesce is_coalesced _indices _values sparse_dim dense_dim".split())
_turns = itertools.count(1 << 40, 1 << 40)  # far more writes than any buffer gets


def _asking() -> Site | None:
    """Return the line of the user's program that led here, past NumPy's frames."""
    frame = outside(sys._getframe(1))
    while frame is not None and frame.f_code.co_filename.startswith(_NUMPY):
        frame = outside(frame.f_back)
    return None if frame is None else Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _line_asking() -> Line | None:
    site = _asking()
    return None if site is None else (site.filename, site.lineno)


@dataclass
class GradientUse:
    """Which gradients the step uses."""

    any: bool = False  # whether there is a backward pass, or code read a .grad
    missing: list[Any] = field(default_factory=list)  # tensors whose .grad was read while it was None


class Trace:
    """One run of a step with unknown values."""

    def __init__(self, device: Device = cpu) -> None:
        self.device = device
        self.host_inputs = HostInputs(self)
        self.thread = threading.get_ident()
        self._new_objects = NewObjects(self.call_jax)
        self.memory = TracedMemory()
        self._counted: dict[int, tuple[Any, Any]] = {}
        self.counts: dict[int, Any] = {}  # stand-ins for optimizers' step counts, by the id of the tensor
        self.of_jax: Any = None  # JAX's own trace
        self.stopped: list[BaseException] = []  # the exception that ended the trace
        self.has_sparse_gradients = False  # gradients of `Embedding(sparse=True)`, which are dense in a program
        self.placer: Any = None
        self.recorder: Recording | UnreadCalls | None = None  # records which code runs in the trace, except JAX's
        self.gradient_use = GradientUse()
        self.state = Reached()  # all that the step reaches
        self.before = Reached()  # the same, with objects that only hooks reach
        self.input_checks = InputChecks()  # integers that are computed from the arguments
        self.given: Arguments | None = None  # the stand-ins for the arguments
        self.schedules: Any = None  # the schedulers among it that step on the host
        self.decisions = Decisions()
        self.selections = Selections()  # of rows by masks
        self.lengths: Lengths | None = None  # sizes of arguments that vary
        self.choice: DeviceArray | None = None  # whether the part of the step that is being traced takes effect
        self.chosen: dict[tuple[int, Any], DeviceArray] = {}  # entries that such parts put into mappings

    # --- on and off

    def __enter__(self) -> Trace:
        if tracer.current is not None:
            raise CompileError("a step that is being compiled can't compile another one")
        tracer.current, tracer.epoch, self.memory.is_traced = self, next(_turns), True
        Target.platform = jax_device(self.device).platform
        slow_path.enter()
        self._new_objects.__enter__()
        self.host_inputs.__enter__()
        self._hooks, tracer.hooks = tracer.hooks, self.placer or tracer.hooks
        modes = local.modes
        self._autocast = modes.autocast
        if modes.autocast is not None:
            modes.autocast = Autocast(dict(modes.autocast.lower))  # autocast's cache of casts belongs to the trace
        return self

    def __exit__(self, kind: Any, *exc: Any) -> None:
        if kind is not None and self.of_jax is not None:
            self.of_jax.invalidate()  # else JAX would keep the whole trace, with its constants
        self.of_jax = None
        tracer.hooks = self._hooks
        local.modes.autocast = self._autocast
        self.host_inputs.__exit__()
        self._new_objects.__exit__()
        slow_path.leave()
        Target.platform = None
        tracer.current, tracer.epoch, self.memory.is_traced = None, 0, False

    # --- what eager code tells and asks: `tracer.Tracer`

    @property
    def collectives(self) -> Collectives:
        """Return the step's communication with other ranks."""
        return self.host_inputs.collectives

    def is_here(self) -> bool:
        """Return whether this thread is the one that is traced."""
        return threading.get_ident() == self.thread

    def note_abort(self, error: BaseException) -> None:
        """Remember an exception that ends the trace, even if the step's own code handles it."""
        self.stopped.append(error)

    def call_jax(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of JAX, which a recording leaves out."""
        return function(*args, **kwargs) if self.recorder is None else self.recorder.aside(function, args, kwargs)

    def note_buffer(self, buffer: Buffer) -> None:
        """Record a new buffer, unless another thread made it."""
        if threading.get_ident() == self.thread:
            self.memory.made[buffer] = None

    def new_array(self, array: Any) -> Any:
        """Return a new tensor's array: part of the program if it was made inside, an input if it is memory from outside."""
        if threading.get_ident() != self.thread:
            return array
        home = local.modes.home
        if type(array) is not np.ndarray:
            is_away = home is not None and type(array) is DeviceArray and array.buffer.device is cpu
            return placed(array, home) if is_away else array
        if not any(id(each) in self.state.seen for each in memories_behind(array)):
            contents = array.copy()
            value = known_value(contents) if may_be_known(contents) else jax.numpy.asarray(contents)
            made = DeviceArray(value, None if self.device is cpu else home or cpu)
            self.memory.numpy_memory.note(array, contents, made)
            made.lie_with(array.strides)
            return made
        holder = wrap(DeviceArray(array))
        holder._array = array
        self.memory.adopt_one(holder)
        return holder._array

    def is_constant(self, value: Any) -> bool:
        """Return whether an array or a number is a constant of the program."""
        return not isinstance(value, (jax.core.Tracer, SymbolicScalar)) and id(value) not in self.memory.inputs

    def adopt(self, operands: Sequence[Any]) -> None:
        """Make the buffers of an op's operands inputs of the program, if they are from outside."""
        if not self.is_here():
            return
        for operand in operands:
            if isinstance(operand, TensorCore):
                if id(operand) in self.counts:
                    self.count_inside()
                self.memory.adopt_one(operand)
        if self.device is not cpu:
            away = next(
                (each.device for each in operands if isinstance(each, TensorCore) and each.device is not cpu), None
            )
            if away is not None:
                refuse_different_devices(operands, away)

    def is_own(self, value: Any) -> bool:
        """Return whether the step makes a container or an object, or something that it contains."""
        return is_own(value, self.before.seen, self._new_objects)

    def is_new(self, value: Any, hook: Any) -> bool:
        """Return whether a container or a cell that a hook changes was made during the trace."""
        new = self._new_objects
        if id(value) in self.before.seen:
            return False
        if type(value) is not dict:
            return id(value) in new
        # The collector may track an old dict only since its first entry, so that it seems new: check what holds it.
        cells = getattr(hook, "__closure__", None) or ()
        if any(id(cell) in new and cell.cell_contents is value for cell in cells):
            return True
        makers = [each for each in bound_to(hook) if id(each) in new]
        return any(held is value for each in makers for held in instance_dict(each).values())

    def is_of_step(self, value: Any) -> bool:
        """Return whether an object seems to be made during the trace: an old dict may, too."""
        return id(value) not in self.before.seen and (not gc.is_tracked(value) or id(value) in self._new_objects)

    def is_older(self, tensor: Any) -> bool:
        """Return whether a tensor is from before the trace, whatever its current buffer is."""
        return not self.memory.is_made(tensor) and id(tensor) not in self._new_objects

    def is_recent(self, cell: CellType, value: Any) -> bool:
        """Return whether a variable, or its value, was made during the trace."""
        new = self._new_objects
        return id(cell) in new or id(value) in new

    def own_among(self, values: Iterable[Any]) -> set[int]:
        """Return the ids of those among some containers and objects."""
        new = self._new_objects
        return {id(value) for value in values if is_own(value, self.before.seen, new)}

    def references_to(self, tensor: Any) -> int:
        """Count the references to a tensor from calls on the host that pass it to hooks."""
        return 0 if self.placer is None else self.placer.mirrors.references_to(tensor)

    def note_taken_over(self, tensor: Any, gradient: Any) -> None:
        """Record that a leaf's gradient has the buffer of a tensor that nothing in the trace holds."""
        if self.placer is not None:
            self.placer.note_gradient(tensor, gradient)

    def note_targets(self, reached: Sequence[Any], targets: Sequence[Any]) -> None:
        """Refuse arguments that were computed from the targets of a backward pass: a program does not have that graph."""
        if self.given is not None:
            self.given.note_targets(reached, targets)

    def note_backward(self, asked: Any = None) -> None:
        """Record that the step uses `.grad`, and the tensor whose `.grad` its code read."""
        self.gradient_use.any = True
        if asked is not None and (asked._meta is None or asked._meta.grad is None):
            self.gradient_use.missing.append(asked)

    def run_if(self, condition: DeviceArray) -> Any:
        """Return a `with` block that takes effect if a value is true; see `conditional_updates`."""
        return only_if(self, condition)

    def sizes_shown(self, sizes: tuple[int, ...]) -> tuple[Any, ...]:
        """Return sizes for the calling code: if arguments are padded, the user's code gets the true ones."""
        if self.lengths is None or not self.is_here() or asks_undertow(sys._getframe(2)):
            return sizes
        return self.lengths.shown(sizes)

    def check_before_calls(self, check: Callable[[Any], None], array: DeviceArray) -> None:
        """Check values before each call, if they are computed from its arguments."""
        if is_known(array):
            check(np.asarray(array.value))
        else:
            self.input_checks.check(check, array)

    def guarded_value(self, array: DeviceArray) -> Any:
        """Return the value of an array that decides shapes, if it is computed from a call's arguments: each value has its
        own program.
        """
        return self.input_checks.hold(array)

    def note_integers(self, result: DeviceArray, function: Any, arguments: Any) -> None:
        """Record how integers were computed; see `input_checks`."""
        self.input_checks.follow(result, function, *arguments)

    def check_in_program(self, holds: DeviceArray, complaint: str) -> None:
        """Stop the program with a RuntimeError unless a value is true."""
        raised, decisions = self.placer.calls.raised, self.decisions
        self.placer.calls.has_inside = True

        def on_host(held: Any, *values: Any) -> None:
            if not held and not raised and decisions.hold(values):
                raised.append(RuntimeError(complaint))

        io_callback(on_host, None, holds.value, *decisions.operands(), ordered=True)

    def next_count(self, counter: Any) -> Any:
        """Count a step of an optimizer, if the count is an input. Counts that were equal stay one number."""
        before = self.counts.get(id(counter))
        if before is None:
            return None
        if id(before) not in self._counted:
            self._counted[id(before)] = (before, before + 1)
        counted = self.counts[id(counter)] = self._counted[id(before)][1]
        return counted

    def count_inside(self) -> NoReturn:
        """Trace again with optimizers' step counts in the program, because code other than theirs sees one."""
        self.placer.plan.counts_inside = True
        raise Retrace

    def takes_schedule(self, scheduler: Any, step: Callable[..., None], arguments: Any) -> bool:
        """Step a scheduler on the host in each call, if possible; else return False."""
        if self.schedules is None or id(scheduler) not in self.schedules.hosted:
            return False
        self.schedules.trace(self, scheduler, step, *arguments)
        return True

    def note_write(self, array: DeviceMemory) -> None:
        """Record a write; refuse one to a tensor whose elements share memory (an expanded one), which no program has."""
        if not array.overlaps_itself():
            if self.placer is not None and array._parent is None:
                self.placer.note_write(array.buffer)
            return
        raise CompileError(
            f"undertow.compile: the step writes to a tensor of shape {list(array.shape)}, or to a part of it, whose "
            "elements "
            "share memory with each other (from expand, unfold or as_strided). Write to the tensor that it was made of, or "
            "to a clone() of it."
        )

    def note_storage_offset(self, array: DeviceArray) -> None:
        """Refuse the offset of a tensor from outside: that of the next call may differ."""
        if array.buffer.host is not None and threading.get_ident() == self.thread:
            raise CompileError(
                "undertow.compile: the step calls storage_offset() of a tensor from outside, which may differ in the next "
                "call. Call it before the step, and pass the number as an argument."
            )

    def note_sparse_gradient(self, shape: tuple[int, ...]) -> None:
        """Refuse code that asks whether a gradient is sparse: in a program it is dense."""
        self.has_sparse_gradients = True
        splitter = self.placer.plan.splitter
        names = self.state.names_in_code() | self.before.names_in_code()
        names |= set() if splitter is None else splitter.reading.all_names()
        asked = sorted(_OF_SPARSE & names)
        why = f"code of the step or of a hook names `{asked[0]}`" if asked else ""
        for optimizer in self.state.optimizers:
            for group in optimizer.param_groups:
                takes = isinstance(optimizer, (SGD, SparseAdam)) and not group.get("weight_decay")
                if not takes and any(tuple(p.shape) == shape for p in group["params"]):
                    why = why or f"{type(optimizer).__name__} treats those differently, or refuses them"
        if why:
            raise CompileError(
                f"undertow.compile: a gradient of shape {list(shape)} is sparse (Embedding(sparse=True), "
                f"gather(sparse_grad=True)), and {why}. Gradients in programs are dense, so this would differ from "
                "eager mode. Make the layer with sparse=False, or run the step eagerly: compile(step, "
                'fallback="eager").'
            )

    def refuse_value(self, array: DeviceMemory) -> None:
        """Refuse to give a value that only the running program knows."""
        if threading.get_ident() == self.thread:
            raise self.unknown(array)

    def unknown(self, array: DeviceMemory) -> NeedsValue:
        """Return the error for user code that needs a value."""
        site = _asking()
        line = f", in `{site.source}`" if site is not None and site.source else ""
        asked = f"the value of a tensor of shape {list(array.shape)} was asked for at {site or 'an unknown line'}{line}"
        cure = VALUE if array.size == 1 else VALUE_FOR_NUMPY
        why = "the step computes with it"
        if site is not None and not site.source:
            why = "the code there has no source that undertow can read"
            cure = f"write the step in a file, so that undertow can move what only needs the value; or {cure}"
        error = NeedsValue(f"{asked}, and {why}. Values are not known while a step is compiled: {cure}.")
        error.asked, error.line = asked, None if site is None else (site.filename, site.lineno)
        return error

    def item(self, array: DeviceArray, kind: type) -> Any:
        """Return the only element of an array as a guess or a stand-in, if this line may have one.

        A bool or an int is guessed; see `data_dependent_branches`. Other numbers have stand-ins; see `unbacked_scalars`.
        """
        site = _asking()
        if threading.get_ident() != self.thread:
            return kind(np.asarray(array.value)) if kind is not object else np.asarray(array.value).item()
        in_branches = self.decisions.branches is not None and kind is not int
        if not in_branches and (site is None or (site.filename, site.lineno) not in self.placer.plan.decided):
            raise self.unknown(array)
        if kind is bool or (kind is object and array.dtype.kind == "b"):
            return self.decide(array.value)
        if kind is int:
            return self.whole(array.value)
        number = None if self.placer.plan.exact_types else asked(array)
        if number is None:
            raise self.unknown(array)
        return number

    def decide(self, value: Any, guess: bool | None = None) -> bool:
        """Return whether a value is true, as the trace assumes."""
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        if self.decisions.branches is not None:
            return self.decisions.branches.decide(value)
        site = _asking()
        self.placer.refuse_calls_before(site)
        return self.decisions.answer(value, site, guess)

    def whole(self, value: Any) -> int:
        """Return an integer that code needs: each value has its own program."""
        site = _asking()
        self.placer.refuse_calls_before(site)
        return self.decisions.whole(value, site)

    def select(self, x: Any, indices: Sequence[Any]) -> Any:
        """Return x[indices] with a mask among them whose values only the program knows; see `selections`."""
        return self.selections.select(x, indices, _line_asking())

    def nonzero(self, mask: DeviceArray) -> Any:
        """Return where a mask is true, a row for each place; only the program knows the mask."""
        return self.selections.found(mask, _line_asking())

    def needs_number(self, array: DeviceArray, frame: FrameType | None) -> Exception:
        """Return the error for code that needs a number itself, or Retrace if C functions can be replaced."""
        self.selections.materialize_counted()
        if frame is not None:
            self.lift(frame)
        return self.unknown(array)

    def lift(self, frame: FrameType) -> None:
        """Replace C functions that a frame's code calls, in the next trace; see `host_scalar_functions`."""
        splitter = None if self.placer is None or threading.get_ident() != self.thread else self.placer.plan.splitter
        if splitter is not None and splitter.lift(frame.f_code):
            raise Retrace

    def rule_out_stand_ins(self) -> None:
        """Trace again with plain numbers, unless this trace has no others: the class of a number is looked at."""
        plan = self.placer.plan
        if not (plan.exact_types and plan.plain_numbers):
            plan.exact_types = plan.plain_numbers = True
            plan.counts = False
            plan.counters.clear()
            raise Retrace

    # --- what is left

    def living(self) -> list[Buffer]:
        """Return the buffers made during the trace that something still holds."""
        self._new_objects.collect()
        return list(self.memory.made)

    def undo(self) -> None:
        """Restore the arrays of tensors from outside."""
        self.memory.undo()
        self.host_inputs.rewind()

    def finish(self) -> None:
        """End a trace that became a program: buffers have real values again."""
        self.memory.finish()
        self.host_inputs.rewind()
