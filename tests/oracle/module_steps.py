"""The language of random programs of module hooks, and the machine that runs them on either library.

A step is `(kind, a, b, c)` with three small numbers that choose a module, a behaviour and options; any numbers are a
valid program. Whatever a step raises is logged and the program goes on.

What PyTorch gets wrong is left out here and tested on its own: hooks around state dicts that change their own list, and
always_call hooks that do so while another error is under way.
"""

from __future__ import annotations

import copy
from typing import Any

from tests.oracle.facts import opening
from tests.oracle.random_steps import plain

Step = tuple[str, int, int, int]

BEHAVIOURS = ("look", "replace", "look", "replace", "raise once", "remove itself", "add another", "wrong")
OWN = ("forward pre", "forward", "backward pre", "backward")
KINDS = (
    ("register",) * 8
    + ("register global",) * 3
    + ("call",) * 6
    + ("remove",) * 3
    + ("state hook",) * 2
    + ("load hook",) * 2
    + ("state",) * 2
    + ("load",) * 2
    + ("registration hook", "grow", "old hook", "freeze", "copy", "parameter hook", "edit")
)


class Machine:
    """Runs steps on the library `torch`, with a small tree of modules that steps choose from."""

    def __init__(self, torch: Any, log: Any) -> None:
        self.torch, self.log = torch, log
        self.space = torch.nn.modules.module
        nn = torch.nn
        self.model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Tanh(), nn.Linear(2, 2)), nn.Identity()).double()
        with torch.no_grad():
            for number, parameter in enumerate(self.model.parameters()):
                values = torch.arange(float(parameter.numel()), dtype=torch.float64) - number
                parameter.copy_(values.view(parameter.shape) / 4)
        self.handles: list[Any] = []
        self.global_handles: list[Any] = []
        self.count = 0
        self.frozen_input = False

    def run(self, steps: list[Step]) -> None:
        try:
            for number, step in enumerate(steps):
                self.guarded((number, step[0]), lambda: getattr(self, step[0].replace(" ", "_"))(*step[1:]))
            self.guarded("last call", lambda: self.call(0, 0, 0))
            self.guarded("last state", lambda: self.state(0, 0, 0))
        finally:
            for handle in self.global_handles:
                handle.remove()
            self.space._global_is_full_backward_hook = None
            registry = getattr(self.space, "_registry", None)
            if registry is not None:
                registry._global_is_full_backward_hook = None

    def guarded(self, label: Any, action: Any) -> None:
        try:
            action()
        except Exception as error:
            builtin = next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
            self.log(label, "raises", builtin.__name__, opening(str(error), 6))

    def pick(self, choice: int) -> Any:
        modules = list(self.model.modules())
        return modules[choice % len(modules)]

    def name(self) -> int:
        self.count += 1
        return self.count

    # --- hooks around calls

    def behave(self, kind: str, which: str, register: Any) -> Any:
        """A hook of a kind with a behaviour; `register(hook)` adds another of the same kind."""
        name = self.name()
        state = {"raised": False}
        handle: list[Any] = []

        def hook(module: Any, *values: Any) -> Any:
            self.log(kind, name, type(module).__name__, plain([_listed(value) for value in values]))
            if which == "raise once" and not state["raised"]:
                state["raised"] = True
                raise ValueError(f"hook {name}")
            if which == "remove itself":
                handle[0].remove()
            if which == "add another" and self.count < 60:
                self.handles.append(register(self.behave(kind, "look", register)[0]))
            if which == "replace":
                return _replaced(kind, values)
            if which == "wrong":
                return _wrong(kind, values)
            return None

        return hook, handle

    def register(self, a: int, b: int, c: int) -> None:
        module, kind, which = self.pick(a), OWN[c % len(OWN)], BEHAVIOURS[b % len(BEHAVIOURS)]
        options: dict[str, Any] = {"prepend": bool(c & 4)}
        if kind in ("forward pre", "forward"):
            options["with_kwargs"] = bool(c & 8)
        if kind == "forward" and which != "remove itself":
            options["always_call"] = bool(b & 8)
        full = "full_" if kind.startswith("backward") else ""
        registrar = getattr(module, f"register_{full}{kind.replace(' ', '_')}_hook")
        if options.get("with_kwargs"):
            kind += " kw"

        def register(hook: Any) -> Any:
            return registrar(hook, **options)

        hook, handle = self.behave(kind, which, register)
        handle.append(register(hook))
        self.handles.append(handle[0])

    def register_global(self, a: int, b: int, c: int) -> None:
        kind, which = OWN[c % len(OWN)], BEHAVIOURS[b % len(BEHAVIOURS)]
        full = "full_" if kind.startswith("backward") else ""
        registrar = getattr(self.space, f"register_module_{full}{kind.replace(' ', '_')}_hook")

        def register(hook: Any) -> Any:
            handle = registrar(hook)
            self.global_handles.append(handle)
            return handle

        hook, handle = self.behave("global " + kind, which, register)
        handle.append(register(hook))
        self.handles.append(handle[0])

    def old_hook(self, a: int, b: int, c: int) -> None:
        module = self.pick(a)
        if module is self.model:  # its last node may be that of a hooked child, whose gradients are its own business
            return
        name = self.name()
        self.handles.append(
            module.register_backward_hook(lambda m, gi, go: self.log("old", name, plain(list(gi)), plain(list(go))))
        )

    def parameter_hook(self, a: int, b: int, c: int) -> None:
        parameters = list(self.model.parameters())
        parameter, name = parameters[a % len(parameters)], self.name()
        if parameter.requires_grad:
            self.handles.append(parameter.register_hook(lambda g: self.log("parameter", name, plain(g))))
            self.handles.append(
                parameter.register_post_accumulate_grad_hook(lambda p: self.log("accumulated", name, plain(p.grad)))
            )

    def remove(self, a: int, b: int, c: int) -> None:
        if self.handles:
            self.handles[a % len(self.handles)].remove()

    def edit(self, a: int, b: int, c: int) -> None:
        """As tools do: the maps themselves are changed."""
        module = self.pick(a)
        held = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)[
            b % 4
        ]
        if held and c % 2:
            held.popitem(last=bool(c & 2))
        elif b % 4 < 2 and held:
            held.move_to_end(next(iter(held)))

    # --- running

    def call(self, a: int, b: int, c: int) -> None:
        x = self.torch.tensor([[0.5, -1.0]], dtype=self.torch.float64, requires_grad=a % 4 != 3)
        output = self.model(x)
        self.log("output", plain(_listed(output)))
        if isinstance(output, self.torch.Tensor) and output.requires_grad:
            if b % 4 == 3:
                (grad,) = self.torch.autograd.grad(output.sum(), x, allow_unused=True) if x.requires_grad else (None,)
                self.log("grad", plain(grad))
            else:
                output.sum().backward(retain_graph=b % 4 == 2)
                if b % 4 == 2:
                    (output * 2).sum().backward()
        self.log("gradients", plain(x.grad), plain([parameter.grad for parameter in self.model.parameters()]))

    def freeze(self, a: int, b: int, c: int) -> None:
        self.pick(a).requires_grad_(bool(b % 2))

    def copy(self, a: int, b: int, c: int) -> None:
        """The program goes on with a copy, whose hooks log as the original's do."""
        torch, log, handles = self.torch, self.log, self.handles
        memo = {id(torch): torch, id(log): log, id(self): self}
        self.model = copy.deepcopy(self.model, memo)
        self.handles = handles

    # --- state

    def state_hook(self, a: int, b: int, c: int) -> None:
        module, name = self.pick(a), self.name()
        if b % 3 == 0:
            handle = module.register_state_dict_pre_hook(
                lambda m, prefix, keep: self.log("state pre", name, prefix, keep)
            )
        elif b % 3 == 1:
            handle = module.register_state_dict_post_hook(
                lambda m, state, prefix, meta: self.log("state post", name, list(state), prefix)
            )
        else:

            def private(m: Any, state: Any, prefix: str, meta: Any) -> Any:
                self.log("state private", name, list(state), prefix)
                return {key: value for key, value in state.items() if not key.endswith("bias")} if c % 2 else None

            handle = module._register_state_dict_hook(private)
        self.handles.append(handle)

    def load_hook(self, a: int, b: int, c: int) -> None:
        module, name = self.pick(a), self.name()

        def pre(*args: Any) -> None:
            self.log("load pre", name, len(args), list(args[-7]), args[-6], args[-4])
            if c % 4 == 0:
                args[-1].append(f"from {name}")
            elif c % 4 == 1:
                args[-7].pop(args[-6] + "bias", None)

        def post(m: Any, keys: Any) -> Any:
            self.log("load post", name, keys.missing_keys, keys.unexpected_keys)
            if c % 4 == 1:
                keys.missing_keys.clear()
            return keys if c % 4 == 3 else None

        if b % 3 == 0:
            self.handles.append(module.register_load_state_dict_post_hook(post))
        elif b % 3 == 1:
            self.handles.append(module.register_load_state_dict_pre_hook(pre))
        else:
            self.handles.append(module._register_load_state_dict_pre_hook(pre, with_module=bool(c & 4)))

    def state(self, a: int, b: int, c: int) -> None:
        state = self.model.state_dict(keep_vars=bool(a % 2))
        self.log("state", {key: plain(value) for key, value in state.items()}, getattr(state, "_metadata", None))

    def load(self, a: int, b: int, c: int) -> None:
        state = {name: value.detach().clone() * 0.5 for name, value in self.model.named_parameters()}
        if b % 4 == 1:
            state["strange"] = self.torch.ones(1)
        if b % 4 == 2 and state:
            state.popitem()
        self.log(repr(self.model.load_state_dict(state, strict=bool(a % 3))))

    # --- growing

    def registration_hook(self, a: int, b: int, c: int) -> None:
        kind, name = ("parameter", "buffer", "module")[b % 3], self.name()

        def hook(module: Any, key: str, value: Any) -> Any:
            self.log("registered", name, kind, type(module).__name__, key, value is None)
            if c % 4 == 0 and kind == "parameter" and value is not None:
                return self.torch.nn.Parameter(value.detach() * 0.5)
            if c % 4 == 1:
                raise ValueError(f"registration {name}")
            return None

        handle = getattr(self.space, f"register_module_{kind}_registration_hook")(hook)
        self.global_handles.append(handle)
        self.handles.append(handle)

    def grow(self, a: int, b: int, c: int) -> None:
        nn, torch = self.torch.nn, self.torch
        if b % 3 == 0:
            self.model.append(nn.Hardtanh(-2.0, 2.0))
        elif b % 3 == 1:
            self.model.register_parameter(f"extra{self.name()}", nn.Parameter(torch.ones(1)))
        else:
            self.model.register_buffer(f"kept{self.name()}", torch.ones(1), persistent=bool(c % 2))


def _listed(value: Any) -> Any:
    """Arguments, gradients and outputs as lists; keywords as their values."""
    if isinstance(value, dict):
        return list(value.values())
    return [_listed(part) for part in value] if isinstance(value, (tuple, list)) else value


def _replaced(kind: str, values: tuple[Any, ...]) -> Any:
    """Twice what the hook may replace."""
    last = values[-1]
    if kind.endswith("forward pre"):
        return tuple(_twice(part) for part in values[0])
    if kind == "forward pre kw":
        return tuple(_twice(part) for part in values[0]), values[1]
    if "backward" in kind:
        return tuple(_twice(part) for part in values[0])
    return _twice(last)


def _twice(value: Any) -> Any:
    return None if value is None else value * 2


def _wrong(kind: str, values: tuple[Any, ...]) -> Any:
    """What the hook may not return, where anything is refused."""
    if kind == "forward pre kw":
        return values[0]
    return (values[0][0], values[0][0]) if "backward" in kind else None
