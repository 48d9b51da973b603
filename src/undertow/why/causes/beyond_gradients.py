"""Notes on what a correct gradient does not show: shapes that broadcast, first-order steps, statistics that move."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.causes.base import Cause
from undertow.why.facts.carried import is_variable
from undertow.why.facts.facts import Facts
from undertow.why.facts.intent import follows
from undertow.why.finding import Finding, fact, note
from undertow.why.source import operand_at
from undertow.why.trace import OpRecord

_LOSSES = frozenset("mse_loss l1_loss smooth_l1_loss huber_loss".split())
_DIFFERENCES = frozenset("sub rsub isub".split())
_OF_DIFFERENCES = frozenset("pow square abs mul smooth_l1_loss norm".split())
_ON_PURPOSE = frozenset("unsqueeze __getitem__ view reshape expand".split())


class BroadcastTarget(Cause):
    """A loss of predictions [n, 1] and targets [n] compares every prediction with every target."""

    code = "broadcast-target"
    meaning = "predictions [n, 1] and targets [n] are compared: broadcasting makes n × n differences"
    needs = "the shapes of what each loss takes"

    def run(self, facts: Facts) -> Iterable[Finding]:
        tensors = facts.trace.tensors
        for number in sorted(facts.paths.differentiated):
            op = facts.trace.ops[number]
            yield from self._advantage(facts, op)
            if len(op.inputs) != 2 or op.inputs_require_grad[0] == op.inputs_require_grad[1]:
                continue
            if op.name not in _LOSSES and not self._is_difference(facts, op):
                continue
            prediction, target = op.inputs if op.inputs_require_grad[0] else op.inputs[::-1]
            one, other = tensors[prediction].shape, tensors[target].shape
            if one != (*other, 1) and other != (*one, 1):
                continue
            tall = prediction if len(one) > len(other) else target
            if max(one) < 2 or not one or not other or one[0] != other[0] or _made_on_purpose(facts, tall, op):
                continue
            name, wide = facts.name(prediction), list(one)
            wanted = operand_at(op.place, op.inputs.index(target)) or facts.name(target)
            yield note(
                self.code,
                op.place,
                name,
                f"{name} is {wide} and {wanted} is {list(other)}: they broadcast to "
                f"{[max(one[0], other[0])] * 2}, and every prediction is compared with every target.",
                [
                    fact(f"the prediction is {wide}", facts.made_at(prediction)),
                    fact(f"the target is {list(other)}", op.place),
                ],
                _one_shape(name, wanted, len(one) > len(other)),
                [facts.made_at(prediction)],
                prediction,
            )

    def _advantage(self, facts: Facts, op: OpRecord) -> Iterable[Finding]:
        """Note a weight [n, n] of n log-probabilities: the difference of returns [n] and values [n, 1]."""
        tensors, asked = facts.trace.tensors, op.inputs_require_grad
        if op.name.strip("_") not in ("mul", "rmul") or len(op.inputs) != 2 or asked[0] == asked[1]:
            return
        trained, weight = op.inputs if asked[0] else op.inputs[::-1]
        made = facts.maker(weight, op.time)
        while made is not None and len(made.inputs) == 1 and tensors[made.inputs[0]].shape == tensors[weight].shape:
            weight = made.inputs[0]
            made = facts.maker(weight, made.time)
        rows = tensors[trained].shape[0] if len(tensors[trained].shape) == 1 else 0
        if made is None or made.name.strip("_") not in _DIFFERENCES or len(made.inputs) != 2 or rows < 2:
            return
        column = next((number for number in made.inputs if tensors[number].shape == (rows, 1)), None)
        row = next((number for number in made.inputs if tensors[number].shape == (rows,)), None)
        if column is None or row is None or _made_on_purpose(facts, column, made):
            return
        name = facts.name(column)
        other = operand_at(made.place, made.inputs.index(row)) or facts.name(row)
        yield note(
            self.code,
            made.place,
            name,
            f"{name} is {[rows, 1]} and {other} is {[rows]}: their difference is {[rows, rows]}, and each row of "
            f"it weighs all {rows} values of {facts.name(trained)}.",
            [fact(f"the difference is {[rows, rows]}", made.place), fact("it weighs a term of the loss", op.place)],
            f"{name}.squeeze(-1)"
            if name.replace(".", "").isidentifier()
            else "squeeze(-1) the one with two dimensions",
            [op.place],
            column,
        )

    def _is_difference(self, facts: Facts, op: OpRecord) -> bool:
        takers = [facts.trace.ops[use] for use in facts.uses.get(op.outputs[0], ())] if op.outputs else []
        return op.name.strip("_") in _DIFFERENCES and any(taker.name.strip("_") in _OF_DIFFERENCES for taker in takers)


def _one_shape(prediction: str, target: str, tall: bool) -> str:
    """Return how to give [n, 1] and [n] one shape, in the program's names where it has them."""
    one, other = (
        name if is_variable(name) else role for name, role in ((prediction, "prediction"), (target, "target"))
    )
    high, flat = (one, other) if tall else (other, one)
    return f"give both one shape: {high}.squeeze(-1), or {flat}.unsqueeze(-1)"


def _made_on_purpose(facts: Facts, tensor: int, op: OpRecord) -> bool:
    """Whether the program itself added the dimension, to compare all with all."""
    made = facts.maker(tensor, op.time)
    if made is None or made.name not in _ON_PURPOSE or not made.inputs:
        return False
    return len(facts.trace.tensors[made.inputs[0]].shape) < len(facts.trace.tensors[tensor].shape)


class FirstOrderStep(Cause):
    """An inner step with gradients that have no graph, inside a loss that is differentiated."""

    code = "first-order-inner-step"
    meaning = "an inner step p - lr * g is differentiated, but g has no graph, so its derivative is left out"
    needs = "the results of autograd.grad(), and what was computed from them"

    def run(self, facts: Facts) -> Iterable[Finding]:
        ops = facts.trace.ops
        for op in ops:
            if op.kind != "grad" or op.place is None or any(op.outputs_require_grad):
                continue
            record = next(
                (one for one in reversed(facts.trace.backwards) if one.kind == "grad" and one.time <= op.time), None
            )
            if record is None or record.create or record.inputs is None:
                continue
            taker = self._inner_step(facts, op, set(record.inputs))
            if taker is not None:
                yield note(
                    self.code,
                    op.place,
                    facts.name(record.inputs[0]),
                    "The loss is differentiated through this inner step, and autograd.grad() without create_graph=True "
                    "gives gradients without a graph: second derivatives are left out.",
                    [
                        fact("the gradients are computed", op.place),
                        fact("a step with them is part of the graph", taker.place),
                    ],
                    "torch.autograd.grad(..., create_graph=True)  # unless first order is intended",
                    [taker.place],
                )

    def _inner_step(self, facts: Facts, op: OpRecord, inputs: set[int]) -> OpRecord | None:
        """Return the op that subtracts a gradient from its own parameter, if that is differentiated."""
        ops = facts.trace.ops
        waiting = [(output, 0) for output in op.outputs]
        while waiting:
            tensor, far = waiting.pop()
            for taker in (ops[number] for number in facts.uses.get(tensor, ())):
                updates = taker.name.strip("_") in ("sub", "add") and not taker.writes and taker.grad_mode
                if updates and any(taker.outputs_require_grad) and not inputs.isdisjoint(taker.inputs):
                    if any(node is not None and facts.was_reached(node) for node in taker.output_nodes):
                        return taker  # it is differentiated itself, not only its values
                elif far < 3 and taker.name.strip("_") in ("mul", "rmul", "neg", "div", "clamp"):
                    waiting += [(output, far + 1) for output in taker.outputs]
        return None


class MovingStatistics(Cause):
    """A frozen BatchNorm in training mode."""

    code = "frozen-batchnorm"
    meaning = "a BatchNorm with frozen parameters runs in training mode, so its statistics still change"
    needs = "the mode of each module call, and changes of requires_grad"

    def run(self, facts: Facts) -> Iterable[Finding]:
        trace = facts.trace
        if not facts.steps_at_all:
            return
        for module in trace.modules:
            own = list(module.parameters.values())
            calls = facts.calls.get(module.id, [])
            if "BatchNorm" not in module.type or not own or not all(call.training and call.grad_mode for call in calls):
                continue
            flags = [facts.flag(tensor, calls[0].time) for tensor in own] if calls else []
            if not flags or any(flag is None or flag.value for flag in flags) or any(follows(facts, t) for t in own):
                continue
            name = module.names[0] if module.names else module.type
            yield note(
                self.code,
                calls[0].place,
                name,
                f"{name} is frozen and runs in training mode: it normalizes with the statistics of the batch, and its "
                "running statistics go on changing.",
                [
                    fact("its parameters are frozen", flags[0].place if flags[0] is not None else None),
                    fact("it runs in training mode", calls[0].place),
                ],
                f"{name}.eval()  # after each model.train()",
                [flags[0].place if flags[0] is not None else None],
            )
