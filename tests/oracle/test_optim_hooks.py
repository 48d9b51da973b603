"""Optimizer hooks: what they are called with, in which order, what their results do, and random programs of all that."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.harness import agree, outcome
from tests.oracle.programs import Table, attempt

cases = Table()


def make(torch: Any, cls: Any = None, **options: Any) -> Any:
    w = torch.ones(2, requires_grad=True)
    w.grad = torch.tensor([0.5, 0.25])
    return w, (cls or torch.optim.SGD)([w], **{"lr": 0.1, **options})


def module_of(torch: Any) -> Any:
    return import_module(f"{torch.__name__}.optim.optimizer")


class everywhere:
    """A hook on every optimizer, for the length of a `with` block."""

    def __init__(self, torch: Any, kind: str, hook: Any) -> None:
        register = getattr(module_of(torch), f"register_optimizer_step_{kind}_hook")
        self.handle = register(hook)

    def __enter__(self) -> Any:
        return self.handle

    def __exit__(self, *exc: Any) -> None:
        self.handle.remove()


@cases
def order_around_a_step(torch, log):
    w, optimizer = make(torch)

    def note(label):
        return lambda optimizer, args, kwargs: log(label, type(optimizer).__name__, len(args), kwargs, w)

    for label in ("first", "second"):
        optimizer.register_step_pre_hook(note(("own pre", label)))
        optimizer.register_step_post_hook(note(("own post", label)))
    with everywhere(torch, "pre", note("global pre")), everywhere(torch, "post", note("global post")):
        optimizer.step()
        optimizer.step(lambda: torch.tensor(1.0))
        optimizer.step(closure=None)
    optimizer.step()


@cases
def pre_hooks_change_the_arguments(torch, log):
    w, optimizer = make(torch)

    def closure():
        log("closure runs")
        return 7

    optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: (args, {"closure": closure}))
    optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: log("sees", len(args), sorted(kwargs)))
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: log("post sees", sorted(kwargs)))
    log(optimizer.step(), w)


@cases
def wrong_results_of_pre_hooks(torch, log):
    for answer in (3, (1,), (1, 2, 3), [(), {}], False):
        w, optimizer = make(torch)
        optimizer.register_step_pre_hook(lambda *_: answer)
        attempt(log, str(answer), optimizer.step, words=20)
        log(w)


@cases
def results_of_post_hooks_are_ignored(torch, log):
    w, optimizer = make(torch)
    optimizer.register_step_post_hook(lambda *_: "ignored")
    log(optimizer.step(lambda: 5))


@cases
def a_hook_that_raises(torch, log):
    w, optimizer = make(torch)

    def fail(*_):
        raise ValueError("from the hook")

    handle = optimizer.register_step_post_hook(fail)
    optimizer.register_step_post_hook(lambda *_: log("after the failing one"))
    attempt(log, "post", optimizer.step)
    log(w)
    handle.remove()
    optimizer.register_step_pre_hook(fail)
    attempt(log, "pre", optimizer.step)
    log(w)
    optimizer._optimizer_step_pre_hooks.clear()
    optimizer.step()
    log(w)


@cases
def a_step_that_raises_fires_no_post_hooks(torch, log):
    w, optimizer = make(torch)
    optimizer.register_step_pre_hook(lambda *_: log("pre"))
    optimizer.register_step_post_hook(lambda *_: log("post"))

    def closure():
        raise KeyError("from the closure")

    attempt(log, "step", lambda: optimizer.step(closure))
    log(w)
    optimizer.step()


@cases
def hooks_around_a_scheduler(torch, log):
    w, optimizer = make(torch)
    optimizer.register_step_pre_hook(lambda *_: log("pre"))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: log("post", len(args), kwargs))
    for _ in range(2):
        optimizer.step()
        scheduler.step()
        log(w, scheduler.get_last_lr())
    log(optimizer.step(closure=lambda: 3))


@cases
def a_subclass_without_its_own_step(torch, log):
    class Quiet(torch.optim.SGD):
        pass

    w, optimizer = make(torch, Quiet)
    optimizer.register_step_pre_hook(lambda optimizer, *_: log(type(optimizer).__name__))
    optimizer.step()
    log(w)


@cases
def a_step_from_a_mixin(torch, log):
    class Loud:
        def step(self, closure=None):
            log("loud")

    class Mixed(Loud, torch.optim.SGD):
        pass

    w, optimizer = make(torch, Mixed)
    optimizer.register_step_pre_hook(lambda *_: log("pre"))
    optimizer.step()
    log(w)


@cases
def a_step_inside_a_step(torch, log):
    """A closure may step the same optimizer again: that is a step of its own."""
    w, optimizer = make(torch)
    optimizer.register_step_pre_hook(lambda *_: log("pre"))
    optimizer.register_step_post_hook(lambda *_: log("post"))
    optimizer.step(lambda: optimizer.step())
    log(w)


@cases
def state_dict_hooks(torch, log):
    w, optimizer = make(torch, momentum=0.9)
    optimizer.step()
    optimizer.register_state_dict_pre_hook(lambda optimizer: log("pre 1", type(optimizer).__name__))
    optimizer.register_state_dict_pre_hook(lambda optimizer: log("pre 2"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda optimizer, state: log("post 1", state))
    optimizer.register_state_dict_post_hook(lambda optimizer, state: {**state, "more": 1})
    optimizer.register_state_dict_post_hook(lambda optimizer, state: log("post 3", sorted(state)))
    optimizer.register_state_dict_post_hook(lambda optimizer, state: log("post 4", sorted(state)), prepend=True)
    log(optimizer.state_dict())


@cases
def load_state_dict_hooks(torch, log):
    w, optimizer = make(torch, momentum=0.9)
    optimizer.step()
    state = optimizer.state_dict()

    def change(optimizer, state):
        log("pre 1", sorted(state))
        state["param_groups"] = [{**state["param_groups"][0], "lr": 5.0}]

    optimizer.register_load_state_dict_pre_hook(change)
    optimizer.register_load_state_dict_pre_hook(lambda optimizer, state: {"state": {}, **state, "lr": 7}, prepend=True)
    optimizer.register_load_state_dict_pre_hook(lambda optimizer, state: log("pre 3", sorted(state)))
    optimizer.register_load_state_dict_post_hook(lambda optimizer: log("post 1", optimizer.param_groups[0]["lr"]))
    optimizer.register_load_state_dict_post_hook(lambda optimizer: log("post 2"), prepend=True)
    optimizer.load_state_dict(state)
    log(state["param_groups"][0]["lr"], optimizer.param_groups[0]["lr"])


@cases
def maps_may_be_edited(torch, log):
    w, optimizer = make(torch)
    for name in sorted(name for name in vars(optimizer) if name.endswith("_hooks")):
        log(name, type(getattr(optimizer, name)).__name__, len(getattr(optimizer, name)))
    handle = optimizer.register_step_pre_hook(lambda *_: log("kept"))
    optimizer._optimizer_step_pre_hooks[handle.id] = lambda *_: log("replaced")
    optimizer._optimizer_step_pre_hooks[99999999] = lambda *_: log("put in by hand")
    optimizer.step()
    optimizer._optimizer_step_pre_hooks.clear()
    optimizer.step()
    module = module_of(torch)
    log(type(module._global_optimizer_pre_hooks).__name__, type(module._global_optimizer_post_hooks).__name__)


@cases
def handles(torch, log):
    w, optimizer = make(torch)
    with optimizer.register_step_pre_hook(lambda *_: log("inside")) as handle:
        optimizer.step()
        log(type(handle).__name__)
    optimizer.step()
    handle.remove()
    first = optimizer.register_state_dict_post_hook(lambda *_: log("first"))
    optimizer.register_state_dict_post_hook(lambda *_: log("second"))
    first.remove()
    optimizer.state_dict()


@cases
def global_hooks_of_several_optimizers(torch, log):
    a, b = make(torch)[1], make(torch, torch.optim.Adam)[1]
    with everywhere(torch, "pre", lambda optimizer, args, kwargs: log(type(optimizer).__name__)):
        a.step()
        b.step()
    a.step()


@cases
def a_global_hook_adds_an_own_hook(torch, log):
    """Each list is read when its turn comes."""
    w, optimizer = make(torch)
    late = lambda *_: log("added by the global hook")
    with everywhere(torch, "pre", lambda optimizer, *_: optimizer.register_step_pre_hook(late) and None):
        optimizer.step()


@cases.test
def test_optimizer_hooks(program):
    agree(program, words=20)


# --- what PyTorch gets wrong, and undertow does not


def undertow_log(program: Any) -> list[Any]:
    import undertow

    done = outcome(undertow, program)
    assert done.error is None, done.error
    return done.log


def test_a_hook_may_remove_itself():
    def once_and_always(torch, log, kind):
        machine = Machine(torch, log)
        register = machine.registrar(kind)
        act = getattr(machine, {"global": "step"}.get(kind.split()[0], kind.split()[0]))

        def once(*_):
            log("once")
            handle.remove()
            register(lambda *_: log("added"))

        handle = register(once)
        other = register(lambda *_: log("always"))
        act(0, 0)
        log("again")
        act(0, 0)
        other.remove()
        machine.run([])

    for kind in KINDS:
        seen = undertow_log(lambda torch, log: once_and_always(torch, log, kind))
        assert seen == [("once",), ("always",), ("again",), ("always",), ("added",)], kind


def test_hooks_fire_once_through_super():
    def program(torch, log):
        class Outer(torch.optim.SGD):
            def step(self, closure=None):
                log("outer step")
                return super().step(closure)

        make(torch)[1].step()  # SGD's own step is hooked from now on
        w, optimizer = make(torch, Outer)
        optimizer.register_step_pre_hook(lambda *_: log("pre"))
        optimizer.register_step_post_hook(lambda *_: log("post"))
        with everywhere(torch, "pre", lambda *_: log("global pre")):
            optimizer.step()
            optimizer.step(lambda: log("closure"))
        log(w._version)

    once = [("global pre",), ("pre",), ("outer step",), ("post",)]
    assert undertow_log(program) == [*once, *once[:3], ("closure",), ("post",), (2,)]


# --- random programs

KINDS = ("step pre", "step post", "global pre", "global post", "save pre", "save post", "load pre", "load post")
BEHAVIOURS = ("look", "look", "answer", "raise", "add another", "change lr")
ACTIONS = ("register", "register", "register", "remove", "step", "step", "save", "load", "clear", "swap")
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7), st.integers(0, 7)), min_size=4, max_size=25)


class Machine:
    """Runs a random program on one library. Hooks never change the list that is being read: PyTorch fails there."""

    def __init__(self, torch: Any, log: Any) -> None:
        self.torch, self.log = torch, log
        self.w, self.optimizer = make(torch, momentum=0.5)
        self.handles: list[Any] = []
        self.count = 0
        self.state = self.optimizer.state_dict()

    def registrar(self, kind: str) -> Any:
        scope, when = kind.split()
        if scope == "global":
            return getattr(module_of(self.torch), f"register_optimizer_step_{when}_hook")
        names = {"step": "step", "save": "state_dict", "load": "load_state_dict"}
        return getattr(self.optimizer, f"register_{names[scope]}_{when}_hook")

    def hook(self, kind: str, behaviour: str) -> Any:
        self.count += 1
        label = f"{kind} {self.count} {behaviour}"

        def fired(optimizer: Any, *arguments: Any) -> Any:
            self.log(label, len(arguments), optimizer.param_groups[0]["lr"])
            if behaviour == "raise":
                raise ValueError(label)
            if behaviour == "change lr":
                optimizer.param_groups[0]["lr"] *= 0.5
            if behaviour == "add another":  # to a list that is not being read
                other = KINDS[(KINDS.index(kind) + 4) % 8]
                if self.count < 40:
                    self.handles.append(self.registrar(other)(self.hook(other, "look")))
            if behaviour == "answer":
                return self.answer(kind, arguments)
            return None

        return fired

    def answer(self, kind: str, arguments: tuple[Any, ...]) -> Any:
        if kind in ("step pre", "global pre"):
            return arguments[0], {"closure": lambda: self.log("closure")}
        if kind in ("save post", "load pre"):
            return dict(arguments[0])
        return "ignored"

    def run(self, program: list[tuple[str, int, int]]) -> None:
        try:
            for action, a, b in program:
                attempt(self.log, action, lambda: getattr(self, action)(a, b))
                self.log(self.w, self.optimizer.param_groups[0]["lr"])
        finally:
            module = module_of(self.torch)
            module._global_optimizer_pre_hooks.clear()
            module._global_optimizer_post_hooks.clear()

    def register(self, a: int, b: int) -> None:
        kind, behaviour = KINDS[a], BEHAVIOURS[b % len(BEHAVIOURS)]
        options = {"prepend": bool(b % 2)} if kind.split()[0] in ("save", "load") else {}
        self.handles.append(self.registrar(kind)(self.hook(kind, behaviour), **options))

    def remove(self, a: int, b: int) -> None:
        if self.handles:
            self.handles[a % len(self.handles)].remove()

    def step(self, a: int, b: int) -> Any:
        return self.optimizer.step(*[(lambda: self.log("given closure"))][: a % 2])

    def save(self, a: int, b: int) -> Any:
        self.state = self.optimizer.state_dict()
        return self.state

    def load(self, a: int, b: int) -> None:
        self.optimizer.load_state_dict(self.state)

    def clear(self, a: int, b: int) -> None:
        if b == 0:
            self.optimizer._optimizer_step_pre_hooks.clear()

    def swap(self, a: int, b: int) -> None:
        """A scheduler wraps `step`; hooks go on firing."""
        if b == 1:
            self.torch.optim.lr_scheduler.StepLR(self.optimizer, 1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps)
def test_random_programs(program):
    agree(lambda torch, log: Machine(torch, log).run(program))
