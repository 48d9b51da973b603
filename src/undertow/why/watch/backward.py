"""Record backward passes: their roots, the nodes they reach, the gradients they write, the first NaN or zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator, ValuesView
from functools import partial
from math import inf, isfinite
from types import CodeType
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place
from undertow.why.trace import BackwardRecord, NodeRecord, OpRecord
from undertow.why.watch.engine import carried_level, carried_norm
from undertow.why.watch.firings import RETURNS, Returns
from undertow.why.watch.patches import Patches

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher

# Nodes that pass on the values they get, so that no NaN and no zeros begin there.
SAME_VALUES = frozenset(
    f"{name}Backward0"
    for name in "Alias Clone Permute ReshapeAlias Squeeze T Transpose UnsafeView Unsqueeze View".split()
)


class Backwards:
    """Records `backward` and `autograd.grad`."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.trace = watcher.trace
        self.expected: Any = None  # a root whose backward() is already recorded and will call autograd.backward
        self.failed: dict[int, int] = {}  # id of an exception -> the backward that raised it
        self._errors: list[BaseException] = []  # kept alive, so that no id is reused
        self.run_by_passes: set[CodeType] = set()  # the code of custom Functions' backwards
        self._running: dict[int, _Pass] = {}

    def install(self, patches: Patches) -> None:
        autograd = self.watcher.engine.autograd
        patches.wrap(autograd, "backward", self._backward)
        patches.wrap(autograd, "grad", self._grad)

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            on_its_way, self.expected = tensors is self.expected, None
            if on_its_way or not self._starts_here():
                return original(tensors, *args, **kwargs)
            names = ("grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
            given = dict(zip(names, args), **kwargs)
            return self.run(
                lambda: original(tensors, *args, **kwargs), "backward", tensors, given.get("inputs"),
                given.get("retain_graph"), bool(given.get("create_graph", False)),
            )  # fmt: skip

        return backward

    def _grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._starts_here():
                return original(outputs, inputs, *args, **kwargs)
            given = dict(zip(("grad_outputs", "retain_graph", "create_graph"), args), **kwargs)
            if isinstance(inputs, (Iterator, ValuesView)):  # net.parameters(), which can be read once; weights.values()
                inputs = tuple(inputs)
            return self.run(
                lambda: original(outputs, inputs, *args, **kwargs), "grad", outputs, inputs,
                given.get("retain_graph"), bool(given.get("create_graph", False)),
            )  # fmt: skip

        return grad

    def _starts_here(self) -> bool:
        """Whether this call is to be recorded: by the program, or inside a backward (a checkpoint's second forward)."""
        watcher = self.watcher
        return watcher.watching or (self.current is not None and watcher.in_thread)

    @property
    def current(self) -> int | None:
        """The backward pass that runs in this thread."""
        return self.watcher.now.backward

    def raised(self, error: BaseException) -> int | None:
        """Return the backward that raised an exception, or the cause or context of one."""
        current: BaseException | None = error
        while current is not None:
            if id(current) in self.failed:
                return self.failed[id(current)]
            current = current.__cause__ or current.__context__
        return None

    def accumulated(self, tensor: Any) -> None:
        """Record a gradient that the pass has just written, before a post-accumulate hook gets it."""
        if self.current is not None and self.current in self._running:
            self._running[self.current].accumulated(tensor)

    # --- one pass

    def run(self, go: Callable[[], Any], kind: str, roots: Any, inputs: Any, retain: bool | None, create: bool) -> Any:
        """Run and record one backward pass, under the lock if there are several threads."""
        locked = self.watcher.lock.acquire()
        try:
            return self._run(go, kind, roots, inputs, retain, create)
        finally:
            if locked:
                self.watcher.lock.release()

    def _run(self, go: Callable[[], Any], kind: str, roots: Any, inputs: Any, retain: bool | None, create: bool) -> Any:
        watcher, trace, now = self.watcher, self.trace, self.watcher.now
        watcher.hooks.settle()
        place = watcher.here()
        record = BackwardRecord(
            id=len(trace.backwards), time=trace.tick(), place=place, kind=kind, roots=(), inputs=None, retain=retain,
            create=create, parent=self.current, firing=watcher.firing, frees=not (create if retain is None else retain),
        )  # fmt: skip
        trace.backwards.append(record)
        look = self._running[record.id] = _Pass(self, record)
        with watcher.unrecorded:
            look.begin(roots, inputs)
        record.time = trace.tick()  # records made by begin() are older than the pass
        outer, now.backward = now.backward, record.id
        busy, watcher.busy = watcher.busy, watcher.busy + 1
        mode_off = watcher.take_mode_off()
        codes = self.run_by_passes if record.id < RETURNS else ()
        try:
            with Returns(watcher, *codes) as returns, watcher.ranks.backward(record.leaves, place):
                result = go()
        except Exception as error:
            record.error = f"{type(error).__name__}: {error}"
            self.failed[id(error)] = record.id
            self._errors.append(error)
            with watcher.unrecorded:
                look.failed(error)
            raise
        finally:
            if mode_off:
                watcher.put_mode_on()
            watcher.busy = busy
            now.backward = outer
            record.returns = returns.places
            with watcher.unrecorded:
                look.end()
            del self._running[record.id]
            record.end = trace.tick()
        with watcher.unrecorded:
            look.results(result)
        return result


class _Pass:
    """The recording of one backward pass."""

    def __init__(self, backwards: Backwards, record: BackwardRecord) -> None:
        self.watcher = backwards.watcher
        self.trace = backwards.trace
        self.record = record
        self.recorder = self.watcher.recorder
        self.handles: list[Any] = []
        self.nodes: list[tuple[Any, int]] = []
        self.listens = False
        self.leaves: list[tuple[Any, int, bool]] = []  # (tensor, its id, whether it had a gradient)
        self.noted: set[int] = set()  # leaves whose new gradient is already recorded

    def begin(self, roots: Any, inputs: Any) -> None:
        """Before the pass: number the nodes it can reach, and observe each of them by a listener or a hook."""
        watcher, record, engine = self.watcher, self.record, self.watcher.engine
        place = record.place
        tensors = list(engine.tensors_in(roots))
        record.roots = tuple([watcher.see(tensor, place).id for tensor in tensors])
        record.root_peaks = tuple([engine.peak(tensor) for tensor in tensors])
        if inputs is not None:
            record.inputs = tuple([watcher.see(tensor, place).id for tensor in engine.tensors_in(inputs)])
        starts = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
        self.nodes = watcher.graph.walk(starts)
        record.nodes = len(self.nodes)
        self.listens = engine.listen(self._node_ran)
        nodes, this = self.trace.nodes, record.id
        for node, number in self.nodes:
            seen = nodes[number]
            seen.reached.append(this)
            if seen.leaf is not None:
                variable = node.variable
                self.leaves.append((variable, seen.leaf, variable.grad is not None))
                record.leaves.append(seen.leaf)
            if not self.listens:
                self.handles.append(node.register_hook(self._hook(node, number)))
        for tensor in tensors:
            if tensor.grad_fn is None and tensor.requires_grad:  # a leaf that is its own root
                leaf = watcher.see(tensor, place).id
                self.leaves.append((tensor, leaf, tensor.grad is not None))
                record.leaves.append(leaf)
        if self.recorder is not None:
            self.recorder.begin(watcher, record, tensors, [node for node, _ in self.nodes])
        watcher.names.note_all(watcher.caller())

    def _hook(self, node: Any, number: int) -> Callable[..., None]:
        seen, this = self.trace.nodes[number], self.record.id
        if self.recorder is None and seen.name in SAME_VALUES:
            ran = seen.ran
            return lambda grad_inputs, grad_outputs: ran.append(this)
        children = self._children(node) if seen.op in self.trace.functions else []
        return partial(self._at_node, number, seen, children)

    def _at_node(
        self, number: int, seen: NodeRecord, children: list[int | None], grad_inputs: Any, grad_outputs: Any
    ) -> None:
        watcher = self.watcher
        if watcher.mode_on or watcher.lock.needed:  # inside a mode of the program, or with threads
            with watcher.unrecorded:
                self._look(number, seen, children, grad_inputs, grad_outputs)
            return
        try:
            self._look(number, seen, children, grad_inputs, grad_outputs)
        except Exception as error:
            watcher.record_problem(error)

    def _look(
        self, number: int, seen: NodeRecord, children: list[int | None], grad_inputs: Any, grad_outputs: Any
    ) -> None:
        engine = self.watcher.engine
        seen.ran.append(self.record.id)
        if self.recorder is not None:
            self.recorder.at_node(number, grad_outputs, grad_inputs, engine.norm)
        if seen.leaf is not None:
            if grad_outputs and grad_outputs[0] is not None:
                self.record.written[seen.leaf] = engine.level(grad_outputs[0])
            return
        if children:
            self._kept_back(number, children, grad_inputs)
        self._passed_on(number, grad_outputs, grad_inputs, engine.level)

    def _node_ran(self, node: Any, got: Any, gave: Any) -> None:
        """Handle the engine's notification of a node that ran, with gradients as the engine holds them."""
        number = self.watcher.graph.number(node)
        if number is None:
            return
        seen = self.trace.nodes[number]
        seen.ran.append(self.record.id)
        if self.recorder is not None:
            self.recorder.at_node(number, got if isinstance(got, (list, tuple)) else (got,), gave, carried_norm)
        if seen.leaf is not None:
            self.record.written[seen.leaf] = carried_level(got)
            return
        if seen.name in SAME_VALUES:
            return
        if seen.op in self.trace.functions:
            self._kept_back(number, self._children(node), gave)
        for gradient in gave:
            level = carried_level(gradient)
            if level is not None and not 0 < level < inf:
                self._passed_on(number, got if isinstance(got, (list, tuple)) else (got,), gave, carried_level)
                return

    def _children(self, node: Any) -> list[int | None]:
        """Return the next node for each gradient that a node gives; None for an input without a graph."""
        number = self.watcher.graph.number
        return [None if child is None else number(child) for child, _ in node.next_functions]

    def _kept_back(self, number: int, children: list[int | None], gave: Any) -> None:
        """Record the nodes to which a custom Function gave no gradient."""
        missed = [child for child, grad in zip(children, gave) if child is not None and grad is None]
        self.record.nones += [(number, child) for child in missed]

    def _passed_on(self, number: int, got: Any, gave: Any, level_of: Callable[[Any], float | None]) -> None:
        """Record a node that turned finite gradients into NaN or Inf, or non-zero ones into zeros."""
        record = self.record
        told = [level for grad in gave if grad is not None and (level := level_of(grad)) is not None]
        zeros = told.count(0)
        if not zeros and all(map(isfinite, told)):
            return
        came = [level for grad in got if grad is not None and (level := level_of(grad)) is not None]
        if not all(map(isfinite, told)) and all(map(isfinite, came)):
            record.births.append(number)
        if zeros and any(came):
            if zeros == len(told):
                record.stops.append(number)
            else:
                record.zeros.append(number)

    def failed(self, error: Exception) -> None:
        """Find the nodes whose saved values were overwritten, after the pass raised."""
        if "modified by an inplace operation" not in str(error):
            return
        for node, number in self.nodes:
            for name in dir(node):
                if name.startswith("_saved_"):
                    try:
                        getattr(node, name)
                    except Exception as problem:  # any error about a value that is no longer there
                        if "modified by an inplace operation" in str(problem) and number not in self.record.damaged:
                            self.record.damaged.append(number)

    def accumulated(self, tensor: Any) -> None:
        """Record a gradient as it is written, before a hook may use or clear it."""
        if self.record.kind != "backward":
            return
        for leaf, number, had in self.leaves:
            if leaf is tensor and number not in self.noted:
                self.noted.add(number)
                self._wrote(tensor, number, had)

    def _wrote(self, tensor: Any, number: int, had: bool) -> bool:
        """Record the gradient of a leaf. Return whether there is one."""
        calls, record, place = self.watcher.calls, self.record, self.record.place
        found = calls.gradient(tensor, self.trace.tensors[number], place)
        if found is None:
            return False
        engine = self.watcher.engine
        peak = record.written[number] if number in record.written else engine.peak(tensor.grad)
        if not had:  # what was added is all of it
            found.peak, found.peak_version = peak, engine.version(tensor.grad)
        calls.grad_event("write", number, place, found=had, peak=peak, backward=record.id)
        return True

    def end(self) -> None:
        """After the pass: remove the hooks, and record the gradients that were written."""
        if self.listens:
            self.watcher.engine.unlisten(self._node_ran)
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.nodes.clear()
        record, place = self.record, self.record.place
        for tensor, number, had in self.leaves:
            if number in record.written and record.kind == "backward":
                if number not in self.noted and self._wrote(tensor, number, had) and record.create:
                    self._recorded([tensor.grad], place)
            elif record.kind == "grad":
                record.written.pop(number, None)
        if self.recorder is not None:
            self.recorder.end(self.watcher, record, [(tensor, number) for tensor, number, _ in self.leaves])
        self.leaves.clear()
        if record.kind == "backward":
            self._retained(place)

    def _retained(self, place: Place | None) -> None:
        """Record the gradients of computed tensors with retain_grad() that this pass reached."""
        calls = self.watcher.calls
        for reference in list(calls.retained):
            tensor = reference()
            if tensor is None:
                calls.retained.remove(reference)
                continue
            known = self.watcher.see(tensor, place)
            if known.node is not None and self.record.id in self.trace.nodes[known.node].ran:
                grad = calls.gradient(tensor, known, place)
                if grad is not None:
                    peak = self.watcher.engine.peak(tensor.grad)
                    self.record.written[known.id] = peak
                    calls.grad_event("write", known.id, place, peak=peak, backward=self.record.id)

    def results(self, result: Any) -> None:
        """Record autograd.grad() as an op with its roots and inputs as inputs and the gradients as results."""
        if self.record.kind == "grad":
            self._recorded(list(self.watcher.engine.tensors_in(result)), self.record.place)
            inputs = self.record.inputs or ()
            self.record.left_out = [number for number, grad in zip(inputs, result) if grad is None]

    def _recorded(self, grads: list[Any], place: Place | None) -> None:
        watcher, trace = self.watcher, self.trace
        known = [watcher.tensors.find(grad) or watcher.tensors.make(grad, place) for grad in grads]
        inputs = dict.fromkeys((*self.record.roots, *(self.record.inputs or ())))
        op = OpRecord(
            id=len(trace.ops), time=trace.tick(), name=f"autograd.{self.record.kind}", kind="grad", place=place,
            inputs=tuple(inputs), inputs_require_grad=(True,) * len(inputs), outputs=tuple([record.id for record in known]),
            outputs_require_grad=tuple([grad.requires_grad for grad in grads]), grad_mode=self.record.create,
            firing=watcher.firing, call=watcher.module_calls.current,
        )  # fmt: skip
        watcher.calls.finish(op, zip(grads, known))
        for grad, record in zip(grads, known):
            record.peak = watcher.engine.peak(grad)
