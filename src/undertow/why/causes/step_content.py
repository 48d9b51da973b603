"""Notes on what the gradient of a step consists of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from undertow.why.causes.base import Cause, grad_of
from undertow.why.facts.clipping import clips_by_line, early_clips
from undertow.why.facts.consumption import Portion, portions
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact, note
from undertow.why.places import Place
from undertow.why.statements import every_so_often, in_parts, keyword, uncalled
from undertow.why.trace import BackwardRecord, GradEvent, OptimizerRecord, ScalingEvent


class LeftOver(Cause):
    """A step uses the gradient that another optimizer's loss left in its parameters."""

    code = "left-over-grad"
    meaning = "a step also uses a gradient that the loss of another optimizer left in its parameters"
    needs = "every write, clear and use of .grad"

    def run(self, facts: Facts) -> Iterable[Finding]:
        told: set[int] = set()
        for portion in facts.once(portions):
            optimizer = _optimizer(facts, portion)
            passes = portion.passes(facts)
            if optimizer is None or len(passes) < 2 or portion.tensor in told:
                continue
            for first in passes[:-1]:
                other = _of_another(facts, first, passes[-1], optimizer, portion.tensor)
                if other is not None and not _steps_on(facts, first, optimizer):
                    told.add(portion.tensor)
                    yield self._note(facts, portion, first, passes[-1], optimizer, other)
                    break

    def _note(
        self, facts: Facts, portion: Portion, first: BackwardRecord, last: BackwardRecord,
        optimizer: OptimizerRecord, other: OptimizerRecord,
    ) -> Finding:  # fmt: skip
        name, gradient = facts.name(portion.tensor), grad_of(facts.name(portion.tensor))
        mine = optimizer.names[0] if optimizer.names else "optimizer"
        return note(
            self.code,
            last.place,
            name,
            f"This backward adds to {gradient}, which still holds what an earlier backward left there for another "
            "optimizer's step.",
            [
                fact(f"this backward also writes {gradient}", first.place),
                fact("another optimizer steps with its gradients", _step(first, other)),
                fact("this backward adds to them", last.place),
                fact("and the sum is used", portion.end.place),
            ],
            f"{mine}.zero_grad()  # right before this backward()",
            [portion.end.place],
            portion.tensor,
        )


class DroppedBatches(Cause):
    """zero_grad() at the start of an epoch drops the batches since the last step."""

    code = "dropped-batches"
    meaning = "zero_grad drops the gradients of the last batches of an accumulation, which no step used"
    needs = "every write, clear and use of .grad"

    def run(self, facts: Facts) -> Iterable[Finding]:
        used: dict[tuple[int, object], list[int]] = defaultdict(list)
        for portion in facts.once(portions):
            if portion.end.kind == "step":
                used[portion.tensor, _line(portion)].append(len(portion.writes))
        told: set[int] = set()
        for portion in facts.once(portions):
            steps = used.get((portion.tensor, _line(portion)), [])
            usual = Counter(steps).most_common(1)[0][0] if steps else 0
            short = portion.end.kind == "clear" and len(portion.writes) < usual and _one_line(portion)
            if short and portion.tensor not in told:
                told.add(portion.tensor)
                name = facts.name(portion.tensor)
                yield note(
                    self.code,
                    portion.end.place,
                    name,
                    f"This clears the gradients of {len(portion.writes)} of {usual} backward passes: no step has used "
                    "them.",
                    [
                        fact(f"backward() adds to {grad_of(name)}", portion.writes[0].place),
                        fact("it is cleared, and no step ran since", portion.end.place),
                    ],
                    "step once more after the last batch: if (i + 1) % n == 0 or i + 1 == len(batches)",
                    tensor=portion.tensor,
                )


class NotDivided(Cause):
    """The mean losses of several batches are added up."""

    code = "accumulation-not-divided"
    meaning = "mean losses of several batches are accumulated for one step and not divided by their number"
    needs = "every backward before a step, and the op that made its root"

    def run(self, facts: Facts) -> Iterable[Finding]:
        told: set[object] = set()
        for portion in facts.once(portions):
            optimizer, passes = _optimizer(facts, portion), portion.passes(facts)
            if optimizer is None or len(passes) < 2 or portion.edited or not _one_line(portion):
                continue
            place, step = passes[0].place, portion.end.place
            if (
                place is None
                or step is None
                or place.key in told
                or not (every_so_often(step) or in_parts(place, step))
            ):
                continue
            if all(_is_mean(facts, record) for record in passes):
                told.add(place.key)
                loss = facts.name(passes[0].roots[0])
                loss = loss if loss.isidentifier() else "loss"
                yield note(
                    self.code,
                    place,
                    loss,
                    f"The step uses the sum of {len(passes)} mean losses: its gradient is {len(passes)} times that of the "
                    "whole batch.",
                    [fact(f"{len(passes)} backward passes add up", place), fact("the step uses their sum", step)],
                    f"({loss} / {len(passes)}).backward()",
                    tensor=None,
                )


class ClipBeforeUnscale(Cause):
    """Gradients are clipped while GradScaler's factor is still in them."""

    code = "clip-before-unscale"
    meaning = "gradients are clipped while a GradScaler's factor is still in them"
    needs = "scale, unscale_ and step of GradScaler, and clipping"

    def run(self, facts: Facts) -> Iterable[Finding]:
        scaled = False
        for event in facts.trace.scalings:
            if event.kind in ("scale", "step"):
                scaled = event.kind == "scale"
            elif event.kind == "unscale":
                scaled = False
            elif scaled:
                yield note(
                    self.code,
                    event.place,
                    event.name,
                    "These gradients still have the factor of GradScaler, so the limit applies to scaled gradients.",
                    [fact(f"{event.name} runs before unscale_()", event.place)],
                    "scaler.unscale_(optimizer)  # before clipping",
                )


class NoStep(Cause):
    """An optimizer's gradients are computed again and again, and it never steps."""

    code = "no-step"
    meaning = "backward passes write gradients for an optimizer, zero_grad clears them, and the optimizer never steps"
    needs = "every write, read and clear of .grad, and every step"

    def run(self, facts: Facts) -> Iterable[Finding]:
        trace = facts.trace
        stepped = {tensor for optimizer in trace.optimizers if optimizer.steps for tensor in optimizer.tensors}
        for optimizer in trace.optimizers:
            if optimizer.steps or trace.error is not None or not trace.complete:
                continue
            events = [event for tensor in optimizer.tensors for event in facts.grads.get(tensor, ())]
            kinds = Counter(event.kind for event in events if event.kind != "clear" or event.found)
            used = kinds["read"] or kinds["set"] or kinds["edit"] or facts.updates.keys() & optimizer.tensors.keys()
            if used or not kinds["clear"] or stepped & optimizer.tensors.keys():
                continue
            wrote = [event.place for event in events if event.kind == "write"]
            name = optimizer.names[0] if optimizer.names else optimizer.type
            named = uncalled(facts.files, "step")
            yield note(
                self.code,
                named or wrote[-1],
                name,
                "step is named here and not called." if named is not None else
                f"{name} holds parameters that get gradients, and it never steps: they are never updated.",
                [fact("backward() writes gradients", wrote[-1]), fact(f"{name} holds the parameters", optimizer.place)],
                f"{name}.step()  # after backward()",
                [optimizer.place, wrote[-1]],
            )  # fmt: skip


class ClipUnused(Cause):
    """Gradients are clipped after the step that used them, or no gradient is clipped at all."""

    code = "clip-unused"
    meaning = (
        "a clipping of gradients changes no step: it comes before backward or after the step, or its list is empty"
    )
    needs = "what each clipping is given, and every use of .grad"

    def run(self, facts: Facts) -> Iterable[Finding]:
        early = facts.once(early_clips)
        for line, events in clips_by_line(facts).items():
            if line in early:
                yield note(
                    self.code,
                    events[0].place,
                    events[0].name,
                    "There are no gradients yet: backward() computes them after this clipping.",
                    [fact("gradients are clipped", events[0].place), fact("backward() writes them", early[line])],
                    f"{events[0].name}(...)  # between backward() and step()",
                    [early[line]],
                )
                continue
            steps = [_step_without(facts, event) for event in events]
            if any(event.tensors for event in events) and all(step is not None for step in steps):
                yield note(
                    self.code,
                    events[0].place,
                    events[0].name,
                    "The step has used the gradients already: no step uses them after this clipping.",
                    [fact("the optimizer steps", steps[0]), fact("its gradients are clipped", events[0].place)],
                    f"{events[0].name}(...)  # between backward() and step()",
                    [steps[0]],
                )
            used_up = [event for event in events if not event.tensors]
            if used_up and facts.steps_at_all:
                yield note(
                    self.code,
                    used_up[0].place,
                    used_up[0].name,
                    "The list of parameters is empty here, so no gradient is clipped: a generator such as parameters() or "
                    "filter(...) is empty after its first use.",
                    [fact(f"{used_up[0].name} gets no parameters", used_up[0].place)],
                    "list(...)  # around the generator, where it is made",
                )


def _step_without(facts: Facts, clip: ScalingEvent) -> Place | None:
    """Return the step that used the gradients before they were clipped, if no step used them after."""
    found: Place | None = None
    for tensor in clip.tensors:
        last: GradEvent | None = None
        for event in facts.grads_and_updates(tensor):
            if event.time < clip.time:
                last = event if event.kind in ("step", "write", "set") else last
            elif event.kind in ("clear", "set", "write"):
                break
            elif event.kind == "step" and event.found:
                return None
        if last is not None and last.kind != "step":
            return None
        found = found or (last.place if last is not None else None)
    return found


def _optimizer(facts: Facts, portion: Portion) -> OptimizerRecord | None:
    """Return the optimizer whose step used a portion."""
    number = portion.end.optimizer
    return None if portion.end.kind != "step" or number is None else facts.trace.optimizers[number]


def _line(portion: Portion) -> object:
    place = portion.writes[-1].place
    return None if place is None else place.key


def _one_line(portion: Portion) -> bool:
    """Whether one backward line wrote all of a portion."""
    return len({write.place and write.place.key for write in portion.writes}) == 1


def _of_another(
    facts: Facts, first: BackwardRecord, last: BackwardRecord, optimizer: OptimizerRecord, tensor: int
) -> OptimizerRecord | None:
    """Return another optimizer that stepped with the gradients of a pass before the last pass."""
    for other in facts.trace.optimizers:
        if other.id == optimizer.id or tensor in other.tensors or other.tensors.keys().isdisjoint(first.written):
            continue
        if any(first.time < step.time < last.time for step in other.steps):
            return other
    return None


def _steps_on(facts: Facts, record: BackwardRecord, optimizer: OptimizerRecord) -> bool:
    """Whether an optimizer also steps on passes of this line alone: its gradients are meant for it."""
    return any(
        portion.end.optimizer == optimizer.id and portion.end.kind == "step" and portion.writes[-1].place is not None
        and record.place is not None and portion.writes[-1].place.key == record.place.key
        for portion in facts.once(portions)
    )  # fmt: skip


def _step(record: BackwardRecord, optimizer: OptimizerRecord) -> Place | None:
    return next((step.place for step in optimizer.steps if step.time > record.time), None)


_SCALES = frozenset("div truediv itruediv mul rmul imul sum".split())


def _is_mean(facts: Facts, record: BackwardRecord) -> bool:
    """Whether the root of a pass is a mean over a batch, and not scaled."""
    if not record.roots:
        return False
    op = facts.maker(record.roots[0], record.time)
    while op is not None and op.name.strip("_") in ("add", "radd", "iadd", "sub", "neg") and op.inputs:
        op = facts.maker(op.inputs[0], op.time)
    if op is None or op.name.strip("_") in _SCALES or op.place is None:
        return False
    call = None if op.call is None else facts.trace.modules[facts.trace.calls[op.call].module]
    places = [op.place, *([] if call is None or call.place is None else [call.place])]
    return op.name == "mean" or (op.name.endswith(("loss", "entropy", "logits")) and not any(
        keyword(place, "reduction") in ("sum", "none") for place in places
    ))  # fmt: skip
