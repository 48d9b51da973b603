"""The language of random programs: steps, as plain tuples, and the machine that runs them on either library.

A step is `(kind, a, b, c)` with three small numbers that choose tensors and variants; any numbers are a valid program.
0 chooses the newest tensor, so that a failing program shrinks to a short one. Whatever a step raises is logged and the
program goes on, so that states after errors are compared too.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.facts import opening

Step = tuple[str, int, int, int]

UNARY = ("sin", "tanh", "neg", "sigmoid", "cos", "clone", "square", "atan", "half", "plus")
BINARY = ("add", "mul", "sub", "div", "where", "cat", "matmul", "maximum")
REDUCE = ("sum", "mean", "sum of rows", "max", "amax")
VIEW = ("select", "slice", "view", "transpose", "unsqueeze", "expand", "unbind", "chunk", "alias", "detach", "diagonal")
WRITE = ("mul_ number", "add_", "mul_", "sin_", "copy_", "setitem", "setitem row", "masked_fill_", "tanh_")
HOOK = ("look", "double", "look", "double", "raise once", "remove itself", "add another", "wrong shape", "wrong kind")
NODE_HOOK = ("pre", "post", "pre doubles", "post doubles")
TURN = ("t_", "transpose_", "unsqueeze_", "squeeze_")
UNRECORDED = ("double", "mul_", "copy_", "fresh leaf", "zero_")
KINDS = (
    ("unary",) * 5
    + ("binary",) * 5
    + ("reduce",)
    + ("view",) * 5
    + ("write",) * 4
    + ("hook",) * 5
    + ("node hook",) * 2
    + ("retain",) * 2
    + ("accumulated", "remove", "remove", "new leaf", "constant", "custom", "double backward")
    + ("backward",) * 2
    + ("grad",) * 2
    + ("turn", "unrecorded", "unrecorded", "mark", "several", "clear")
)


def plain(value: Any) -> Any:
    """Gradients without their graph: how a gradient's own formula is written is not compared here."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if value is None else value.detach()


class Machine:
    """Runs steps on the library `torch`, with a pool of tensors that steps choose from."""

    def __init__(self, torch: Any, log: Any) -> None:
        self.torch, self.log = torch, log
        self.handles: list[Any] = []
        self.count = 0
        self.leaves: list[Any] = []
        self.pool: list[Any] = [torch.tensor([[2.0, -0.5], [0.25, 1.0]], dtype=torch.float64)]
        self.leaf([[0.5, -1.5], [2.0, 0.75]])
        self.leaf([1.25, -0.75])
        self.retained: list[Any] = []

    def run(self, steps: list[Step]) -> None:
        for number, step in enumerate(steps):
            self.guarded((number, step[0]), lambda: getattr(self, step[0].replace(" ", "_"))(*step[1:]))
        self.finish()

    def guarded(self, label: Any, action: Any) -> None:
        try:
            action()
        except Exception as error:
            builtin = next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
            self.log(label, "raises", builtin.__name__, opening(str(error), 6))

    def finish(self) -> None:
        """Differentiate everything that is left, then show all that can be seen."""
        for number, tensor in enumerate(self.pool):
            self.guarded(("final backward", number), lambda: self.backward_of(tensor, retain_graph=True))
        for number, tensor in enumerate(self.pool):
            self.guarded(("value", number), lambda: self.log(number, tensor, tensor._version, tensor._is_view()))
        for number, tensor in enumerate(self.leaves + self.retained):
            self.guarded(("gradient", number), lambda: self.log(number, plain(tensor.grad)))

    # --- choosing --------------------------------------------------------------------------------------------------------

    def pick(self, choice: int) -> Any:
        return self.pool[-1 - choice % len(self.pool)]

    def keep(self, *tensors: Any) -> None:
        self.pool += tensors

    def leaf(self, values: Any) -> None:
        tensor = self.torch.tensor(values, dtype=self.torch.float64, requires_grad=True)
        self.leaves.append(tensor)
        self.keep(tensor)

    def name(self) -> int:
        self.count += 1
        return self.count

    # --- tensors ---------------------------------------------------------------------------------------------------------

    def unary(self, a: int, b: int, c: int) -> None:
        x, which = self.pick(a), UNARY[b % len(UNARY)]
        if which == "half":
            self.keep(x * 0.5)
        elif which == "plus":
            self.keep(x + 1)
        else:
            self.keep(getattr(x, which)())

    def binary(self, a: int, b: int, c: int) -> None:
        torch, x, y = self.torch, self.pick(a), self.pick(c)
        which = BINARY[b % len(BINARY)]
        if which == "matmul" and not x.dim() == y.dim() == 2:
            which = "mul"
        if which == "where":
            self.keep(torch.where(x > 0, x, y))
        elif which == "cat":
            self.keep(torch.cat([x, y, x])[: x.shape[0]])
        elif which == "div":
            self.keep(x / (y * y + 1))
        else:
            self.keep(getattr(torch, which)(x, y))

    def reduce(self, a: int, b: int, c: int) -> None:
        x, which = self.pick(a), REDUCE[b % len(REDUCE)]
        self.keep(x.sum(0) if which == "sum of rows" else getattr(x, which)())

    def view(self, a: int, b: int, c: int) -> None:
        x, which = self.pick(a), VIEW[b % len(VIEW)]
        if which in ("unbind", "chunk"):
            self.keep(*(x.unbind() if which == "unbind" else x.chunk(2))[:2])
            return
        views = {
            "select": lambda: x[c % 2],
            "slice": lambda: x[c % 2 :],
            "view": lambda: x.view(-1),
            "transpose": lambda: x.transpose(0, -1),
            "unsqueeze": lambda: x.unsqueeze(0),
            "expand": lambda: x.expand(2, *x.shape),
            "alias": lambda: x.view_as(x),
            "detach": lambda: x.detach(),
            "diagonal": lambda: x.diagonal(),
        }
        self.keep(views[which]())

    def write(self, a: int, b: int, c: int) -> None:
        x, y, which = self.pick(a), self.pick(c), WRITE[b % len(WRITE)]
        writes = {
            "mul_ number": lambda: x.mul_(0.5),
            "add_": lambda: x.add_(y),
            "mul_": lambda: x.mul_(y),
            "sin_": lambda: x.sin_(),
            "tanh_": lambda: x.tanh_(),
            "copy_": lambda: x.copy_(y),
            "setitem": lambda: x.__setitem__(0, 0.5),
            "setitem row": lambda: x.__setitem__(0, y[0] if y.dim() <= x.dim() else 0.25),
            "masked_fill_": lambda: x.masked_fill_(x > 0.5, 0.25),
        }
        if 0 in x.stride() and which == "masked_fill_":  # torch sees the overlap only in the backward pass
            return
        writes[which]()
        self.log("written", x._version, None if x.grad_fn is None else x.grad_fn.name())

    def turn(self, a: int, b: int, c: int) -> None:
        """Other strides in place."""
        x, which = self.pick(a), TURN[b % len(TURN)]
        # torch leaves a kept gradient, and hooks, with the old shape, and stumbles over them later.
        if x.is_leaf or x.dim() > 2 or x.retains_grad or x._backward_hooks is not None:
            return
        x.turned = True
        getattr(x, which)(*{"transpose_": (0, -1), "unsqueeze_": (0,)}.get(which, ()))
        self.log("turned", x._version, x.grad_fn.name(), tuple(x.shape))

    def unrecorded(self, a: int, b: int, c: int) -> None:
        """What happens under no_grad."""
        x, y, which = self.pick(a), self.pick(c), UNRECORDED[b % len(UNRECORDED)]
        if x is y or 0 in x.stride():
            return
        acts = {
            "double": lambda: self.keep(x * 2),
            "mul_": lambda: x.mul_(0.5),
            "copy_": lambda: x.copy_(y),
            "fresh leaf": lambda: self.keep(x.detach().clone().requires_grad_()),
            "zero_": lambda: x.zero_(),
        }
        with self.torch.no_grad():
            acts[which]()
        self.log("unrecorded", x._version, x.requires_grad, x.is_leaf)

    def clear(self, a: int, b: int, c: int) -> None:
        """A gradient that is dropped, emptied or replaced."""
        x = self.leaves[a % len(self.leaves)]
        if b % 3 == 0:
            x.grad = None
        elif x.grad is not None:
            x.grad = x.grad.detach().clone() * 2 if b % 3 == 1 else x.grad.zero_()

    def new_leaf(self, a: int, b: int, c: int) -> None:
        self.leaf([[0.1 * a, -0.2 * b], [0.3 * c, 0.4]] if a % 2 else [0.1 * b, 0.3])

    def constant(self, a: int, b: int, c: int) -> None:
        self.keep(self.torch.tensor([[0.1 * a, 1.0], [-1.0, 0.2 * b]], dtype=self.torch.float64))

    def custom(self, a: int, b: int, c: int) -> None:
        log = self.log
        base: Any = self.torch.autograd.Function

        class Custom(base):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                ctx.save_for_backward(x, y)
                return x * y, x + y

            @staticmethod
            def backward(ctx: Any, g: Any, h: Any) -> Any:
                log("custom", plain(g), plain(h), ctx.needs_input_grad)
                x, y = ctx.saved_tensors
                return g * y + h, g * x + h

        x, y = self.pick(a), self.pick(b)
        self.keep(*Custom.apply(x, y if y.shape == x.shape else x.detach()))

    # --- hooks -----------------------------------------------------------------------------------------------------------

    def hook(self, a: int, b: int, c: int) -> None:
        x, which, name = self.pick(a), HOOK[b % len(HOOK)], self.name()
        if self.hooks_are_lost(x):
            return
        state = {"raised": False}
        handle: list[Any] = []

        def fire(g: Any) -> Any:
            self.log("hook", name, which, plain(g))
            if g is None:
                return None
            if which == "double":
                return g * 2
            if which == "raise once" and not state["raised"]:
                state["raised"] = True
                raise ValueError(f"hook {name}")
            if which == "remove itself":
                handle[0].remove()
            if which == "add another":
                self.handles.append(x.register_hook(lambda g: self.log("hook", name, "added", plain(g))))
            if which == "wrong shape" and c % 2:
                return self.torch.ones(7, dtype=g.dtype)
            if which == "wrong kind" and c % 2:
                return "gradient"
            return None

        handle.append(x.register_hook(fire))
        self.handles += handle

    def hooks_are_lost(self, x: Any) -> bool:
        """A hook on a view whose base was written, or on a tensor that was turned: torch crashes if the new node was not
        made, and forgets the hook if the tensor had one before. Neither is worth comparing."""
        return x.grad_fn is not None and (x._is_view() or hasattr(x, "turned")) and x._backward_hooks is not None

    def node_hook(self, a: int, b: int, c: int) -> None:
        node, which, name = self.pick(a).grad_fn, NODE_HOOK[b % len(NODE_HOOK)], self.name()
        if node is None:
            return

        def before(outputs: Any) -> Any:
            self.log("node pre", name, plain(outputs))
            return tuple(None if g is None else g * 2 for g in outputs) if which == "pre doubles" else None

        def after(inputs: Any, outputs: Any) -> Any:
            self.log("node post", name, plain(inputs), plain(outputs))
            return tuple(None if g is None else g * 2 for g in inputs) if which == "post doubles" else None

        self.handles.append(node.register_prehook(before) if which.startswith("pre") else node.register_hook(after))

    def accumulated(self, a: int, b: int, c: int) -> None:
        x, name = self.leaves[a % len(self.leaves)], self.name()
        self.handles.append(
            x.register_post_accumulate_grad_hook(lambda t: self.log("accumulated", name, plain(t.grad)))
        )

    def mark(self, a: int, b: int, c: int) -> None:
        """A hook that marks the gradient, which other such hooks may be shown too."""
        x, name = self.pick(a), self.name()
        if self.hooks_are_lost(x):
            return

        def fire(g: Any) -> None:
            if g is not None:
                self.log("mark", name, getattr(g, "marks", 0))
                g.marks = getattr(g, "marks", 0) + 1

        self.handles.append(x.register_hook(fire))

    def several(self, a: int, b: int, c: int) -> None:
        """A hook over the gradients of several tensors."""
        name, mode = self.name(), ("all", "any")[b % 2]
        tensors = [self.pick(a), self.pick(c), self.leaves[b % len(self.leaves)]]
        tensors = [x for x in tensors if x.requires_grad and not (x.grad_fn is not None and x._is_view())]
        fire = lambda found: self.log("several", name, plain(found))
        self.handles.append(self.torch.autograd.graph.register_multi_grad_hook(tensors, fire, mode=mode))

    def remove(self, a: int, b: int, c: int) -> None:
        if self.handles:
            self.handles[a % len(self.handles)].remove()

    def retain(self, a: int, b: int, c: int) -> None:
        x = self.pick(a)
        if x.output_nr:  # torch crashes when such a tensor is written to
            return
        x.retain_grad()
        self.retained.append(x)

    # --- differentiating -------------------------------------------------------------------------------------------------

    def backward(self, a: int, b: int, c: int) -> None:
        inputs = None if c % 4 else [self.leaves[c % len(self.leaves)]]
        self.backward_of(self.pick(a), retain_graph=bool(b % 4), inputs=inputs)

    def backward_of(self, x: Any, **options: Any) -> None:
        x.backward(self.torch.ones_like(x), **options)
        self.log("backward done", plain([leaf.grad for leaf in self.leaves]))

    def grad(self, a: int, b: int, c: int) -> None:
        x = self.pick(a)
        inputs = [self.pick(c), self.leaves[b % len(self.leaves)]][: 1 + b % 2]
        create_graph = c % 3 == 0
        result = self.torch.autograd.grad(
            x, inputs, self.torch.ones_like(x), retain_graph=True, create_graph=create_graph, allow_unused=bool(a % 3)
        )
        self.log("grad", plain(result))
        self.keep(*(g.clone() for g in result if g is not None and create_graph))

    def double_backward(self, a: int, b: int, c: int) -> None:
        x, leaf = self.pick(a), self.leaves[b % len(self.leaves)]
        (first,) = self.torch.autograd.grad(x.sum(), leaf, create_graph=True)
        self.log("first", plain(first))
        (first * first).sum().backward(retain_graph=True)
