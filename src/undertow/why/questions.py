"""`why.grad` and `why.hook`: explain one gradient or hook from the objects as they are now.

Objects do not tell which line made them, or what was done to them in between; `why.watch` records that.
"""

from __future__ import annotations

import math
from typing import Any

from undertow.why import objects
from undertow.why.compiled_steps import runs_of
from undertow.why.finding import Fact, Finding, fact
from undertow.why.objects import (
    freed,
    norm,
    package_of,
    path_to,
    roots_of,
    saved_tensors,
    short_name,
    storage_key,
    walk,
)
from undertow.why.places import Place
from undertow.why.registrations import Registration, place_in, seen, tensor_text
from undertow.why.report import Report, Table, short_place
from undertow.why.show import show, text

# Nodes whose slope is zero somewhere or everywhere: a gradient of zeros may come from them.
_FLAT = (
    "Relu", "Clamp", "Hardtanh", "Hardsigmoid", "Hardswish", "Threshold", "Round", "Floor", "Ceil", "Sign", "Trunc",
    "Sigmoid", "Tanh", "Softmax", "MaskedFill", "Where", "Max", "Min",
)  # fmt: skip


class Answer(Report):
    """The answer to one question. `finding` is None if nothing is wrong; `message` is the answer in words."""

    def __init__(self, subject: str, finding: Finding | None, message: str, facts: list[Fact] | None = None) -> None:
        self.subject = subject
        self.finding = finding
        self.message = message
        self.facts = facts or []

    @property
    def code(self) -> str:
        """The finding's code, or `healthy`."""
        return "healthy" if self.finding is None else self.finding.code

    def title(self) -> str:
        return f"{self.subject}: {self.message}"

    def tables(self) -> list[Table]:
        shown = self.facts if self.finding is None else self.finding.evidence
        rows: list[tuple[Any, ...]] = [(number, one.text) for number, one in enumerate(shown, 1)]
        return [Table(("", "how it is known"), rows)] if rows else []

    def notes(self) -> list[str]:
        return [] if self.finding is None else [f"write instead: {self.finding.cure}"]

    def data(self) -> dict[str, Any]:
        finding = None if self.finding is None else self.finding.as_data()
        facts = [one.as_data() for one in self.facts]
        return {"subject": self.subject, "message": self.message, "finding": finding, "facts": facts}

    def show(self) -> None:
        if self.finding is None:
            super().show()
        else:
            show([self.finding])

    def __str__(self) -> str:
        return super().__str__() if self.finding is None else text([self.finding]).rpartition("\n\n")[0]

    __repr__ = __str__


def grad(tensor: Any, loss: Any = None, name: str | None = None) -> Answer:
    """Explain `tensor.grad` after `loss.backward()`: missing, zero, not finite, or as it should be.

    >>> from undertow import why
    >>> w = torch.ones(2, requires_grad=True)
    >>> why.grad(w, (w.detach() * 3).sum()).code
    'detached'
    """
    package_of(tensor)  # raises for other objects
    subject = name or tensor_text(tensor)
    found = _Case(tensor, loss, subject).decide()
    if found is not None:
        return Answer(subject, found, found.message)
    gradient = _grad_of(tensor)
    return Answer(subject, None, f"the gradient is there, with norm {norm(gradient) or 0.0:.4g}")


def _grad_of(tensor: Any) -> Any:
    """Return `.grad`, without the warning for reading it on a computed tensor."""
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


class _Case:
    """Everything known about one missing or suspicious gradient."""

    def __init__(self, tensor: Any, loss: Any, subject: str) -> None:
        self.tensor = tensor
        self.loss = loss
        self.subject = subject
        self.gradient = _grad_of(tensor)
        self.roots = [] if loss is None else roots_of(loss)

    def say(self, code: str, message: str, cure: str, *facts: str, place: Any = None) -> Finding:
        """Return a finding about the tensor."""
        return Finding(code, place, self.subject, message, [fact(one) for one in facts], cure)

    def decide(self) -> Finding | None:
        """Return what is wrong with the gradient, or None."""
        if self.gradient is not None:
            return self._of_gradient()
        return self._not_asked() or self._of_loss() or self._not_kept() or self._not_on_the_way() or self._not_written()

    # --- there is a gradient

    def _of_gradient(self) -> Finding | None:
        length = norm(self.gradient)
        if length is None or (math.isfinite(length) and length > 0):
            return None
        if not math.isfinite(length):
            return self.say(
                "nan-born", "Its gradient holds NaN or Inf.", "with torch.autograd.detect_anomaly(): ...",
                f"the norm of the gradient is {length}",
                "the gradient does not show which operation made it; anomaly mode, or a run inside why.watch, does",
            )  # fmt: skip
        hooks = [*(self.tensor._backward_hooks or {}).values()]
        hooks += [*(self.tensor._post_accumulate_grad_hooks or {}).values()] if self.tensor.is_leaf else []
        way = self._way() or []
        flat = [short_name(node) for node in way if short_name(node).startswith(_FLAT)]
        facts = ["every element of the gradient is exactly zero"]
        facts += [f"the path to the loss goes through {', '.join(dict.fromkeys(flat))}"] if flat else []
        if hooks and not flat:
            named = ", ".join(objects.name_of(hook) for hook in hooks)
            return self.say(
                "zeroed-by-hook", "Its gradient is all zeros, and a hook on it may have made it so.",
                "with why.ledger(tensor): loss.backward()  # shows what each hook did", *facts, f"hooks on it: {named}",
            )  # fmt: skip
        if flat:
            return self.say(
                "zero-by-math", "Its gradient is all zeros: an operation on the path to the loss has slope zero here.",
                "use an operation with a slope there (leaky_relu for relu), or other starting values", *facts,
            )  # fmt: skip
        return self.say(
            "cleared", "Its gradient is all zeros: it was zeroed, or only zeros flowed back to it.",
            "call optimizer.zero_grad() before backward(), not between backward() and the use of .grad", *facts,
        )  # fmt: skip

    # --- there is no gradient

    def _not_asked(self) -> Finding | None:
        tensor = self.tensor
        if tensor.requires_grad:
            return None
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return self.say(
                "not-differentiable", f"Its type is {tensor.dtype}, and only floating-point tensors have gradients.",
                "tensor = tensor.float().requires_grad_()", f"dtype {tensor.dtype}",
            )  # fmt: skip
        parameter = "Parameter" in [cls.__name__ for cls in type(tensor).__mro__]
        what = "It is a parameter that was frozen" if parameter else "It does not require a gradient"
        return self.say(
            "no-requires-grad", f"{what}: requires_grad is False.",
            "tensor.requires_grad_()  # before the forward pass",
            "requires_grad is False, set by the program" if parameter else
            "requires_grad is False; a computed tensor has that if no input requires grad, or gradient mode was off",
        )  # fmt: skip

    def _of_loss(self) -> Finding | None:
        loss = self.loss
        if loss is None or self.roots or loss is self.tensor:
            return None
        if not (loss.is_floating_point() or loss.is_complex()):
            return self.say(
                "not-differentiable", f"The loss has type {loss.dtype}: what made it has no derivative.",
                "compute the loss with floating-point operations", f"the loss has dtype {loss.dtype} and no grad_fn",
            )  # fmt: skip
        if not package_of(loss).is_grad_enabled():
            return self.say(
                "no-grad-mode", "The loss has no graph, and gradient mode is off.",
                "with torch.enable_grad(): ...", "the loss has no grad_fn", "torch.is_grad_enabled() is False",
            )  # fmt: skip
        return self.say(
            "detached", "The loss has no graph: it was detached, or computed while gradient mode was off.",
            "loss.backward()  # on the loss as computed, without detach(), .data, item() or no_grad() before it",
            "the loss has no grad_fn",
        )  # fmt: skip

    def _not_kept(self) -> Finding | None:
        tensor = self.tensor
        if tensor.is_leaf or tensor.retains_grad:
            return None
        way = self._way()
        facts = [f"it was computed, by {short_name(tensor.grad_fn)}; only leaves keep .grad by default"]
        if way is not None:
            facts.append(self._named(way))
        elif self.roots:
            facts.append("in addition, the loss does not depend on it")
        return self.say(
            "not-leaf", "It is a computed tensor, whose gradient is passed on and not kept.",
            "tensor.retain_grad()  # before backward()", *facts,
        )  # fmt: skip

    def _not_on_the_way(self) -> Finding | None:
        if self.loss is None or self.loss is self.tensor or self._way() is not None:
            return None
        key = storage_key(self.tensor)
        for node in walk(self.roots):
            variable = getattr(node, "variable", None)
            if variable is not None and variable is not self.tensor and storage_key(variable) == key is not None:
                return self.say(
                    "detached", "The loss was computed from another leaf with the same memory.",
                    "use the tensor itself, not a Parameter made of it, its .data or detach()",
                    "no path leads from the loss to it",
                    f"a leaf of the graph, {tensor_text(variable)}, shares its memory: the gradient goes there",
                )  # fmt: skip
            for name, saved in saved_tensors(node):
                if storage_key(saved) == key is not None and not saved.requires_grad:
                    return self.say(
                        "detached", "The loss was computed from its values, but without its graph.",
                        "use the tensor itself: no detach(), .data or no_grad() around it, and requires_grad set first",
                        "no path leads from the loss to it",
                        f"{short_name(node)} saved a tensor ({name}) with its memory that does not require grad",
                    )  # fmt: skip
        nodes = list(walk(self.roots))
        seen_of_it = (
            "the graph is freed, so it does not show whether the tensor's values went in without its graph"
            if any(freed(node) for node in nodes)
            else "if it was used, its results were detached, computed with gradient mode off, or left out of the loss"
        )
        return self.say(
            "unused", "The loss does not depend on it.",
            "compute the loss from it; a run inside why.watch shows where the path was cut",
            f"no path leads from the loss to it, through {len(nodes)} nodes", seen_of_it,
        )  # fmt: skip

    def _not_written(self) -> Finding | None:
        way = self._way()
        if way is None:  # no loss was given
            return self.say(
                "no-backward", "It requires a gradient and has none.", "loss.backward()",
                "pass the loss to why.grad to learn more",
            )  # fmt: skip
        nodes = list(walk(self.roots))
        leaves = [node.variable for node in nodes if getattr(node, "variable", None) is not None]
        others = [leaf for leaf in leaves if leaf is not self.tensor and leaf.grad is not None]
        if not any(freed(node) for node in nodes):
            if others:
                return self.say(
                    "excluded-by-inputs", "Other leaves of the loss have gradients; this one has none.",
                    "loss.backward()  # without inputs=, or with it among them", self._named(way),
                    f"{len(others)} of {len(leaves)} leaves have a gradient",
                    "either backward(inputs=…) left it out, or its gradient was set to None afterwards",
                )  # fmt: skip
            return self.say(
                "no-backward", "The loss depends on it, and no backward() has run from this loss.", "loss.backward()",
                self._named(way), "no node of the graph is freed, and no leaf has a gradient",
            )  # fmt: skip
        if others:
            return self.say(
                "excluded-by-inputs", "A backward pass ran and wrote other gradients, but not this one.",
                "loss.backward()  # without inputs=, or with it among them", self._named(way),
                f"the graph is freed; {len(others)} of {len(leaves)} leaves have a gradient",
            )  # fmt: skip
        return self.say(
            "cleared", "A backward pass ran, and the gradients were cleared since (or autograd.grad wrote none).",
            "read .grad after backward() and before zero_grad()", self._named(way),
            "the graph is freed, and none of its leaves has a gradient",
        )  # fmt: skip

    # --- the graph

    def _way(self) -> list[Any] | None:
        """Return the path of nodes from the loss to the tensor."""
        tensor = self.tensor
        if tensor.is_leaf:
            return path_to(self.roots, lambda node: getattr(node, "variable", None) is tensor)
        wanted = tensor.grad_fn
        return path_to(self.roots, lambda node: node == wanted)

    def _named(self, way: list[Any]) -> str:
        names = [short_name(node) for node in way[::-1]]
        if len(names) > 8:
            names = [*names[:4], "…", *names[-3:]]
        return "its path to the loss: " + " → ".join(names)


# --- hooks


def hook(handle: Any) -> Answer:
    """Return how often a hook fired, or why it did not, as far as its handle shows.

    >>> from undertow import why
    >>> x = torch.ones(1, requires_grad=True)
    >>> with why.ledger():
    ...     handle = x.register_hook(lambda grad: None)
    ...     x.sum().backward()
    >>> why.hook(handle).message
    'it fired 1 time'
    """
    parts = getattr(handle, "handles", None)  # of a multi-grad hook
    if parts:
        return hook(parts[0])
    package = package_of(handle)
    known = seen(package, handle.id)
    found = handle.hooks_dict_ref()
    subject = "hook" if known is None or known.place is None else f"hook at line {known.place.line}"
    facts = _registered(known, place_in(handle.id))
    facts += [fact(runs) for runs in runs_of(found.get(handle.id) if found else None)]
    place = place_in(handle.id) if known is None else known.place
    fired = None if known is None else known.fired
    if fired:
        return Answer(subject, None, f"it fired {fired} time{'' if fired == 1 else 's'}", facts)
    never = "it never fired while it was watched" if fired == 0 else "its calls were not counted"
    if found is None:
        message = "The hooked object was freed, and the hook with it."
        cure = "keep the hooked object, and register on the one that the program uses"
        return _fails("hook-on-dead-end", place, subject, message, cure, facts, never, fired)
    if handle.id not in found:
        place = place if known is None else known.removed or place
        message, cure = "It was removed.", "call handle.remove() after the pass that should fire it"
        return _fails("hook-removed", place, subject, message, cure, facts, never, fired)
    owner = None if known is None else known.owner()
    if owner is not None and hasattr(owner, "grad_fn") and not owner.requires_grad:
        message, cure = "The hooked tensor does not require grad.", "tensor.requires_grad_()  # before the forward pass"
        return _fails("no-grad-output", place, subject, message, cure, facts, never, 0)
    if fired is None and len(facts) > 1:
        never = "a compiled step runs it"
    return Answer(subject, None, f"it is in place; {never}", facts)


def _registered(known: Registration | None, place: Place | None) -> list[Fact]:
    if known is None:
        return [fact("registered before why.watch() or why.scope()", place)]
    where = "" if known.place is None else f" at {short_place(known.place)}"
    return [fact(f"a {known.kind} hook on {known.owner_text()}, registered{where}", known.place)]


def _fails(
    code: str, place: Any, subject: str, message: str, cure: str, facts: list[Fact], never: str, counted: int | None
) -> Answer:
    """Return the answer for a hook that can no longer fire: a finding only if it is known that it never fired."""
    if counted is None:
        return Answer(subject, None, f"{message} {never[0].upper()}{never[1:]} before.", facts)
    evidence = [*facts, fact(never)]
    return Answer(subject, Finding(code, place, subject, message, evidence, cure), message, evidence)
