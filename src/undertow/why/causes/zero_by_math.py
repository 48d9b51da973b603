"""zero-by-math: a correct gradient of all zeros, because an operation has zero slope there."""

from __future__ import annotations

from collections.abc import Iterator

from undertow.why.causes.base import Cause, consumer_fact, has_no_name
from undertow.why.facts.facts import Facts
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import Finding, fact, note
from undertow.why.statements import keyword
from undertow.why.trace import BackwardRecord, NodeRecord, OpRecord

# Nodes whose gradient is a product with the other operand: zeros come from that operand, not from a slope.
_PRODUCTS = ("Mul", "Mm", "Addmm", "Bmm", "Baddbmm", "Dot", "Mv", "Convolution", "Linear", "Einsum", "Matmul", "Div")
_HOOKS = "BackwardHookFunction"  # where a module's backward hook replaces gradients: zeros are intended
_BEGIN_AT_ZERO = ("lstm", "gru", "rnn")  # their initial state is zero on purpose
_BENT = frozenset("relu leaky_relu relu6 hardtanh hardsigmoid abs clamp threshold prelu rrelu max_pool2d".split())
_DISTANCES = frozenset("mse_loss l1_loss smooth_l1_loss huber_loss".split())
_LOOKS = 50  # the number of backward passes that are examined


class ZeroByMath(Cause):
    """A dead relu, a clamp past its limit, a saturated sigmoid, round, sign, a satisfied hinge."""

    code = "zero-by-math"
    meaning = "a gradient of exact zeros in every backward, because of an operation's slope"
    needs = "the gradients that go into and come out of every node"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        if miss.kind != "zero":
            return None
        backwards = [record for record in facts.reaching(miss.tensor) if miss.tensor in record.written]
        found: dict[tuple[str, int] | None, list[OpRecord]] = {}
        for record in backwards[:_LOOKS]:
            for op in _flat(facts, record, miss.tensor, len(backwards)):
                found.setdefault(None if op.place is None else op.place.key, []).append(op)
        if not found:
            return None
        return self._finding(facts, miss, max(found.values(), key=len)[0])  # the op with zero slope most often

    def _finding(self, facts: Facts, miss: Miss, op: OpRecord) -> Finding:
        name = facts.name(miss.tensor)
        bent = _bent(facts, op) if op.kind == "grad" else None
        if bent is not None:
            said = f"{bent.shown} is piecewise linear, so the derivative from autograd.grad() is piecewise constant"
            return Finding(
                self.code,
                bent.place,
                name,
                f"{said}, and the gradient of {name}, which needs second derivatives, is exactly zero.",
                [
                    fact(said, bent.place),
                    fact("the derivative is differentiated again", op.place),
                    consumer_fact(facts, miss),
                ],
                "an activation with a second derivative: tanh, silu, softplus, sin",
                [op.place],
                miss.tensor,
            )
        zeroed = op if op.writes and op.writes[0] != miss.tensor else _zero_init(facts, op)
        if zeroed is not None:
            return self._zero_weights(facts, miss, op, zeroed)
        if op.name in _DISTANCES and op.peaks and op.peaks[0] == 0:
            return self._perfect(facts, miss, op)
        product = any(_is_product(facts.trace.nodes[number]) for number in op.nodes)
        single = _over_one(facts, op)
        how = (
            "multiplies by zeros only" if product else
            "runs over a dimension of length 1, so its results are the same for every input" if single else
            "has results whose sum does not depend on its input, and here each of them counts the same: what they "
            "contribute cancels" if op.name.removesuffix("_") in _INVARIANT else
            "has slope zero for every value that it got"
        )  # fmt: skip
        return Finding(
            self.code,
            op.place,
            name,
            f"{op.shown} {how}, so the gradient of {name} is exactly zero.",
            [fact(f"{op.shown} gets a non-zero gradient and passes on zeros", op.place), consumer_fact(facts, miss)],
            "look at the other factor: a mask, a scale or a weight that is zero everywhere" if product else
            f"give {op.shown} the dimension whose entries compete; the one it has is of length 1" if single else
            "a loss that does not weigh all of its results alike" if op.name.removesuffix("_") in _INVARIANT else
            f"a straight-through estimator: x + ({op.name.strip('_')}(x) - x).detach()"
            if op.name.strip("_") in _STEPS else
            "keep the values where the slope is not zero: smaller inputs or another initialisation, leaky_relu for relu",
            tensor=miss.tensor,
        )  # fmt: skip

    def _perfect(self, facts: Facts, miss: Miss, op: OpRecord) -> Finding:
        """Note a loss that is exactly zero: it may be correct, as for a copy that is compared with its original."""
        name = facts.name(miss.tensor)
        compared = " and ".join(facts.name(number) for number in op.inputs[:2])
        return note(
            self.code,
            op.place,
            name,
            f"{op.shown} is exactly zero in every backward: {compared} are equal, so the gradient of {name} is zero.",
            [fact(f"{op.shown} gives zero", op.place), consumer_fact(facts, miss)],
            "compare values that differ; noise or another view of the input, if both come from copies of one network",
            tensor=miss.tensor,
        )

    def _zero_weights(self, facts: Facts, miss: Miss, op: OpRecord, zeroed: OpRecord) -> Finding:
        memory = facts.memory[facts.trace.tensors[zeroed.writes[0]].memory]
        weights = [number for number in memory if facts.trace.tensors[number].parameter]
        name, weight = facts.name(miss.tensor), facts.name((weights or list(zeroed.writes))[0])
        return Finding(
            self.code,
            zeroed.place,
            name,
            f"{weight} is set to zeros here: what is computed from it is zero, and so is the gradient of {name}.",
            [
                fact(f"{weight} is set to zeros", zeroed.place),
                fact(f"{op.shown} passes on a gradient of zeros", op.place),
                consumer_fact(facts, miss),
            ],
            f"nn.init.kaiming_uniform_({weight})  # zeros are for biases" if not has_no_name(weight) else
            "a random initialisation; zeros are for biases",
            [op.place],
            miss.tensor,
        )  # fmt: skip


_INVARIANT = frozenset("softmax layer_norm batch_norm instance_norm group_norm".split())
_STEPS = frozenset("round sign floor ceil trunc heaviside sgn fix".split())
_KEEPS_ZERO = frozenset("linear matmul addmm mm conv1d conv2d conv3d mul add view reshape flatten bmm".split())


def _over_one(facts: Facts, op: OpRecord) -> bool:
    """Whether an op is a softmax over a dimension of length 1: its result is all ones."""
    shape = facts.trace.tensors[op.outputs[0]].shape if op.outputs else ()
    dim = None if op.place is None else keyword(op.place, "dim")
    if op.name.removesuffix("_") not in ("softmax", "log_softmax") or 1 not in shape:
        return False
    if isinstance(dim, int) and -len(shape) <= dim < len(shape):
        return shape[dim] == 1
    return op.peaks[:1] == ((1.0,) if op.name.startswith("softmax") else (0.0,))


def _zero_init(facts: Facts, op: OpRecord) -> OpRecord | None:
    """Return the op that set a parameter to zeros, if that is why an op such as relu gets zeros only."""
    waiting = [(number, op.time) for number in op.inputs if op.name.rstrip("_") in _BENT]
    while waiting:
        tensor, time = waiting.pop()
        if _peak(facts, tensor, time) != 0:
            continue
        made = _writer(facts, tensor, time)
        if made is not None and made.writes and facts.trace.tensors[tensor].parameter:
            return made
        if made is not None and made.name in _KEEPS_ZERO:
            waiting += [(number, made.time) for number in reversed(made.inputs)]
    return None


def _flat(facts: Facts, record: BackwardRecord, tensor: int, backwards: int) -> Iterator[OpRecord]:
    """Return the ops between the root and a tensor that made a gradient zero."""
    targets = set(facts.nodes_of(tensor))
    for number in (*record.stops, *record.zeros):
        node = facts.trace.nodes[number]
        if node.op is None or node.name.startswith(_HOOKS) or not targets & facts.below([number]):
            continue
        op = facts.trace.ops[node.op]
        if not _is_product(node):
            if number in record.stops:
                yield op
            continue
        source = _zero_operand(facts, op)
        if source is None:
            continue
        made = _first_zero(facts, source, op.time)
        if made is not None:
            yield made
        elif backwards > 1 and not op.name.startswith(_BEGIN_AT_ZERO):
            yield op  # zero weights that stay zero; a single step from a zero initialization is not conclusive


def _bent(facts: Facts, op: OpRecord) -> OpRecord | None:
    """Return the last piecewise linear op before the root of an autograd.grad."""
    roots = [node for number in op.inputs[:1] for node in facts.nodes_of(number)]
    ops = {facts.trace.nodes[node].op for node in facts.below(roots)}
    found = [facts.trace.ops[number] for number in ops if number is not None]
    return max((one for one in found if one.name.rstrip("_") in _BENT), key=lambda one: one.time, default=None)


def _is_product(node: NodeRecord) -> bool:
    return node.name.startswith(_PRODUCTS)


def _zero_operand(facts: Facts, op: OpRecord) -> int | None:
    for number in op.inputs:
        if facts.trace.tensors[number].peak == 0 or _peak(facts, number, op.time) == 0:
            return number
    return None


def _peak(facts: Facts, tensor: int, time: int) -> float | None:
    """Return the largest absolute value of a tensor at a time."""
    maker = _writer(facts, tensor, time)
    if maker is None:
        return facts.trace.tensors[tensor].peak
    memory = facts.trace.tensors[tensor].memory
    return next(
        (peak for made, peak in zip(maker.outputs, maker.peaks) if facts.trace.tensors[made].memory == memory), None
    )


def _writer(facts: Facts, tensor: int, time: int) -> OpRecord | None:
    """Return the last op that made a tensor or wrote all of it before a time, also through its .data."""
    tensors = facts.trace.tensors
    made = facts.maker(tensor, time)
    writers = [
        op for op in facts.writers.get(tensors[tensor].memory, ())
        if op.time < time and all(tensors[number].size == tensors[tensor].size for number in op.writes)
    ]  # fmt: skip
    return max([*writers, *([] if made is None else [made])], key=lambda op: op.time, default=None)


def _first_zero(facts: Facts, tensor: int, time: int) -> OpRecord | None:
    """Return the op that produced all zeros from non-zero values; None if zeros were there from the start."""
    while True:
        op = _writer(facts, tensor, time)
        if op is None or not op.inputs:
            return None
        tensors = facts.trace.tensors
        others = [number for number in op.inputs if tensors[number].memory != tensors[tensor].memory]
        peaks = [(number, _peak(facts, number, op.time)) for number in others]
        zeros = [number for number, peak in peaks if peak == 0]
        if not zeros:
            return op if any(op.outputs_require_grad) or (op.writes and tensors[tensor].parameter) else None
        tensor, time = zeros[0], op.time
