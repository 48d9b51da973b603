"""Mistakes with DistributedDataParallel and fully_shard that one rank shows by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from undertow.why.causes.base import Cause, hook_name, registered
from undertow.why.facts.data_parallel import (
    Incomplete,
    Iterations,
    Local,
    averages_parameters,
    is_of_gradients,
    iterations,
)  # fmt: skip
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact, note
from undertow.why.places import Place
from undertow.why.trace import ErrorRecord, Flag, HookRecord, ParallelRecord

UNFINISHED = "finished reduction in the prior iteration"
TWICE = "mark a variable ready only once"


def _name(record: ParallelRecord, tensor: int) -> str:
    return next((name for name, number in record.parameters.items() if number == tensor), "a parameter")


def _frozen(facts: Facts, record: ParallelRecord, tensor: int, before: int) -> Flag | None:
    """Return where a parameter was frozen, if that was after it was wrapped."""
    flags = [flag for flag in facts.trace.tensors[tensor].flags if record.time < flag.time < before]
    return flags[-1] if flags and not flags[-1].value else None


def _incomplete(facts: Facts) -> Iterable[tuple[Iterations, Incomplete]]:
    """Yield the first incomplete iteration of each wrapper."""
    for found in facts.once(iterations):
        if found.incomplete and not found.record.finds_unused and not found.record.static:
            yield found, found.incomplete[0]


class FrozenParameter(Cause):
    """A parameter is frozen after DDP was built with it."""

    code = "ddp-frozen-parameter"
    meaning = "a parameter is frozen after DistributedDataParallel was built, which still waits for its gradient"
    needs = "parameters when the model is wrapped, flags set later, gradients of each iteration"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        return next(iter(self.run(facts)), None) if UNFINISHED in error.message else None

    def run(self, facts: Facts) -> Iterable[Finding]:
        for found, one in _incomplete(facts):
            record = found.record
            frozen = [(tensor, _frozen(facts, record, tensor, one.backward.time)) for tensor in one.missing]
            set_here = [(tensor, flag) for tensor, flag in frozen if flag is not None]
            if not set_here or len(set_here) < len(frozen):
                continue
            tensor, flag = set_here[0]
            finding = Finding(
                self.code, flag.place, _name(record, tensor),
                "DistributedDataParallel waits for the gradient of each parameter that required one when it was built. "
                "This one was frozen afterwards: no gradient is averaged, and the next forward raises.",
                [
                    fact("DistributedDataParallel is built with it", record.place),
                    fact("it is frozen", flag.place),
                    fact("this pass gives it no gradient, and averages none", one.backward.place),
                ],
                "freeze parameters before DistributedDataParallel(model)", [record.place], tensor,
            )  # fmt: skip
            finding.subjects = [_name(record, number) for number, _ in set_here]
            yield finding


class UnusedParameter(Cause):
    """The loss does not use a parameter whose gradient DDP waits for."""

    code = "ddp-unused-parameter"
    meaning = (
        "the loss does not use a parameter, DistributedDataParallel waits for its gradient and averages no gradient"
    )
    needs = "parameters when the model is wrapped, gradients of each iteration"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        return next(iter(self.run(facts)), None) if UNFINISHED in error.message else None

    def run(self, facts: Facts) -> Iterable[Finding]:
        for found, one in _incomplete(facts):
            record = found.record
            missing = [tensor for tensor in one.missing if _frozen(facts, record, tensor, one.backward.time) is None]
            if not missing:
                continue
            names = [_name(record, number) for number in missing]
            finding = Finding(
                self.code, record.place, names[0],
                "It gets no gradient in an iteration, and DistributedDataParallel waits for all: no gradient is averaged, "
                "each rank keeps its own, and the next forward raises.",
                [
                    fact("DistributedDataParallel is built with it", record.place),
                    fact("a forward that does not use it, or whose result the loss does not use", one.forward.place),
                    fact(f"this pass gives {', '.join(names[:4])} no gradient", one.backward.place),
                ],
                "DistributedDataParallel(model, find_unused_parameters=True)  # or let every parameter take part",
                [one.forward.place, one.backward.place], missing[0],
            )  # fmt: skip
            finding.subjects = names
            yield finding


class ReadyTwice(Cause):
    """A parameter got two gradients in one iteration."""

    code = "ddp-ready-twice"
    meaning = "a parameter gets two gradients in one iteration: two forwards, or reentrant checkpoints, share it"
    needs = "the error, forwards and backward passes"

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        if TWICE not in error.message or not facts.trace.parallel:
            return None
        record = facts.trace.parallel[-1]
        index = re.search(r"(?:index|number) (\d+)", error.message)
        names = list(record.parameters)
        name = names[int(index[1])] if index and int(index[1]) < len(names) else "a parameter"
        backward = None if error.backward is None else facts.trace.backwards[error.backward]
        place = error.place if backward is None else backward.place
        before = [one for one in record.forwards if one.grad_mode and (backward is None or one.time < backward.time)]
        earlier = [
            one for one in facts.trace.backwards if backward is not None and one.end > 0 and one.end < backward.time
        ]
        since = earlier[-1].end if earlier else 0
        recent = [one for one in before if one.time > since]
        return self._finding(record, name, place, [one.place for one in recent], len(recent) > 1)

    def run(self, facts: Facts) -> Iterable[Finding]:
        for found in facts.once(iterations):
            twice = [(tensor, local) for _, tensor, local in found.stepped if local.why == "twice"]
            for tensor, local in twice[:1]:
                places = [] if local.forward is None else [local.forward.place]
                yield self._finding(found.record, _name(found.record, tensor), local.place, places, False)

    def _finding(
        self, record: ParallelRecord, name: str, place: Place | None, forwards: list[Place | None], several: bool
    ) -> Finding:
        if several:
            why, cure = "Several forwards lead to one backward", "one backward for each forward; or static_graph=True"
        else:
            why = "A checkpoint with use_reentrant=True, or a second backward inside the pass, reaches it again"
            cure = "checkpoint(..., use_reentrant=False), or DistributedDataParallel(model, static_graph=True)"
        return Finding(
            self.code, place, name,
            f"DistributedDataParallel takes one gradient per parameter and iteration, and got two. {why}.",
            [fact("DistributedDataParallel is built", record.place), *(fact("a forward", one) for one in forwards[:4]),
             fact("this backward gives the parameter a second gradient", place)],
            cure, forwards,
        )  # fmt: skip


class StepInHook(Cause):
    """A hook updates parameters before their gradients are averaged."""

    code = "ddp-step-in-hook"
    meaning = "a hook updates a parameter before DistributedDataParallel has averaged its gradient: ranks diverge"
    needs = "hooks on parameters, their calls, steps and writes inside them"

    def run(self, facts: Facts) -> Iterable[Finding]:
        for record in facts.trace.parallel:
            own = set(record.parameters.values())
            for hook in facts.hooks:
                if hook.tensor in own and hook.kind in ("post-accumulate", "tensor"):
                    found = self._update(facts, record, hook, own)
                    if found is not None:
                        yield found
                        break

    def _update(self, facts: Facts, record: ParallelRecord, hook: HookRecord, own: set[int]) -> Finding | None:
        trace = facts.trace
        for number in hook.firings:
            firing = trace.firings[number]
            if any(firing.time < one.time < firing.end for one in trace.collectives):
                return None  # the hook averages the gradient itself
            place: Place | None = None
            for optimizer in trace.optimizers:
                if not own.isdisjoint(optimizer.tensors):
                    steps = [step for step in optimizer.steps if firing.time < step.time < firing.end]
                    place = steps[0].place if steps else place
            memories = {trace.tensors[tensor].memory for tensor in own}
            for op in trace.ops if place is None else ():
                if op.firing == number and any(trace.tensors[one].memory in memories for one in op.writes):
                    place = op.place
                    break
            if place is None:
                continue
            return Finding(
                self.code, place, _name(record, hook.tensor or 0),
                "Hooks see this rank's own gradient: DistributedDataParallel averages it later. An update here makes the "
                "ranks' parameters differ.",
                [registered(hook), fact("the hook updates the parameter with a gradient that is not averaged", place),
                 fact("the mean is written to .grad when this backward ends",
                      None if firing.backward is None else trace.backwards[firing.backward].place)],
                "step after loss.backward(), outside the hook; or average in a communication hook (register_comm_hook)",
                [hook.place], hook.tensor,
            )  # fmt: skip
        return None


class Bypassed(Cause):
    """A backward pass goes past the wrapper."""

    code = "ddp-bypassed"
    meaning = (
        "gradients that DistributedDataParallel does not average: the inner model is called, a second backward, "
        "autograd.grad"
    )
    needs = "forwards of the wrapper and of the model in it, backward passes, steps"

    def run(self, facts: Facts) -> Iterable[Finding]:
        for found in facts.once(iterations):
            seen: set[object] = set()
            for step, tensor, local in found.stepped:
                key = None if local.place is None else local.place.key
                if local.why in ("inner", "again") and key not in seen and not averages_parameters(facts, found.record):
                    seen.add(key)
                    yield self._stepped(found.record, step.place, tensor, local)
            yield from self._asked(facts, found.record)

    def _stepped(self, record: ParallelRecord, step: Place | None, tensor: int, local: Local) -> Finding:
        if local.why == "inner":
            message = "The model inside DistributedDataParallel is called: its gradients stay on each rank."
            cause, cure = "the inner model is called", "call the wrapped model itself"
        else:
            message = "Only the first backward of a forward is averaged: this one leaves its gradients on each rank."
            cause = "a backward pass that no forward of the wrapper prepared"
            cure = "add the losses, and call backward once for each forward; or put all but the last under no_sync()"
        return Finding(
            self.code, local.place, _name(record, tensor), message + " The ranks' parameters diverge.",
            [fact("DistributedDataParallel is built", record.place), fact(cause, local.place),
             fact("this backward averages nothing", local.backward.place),
             fact("the optimizer uses each rank's own gradients", step)],
            cure, [local.backward.place], tensor,
        )  # fmt: skip

    def _asked(self, facts: Facts, record: ParallelRecord) -> Iterable[Finding]:
        trace, own = facts.trace, set(record.parameters.values())
        memories = {trace.tensors[number].memory for number in own}
        for backward in trace.backwards:
            asked = own.intersection(backward.inputs or ())
            if backward.kind != "grad" or not asked or backward.time < record.time or backward.error is not None:
                continue
            uses = [e.place for e in trace.grads if e.kind == "set" and e.tensor in asked and e.time > backward.time]
            uses += [
                op.place for op in trace.ops
                if op.time > backward.time and any(trace.tensors[one].memory in memories for one in op.writes)
            ]  # fmt: skip
            reduced = any(one.time > backward.time and is_of_gradients(facts, one, own) for one in trace.collectives)
            if uses and not reduced:
                yield Finding(
                    self.code, backward.place, _name(record, min(asked)),
                    "autograd.grad goes past DistributedDataParallel: what it returns is this rank's own gradient.",
                    [fact("DistributedDataParallel is built", record.place),
                     fact("gradients of its parameters are computed", backward.place),
                     fact("and used without being averaged", uses[0])],
                    "loss.backward(), or average what autograd.grad returns with dist.all_reduce",
                    [uses[0]], min(asked),
                )  # fmt: skip
                return


class NoSyncWrongHalf(Cause):
    """no_sync is around the wrong pass."""

    code = "no-sync-wrong-half"
    meaning = "no_sync is around the wrong half: the forward decides whether gradients are averaged, not the backward"
    needs = "no_sync blocks, forwards of the wrapper, backward passes, steps"

    def run(self, facts: Facts) -> Iterable[Finding]:
        for found in facts.once(iterations):
            record = found.record
            local = [(step, tensor, one) for step, tensor, one in found.stepped if one.why == "no_sync"]
            if local and not averages_parameters(facts, record):
                step, tensor, one = local[0]
                forward = None if one.forward is None else one.forward.place
                outside = not _is_in_block(record, one.backward.time)
                yield Finding(
                    self.code, one.place, _name(record, tensor),
                    "The forward of this gradient ran under no_sync(), so it stays on each rank, "
                    + ("although its backward is outside the block. " if outside else "and no pass outside follows. ")
                    + "The optimizer uses it without the mean: the ranks' parameters diverge.",
                    [fact("no_sync() begins", one.place), fact("the forward, inside", forward),
                     fact(f"the backward, {'outside' if outside else 'inside'}", one.backward.place),
                     fact("the optimizer uses each rank's own gradients", step.place)],
                    "run the last forward and backward before the step outside no_sync()",
                    [forward, one.backward.place], tensor,
                )  # fmt: skip
                continue
            yield from self._useless(facts, record)

    def _useless(self, facts: Facts, record: ParallelRecord) -> Iterable[Finding]:
        own = set(record.parameters.values())
        for backward in facts.trace.backwards:
            block = next((one for one in record.blocks if one[0] < backward.time < one[1]), None)
            before = [one for one in record.forwards if one.grad_mode and one.time < backward.time]
            if block is None or not before or not before[-1].synced or own.isdisjoint(backward.written):
                continue
            yield note(
                self.code, block[2], "no_sync()",
                "The backward is inside no_sync(), its forward is not: gradients are averaged here all the same, and "
                "the block saves nothing.",
                [fact("the forward, outside", before[-1].place), fact("no_sync() begins", block[2]),
                 fact("the backward, inside, averages", backward.place)],
                "put the forward into the block, too", [before[-1].place, backward.place],
            )  # fmt: skip
            return


def _is_in_block(record: ParallelRecord, time: int) -> bool:
    return any(begin < time and (time < end or end < 0) for begin, end, _ in record.blocks)


class LostInSharding(Cause):
    """A hook on a parameter that fully_shard replaced."""

    code = "hook-lost-in-fully-shard"
    meaning = "the hook is on a parameter of a module under fully_shard, where that kind of hook never fires"
    needs = "modules that fully_shard changed, hooks on their parameters"

    def silence(self, facts: Facts, hook: HookRecord) -> Finding | None:
        if hook.kind not in ("tensor", "post-accumulate") or hook.tensor is None or hook.error is not None:
            return None
        module = facts.trace.tensors[hook.tensor].module
        if module is None or not facts.trace.backwards:
            return None
        owners = {module, *facts.ancestors(module)}
        if not any(facts.trace.modules[owner].sharded for owner in owners):
            return None
        if hook.tensor not in facts.trace.modules[module].parameters.values():
            why = "fully_shard puts a shard in the place of the parameter, and the hook stays on the old one."
        else:
            why = "The parameter is a shard, which no forward uses: its gradient does not pass through hooks of this kind."
        return Finding(
            self.code, hook.place, hook_name(hook), why, [registered(hook), fact("no backward pass fires it")],
            "register_post_accumulate_grad_hook on the parameter after fully_shard: it gets the reduced shard",
            tensor=hook.tensor,
        )  # fmt: skip
