"""Notes on parameters that are shared and should not be, or should be and are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from undertow.why.causes.base import Cause, has_no_name
from undertow.why.facts.facts import Facts
from undertow.why.facts.intent import trained_tensors
from undertow.why.finding import Finding, fact, note
from undertow.why.keeping import stores
from undertow.why.source import assigned, receiver
from undertow.why.statements import alias_of
from undertow.why.trace import BindingRecord, ModuleRecord, OpRecord, WriteRecord


class StateDictReference(Cause):
    """`best = model.state_dict()` refers to the parameters, which go on changing."""

    code = "state-dict-reference"
    meaning = "a state_dict() is kept while steps change the parameters that it refers to"
    needs = "what state_dict() returned, steps, and load_state_dict()"

    def run(self, facts: Facts) -> Iterable[Finding]:
        tensors = facts.trace.tensors
        stepped: dict[int, list[WriteRecord | OpRecord]] = defaultdict(list)
        for write in facts.trace.writes:
            if write.name == "step":
                stepped[write.tensor].append(write)
        for tensor, updates in facts.updates.items():
            stepped[tensor] += [op for op in updates if op.name != "data.set"]  # that leaves what was kept as it is
        loads = {made.outputs[0]: copied for made, copied in _loaded_into_itself(facts)}
        states = [op for op in facts.trace.ops if op.name == "state_dict" and op.internal]
        collected = _collected(facts, states)
        for op in states:
            if op.place is None:
                continue
            name = stores(op.place) if op.id in collected else assigned(op.place)
            if op.outputs[0] not in loads and op.id not in collected and "best" not in name.lower():
                continue
            kept = op.outputs[0]
            died = tensors[kept].died
            changes = [
                write for write in stepped.get(op.inputs[0], ())
                if op.time < write.time and (died is None or write.time < died)
            ]  # fmt: skip
            load = loads.get(kept)
            if load is not None and not any(write.time < load.time for write in changes):
                load = None  # loaded before any step
            if changes and (load is not None or op.id in collected or "best" in name.lower()):
                name, model = name or "best", receiver(op.place) or "model"
                yield note(
                    self.code,
                    op.place,
                    name,
                    "state_dict() returns references to the parameters, not copies: the steps that follow change what is "
                    "kept here, too.",
                    [
                        fact("state_dict() is kept", op.place),
                        fact("a step changes the parameters, and with them what is kept", changes[0].place),
                        *([] if load is None else [fact("it is loaded: this changes nothing", load.place)]),
                    ],
                    f"{'' if op.id in collected else f'{name} = '}copy.deepcopy({model}.state_dict())",
                    [None if load is None else load.place],
                )


def _collected(facts: Facts, states: list[OpRecord]) -> set[int]:
    """Return the state_dicts that one line collects from step to step, and that are used after the next was taken."""
    lines: dict[tuple[object, int], list[OpRecord]] = defaultdict(list)
    for op in states:
        if op.place is not None and stores(op.place):
            lines[op.place.key, op.inputs[0]].append(op)
    ops, found = facts.trace.ops, set()
    for taken in lines.values():
        for op, following in pairwise(taken):
            if any(ops[use].time > following.time for use in facts.uses.get(op.outputs[0], ())):
                found.add(op.id)
    return found


class SharedTarget(Cause):
    """The target network is the trained network itself."""

    code = "shared-target-network"
    meaning = "a network that should follow another network, such as a target network, is that network itself"
    needs = "the names of modules, and load_state_dict() from a module's own state_dict()"

    def run(self, facts: Facts) -> Iterable[Finding]:
        trained = facts.once(trained_tensors)
        copied = {made.inputs[0]: load.place for made, load in _loaded_into_itself(facts) if _in_one_line(made, load)}
        for module in facts.trace.modules:
            inside = set(facts.parameters_in(module.id))
            if facts.module_parents.get(module.id) or inside.isdisjoint(trained):
                continue
            load = next((copied[tensor] for tensor in sorted(inside) if tensor in copied), None)
            names = _two_names(module)
            target = names[0] if names else module.names[0] if module.names else module.type
            if names or load is not None:
                place = alias_of(facts.files, target) or load or module.place
                other = names[1] if names else "the trained network"
                yield note(
                    self.code,
                    place,
                    target,
                    f"{target} and {other} are one module: every step changes both, so the targets move with what is "
                    "trained.",
                    [
                        fact("both names refer to one module", place),
                        *([fact("it is loaded with its own state", load)] if load is not None else []),
                    ],
                    f"{target} = copy.deepcopy({other})" if names else "copy.deepcopy(network)",
                    [load],
                )


class UntiedWeights(Cause):
    """A tied parameter was replaced in one of the modules that share it."""

    code = "untied-weights"
    meaning = "a parameter that two modules shared was replaced in one of them"
    needs = "every binding of parameters and modules"

    def run(self, facts: Facts) -> Iterable[Finding]:
        used = {number for op in facts.paths.differentiated for number in facts.trace.ops[op].inputs}
        for binding in facts.trace.bindings:
            for old, new, slot in _replaced(facts, binding):
                owners = _owners(facts, old, binding.time)
                stays = [
                    module for module in owners
                    if module != slot and old in facts.trace.modules[module].parameters.values()
                    and any(call.time > binding.time for call in facts.calls.get(module, ()))
                ]  # fmt: skip
                if slot in owners and stays and old in used and new in used:
                    yield self._note(facts, binding, old, new)
        yield from self._both(facts, used)

    def _both(self, facts: Facts, used: set[int]) -> Iterable[Finding]:
        """Find a shared parameter that each of its modules got a new one for: `a.weight, b.weight = Parameter(w), …`."""
        replaced: dict[int, list[tuple[BindingRecord, int, int]]] = defaultdict(list)
        for binding in facts.trace.bindings:
            for old, new, slot in _replaced(facts, binding):
                if slot in _owners(facts, old, binding.time) and new in used:
                    replaced[old].append((binding, new, slot))
        for changes in replaced.values():
            (first, new, slot), (last, other, place) = changes[0], changes[-1]
            if new != other and slot != place and first.time < last.time:
                yield self._note(facts, last, new, other)

    def _note(self, facts: Facts, binding: BindingRecord, old: int, new: int) -> Finding:
        name, other = facts.name(new), facts.name(old)
        return note(
            self.code,
            binding.place,
            name,
            f"This gives {name} a parameter of its own, which is no longer {other}.",
            [fact("the shared parameter is replaced here", binding.place), fact("both are trained from here on")],
            f"{other} = {name}  # tie them again, after the replacement" if not has_no_name(name + other) else
            "tie them again, after the replacement",
            tensor=new,
        )  # fmt: skip


def _loaded_into_itself(facts: Facts) -> Iterator[tuple[OpRecord, OpRecord]]:
    """Yield (state_dict, load_state_dict) ops of one parameter that is copied onto itself."""
    tensors = facts.trace.tensors
    for op in facts.trace.ops:
        if op.name == "copy_" and op.internal and len(op.inputs) == 2:
            made = facts.maker(op.inputs[1], op.time)
            same = tensors[op.inputs[0]].memory == tensors[op.inputs[1]].memory
            if same and made is not None and made.name == "state_dict":
                yield made, op


def _in_one_line(made: OpRecord, load: OpRecord) -> bool:
    """Whether one line takes a state and loads it: `target.load_state_dict(policy.state_dict())`."""
    return made.place is not None and load.place is not None and made.place.key == load.place.key


def _two_names(module: ModuleRecord) -> tuple[str, str] | None:
    """Return two names of one module of which only the first one says "target"."""
    targets = [name for name in module.names if "target" in name.rpartition(".")[2].lower()]
    others = [name for name in module.names if "target" not in name.lower() and not name.endswith("]")]
    return (targets[0], others[0]) if targets and others else None


def _replaced(facts: Facts, binding: BindingRecord) -> Iterator[tuple[int, int, int]]:
    """Yield (the old parameter, the one in its place at the end, its module) for what a binding replaced."""
    modules = facts.trace.modules
    if binding.tensor is not None and binding.old_tensor is not None and binding.tensor != binding.old_tensor:
        if modules[binding.module].parameters.get(binding.name) == binding.tensor:
            yield binding.old_tensor, binding.tensor, binding.module
    if binding.child is not None and binding.old_child is not None and binding.child != binding.old_child:
        new = modules[binding.child].parameters
        for name, old in modules[binding.old_child].parameters.items():
            if name in new and new[name] != old and modules[binding.module].children.get(binding.name) == binding.child:
                yield old, new[name], binding.old_child


def _owners(facts: Facts, tensor: int, time: int) -> set[int]:
    """Return the modules that a parameter had been bound in before a time."""
    return {binding.module for binding in facts.trace.bindings if binding.tensor == tensor and binding.time < time}
