"""graph-leak: graphs kept alive across iterations because their values are stored."""

from __future__ import annotations

import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations, pairwise

from undertow.why.causes.base import Cause
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact
from undertow.why.keeping import is_comprehension, kept_by, where_kept
from undertow.why.places import Place
from undertow.why.source import assigned, source, span_of
from undertow.why.trace import OpRecord

_ENOUGH = 3  # this many kept graphs are no coincidence; for a loop that runs twice, two


class GraphLeak(Cause):
    """`total += loss` or `history.append(loss)`: every step's graph stays alive."""

    code = "graph-leak"
    meaning = "tensors with their graphs are kept from iteration to iteration though only their values are used"
    needs = "how long results live, and which graphs were differentiated when"

    def run(self, facts: Facts) -> Iterable[Finding]:
        lines: dict[tuple[str, int, str], list[OpRecord]] = defaultdict(list)
        for op in facts.trace.ops:
            recorded = any(node is not None for node in op.output_nodes)
            if op.place is not None and recorded and op.grad_mode and op.kind != "grad" and _is_of_forward(facts, op):
                lines[*op.place.key, op.name.rstrip("_")].append(op)  # total += loss is add, then add_
        findings = []
        for ops in lines.values():
            parts = [part for part in (*_by_caller(ops), *_by_module(facts, ops)) if _ENOUGH <= len(part) < len(ops)]
            for runs in (ops, *parts):
                found = None if len(runs) < 2 else self._growing_sum(facts, runs) or self._growing_list(facts, runs)
                if found is not None:
                    findings.append(found)
                    break
        return [found for found in findings if not _is_held_by_another(facts, found, findings)]

    # --- total += loss

    def _growing_sum(self, facts: Facts, ops: list[OpRecord]) -> Finding | None:
        """Find a line whose results each feed the next one, while none is differentiated."""
        known = {op.id: op for op in ops}
        links = [
            (earlier, later)
            for later in ops
            for earlier in _fed_by(facts, later, known)
            if _is_another_round(facts, earlier, later)
        ]
        rounds = _longest(links)
        place = ops[-1].place
        if place is None or len(links) < min(_ENOUGH, len(ops)) - 1 or not _in_loop(place):
            return None
        if any(_is_differentiated(facts, op) for op in ops[1:]):
            return None
        if not (_is_scalar(facts, ops[-1]) or _becomes_larger(facts, ops) or _spans_backwards(facts, links)):
            return None
        name = assigned(place) or facts.name(ops[-1].outputs[0])
        return Finding(
            self.code,
            place,
            name,
            f"{name} grows by a tensor with its graph each time, so the graphs of all {rounds} rounds stay in memory.",
            [fact(f"{ops[-1].name} adds to the result of the round before", place),
             fact("no backward() ever goes through the sum")],
            f"{name} += loss.item()  # or loss.detach()" if _is_scalar(facts, ops[-1]) else
            "add the new part without its graph: .detach(), or compute it under torch.no_grad()",
            tensor=ops[-1].outputs[0],
        )  # fmt: skip

    # --- history.append(loss)

    def _growing_list(self, facts: Facts, ops: list[OpRecord]) -> Finding | None:
        """Find a line whose results stay alive while the next ones are made, and are not differentiated together."""
        tensors = facts.trace.tensors
        kept = []
        for op, following in pairwise(ops):
            for number in _made(facts, op):
                died = tensors[number].died
                if (died is None or died > following.time + 1) and not _used_later(facts, number, following):
                    kept.append(number)
        most = max((len(facts.reaching(number)) for number in kept), default=0)
        kept += [number for number in _made(facts, ops[-1]) if len(facts.reaching(number)) <= most]
        kept = _one_a_round(facts, kept)
        if _is_unfinished(facts, ops, kept):
            return None
        alive, made_meanwhile = _most_alive(facts, kept)
        if (
            alive < min(_ENOUGH + 1, _rounds(facts, ops)) or 2 * alive < made_meanwhile
        ):  # a first, a best and a last one may be kept
            return None
        made = [maker for number in kept if (maker := facts.maker(number)) is not None]
        stored = next((found for op in made if (found := _where_stored(facts, op)) is not None), None)
        if stored is None:
            return None
        place, container = stored
        if is_comprehension(place) and not _spans_backwards(facts, pairwise(ops)):
            return None  # [model(x) for model in models], within one round
        return Finding(
            self.code,
            place,
            container,
            f"{container} keeps {alive} tensors with their graphs, and no later backward pass uses them.",
            [fact("the tensors are computed, with their graphs", made[0].place), fact("they are stored", place)],
            f"{container} = [... .item() for ...]  # or .detach()"
            if is_comprehension(place)
            else f"keep the values only: put x.detach() into {container}, or x.item() of a single number",
            tensor=kept[-1],
        )


def _is_held_by_another(facts: Facts, finding: Finding, findings: list[Finding]) -> bool:
    """Whether a local variable's value is kept alive by the graph of a result that another line stores.

    A variable that joins the graphs of several rounds keeps them itself, wherever it is then stored.
    """
    others = [other.tensor for other in findings if (other.file, other.line) != (finding.file, finding.line)]
    if finding.tensor is None or not finding.subject.isidentifier():
        return False
    nodes = facts.nodes_of(finding.tensor)
    if not _is_of_one_round(facts, facts.below(nodes)):
        return False
    return any(other is not None and not facts.below(facts.nodes_of(other)).isdisjoint(nodes) for other in others)


def _is_of_one_round(facts: Facts, nodes: Iterable[int]) -> bool:
    """Whether no two parts of a graph were differentiated by separate passes."""
    records = [facts.trace.nodes[node] for node in nodes]
    passes = {frozenset(record.reached) for record in records if record.leaf is None and record.reached}
    return not any(one.isdisjoint(other) for one, other in combinations(passes, 2))


def _is_of_forward(facts: Facts, op: OpRecord) -> bool:
    """Whether an op ran in the program or in a forward hook, not in a backward hook."""
    return op.firing is None or facts.trace.hooks[facts.trace.firings[op.firing].hook].kind.startswith("forward")


def _by_caller(ops: list[OpRecord]) -> list[list[OpRecord]]:
    """Group the runs of a line by call stack: two instances of one class run the same forward."""
    found: dict[tuple[tuple[str, int], ...], list[OpRecord]] = defaultdict(list)
    for op in ops:
        found[() if op.place is None else tuple([place.key for place in op.place.chain()])].append(op)
    return list(found.values())


def _by_module(facts: Facts, ops: list[OpRecord]) -> list[list[OpRecord]]:
    """Group the runs of a line by the module that runs: the layers of an nn.Sequential run on one line."""
    found: dict[int | None, list[OpRecord]] = defaultdict(list)
    for op in ops:
        found[None if op.call is None else facts.trace.calls[op.call].module].append(op)
    return list(found.values())


def _is_another_round(facts: Facts, earlier: OpRecord, later: OpRecord) -> bool:
    """Whether two ops of a line belong to two rounds: not parts of sum(losses), nor two layers of one forward."""
    if earlier.place is None or later.place is None or span_of(earlier.place) != span_of(later.place):
        return False
    call = facts.outermost(later.call)
    return later.id > earlier.id + 1 and (call is None or call != facts.outermost(earlier.call))


def _fed_by(facts: Facts, later: OpRecord, known: dict[int, OpRecord]) -> list[OpRecord]:
    """Return the ops of a line whose results feed another of them, directly or through ops of the same line."""
    found: dict[int, OpRecord] = {}
    for number in later.inputs:
        maker = facts.maker(number, later.time)
        if maker is None or maker.kind == "cut" or maker.place is None or later.place is None:
            continue
        if maker.place.key == later.place.key:
            makers = [maker] if maker.id in known else [facts.maker(taken, maker.time) for taken in maker.inputs]
            found.update({one.id: known[one.id] for one in makers if one is not None and one.id in known})
    return list(found.values())


def _longest(links: list[tuple[OpRecord, OpRecord]]) -> int:
    """Return the length of the longest chain of runs of a line: a loop may carry several sums."""
    depth: dict[int, int] = {}
    for earlier, later in links:
        depth[later.id] = max(depth.get(later.id, 1), depth.get(earlier.id, 1) + 1)
    return max(depth.values(), default=1)


def _is_differentiated(facts: Facts, op: OpRecord) -> bool:
    nodes = [node for node in (*op.nodes, *op.output_nodes) if node is not None]
    return any(facts.trace.nodes[node].reached for node in nodes)


def _is_scalar(facts: Facts, op: OpRecord) -> bool:
    return all(facts.trace.tensors[number].size == 1 for number in op.outputs)


def _becomes_larger(facts: Facts, ops: list[OpRecord]) -> bool:
    """Whether each result has more elements than the last: `everything = torch.cat([everything, new])`."""
    sizes = [facts.trace.tensors[op.outputs[0]].size for op in ops]
    return all(one < other for one, other in pairwise(sizes))


def _spans_backwards(facts: Facts, rounds: Iterable[tuple[OpRecord, OpRecord]]) -> bool:
    """Whether backward passes ran between the rounds, each a pair of runs of one line."""
    times = [record.time for record in facts.trace.backwards]
    return sum(any(a.time < time < b.time for time in times) for a, b in rounds) >= _ENOUGH - 1


def _made(facts: Facts, op: OpRecord) -> list[int]:
    """Return the results of an op that have a graph."""
    if op.id != facts.trace.tensors[op.outputs[0]].maker:
        return []
    return [number for number, node in zip(op.outputs, op.output_nodes) if node is not None]


def _used_later(facts: Facts, tensor: int, following: OpRecord) -> bool:
    """Whether a backward used a tensor after the next one of its line was made: they are used together."""
    return any(record.time > following.time for record in facts.reaching(tensor))


def _round(facts: Facts, time: int) -> int:
    """Return the number of backward passes that had begun."""
    return bisect(facts.once(_beginnings), time)


def _beginnings(facts: Facts) -> list[int]:
    return [record.time for record in facts.trace.backwards if record.parent is None]


def _is_unfinished(facts: Facts, ops: list[OpRecord], kept: list[int]) -> bool:
    """Whether the kept results are the last ones, and backward passes used the earlier ones: of a sum that goes on."""
    rounds = {_round(facts, facts.trace.tensors[number].time) for number in kept}
    differentiated = [op for op in ops if _is_differentiated(facts, op)]
    return len(rounds) == 1 and _round(facts, facts.trace.time) in rounds and len(differentiated) >= _ENOUGH


def _rounds(facts: Facts, ops: list[OpRecord]) -> int:
    """Return in how many intervals between backward passes a line ran; without passes, how often it ran."""
    rounds = {_round(facts, op.time) for op in ops}
    return len(ops) if len(rounds) < 2 else len(rounds)


def _one_a_round(facts: Facts, kept: list[int]) -> list[int]:
    """Return one tensor per round: within a round, a line may make many."""
    rounds = {_round(facts, facts.trace.tensors[number].time): number for number in kept}
    return kept if len(rounds) < _ENOUGH else list(rounds.values())


def _most_alive(facts: Facts, kept: list[int]) -> tuple[int, int]:
    """Return (how many of the tensors were alive at the same time, how many were made since the first of these).

    They are counted before each one is made and at the end of the last one's life, because a replaced tensor lives
    until its successor exists.
    """
    if not kept:
        return 0, 0
    records = sorted((facts.trace.tensors[number] for number in kept), key=lambda record: record.time)
    died = [math.inf if record.died is None else record.died for record in records]
    over = min(died[-1], facts.trace.time) if len(records) > 2 else died[-1]  # the first may just have been freed
    most = meanwhile = 0
    for count, end in enumerate([*(record.time for record in records[1:]), over], 1):
        alive = [at for at in range(count) if died[at] >= end]
        if len(alive) > most:
            most, meanwhile = len(alive), count - alive[0]
    return most, meanwhile


def _in_loop(place: Place) -> bool:
    for here in place.chain():
        file = source(here.file)
        node = file.expression(here) or file.statement(here)
        if node is not None and file.in_loop(node):
            return True
    return False


def _begins_anew(file: str, line: int, container: str) -> bool:
    """Whether `x = x + f(x)` is outside any loop: a local variable, new in each call."""
    place = Place(file, line, "", (None, None, None), None)
    statement = source(file).statement(place)
    if is_comprehension(place) or assigned(place) != container or not container.isidentifier():
        return False
    return statement is not None and not source(file).in_loop(statement)


def _where_stored(facts: Facts, op: OpRecord) -> tuple[Place, str] | None:
    """Return the statement that stores a result, or what a function returns for it, in a container."""
    if op.place is None:
        return None
    for place in op.place.chain():
        found = where_kept(place) if _in_loop(place) else None
        if found is not None and not _begins_anew(*found):
            file, line, container = found
            return Place(file, line, place.function, (None, None, None), place.outer), container
    for firing in facts.trace.firings:
        hook = facts.trace.hooks[firing.hook]
        if hook.defined is not None and not set(firing.given).isdisjoint(op.outputs):
            found = kept_by(hook.defined.file, hook.defined.line)
            if found is not None:
                file, line, container = found
                return Place(file, line, hook.defined.function, (None, None, None), None), container
    return None
