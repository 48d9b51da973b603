"""not-in-optimizer: it gets gradients, but no optimizer steps it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from undertow.why.causes.base import Cause
from undertow.why.facts.facts import Facts
from undertow.why.facts.intent import follows, is_a_repeat, stays_fixed
from undertow.why.finding import Finding, fact
from undertow.why.keeping import stores
from undertow.why.places import Place
from undertow.why.source import assigned, source
from undertow.why.trace import BindingRecord, ErrorRecord, OptimizerRecord


class NotInOptimizer(Cause):
    """A parameter that was replaced after the optimizer was created, hidden from parameters(), or forgotten."""

    code = "not-in-optimizer"
    meaning = "gets gradients, and an optimizer steps, but no optimizer holds it"
    needs = "what each optimizer holds, and where parameters were made and bound"

    def run(self, facts: Facts) -> Iterable[Finding]:
        stepping = [optimizer for optimizer in facts.trace.optimizers if optimizer.steps]
        held = {tensor for optimizer in facts.trace.optimizers for tensor in optimizer.tensors}
        tensors = facts.trace.tensors
        parameters = [tensor for opt in stepping for tensor in opt.tensors if tensors[tensor].parameter]
        layers = [tensor for tensor in parameters if _is_of_a_layer(facts, tensor)]
        found: dict[int, list[OptimizerRecord]] = defaultdict(list)
        for optimizer in stepping:
            for tensor in _beside(facts, optimizer):
                if tensor not in held and (tensor not in facts.updates or _is_copy_with_unused_grad(facts, tensor)):
                    found[tensor].append(optimizer)
        for tensor in sorted(found):
            is_parameter = tensors[tensor].parameter
            # An optimizer without layers trains inputs of a network: an image, a prompt, a temperature.
            alike = layers if _is_of_a_layer(facts, tensor) else parameters
            trained = is_parameter and (bool(alike) or _is_looked_at(facts, tensor))
            trained = trained or (not is_parameter and not parameters and _looks_trained(facts, tensor))
            if stays_fixed(facts, tensor) or follows(facts, tensor):
                continue
            if trained or _is_plain_weight(facts, tensor):
                yield self._finding(facts, tensor, found[tensor])

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        """Explain a step between forward and backward that changes another network: its optimizer repeats a list."""
        if "modified by an inplace operation" not in error.message:
            return None
        repeats = [one.place for one in facts.trace.optimizers if is_a_repeat(facts, one) and one.place is not None]
        found = [one for one in self.run(facts) if (one.file, one.line) in [place.key for place in repeats]]
        for other in found[1:]:
            found[0].subjects += other.subjects
        return found[0] if found else None

    def _finding(self, facts: Facts, tensor: int, stepping: list[OptimizerRecord]) -> Finding:
        name = facts.name(tensor)
        optimizer = min(
            stepping,
            key=lambda one: (not _is_near(facts, tensor, one), not is_a_repeat(facts, one),
                             -_passes_together(facts, tensor, one), one.id),
        )  # fmt: skip
        place, how, cure = _where(facts, tensor, optimizer)
        return Finding(
            self.code,
            place,
            name,
            f"{name} gets gradients, and no optimizer holds it: {how}.",
            [
                fact("the optimizer takes its list of parameters", optimizer.place),
                fact(f"{name}: {how}", place),
                fact("the optimizer steps", optimizer.steps[0].place),
            ],
            cure,
            [optimizer.place, facts.made_at(tensor)],
            tensor,
        )


def _beside(facts: Facts, optimizer: OptimizerRecord) -> list[int]:
    """Return the tensors that got gradients in backward passes whose gradients an optimizer then used.

    A step that found no gradient at all counts for every earlier backward: its whole list may be wrong.
    """
    found: dict[int, None] = {}
    looks = [event for event in facts.trace.grads if event.kind == "step" and event.optimizer == optimizer.id]
    waiting = deque(record for record in facts.trace.backwards if record.kind == "backward")
    size = len(looks) // len(optimizer.steps)  # each step reads every tensor of its optimizer
    for number, step in enumerate(optimizer.steps):
        end = step.end if step.closure else step.time
        empty = not any(event.found for event in looks[number * size : (number + 1) * size])
        while waiting and waiting[0].time < end:
            written = waiting.popleft().written
            if empty or not optimizer.tensors.keys().isdisjoint(written):
                found.update(dict.fromkeys(tensor for tensor, peak in written.items() if peak))
    return [tensor for tensor in found if facts.trace.tensors[tensor].leaf]


def _is_of_a_layer(facts: Facts, tensor: int) -> bool:
    """Whether a tensor is a parameter of a module; not if it is alone, or in a ParameterList."""
    module = facts.trace.tensors[tensor].module
    return module is not None and facts.trace.modules[module].type not in ("ParameterList", "ParameterDict")


def _is_copy_with_unused_grad(facts: Facts, tensor: int) -> bool:
    """Whether a copy that is updated by hand gets a gradient after that, which belongs to its original."""
    events, updates = facts.grads[tensor], facts.updates[tensor]
    original = facts.trace.tensors[tensor].copied_from
    if original is None or not facts.holders(original) or not events or events[-1].kind != "write":
        return False
    steps = [event for event in facts.grads[original] if event.kind == "step"]
    return max(op.time for op in updates) < events[-1].time and not any(event.found for event in steps)


def _looks_trained(facts: Facts, tensor: int) -> bool:
    """Whether a leaf is trained like other plain leaves, rather than an input whose gradient is only inspected."""
    events = facts.grads[tensor]
    if any(event.kind == "read" for event in events):
        return False
    backwards = [record for record in facts.trace.backwards if record.kind == "backward"]
    return sum(event.kind == "write" for event in events) == len(backwards)


def _is_looked_at(facts: Facts, tensor: int) -> bool:
    """Whether the program reads the gradient: the parameter may belong to a fixed network before the loss."""
    return any(event.kind == "read" and event.direct for event in facts.grads[tensor])


def _is_plain_weight(facts: Facts, tensor: int) -> bool:
    """Whether a plain tensor is a module's attribute and gets gradients repeatedly."""
    record = facts.trace.tensors[tensor]
    events = facts.grads[tensor]
    if record.attribute_of is None or record.parameter or any(event.kind == "read" for event in events):
        return False
    return sum(event.kind == "write" for event in events) > 1


def _is_near(facts: Facts, tensor: int, optimizer: OptimizerRecord) -> bool:
    """Whether an optimizer holds a parameter of the same module tree."""
    module = facts.trace.tensors[tensor].module
    tree = facts.tree(module) if module is not None else set()
    return any(facts.trace.tensors[other].module in tree for other in optimizer.tensors)


def _passes_together(facts: Facts, tensor: int, optimizer: OptimizerRecord) -> int:
    """Return how many backward passes gave gradients both to a tensor and to an optimizer's tensors."""
    passes = [record.written for record in facts.trace.backwards if tensor in record.written]
    return sum(not optimizer.tensors.keys().isdisjoint(written) for written in passes)


def _where(facts: Facts, tensor: int, optimizer: OptimizerRecord) -> tuple[Place | None, str, str]:
    """Return (the line, what happened, the cure)."""
    trace = facts.trace
    record = trace.tensors[tensor]
    copied = [copy for copy in trace.copies if tensor in copy.tensors.values() and copy.time > optimizer.time]
    if copied:
        how = "it is a copy made after the optimizer took the original"
        again = sum(copy.place is not None and copy.place == copied[-1].place for copy in trace.copies) > 1
        return copied[-1].place, how, (
            "compute with the original's own parameters: torch.func.functional_call(net, {name: p - lr * g}, x); or give "
            "the original the copy's gradients before the step: p.grad = copied.grad" if again else
            "build the optimizer after the copy, from the copy's parameters()"
        )  # fmt: skip
    owners = facts.ancestors(record.module)
    for binding in reversed(trace.bindings):
        is_new = binding.old_tensor != tensor  # `layer.weight -= x` rebinds the same tensor
        is_it = (binding.tensor == tensor and is_new) or (binding.child is not None and binding.child in owners)
        if is_it and binding.time > optimizer.time and not _is_a_slice(facts, binding):  # the outermost comes last
            repeats = [one for one in trace.bindings if one.place is not None and one.place == binding.place]
            if len(repeats) > 1 and facts.in_forward(binding):
                how = "each forward() makes it anew, after the optimizer took its list"
                return binding.place, how, "make it once, in __init__"
            return _again(facts, tensor, binding.place, optimizer), "it was put here after the optimizer took its list", (
                "build the optimizer after the model is complete, or opt.add_param_group({'params': new.parameters()})"
            )  # fmt: skip
    if record.time > optimizer.time:
        return _again(facts, tensor, facts.made_at(tensor), optimizer), "it was made after the optimizer took its list", (
            "make it before the optimizer, or opt.add_param_group({'params': [it]})"
        )  # fmt: skip
    if record.parameter and record.module is None and _feeds_an_attribute(facts, tensor):
        return facts.made_at(tensor), "the module's attribute is computed from it, and is not an nn.Parameter", (
            "nn.Parameter(the final values)  # casts and products inside the parentheses"
        )  # fmt: skip
    if not record.parameter and record.attribute_of is not None:
        return _container(facts.made_at(tensor)), "it is a plain tensor, and parameters() lists nn.Parameter only", (
            "nn.Parameter(...) in place of the plain tensor"
        )  # fmt: skip
    home, kept_as = _plain_home(facts, tensor)
    if home is None and _is_hidden(facts, tensor):
        home = _container(_outermost(facts, tensor))
    if home is not None:
        return home, "it is in a plain container, which parameters() does not search", (
            f"{kept_as or 'the layers'} = nn.ModuleList(...), or nn.ParameterList(...), in place of the plain list; "
            "nn.ModuleDict(...) for a dict"
        )  # fmt: skip
    return optimizer.place, "it is not in the optimizer's list", "pass these parameters to the optimizer, too"


def _again(facts: Facts, tensor: int, place: Place | None, optimizer: OptimizerRecord) -> Place | None:
    """Return a place; if its function also made the optimizer's tensors, the place of the second call."""
    twins = [other for other in facts.made_alike(tensor, any_shape=True) if other in optimizer.tensors]
    bound = [binding.place for binding in facts.trace.bindings if binding.tensor in twins]
    places = [*map(facts.made_at, twins), *bound]
    known = {outer.key for twin in places if twin is not None for outer in twin.chain()}
    return next((outer for outer in (place.chain() if place is not None else ()) if outer.key not in known), place)


def _feeds_an_attribute(facts: Facts, tensor: int) -> bool:
    """Whether a module holds a value computed from a parameter: `self.gain = nn.Parameter(...).to(dtype)`."""
    ops = [facts.trace.ops[number] for number in facts.uses.get(tensor, ())]
    made = [facts.trace.tensors[output] for op in ops if not op.writes for output in op.outputs]
    return any(record.attribute_of is not None for record in made)


def _is_a_slice(facts: Facts, binding: BindingRecord) -> bool:
    """Whether a layer was put into a list only temporarily, as by `layers[:-1]`: it is already registered elsewhere."""
    if (
        binding.child is None
        or facts.trace.modules[binding.module].callable
        or facts.module_parents.get(binding.module)
    ):
        return False
    return any(other.child == binding.child and other.time < binding.time for other in facts.trace.bindings)


def _outermost(facts: Facts, tensor: int) -> Place | None:
    """Return where the outermost module of a parameter was made; for a lone parameter, where it was made."""
    owners = facts.ancestors(facts.trace.tensors[tensor].module)
    tops = [module for module in owners if not facts.module_parents.get(module)]
    return facts.trace.modules[tops[0]].place if tops else facts.made_at(tensor)


def _container(made: Place | None) -> Place | None:
    """Return the statement that stores a new layer in a module: `self.layers = [...]`, `self.layers.append(...)`."""
    for place in made.chain() if made is not None else ():
        if (assigned(place) or stores(place)).startswith("self."):
            return place
    return made


def _plain_home(facts: Facts, tensor: int) -> tuple[Place | None, str]:
    """Return the line of a class that creates the plain container of a parameter's module: `self.layers = []`."""
    for module in sorted(facts.ancestors(facts.trace.tensors[tensor].module)):
        hidden = facts.trace.modules[module].hidden_in
        if hidden is not None:
            file, owner, attribute = hidden
            line = source(file).attribute_set(owner, attribute)
            if line is not None:
                return Place(file, line, "", (None, None, None), None), f"self.{attribute}"
    return None, ""


def _is_hidden(facts: Facts, tensor: int) -> bool:
    """Whether a module uses a parameter that neither it nor its children have registered."""
    trace = facts.trace
    top = facts.ancestors(trace.tensors[tensor].module)
    held = {other for optimizer in trace.optimizers for other in optimizer.tensors}
    for number in facts.uses.get(tensor, ()):
        call = trace.ops[number].call
        while call is not None:
            module = trace.calls[call].module
            if module not in top and held.intersection(facts.parameters_in(module)):
                return True
            call = trace.calls[call].parent
    return False
