"""Record every torch function, method and tensor attribute that the program uses, through a function mode."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cache
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.why.places import Place
from undertow.why.trace import (
    BAD,
    FINE,
    INFINITE_ON_PURPOSE,
    NAN_GIVEN,
    Flag,
    GradEvent,
    OpRecord,
    RefusedRecord,
    TensorRecord,
    WriteRecord,
)

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher

LEAVES = frozenset("item __float__ __int__ __index__ __complex__ tolist numpy __array__".split())
SHOWS = frozenset("__repr__ __str__ __format__ __bool__".split())
CUTS = frozenset("detach detach_ data.get tensor new_tensor as_tensor asarray".split())
ENTERS = frozenset("tensor as_tensor asarray from_numpy frombuffer".split())
_TAKES_A_SHAPE = frozenset("view_as expand_as reshape_as type_as".split())  # the second operand's values are not used
_SHARES = frozenset("detach data.get".split())  # the result shares memory, but is not a view
_PASSES = 4096  # how many numbers from item() are remembered


@cache
def _only_the_shape(name: str) -> bool:
    """Whether a function, such as zeros_like, uses a tensor's shape and not its values."""
    return name.endswith("_like") or (name.startswith("new_") and name != "new_tensor")


class Calls:
    """The function mode, and the records of the calls it gets."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.trace = watcher.trace
        self.engine = watcher.engine
        self.passed: OrderedDict[int, tuple[Any, int]] = OrderedDict()  # id -> (number or array, its tensor)
        self.retained: list[Any] = []  # weak references to tensors with retain_grad()
        self.special: dict[str, Callable[..., Any]] = {
            "grad.get": self._grad_read,
            "grad.set": self._grad_set,
            "data.set": self._data_set,
            "requires_grad.set": self._flag_set,
            "requires_grad_": self._flag_set,
            "retain_grad": self._retain,
            "backward": self._backward,
            "register_hook": self._register,
            "register_post_accumulate_grad_hook": self._register,
        }
        self.mode = self._make_mode()

    def _make_mode(self) -> Any:
        base = self.engine.overrides.TorchFunctionMode
        calls, watcher, suspend, resume = self, self.watcher, self.engine.suspend_mode, self.engine.resume_mode
        now, lock = watcher.now, watcher.lock

        class Watching(base):  # type: ignore[misc, valid-type]
            """The function mode of `undertow why`."""

            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if now.busy or not watcher.on:
                    return function(*args, **(kwargs or {}))
                locked = lock.acquire()
                if lock.needed and not locked:
                    return function(*args, **(kwargs or {}))
                now.busy, now.mode_on = 1, False
                suspend()
                try:
                    return calls.call(function, args, kwargs or {})
                finally:
                    resume()
                    now.busy, now.mode_on = 0, True
                    if locked:
                        lock.release()

        return Watching()

    # --- one call

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function and record it."""
        name = self.engine.name_of(function)
        special = self.special.get(name)
        if special is not None and args and isinstance(args[0], self.engine.Tensor):
            return special(name, function, args, kwargs)
        if name.endswith(".get"):
            result = function(*args)
            if isinstance(result, self.engine.Tensor) and result is not args[0]:
                self._record(name, function, args, kwargs, result, self._before(args, kwargs))
            return result
        before = self._before(args, kwargs)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            self._refused(name, before, error)
            raise
        try:
            self._record(name, function, args, kwargs, result, before)
        except Exception as error:
            self.watcher.record_problem(error)
        return result

    def _refused(self, name: str, before: list[tuple[Any, bool, int]], error: Exception) -> None:
        with self.watcher.unrecorded:
            place = self.watcher.here()
            inputs = tuple([self.watcher.see(tensor, place).id for tensor, _, _ in before])
            self.trace.refused.append(RefusedRecord(self.trace.tick(), name, place, inputs, str(error)))

    def _before(self, args: Any, kwargs: Any) -> list[tuple[Any, bool, int]]:
        """Return the tensors among the arguments, whether each requires grad, and its version."""
        engine = self.engine
        found = engine.tensors_in(args)
        if kwargs:
            found += engine.tensors_in(kwargs)
        asks, version = engine.requires_grad, engine.version
        return [(tensor, asks(tensor), version(tensor)) for tensor in found]

    def _record(
        self, name: str, function: Any, args: Any, kwargs: Any, result: Any, before: list[tuple[Any, bool, int]]
    ) -> None:
        engine, watcher, trace = self.engine, self.watcher, self.trace
        written = [tensor for tensor, _, version in before if engine.version(tensor) != version]
        made = engine.tensors_in(result)
        if before and made:
            taken = [id(tensor) for tensor, _, _ in before]
            made = [tensor for tensor in made if id(tensor) not in taken]
        if name == "detach_":
            written = [args[0]]
        firing = watcher.firing
        leaves = name in LEAVES or (firing is not None and before and not made and not written)
        if not (made or written or leaves or (firing is not None and name in SHOWS)):
            return
        place = watcher.here()
        values = [] if _only_the_shape(name) else before[:1] if name in _TAKES_A_SHAPE else before
        find, see = watcher.tensors.find, watcher.see
        inputs = [find(tensor) or see(tensor, place) for tensor, _, _ in values]
        kind = self._kind(name, bool(leaves), bool(inputs))
        scalars, constant = self._numbers(args, kwargs)
        changed = made + written if written else made
        records = self._made(name, changed, inputs, place)
        grad_mode = engine.is_grad_enabled()
        time = trace.tick()
        op = OpRecord(
            len(trace.ops), time, name, kind, place,
            tuple([record.id for record in inputs]),
            tuple([asked for _, asked, _ in values]),
            tuple([record.id for record in records]),
            tuple([engine.requires_grad(tensor) for tensor in changed]),
            grad_mode,
            None if grad_mode else watcher.off,
            tuple([see(tensor, place).id for tensor in written]) if written else (),
            scalars,
            firing=firing,
            call=watcher.module_calls.current,
        )  # fmt: skip
        if kind == "cut" or name == "copy_":
            self._on_behalf(op, function)
        self._look(op, changed, records, inputs, constant)
        self.finish(op, zip(changed, records))
        if written:
            for tensor, record in zip(written, records[len(made) :]):
                self.wrote(tensor, record, place, name, op.id)
        if kind == "cut":
            for tensor, record in zip(made, records):
                watcher.copies.cut(tensor, record)
        elif kind == "leaves":
            self._remember(result, op.inputs[0] if op.inputs else None)

    def _on_behalf(self, op: OpRecord, function: Any) -> None:
        """Record whether library code made the cut or copy, and name it `state_dict` if that did."""
        frame = self.watcher.caller(function)
        op.internal = frame is None or not self.watcher.places.is_user(frame.f_code)
        if frame is not None and frame.f_code.co_name == "_save_to_state_dict":
            op.name = "state_dict"

    def _kind(self, name: str, leaves: bool, inputs: bool) -> str:
        if leaves or name in SHOWS:
            return "leaves"
        if name in CUTS and inputs:
            return "cut"
        if name in ENTERS:
            return "enters"
        return "op"

    def finish(self, op: OpRecord, made: Iterable[tuple[Any, TensorRecord]]) -> None:
        """Add an op, number the nodes it made, and record it as the last maker of its results."""
        self.add(op)
        fresh: list[int] = []
        output_nodes: list[int | None] = []
        for tensor, record in made:
            node = self.engine.node(tensor)
            if node is None:
                record.node = None
            else:
                record.node, new = self.watcher.graph.take(node, op.id)
                fresh += new
            output_nodes.append(record.node)
            record.op = op.id
            if record.maker is None:
                record.maker = op.id
        op.nodes = tuple(fresh)
        op.output_nodes = tuple(output_nodes)

    def add(self, op: OpRecord) -> None:
        self.trace.ops.append(op)
        if len(self.trace.ops) >= self.watcher.limit and self.trace.complete:
            self.watcher.stop_recording()

    def _made(
        self, name: str, tensors: list[Any], inputs: list[TensorRecord], place: Place | None
    ) -> list[TensorRecord]:
        """Return the records of an op's results."""
        found = []
        known = self.watcher.tensors
        for tensor in tensors:
            record = known.find(tensor)
            if record is None:
                record = known.make(tensor, place)
                if name in _SHARES and inputs:
                    record.memory = inputs[0].memory
            found.append(record)
        return found

    # --- values

    def values(self, op: OpRecord, tensors: list[Any], records: list[TensorRecord], given: list[Any]) -> None:
        """Measure the results of an op that was not recorded by the mode."""
        self._look(op, tensors, records, [self.watcher.see(tensor, op.place) for tensor in given], False)

    def clipped(self, op: OpRecord, made: list[tuple[Any, TensorRecord]], inputs: list[TensorRecord]) -> None:
        """Add the op that stands for a clipping of gradients."""
        self._look(op, [tensor for tensor, _ in made], [record for _, record in made], inputs, False)
        self.finish(op, made)

    def _look(
        self, op: OpRecord, tensors: list[Any], records: list[TensorRecord], inputs: list[TensorRecord], constant: bool
    ) -> None:
        """Measure the results, and record whether NaN or Inf first appears here."""
        worst = FINE
        memories = []
        for known in inputs:
            memories.append(known.memory)
            if known.state > worst:
                worst = known.state
        peaks: list[float | None] = []
        for tensor, record in zip(tensors, records):
            if (worst == FINE and record.memory in memories and record.id not in op.writes) or "empty" in op.name:
                peaks.append(None)  # a view of measured values, or uninitialized memory
                continue
            peak = self.engine.peak(tensor) if record.floating else None
            peaks.append(peak)
            record.peak = peak
            record.state = FINE
            if peak is None or isfinite(peak):
                continue
            if worst == BAD:
                record.state = BAD
            elif constant or not inputs:
                record.state = NAN_GIVEN if isnan(peak) else INFINITE_ON_PURPOSE
            elif worst == NAN_GIVEN:
                record.state = NAN_GIVEN
            elif worst == INFINITE_ON_PURPOSE and not isnan(peak):
                record.state = INFINITE_ON_PURPOSE
            else:
                record.state = BAD
                op.born = True
        op.peaks = tuple(peaks)

    def _numbers(self, args: Any, kwargs: Any) -> tuple[tuple[int, ...], bool]:
        """Return the tensors whose values came back as Python arguments, and whether NaN or Inf is a constant."""
        found: list[int] = []
        constant = False
        stack = [*args, *kwargs.values()] if kwargs else list(args)
        while stack:
            value = stack.pop()
            kind = type(value)
            if kind is float:
                constant = constant or not isfinite(value)
                source = self.passed.get(id(value))
                if source is not None and source[0] is value:
                    found.append(source[1])
            elif (kind is list or kind is tuple) and len(value) < 1000:
                stack.extend(value)
            elif kind is np.ndarray:
                found += self.left(value)
        return (tuple(dict.fromkeys(found)) if found else ()), constant

    def left(self, array: Any) -> tuple[int, ...]:
        """Return the tensor that an array came from by numpy(), if any; views of the array count."""
        while isinstance(array, np.ndarray):
            source = self.passed.get(id(array))
            if source is not None and source[0] is array:
                return (source[1],)
            array = array.base
        return ()

    def _remember(self, value: Any, tensor: int | None) -> None:
        """Remember a number or array that was passed to Python, to recognise it as a later argument."""
        if tensor is None:
            return
        values = value if isinstance(value, list) else [value]
        for part in values[:256]:
            if type(part) is float or type(part) is np.ndarray:
                self.passed[id(part)] = part, tensor
        while len(self.passed) > _PASSES:
            self.passed.popitem(last=False)

    def wrote(self, tensor: Any, record: TensorRecord, place: Place | None, name: str, op: int | None) -> None:
        """Record an in-place change of a tensor; if it is a gradient, also its edit or clearing."""
        self.trace.writes.append(
            WriteRecord(self.trace.tick(), record.id, place, name, op, self.engine.version(tensor))
        )
        record.peak_version = self.trace.tensors[record.memory].peak_version = -1
        owner = record.gradient_of
        if owner is None:
            owner = self.trace.tensors[record.memory].gradient_of
        if owner is not None:
            peak = record.peak
            kind = "clear" if peak == 0 and self.watcher.firing is None else "edit"  # zeros from a hook are an edit
            self.grad_event(kind, owner, place, found=True, peak=peak, direct=self.watcher.called_by_user())

    # --- attributes and methods about gradients

    def grad_event(self, kind: str, tensor: int, place: Place | None, **facts: Any) -> GradEvent:
        event = GradEvent(self.trace.tick(), kind, tensor, place, **facts)
        self.trace.grads.append(event)
        return event

    def gradient(self, tensor: Any, record: TensorRecord, place: Place | None) -> TensorRecord | None:
        """Return the record of a tensor's gradient, marked as its gradient; None if there is none."""
        grad = tensor.grad
        if grad is None:
            return None
        found = self.watcher.see(grad, place)
        found.gradient_of = record.id
        return found

    def _grad_read(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        result = function(*args)
        watcher, find = self.watcher, self.watcher.tensors.find
        by_user = watcher.called_by_user()
        if not by_user:
            known = find(args[0])
            if known is not None and (result is None or getattr(find(result), "gradient_of", None) == known.id):
                return result  # a library reads it, and nothing is new
        with watcher.unrecorded:
            place = watcher.here()
            record = watcher.see(args[0], place)
            peak = None
            if result is not None:
                grad = watcher.see(result, place)
                grad.gradient_of = record.id
                peak = grad.peak = self.engine.peak(result)
            if by_user:
                self.grad_event("read", record.id, place, found=result is not None, peak=peak)
        return result

    def _grad_set(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        tensor, value = args[0], args[1] if len(args) > 1 else None
        found = tensor.grad is not None
        result = function(*args)
        with self.watcher.unrecorded:
            place = self.watcher.here()
            record = self.watcher.see(tensor, place)
            peak = None
            if value is not None:
                grad = self.watcher.see(value, place)
                grad.gradient_of = record.id
                peak = self.engine.peak(value)
            kind = "clear" if value is None or peak == 0 else "set"
            self.grad_event(kind, record.id, place, found=found, peak=peak, direct=self.watcher.called_by_user())
        return result

    def _data_set(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        result = function(*args)
        with self.watcher.unrecorded:
            self.moved_in(args[0], args[1], self.watcher.here())
        return result

    def moved_in(self, tensor: Any, value: Any, place: Place | None) -> None:
        """Record `tensor.data = value`: the tensor gets the memory of the value, but not its graph."""
        record, source = self.watcher.see(tensor, place), self.watcher.see(value, place)
        record.memory = source.memory
        grad_mode = self.engine.is_grad_enabled()
        op = OpRecord(
            id=len(self.trace.ops), time=self.trace.tick(), name="data.set", kind="cut", place=place,
            inputs=(source.id,), inputs_require_grad=(value.requires_grad,), outputs=(record.id,),
            outputs_require_grad=(False,), grad_mode=grad_mode, off=None if grad_mode else self.watcher.off,
            writes=(record.id,),
            firing=self.watcher.firing, call=self.watcher.module_calls.current, peaks=(source.peak,),
        )  # fmt: skip
        record.peak, record.state, record.op = source.peak, source.state, op.id
        self.add(op)
        self.wrote(tensor, record, place, "data.set", op.id)

    def _flag_set(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        before = tensor.requires_grad
        result = function(*args, **kwargs)
        with self.watcher.unrecorded:
            place, after = self.watcher.here(), tensor.requires_grad
            record = self.watcher.see(tensor, place)
            if before != after:
                record.flags.append(Flag(self.trace.tick(), after, place))
        return result

    def _retain(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        result = function(*args)
        with self.watcher.unrecorded:
            record = self.watcher.see(args[0], self.watcher.here())
            record.retained = record.retained or self.trace.tick()
            self.retained.append(weakref.ref(args[0]))
        return result

    def _backward(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        given = dict(zip(("gradient", "retain_graph", "create_graph", "inputs"), args[1:]), **kwargs)
        if self.engine.name == "torch":
            self.watcher.backwards.expected = args[0]
        return self.watcher.backwards.run(
            lambda: function(*args, **kwargs), "backward", args[0], given.get("inputs"),
            given.get("retain_graph"), bool(given.get("create_graph", False)),
        )  # fmt: skip

    def _register(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        hook = args[1] if len(args) > 1 else kwargs["hook"]
        kind = "tensor" if name == "register_hook" else "post-accumulate"
        return self.watcher.hooks.register(kind, args[0], hook, lambda watched: function(args[0], watched))
