"""custom-backward: a custom Function's own backward loses the gradient."""

from __future__ import annotations

import re

from undertow.why.causes.base import Cause, consumer_fact
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import failed_backward
from undertow.why.facts.missing_gradients import Miss
from undertow.why.finding import Fact, Finding, fact
from undertow.why.places import Place
from undertow.why.statements import return_lines
from undertow.why.trace import BackwardRecord, ErrorRecord, OpRecord

_REFUSED = re.compile(
    r"unction (\w+?)(?:Backward)? returned an? "
    r"(?:invalid gradient|incorrect number of gradients|gradient different than None)"
)


class CustomBackward(Cause):
    """An autograd.Function whose backward returns None, or an invalid result, for an input that requires a gradient."""

    code = "custom-backward"
    meaning = "the backward of a custom Function returns None, or what is refused, for an input that requires grad"
    needs = "which inputs of a custom Function got None in backward, and where its backward is defined"

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        nodes = set(facts.nodes_of(miss.tensor))
        for record in facts.reaching(miss.tensor):
            # A None becomes None further down, or zeros in a custom Function.
            for number, child in record.nones if miss.kind == "none" or not record.stops else ():
                op = facts.trace.nodes[number].op
                if op is not None and nodes & facts.below([child]):
                    name = facts.name(miss.tensor)
                    said = (
                        f"the backward of {facts.trace.ops[op].name} returns None where the gradient of {name} belongs"
                    )
                    return self._finding(
                        facts, facts.trace.ops[op], record, miss.tensor, said, [consumer_fact(facts, miss)]
                    )
        return None

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        record = failed_backward(facts, error)
        found = _REFUSED.search(error.message)
        if record is None or found is None:
            return None
        for op in reversed(facts.trace.ops):
            if op.kind == "function" and op.name == found[1] and op.inputs:
                said = f"what the backward of {op.name} returns is refused"
                seen = [fact(error.message.splitlines()[0], error.place)]
                return self._finding(facts, op, record, op.inputs[0], said, seen)
        return None

    def _finding(
        self, facts: Facts, op: OpRecord, record: BackwardRecord, tensor: int, said: str, seen: list[Fact]
    ) -> Finding:
        place, returns = _returns(facts, op, record)
        return Finding(
            self.code,
            place,
            facts.name(tensor),
            f"{said[0].upper()}{said[1:]}.",
            [fact(f"{op.name} is applied", op.place), fact(said, place), *seen],
            "return one gradient per argument of forward, with its shape; None only for arguments that need none",
            [op.place, *returns],
            tensor,
        )


def _returns(facts: Facts, op: OpRecord, record: BackwardRecord) -> tuple[Place | None, list[Place]]:
    """Return the `return` statement that ended a Function's backward in a pass (or its def), and all of them."""
    defined = facts.trace.functions.get(op.id)
    if defined is None:
        return op.place, []
    lines = return_lines(defined.file, defined.line)
    returns = [Place(defined.file, line, defined.function, (None, None, None), None) for line in lines]
    ended = {place.key: place for place in record.returns if place.file == defined.file and place.line in lines}
    ways = list(ended.values()) or returns
    return ways[0] if len(ways) == 1 else defined, [defined, *returns]
