"""detached: an explicit cut."""

from __future__ import annotations

from undertow.why.causes.base import consumer_fact
from undertow.why.causes.cut_off import CutOff
from undertow.why.facts.facts import Facts
from undertow.why.facts.failure import failed_backward
from undertow.why.facts.graph_cuts import origin
from undertow.why.facts.missing_gradients import Miss, copy_instead
from undertow.why.finding import Finding, fact
from undertow.why.source import goes_to_numpy, text_of
from undertow.why.trace import ErrorRecord, OpRecord

_SAID = {
    "detach": ("detach() gives the values without the graph", "use the tensor itself where its gradient is wanted"),
    "detach_": ("detach_() takes it out of its graph", "leave the detach_() out"),
    "data.get": (".data gives the values without the graph", "use the tensor itself, not its .data"),
    "data.set": ("assigning .data takes over values without their graph", "use the computed tensor itself"),
    "item": ("item() gives a Python number", "use the tensor itself, without item()"),
    "__float__": ("float() gives a Python number", "use the tensor itself, without float()"),
    "tolist": ("tolist() gives Python numbers", "stay in tensors: torch.stack, torch.cat"),
    "numpy": ("numpy() leaves torch", "write it with torch functions"),
    "__array__": ("NumPy takes the values out of torch", "write it with torch functions"),
    "tensor": ("torch.tensor() copies values and starts a new graph", "torch.stack(list_of_tensors)"),
    "as_tensor": ("torch.as_tensor() copies values and starts a new graph", "torch.stack(list_of_tensors)"),
    "new_tensor": ("new_tensor() copies values and starts a new graph", "torch.stack(list_of_tensors)"),
    "Parameter": ("nn.Parameter(t) starts a new leaf with the values of t", "use the computed tensor itself"),
    "state_dict": ("state_dict() gives the values of the parameters without their graph",
                   "dict(model.named_parameters()) in place of model.state_dict()"),
    "autograd.grad": ("autograd.grad() without create_graph returns plain values", "autograd.grad(..., create_graph=True)"),
}  # fmt: skip


_ENDS = {"detach": ".detach()", "data.get": ".data", "item": ".item()"}
_OUT = ("item", "__float__", "numpy", "tolist", "__array__")


class Detached(CutOff):
    """detach, .data, numpy(), item(), float(), torch.tensor(t) on the way to the loss."""

    code = "detached"
    meaning = "an explicit cut: detach, .data, .numpy(), .item(), float(t), torch.tensor(t)"

    def words(self, op: OpRecord) -> tuple[str, str]:
        did, cure = _SAID.get(op.name, (f"{op.shown} gives the values without the graph", "use the tensor itself"))
        if op.name in ("detach", "data.get") and goes_to_numpy(op.place):
            return did, "write it with torch functions, without detach() and numpy()"
        text, end = text_of(op.place), _ENDS.get(op.name, "")
        if end and text.endswith(end) and not text.endswith(f"){end}"):
            return did, f"{text.removesuffix(end)}  # in place of {text}, where its gradient is wanted"
        if op.name == "tensor" and text.startswith("torch.tensor(") and "," not in text:
            return did, f"torch.stack({text.removeprefix('torch.tensor(')}  # in place of {text}"
        return did, cure

    def miss(self, facts: Facts, miss: Miss) -> Finding | None:
        copied = copy_instead(facts, miss) if miss.kind == "none" else None
        if copied is None:
            return super().miss(facts, miss)
        name = facts.name(miss.tensor)
        return Finding(
            self.code,
            copied.place,
            name,
            f"deepcopy() makes new leaves with the values of {name}: the gradient goes to the copy, and the copy's graph "
            f"does not lead back to {name}.",
            [
                fact(f"{name} is copied", copied.place),
                fact("the gradient of the copy is computed", copied.differentiated),
                consumer_fact(facts, miss),
            ],
            "compute with tensors that are made from the original: torch.func.functional_call(net, {name: p - lr * g}, x); "
            "or hand the gradient over: p.grad = copied.grad",
            [miss.consumers[0].place],
            miss.tensor,
        )

    def failure(self, facts: Facts, error: ErrorRecord) -> Finding | None:
        if failed_backward(facts, error) is None and error.type == "AttributeError" and "'backward'" in error.message:
            for op in reversed(facts.trace.ops):  # loss.item().backward()
                if op.kind == "leaves" and op.inputs and op.name in _OUT:
                    found_origin = origin(facts, op.inputs[0], op.time)  # loss.detach().numpy()
                    cut = (
                        op
                        if any(op.inputs_require_grad) or found_origin is None or found_origin.op is None
                        else found_origin.op
                    )
                    seen = fact("backward() is called on a value that is no longer a tensor", error.place)
                    return self._finding(facts, cut.inputs[0], cut, [], [seen])
        return super().failure(facts, error)
