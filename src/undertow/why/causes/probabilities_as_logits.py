"""A loss that applies softmax or sigmoid itself gets probabilities."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.why.causes.base import Cause
from undertow.why.facts.facts import Facts
from undertow.why.finding import Finding, fact, note
from undertow.why.places import Place
from undertow.why.trace import OpRecord

# loss -> the ops whose results it must not get, and what to do instead
_TAKES_LOGITS = {
    "cross_entropy": (("softmax", "sigmoid"), "give cross_entropy the logits; it applies log_softmax itself"),
    "binary_cross_entropy_with_logits": (("sigmoid", "softmax"), "give the loss the logits; it applies sigmoid itself"),
    "nll_loss": (("softmax", "sigmoid"), "use log_softmax instead of softmax before nll_loss"),
}
_SHAPES = frozenset(
    "view reshape squeeze unsqueeze flatten transpose permute contiguous float to movedim T.get mT.get".split()
)


class ProbabilitiesAsLogits(Cause):
    """Softmax before cross_entropy, sigmoid before binary_cross_entropy_with_logits."""

    code = "probabilities-as-logits"
    meaning = "a loss that takes logits gets the result of softmax or sigmoid"
    needs = "the op whose result each loss takes, through changes of shape"

    def run(self, facts: Facts) -> Iterable[Finding]:
        for number in sorted(facts.paths.differentiated):
            loss = facts.trace.ops[number]
            if loss.name not in _TAKES_LOGITS or not loss.inputs:
                continue
            names, cure = _TAKES_LOGITS[loss.name]
            made = _maker(facts, loss)
            if made is None or made.name.rstrip("_") not in names:
                continue
            yield note(
                self.code,
                _where(facts, made),
                facts.name(made.outputs[0]),
                f"{loss.name} takes {'log-probabilities' if loss.name == 'nll_loss' else 'logits'}, and here gets the "
                f"result of {made.name}: its gradients become small and training slow.",
                [fact(f"{made.name} makes probabilities", made.place), fact(f"{loss.name} takes them", loss.place)],
                cure,
                also=[made.place, loss.place],
                tensor=made.outputs[0],
            )


def _maker(facts: Facts, loss: OpRecord) -> OpRecord | None:
    """Return the op that made a loss's first input, before changes of shape."""
    made = facts.maker(loss.inputs[0], loss.time)
    while made is not None and made.name in _SHAPES and made.inputs:
        made = facts.maker(made.inputs[0], made.time)
    return made


def _where(facts: Facts, op: OpRecord) -> Place | None:
    """Return the line of an op; for a module that a container of the engine calls, the line that made the module."""
    if op.call is None or facts.trace.calls[op.call].parent is None:
        return op.place
    call = facts.trace.calls[op.call]
    module, container = (facts.trace.modules[one.module] for one in (call, facts.trace.calls[call.parent or 0]))
    return module.place if module.library and container.library and module.place is not None else op.place
