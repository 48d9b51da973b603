"""A trace with indexes: uses, reachability, and which gradients the program uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar

from undertow.why.facts.flow import Flow
from undertow.why.facts.paths import Paths
from undertow.why.followed_values import numbers_from
from undertow.why.places import Place
from undertow.why.source import Span, bound_to, outline_of, span_of, text_of
from undertow.why.trace import (
    BackwardRecord,
    BindingRecord,
    CallRecord,
    Flag,
    GradEvent,
    HookRecord,
    OpRecord,
    OptimizerRecord,
    TensorRecord,
    Trace,
)

T = TypeVar("T")


class Facts:
    """A trace with its indexes, computed on first use. Causes read a run through this class."""

    def __init__(self, trace: Trace) -> None:
        trace.note_freed()
        self.trace = trace
        self._flows: dict[int, Flow] = {}
        self._once: dict[object, Any] = {}

    def once(self, function: Callable[[Facts], T]) -> T:
        """Return what a function computes from these facts; it runs once."""
        if function not in self._once:
            self._once[function] = function(self)
        return self._once[function]

    # --- ops

    @cached_property
    def uses(self) -> dict[int, list[int]]:
        """Tensor -> the ops that took it, or its value as a Python number, in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for op in self.trace.ops:
            for number in dict.fromkeys((*op.inputs, *op.scalars)):
                found[number].append(op.id)
        return found

    @cached_property
    def makers(self) -> dict[int, list[int]]:
        """Tensor -> the ops that made or changed it, in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for op in self.trace.ops:
            for number in op.outputs:
                found[number].append(op.id)
        return found

    @cached_property
    def memory(self) -> dict[int, list[int]]:
        """First tensor on a piece of memory -> all tensors that share this memory."""
        found: dict[int, list[int]] = defaultdict(list)
        for tensor in self.trace.tensors:
            found[tensor.memory].append(tensor.id)
        return found

    @cached_property
    def leaving(self) -> dict[object, list[OpRecord]]:
        """(file, span) of an expression, or (file, function, variable) -> ops that passed values to Python for it."""
        places: dict[Place, list[object]] = {}
        found: dict[object, list[OpRecord]] = defaultdict(list)
        for op in self.trace.ops:
            if op.kind == "leaves" and op.place is not None:
                keys = places.get(op.place)
                if keys is None:
                    keys = places[op.place] = numbers_from(op.place, self.ran)
                for key in keys:
                    found[key].append(op)
        return found

    @cached_property
    def writers(self) -> dict[int, list[OpRecord]]:
        """First tensor on a piece of memory -> the ops that wrote into it, in order."""
        found: dict[int, list[OpRecord]] = defaultdict(list)
        for op in self.trace.ops:
            for memory in {self.trace.tensors[number].memory for number in op.writes}:
                found[memory].append(op)
        return found

    def ran(self, file: str) -> frozenset[Span]:
        """Return the expressions of a file that ran as operations on tensors."""
        return self._ran.get(file, frozenset())

    @cached_property
    def _ran(self) -> dict[str, frozenset[Span]]:
        found: dict[str, set[Span]] = defaultdict(set)
        for op in self.trace.ops:
            if op.place is not None and op.kind in ("op", "function", "module", "enters"):
                found[op.place.file].add(span_of(op.place))
        return {file: frozenset(spans) for file, spans in found.items()}

    def maker(self, tensor: int, before: int | None = None) -> OpRecord | None:
        """Return the last op that made or changed a tensor, before a time."""
        for number in reversed(self.makers.get(tensor, ())):
            op = self.trace.ops[number]
            if before is None or op.time < before:
                return op
        return None

    def passed_to_python(self, tensor: int, op: OpRecord) -> OpRecord | None:
        """Return the op that passed a tensor's value to Python before `op` used it."""
        uses = (self.trace.ops[number] for number in reversed(self.uses[tensor]))
        return next((left for left in uses if left.kind == "leaves" and left.time < op.time), None)

    def cut_between(self, one: int, other: int) -> int | None:
        """Return the op (.data, detach) that separates the graphs of two tensors on the same memory, if any."""
        bases = [self._viewed(one), self._viewed(other)]
        makers = [self.trace.tensors[base].maker for base in bases if bases[0] != bases[1]]
        return next((made for made in makers if made is not None and self.trace.ops[made].kind == "cut"), None)

    def _viewed(self, tensor: int) -> int:
        """Return the base of a view, through all views in between."""
        trace = self.trace
        while (made := trace.tensors[tensor].maker) is not None and trace.ops[made].kind == "op":
            memory = trace.tensors[tensor].memory
            base = [
                taken for taken in trace.ops[made].inputs if taken < tensor and trace.tensors[taken].memory == memory
            ]
            if not base:
                break
            tensor = base[0]
        return tensor

    def made_at(self, tensor: int) -> Place | None:
        """Return the line that made a tensor."""
        record = self.trace.tensors[tensor]
        if record.maker is not None and record.copied_from is None:
            made = self.trace.ops[record.maker].place
            if made is not None:
                return made
        return record.place

    def made_alike(self, tensor: int, any_shape: bool = False) -> list[int]:
        """Return the parameters of the same shape that one expression made: an `nn.Linear(3, 4)` that ran repeatedly."""
        alike = self._parameters.get(self._made_by(tensor), [])
        shape = self.trace.tensors[tensor].shape
        return [other for other in alike if any_shape or self.trace.tensors[other].shape == shape]

    def _made_by(self, tensor: int) -> object:
        made = self.made_at(tensor)
        return None if made is None else (made.file, span_of(made), self._label(tensor))

    def _label(self, tensor: int) -> str:
        """Return the name of a parameter in its module."""
        module = self.trace.tensors[tensor].module
        parameters = {} if module is None else self.trace.modules[module].parameters
        return next((name for name, number in parameters.items() if number == tensor), "")

    @cached_property
    def _parameters(self) -> dict[object, list[int]]:
        found: dict[object, list[int]] = defaultdict(list)
        for record in self.trace.tensors:
            if record.parameter and (made := self._made_by(record.id)) is not None:
                found[made].append(record.id)
        return found

    def outermost(self, call: int | None) -> int | None:
        """Return the outermost module call around a call."""
        while call is not None:
            parent = self.trace.calls[call].parent
            if parent is None:
                return call
            call = parent
        return None

    # --- the graph

    @cached_property
    def accumulators(self) -> dict[int, list[int]]:
        """Leaf tensor -> its accumulator nodes (a new one for each graph)."""
        found: dict[int, list[int]] = defaultdict(list)
        for node in self.trace.nodes:
            if node.leaf is not None:
                found[node.leaf].append(node.id)
        return found

    @cached_property
    def parents(self) -> dict[int, list[int]]:
        """Node -> the nodes that send it gradients."""
        found: dict[int, list[int]] = defaultdict(list)
        for node in self.trace.nodes:
            for child in node.next:
                found[child].append(node.id)
        return found

    def nodes_of(self, tensor: int) -> list[int]:
        """Return the nodes at which a tensor's gradient arrives."""
        found: dict[int | None, None] = dict.fromkeys(self.accumulators.get(tensor, ()))
        for number in self.makers.get(tensor, ()):
            op = self.trace.ops[number]
            found.update(dict.fromkeys(node for made, node in zip(op.outputs, op.output_nodes) if made == tensor))
        found[self.trace.tensors[tensor].node] = None
        found.pop(None, None)
        return [node for node in found if node is not None]

    def reaching(self, tensor: int) -> list[BackwardRecord]:
        """Return the backward passes whose roots lead to a tensor."""
        numbers = {number for node in self.nodes_of(tensor) for number in self.trace.nodes[node].reached}
        roots = [record for record in self.trace.backwards if tensor in record.roots]
        numbers.update(record.id for record in roots)
        return [self.trace.backwards[number] for number in sorted(numbers)]

    def below(self, nodes: list[int]) -> set[int]:
        """Return all nodes that can be reached from some nodes, these included."""
        seen: set[int] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack.extend(self.trace.nodes[node].next)
        return seen

    @cached_property
    def differentiated(self) -> set[int]:
        """Backward passes that count as differentiating: backward(), and autograd.grad() calls that failed or gave None."""
        backwards = self.trace.backwards
        return {one.id for one in backwards if one.kind == "backward" or one.error is not None or one.left_out}

    def was_reached(self, node: int) -> bool:
        """Whether a differentiating backward pass could reach a node."""
        return any(number in self.differentiated for number in self.trace.nodes[node].reached)

    @cached_property
    def reached_calls(self) -> set[int | None]:
        """Outermost module calls with an op that a differentiating backward pass reached."""
        return {
            self.outermost(self.trace.ops[node.op].call)
            for node in self.trace.nodes
            if node.leaf is None and node.op is not None and node.op < len(self.trace.ops) and self.was_reached(node.id)
        }

    def flow(self, tensor: int) -> Flow:
        """Return where a tensor's values went."""
        if tensor not in self._flows:
            self._flows[tensor] = Flow(self, tensor)
        return self._flows[tensor]

    @cached_property
    def paths(self) -> Paths:
        """The paths from tensors to the roots of backward passes."""
        return Paths(self)

    # --- gradients

    @cached_property
    def grads(self) -> dict[int, list[GradEvent]]:
        """Tensor -> what happened to its .grad, in order."""
        found: dict[int, list[GradEvent]] = defaultdict(list)
        for event in self.trace.grads:
            found[event.tensor].append(event)
        return found

    def holders(self, tensor: int) -> list[OptimizerRecord]:
        """Return the optimizers that hold a tensor."""
        return [optimizer for optimizer in self.trace.optimizers if tensor in optimizer.tensors]

    def is_for(self, record: BackwardRecord, optimizer: int) -> bool:
        """Whether a backward pass served an optimizer: it wrote gradients of its tensors, or of no optimizer's."""
        others = [one for one in self.trace.optimizers if not one.tensors.keys().isdisjoint(record.written)]
        return not others or any(one.id == optimizer for one in others)

    def flag(self, tensor: int, time: int | None = None) -> Flag | None:
        """Return the last change of requires_grad before a time."""
        flags = [flag for flag in self.trace.tensors[tensor].flags if time is None or flag.time < time]
        return flags[-1] if flags else None

    def requires_grad(self, tensor: int, time: int | None = None) -> bool:
        """Whether a leaf required grad at a time."""
        flag = self.flag(tensor, time)
        return self.trace.tensors[tensor].requires_grad if flag is None else flag.value

    @cached_property
    def updates(self) -> dict[int, list[OpRecord]]:
        """Leaf -> the ops that changed it in place with values computed from a gradient: updates by hand."""
        found: dict[int, list[OpRecord]] = defaultdict(list)
        tensors = self.trace.tensors
        from_gradient: set[int] = set()
        for op in self.trace.ops:
            if op.kind == "copy":
                continue
            comes = op.kind == "grad" or any(
                number in from_gradient or tensors[number].gradient_of is not None for number in op.inputs
            )
            if not comes:
                continue
            from_gradient.update(number for number in op.outputs if number not in op.writes)
            for written in op.writes:
                if tensors[written].gradient_of is not None or tensors[tensors[written].memory].gradient_of is not None:
                    continue
                for other in {written, *self.memory[tensors[written].memory]}:
                    if tensors[other].leaf and (tensors[other].requires_grad or tensors[other].flags):
                        found[other].append(op)
        return found

    def stepped(self, first: int, last: int, tensors: Iterable[int] | None = None) -> bool:
        """Whether an optimizer, or an update by hand, changed one of some tensors (or any) between two times."""
        wanted = None if tensors is None else set(tensors)
        times = [
            step.time
            for optimizer in self.trace.optimizers
            if wanted is None or not wanted.isdisjoint(optimizer.tensors)
            for step in optimizer.steps
        ]
        updates = self.updates.items()
        times += [op.time for tensor, ops in updates if wanted is None or tensor in wanted for op in ops]
        return any(first < time < last for time in times)

    @property
    def steps_at_all(self) -> bool:
        """Whether the program trains: it steps an optimizer, or updates a leaf by hand."""
        return self.stepped(-1, self.trace.time + 1)

    def grads_and_updates(self, tensor: int) -> list[GradEvent]:
        """Return the events of a tensor's .grad in order, with an update by hand as a step."""
        by_hand = [GradEvent(op.time, "step", tensor, op.place, True, 1.0) for op in self.updates.get(tensor, ())]
        return sorted([*self.grads.get(tensor, ()), *by_hand], key=lambda event: event.time)

    # --- modules and hooks

    @cached_property
    def replaced(self) -> set[int]:
        """Parameters that were replaced in their module."""
        found = {
            binding.old_tensor for binding in self.trace.bindings if binding.old_tensor not in (None, binding.tensor)
        }
        for binding in self.trace.bindings:
            if binding.old_child is not None and binding.old_child != binding.child:
                found.update(self.parameters_in(binding.old_child))
            if binding.name == "parametrizations":  # its children replace the parameters of the same names
                names = self.trace.modules[binding.child].children if binding.child is not None else ()
                old = self.trace.modules[binding.module].parameters
                found.update({old[name] for name in names if name in old}.difference(self.parameters_in(binding.child)))
        return {tensor for tensor in found if tensor is not None}

    @cached_property
    def module_parents(self) -> dict[int, list[int]]:
        """Module -> the modules in which it is registered."""
        found: dict[int, list[int]] = defaultdict(list)
        for module in self.trace.modules:
            for child in module.children.values():
                found[child].append(module.id)
        return found

    def ancestors(self, module: int | None) -> set[int]:
        """Return a module and every module that contains it."""
        return self._spread(module, self.module_parents)

    def descendants(self, module: int | None) -> set[int]:
        """Return a module and every module in it."""
        return self._spread(module, {record.id: list(record.children.values()) for record in self.trace.modules})

    def parameters_in(self, module: int | None) -> list[int]:
        """Return the parameters of a module and its children."""
        return [
            tensor for number in self.descendants(module) for tensor in self.trace.modules[number].parameters.values()
        ]

    def tree(self, module: int | None) -> set[int]:
        """Return every module that shares an ancestor with a module."""
        return {inner for outer in self.ancestors(module) for inner in self.descendants(outer)}

    def _spread(self, start: int | None, edges: dict[int, list[int]]) -> set[int]:
        seen: set[int] = set()
        stack = [] if start is None else [start]
        while stack:
            module = stack.pop()
            if module not in seen:
                seen.add(module)
                stack.extend(edges.get(module, ()))
        return seen

    @cached_property
    def calls(self) -> dict[int, list[CallRecord]]:
        """Module -> its runs, in order."""
        found: dict[int, list[CallRecord]] = defaultdict(list)
        for call in self.trace.calls:
            found[call.module].append(call)
        return found

    @cached_property
    def hooks(self) -> list[HookRecord]:
        """The hooks that user code registered."""
        return [hook for hook in self.trace.hooks if hook.user and hook.place is not None]

    @cached_property
    def copies(self) -> dict[int, list[tuple[int, Place | None, int]]]:
        """Tensor -> (its counterpart, the deepcopy, when), for copies and originals."""
        found: dict[int, list[tuple[int, Place | None, int]]] = defaultdict(list)
        for record in self.trace.copies:
            for old, new in record.tensors.items():
                found[old].append((new, record.place, record.time))
                found[new].append((old, record.place, record.time))
        return found

    @cached_property
    def module_copies(self) -> dict[int, list[tuple[int, Place | None, int]]]:
        """Module -> (its counterpart, the deepcopy, when), for copies and originals."""
        found: dict[int, list[tuple[int, Place | None, int]]] = defaultdict(list)
        for record in self.trace.copies:
            for old, new in record.modules.items():
                found[old].append((new, record.place, record.time))
                found[new].append((old, record.place, record.time))
        return found

    @cached_property
    def files(self) -> list[str]:
        """The program's files that made modules or tensors, its script first."""
        made = [module.place for module in self.trace.modules] + [tensor.place for tensor in self.trace.tensors]
        files = [self.trace.script, *(outer.file for place in made if place is not None for outer in place.chain())]
        return [file for file in dict.fromkeys(files) if file is not None]

    def in_forward(self, binding: BindingRecord) -> bool:
        """Whether an attribute was bound while its module ran."""
        return any(call.time < binding.time < call.end for call in self.calls.get(binding.module, ()))

    # --- names

    def name(self, tensor: int) -> str:
        """Return the program's name for a tensor; without one, its name in a module or the place that made it."""
        record: TensorRecord = self.trace.tensors[tensor]
        if record.names:
            return record.names[0]
        if record.module is not None and (label := self._label(tensor)):
            module = self.trace.modules[record.module]
            return f"{module.names[0] if module.names else module.type}.{label}"
        made = None if record.maker is None else self.trace.ops[record.maker]
        named = "" if made is None else _binds(made, tensor)
        for call in self._returned.get(tensor, ()) if not named else ():
            named = named or _binds(call, tensor)
        if named:
            return named
        if made is not None and made.kind == "cut" and made.inputs and made.inputs[0] < tensor:
            return self.name(made.inputs[0])  # the same values
        text = "" if made is None else text_of(made.place) or outline_of(made.place)
        return text or self.trace.name(tensor)

    @cached_property
    def _returned(self) -> dict[int, list[CallRecord]]:
        """Tensor -> the module calls that returned it, innermost first."""
        found: dict[int, list[CallRecord]] = defaultdict(list)
        for call in reversed(self.trace.calls):
            for output in call.outputs:
                found[output].append(call)
        return found


def _binds(made: OpRecord | CallRecord, tensor: int) -> str:
    """Return the variable that an op's or a module call's statement binds to one of its results."""
    return bound_to(made.place, made.outputs.index(tensor), len(made.outputs)) if tensor in made.outputs else ""
