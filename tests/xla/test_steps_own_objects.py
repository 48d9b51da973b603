"""Objects that the step makes and its hooks fill: what a hook on the host puts there, the trace does not see."""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow.compiler import CompileError


class Collector:
    """What a user collects features in, as a context manager."""

    def __init__(self, model: Any) -> None:
        self.model, self.handles = model, list[Any]()
        self.n, self.out, self.last = 0, None, 0.0
        self.seen: Any = collections.OrderedDict()
        self.table: dict[Any, Any] = {}
        self.values, self.recent, self.nested = list[Any](), collections.deque[Any](maxlen=3), {"a": list[Any]()}
        self.names = set[Any]()

    def __enter__(self) -> Any:
        for place in (1, 2):
            self.handles.append(self.model[place].register_forward_hook(functools.partial(self.see, place)))
        return self

    def __exit__(self, *error: Any) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        raise NotImplementedError

    def summary(self) -> Any:
        return len(self.table) + len(self.values) + self.n


class Values(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.values.append(output.norm().item())


class Numbers(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.table[place] = output.norm().item()


class Names(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.names.add(round(output.norm().item(), 3))


class Recent(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.recent.append(output.norm().item())


class Nested(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.nested["a"].append(output.norm().item())


class Counter(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.n += 1
        print(end="")


class Last(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.last = output.norm().item()


class Ordered(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.seen[place] = output
        self.seen.move_to_end(place, last=False)


class Popped(Collector):
    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.table[place] = output
        self.table[0] = None
        self.table.pop(0)


@dataclasses.dataclass
class Notes:
    norms: list[Any] = dataclasses.field(default_factory=list)


class Noted(Collector):
    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.noted = Notes()

    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.noted.norms.append(output.norm().item())


class Raw(Collector):
    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.raw = bytearray()

    def see(self, place: int, module: Any, inputs: Any, output: Any) -> None:
        self.raw.append(int(output.norm().item()))


LAST = operator.attrgetter("last")


def matched(features: Any) -> int:
    match features:
        case Collector(last=0.0):
            return 1
    return 2


def increased(features: Any) -> Any:
    features.last += 1
    return 0


def use(kind: type[Collector], read: Callable[[Any], Any]) -> Case:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))

    def step(x: Any) -> Any:
        model.zero_grad()
        with kind(model) as features:
            y = model(x)
        loss = (y * (1 + read(features))).pow(2).mean()
        loss.backward()
        return loss.detach()

    return Case(step, model, args=lambda turn: (torch.randn(3, 2),))


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (Values, lambda features: sum(features.values)),
        (Values, lambda features: features.summary()),
        (Values, lambda features: len(vars(features)["values"])),
        (Values, lambda features: len(getattr(features, "values"))),  # noqa: B009
        (Numbers, lambda features: sum(features.table.values())),
        (Names, lambda features: len(features.names)),
        (Recent, lambda features: len(features.recent)),
        (Nested, lambda features: len(features.nested["a"])),
        (Counter, lambda features: features.n),
        (Last, lambda features: features.last),
        (Last, LAST),
        (Last, lambda features: getattr(features, "la" + "st")),
        (Last, matched),
        (Last, increased),
        (Values, lambda features: sum(getattr(features, name)[0] for name in ("values",))),
        (Noted, lambda features: sum(dataclasses.astuple(features.noted)[0])),
        (Noted, lambda features: int(features.noted == Notes())),
        (Noted, lambda features: len(f"{features.noted}")),
        (Raw, lambda features: len(features.raw)),
    ],
)
def test_a_step_that_reads_what_a_hook_on_the_host_puts_there_is_refused(kind: Any, read: Any) -> None:
    with pytest.raises(CompileError, match="which the step itself has made and reads"):
        agree(lambda: use(kind, read))


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (Ordered, lambda features: sum(each.mean() for each in features.seen.values())),
        (Popped, lambda features: sum(each.mean() for each in features.table.values())),
    ],
)
def test_hooks_that_only_keep_tensors_are_traced(kind: Any, read: Any) -> None:
    agree(lambda: use(kind, read))


def made(store: Any) -> Any:
    def hook(module: Any, inputs: Any, output: Any) -> None:
        store.append(output.norm().item())

    return hook


def added(store: Any, module: Any, inputs: Any, output: Any) -> None:
    store.append(output.norm().item())


def of_closure(store: Any) -> Any:
    return lambda module, inputs, output: store.append(output.norm().item())


def of_default(store: Any) -> Any:
    def hook(module: Any, inputs: Any, output: Any, store: Any = store) -> None:
        store.append(output.norm().item())

    return hook


def of_partial(store: Any) -> Any:
    return functools.partial(added, store)


@pytest.mark.parametrize("hook_of", [made, of_closure, of_default, of_partial])
@pytest.mark.parametrize("shape", ["list", "pair", "dict"])
def test_a_list_of_the_step_that_a_hook_fills_is_not_read_in_the_trace(hook_of: Any, shape: str) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh())

    def step(x: Any) -> Any:
        seen: list[Any] = []
        held: Any = {"list": seen, "pair": (1, seen), "dict": {"seen": seen}}[shape]
        handle = model[0].register_forward_hook(hook_of(seen))
        y = model(x)
        handle.remove()
        found = held if shape == "list" else held[1] if shape == "pair" else held["seen"]
        return (y * (1 + sum(found))).sum().detach()

    with pytest.raises(CompileError):
        agree(lambda: Case(step, model, args=lambda turn: (torch.randn(3, 2),)))


def test_statements_on_the_host_read_what_hooks_put_there() -> None:
    def build() -> Case:
        model, log = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)), list[Any]()

        def step(x: Any) -> Any:
            with Values(model) as features:
                y = model(x)
            log.append([round(each, 3) for each in features.values])
            return y.sum().detach()

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),), log=log)

    agree(build)


class Trainer:
    """What lasts from call to call, with what each call makes anew."""

    shared: Any = None

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
        self.seen, self.table, self.kept = list[Any](), {"seen": list[Any]()}, [list[Any]()]
        self.model[0].register_forward_hook(self.see)

    def see(self, module: Any, inputs: Any, output: Any) -> None:
        raise NotImplementedError


class InAttribute(Trainer):
    def start(self) -> None:
        self.seen = []

    def see(self, module: Any, inputs: Any, output: Any) -> None:
        self.seen.append(output.norm().item())

    def found(self) -> Any:
        return self.seen


class InEntry(Trainer):
    def start(self) -> None:
        self.table["seen"] = []

    def see(self, module: Any, inputs: Any, output: Any) -> None:
        self.table["seen"].append(output.norm().item())

    def found(self) -> Any:
        return self.table["seen"]


class InElement(Trainer):
    def start(self) -> None:
        self.kept[0] = []

    def see(self, module: Any, inputs: Any, output: Any) -> None:
        self.kept[0].append(output.norm().item())

    def found(self) -> Any:
        return self.kept[0]


class InClass(Trainer):
    def start(self) -> None:
        Trainer.shared = []

    def see(self, module: Any, inputs: Any, output: Any) -> None:
        Trainer.shared.append(output.norm().item())

    def found(self) -> Any:
        return Trainer.shared


class InModule(Trainer):
    def start(self) -> None:
        self.model[0].seen = []

    def see(self, module: Any, inputs: Any, output: Any) -> None:
        module.seen.append(output.norm().item())

    def found(self) -> Any:
        return self.model[0].seen


class InGlobal(Trainer):
    def start(self) -> None:
        global SEEN
        SEEN = []

    def see(self, module: Any, inputs: Any, output: Any) -> None:
        SEEN.append(output.norm().item())

    def found(self) -> Any:
        return SEEN


SEEN: list[Any] = []


@pytest.mark.parametrize("kind", [InAttribute, InEntry, InElement, InClass, InModule, InGlobal])
def test_a_list_that_each_call_begins_anew_is_not_read_in_the_trace(kind: Any) -> None:
    def build() -> Case:
        its = kind()

        def step(x: Any) -> Any:
            its.start()
            y = its.model(x)
            return (y * (1 + sum(its.found()))).sum().detach()

        return Case(step, its.model, args=lambda turn: (torch.randn(3, 2),))

    with pytest.raises(CompileError, match="which the step itself has made and reads"):
        agree(build)


@pytest.mark.parametrize("kind", [InAttribute, InEntry])
def test_a_list_that_each_call_begins_anew_may_be_read_afterwards(kind: Any) -> None:
    def build() -> Case:
        its = kind()

        def step(x: Any) -> Any:
            its.start()
            return its.model(x).sum().detach()

        return Case(step, its.model, args=lambda turn: (torch.randn(3, 2),), look=lambda: [*its.found()])

    agree(build)


def test_a_step_reads_what_a_backward_function_puts_there() -> None:
    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, seen: Any) -> Any:
            ctx.seen = seen
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            ctx.seen.append(gradient.norm().item())
            return gradient, None

    model = nn.Linear(2, 3)

    def step(x: Any) -> Any:
        seen = list[Any]()
        loss = Watched.apply(model(x), seen).sum()
        model.zero_grad()
        loss.backward()
        return loss.detach() * sum(seen)

    agree(lambda: Case(step, model, args=lambda turn: (torch.randn(3, 2),)))


class Meter:
    """What a step makes in each call, to fill and read it there."""

    def __init__(self) -> None:
        self.values, self.last = list[Any](), 0.0

    def update(self, value: Any) -> None:
        self.values.append(value.norm().item())
        self.last = value.mean().item()

    def mean(self) -> Any:
        return sum(self.values) / max(len(self.values), 1)

    def scaled(self, by: Any) -> Any:
        return by * sum(self.values)


def extend(values: Any, value: Any) -> None:
    values.append(value.norm().item())


def in_line(meter: Any, y: Any) -> Any:
    meter.values.append(y.norm().item())
    return sum(meter.values)


def by_methods(meter: Any, y: Any) -> Any:
    meter.update(y)
    return meter.mean()


def by_a_function(meter: Any, y: Any) -> Any:
    extend(meter.values, y)
    return meter.mean()


def of_a_list(meter: Any, y: Any) -> Any:
    values: list[Any] = []
    extend(values, y)
    return sum(values)


@pytest.mark.parametrize("use", [in_line, by_methods, by_a_function, of_a_list])
@pytest.mark.parametrize("lasts", [False, True])
def test_a_step_reads_what_its_own_statements_put_into_its_objects(use: Any, lasts: bool) -> None:
    def build() -> Case:
        model = nn.Linear(2, 3)

        def step(x: Any) -> Any:
            meter = Meter()
            y = model(x)
            return (y * (1 + use(meter, y))).sum().detach()

        def step_of_lasting(x: Any) -> Any:
            model.meter = Meter()
            y = model(x)
            return (y * (1 + use(model.meter, y))).sum().detach()

        return Case(step_of_lasting if lasts else step, model, args=lambda turn: (torch.randn(3, 2),))

    agree(build)


@pytest.mark.parametrize("lasts", [False, True])
def test_a_step_reads_twice_what_its_own_statements_put_into_an_object(lasts: bool) -> None:
    def build() -> Case:
        model = nn.Linear(2, 3)

        def step(x: Any) -> Any:
            meter = Meter()
            if lasts:
                model.meter = meter
            y = model(x)
            return (y * (1 + by_methods(model.meter if lasts else meter, y) + meter.mean())).sum().detach()

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),))

    agree(build)


OF_MEAN, OF_SCALED = operator.methodcaller("mean"), operator.methodcaller("scaled", by=2)


@pytest.mark.parametrize(
    "read",
    [
        OF_MEAN,
        OF_SCALED,
        lambda meter: operator.methodcaller("mean")(meter),
        lambda meter: operator.methodcaller("scaled", 2)(meter),
        lambda meter: operator.methodcaller("scaled", by=2)(meter),
        lambda meter: sum(map(operator.methodcaller("me" + "an"), [meter])),
    ],
)
def test_a_step_reads_by_the_name_of_a_method_what_its_own_statements_put_into_an_older_object(read: Any) -> None:
    def build() -> Case:
        model, meter = nn.Linear(2, 3), Meter()

        def step(x: Any) -> Any:
            y = model(x)
            meter.values.append(y.norm().item())
            return (y * (1 + read(meter))).sum().detach()

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),))

    agree(build)


def test_a_step_changes_an_older_object_by_the_name_of_a_method() -> None:
    def build() -> Case:
        model, meter, log = nn.Linear(2, 3), Meter(), list[Any]()

        def step(x: Any) -> Any:
            y = model(x)
            operator.methodcaller("update", y)(meter)
            operator.methodcaller("append", y.norm().item())(log)
            return (y * (1 + meter.mean())).sum().detach()

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),), log=log)

    agree(build)


class Counting:
    """An object that each call makes: its method is a hook, and counts in it."""

    def __init__(self) -> None:
        self.n, self.out, self.table = 0, None, dict[int, Any]()

    def hook(self, module: Any, inputs: Any, output: Any) -> None:
        self.n += 1
        self.out = output
        self.table[self.n] = output.mean().detach()


def counting(use: Callable[[Any, Any, Any, list[Any]], Any]) -> Case:
    model, kept = nn.Sequential(nn.Linear(2, 3), nn.Tanh()), list[Any]([None])

    def step(x: Any) -> Any:
        counts = Counting()
        handles = [module.register_forward_hook(counts.hook) for module in model]
        result = use(counts, model, x, kept)
        for handle in handles:
            handle.remove()
        return result

    return Case(step, model, kept, args=lambda turn: (torch.randn(3, 2),))


def told_between(counts: Any, model: Any, x: Any, kept: list[Any]) -> Any:
    first = model(x)
    kept[0] = counts.n, counts.out.norm().item()
    second = model(x * 2)
    return first * counts.n + second.sum() * counts.out.mean(), counts.n


def left_in_a_list(counts: Any, model: Any, x: Any, kept: list[Any]) -> Any:
    out = model(x)
    kept[0] = counts.table
    return out + sum(counts.table.values())


@pytest.mark.parametrize("use", [told_between, left_in_a_list])
def test_hooks_that_count_in_objects_of_the_step_are_traced(use: Any) -> None:
    agree(lambda: counting(use), programs=2)


def test_a_store_of_packed_tensors_is_no_reason_to_compile_again() -> None:
    def build() -> Case:
        model = nn.Linear(2, 3)

        class Store:
            def __init__(self) -> None:
                self.items = list[Any]()

            def pack(self, tensor: Any) -> int:
                self.items.append(tensor)
                return len(self.items) - 1

            def unpack(self, place: int) -> Any:
                return self.items[place]

        def step(x: Any) -> Any:
            store = Store()
            model.zero_grad()
            with torch.autograd.graph.saved_tensors_hooks(store.pack, store.unpack):
                loss = model(x).pow(2).mean()
            loss.backward()
            return loss.detach(), len(store.items)

        return Case(step, model, args=lambda turn: (torch.randn(3, 2),))

    agree(build, steps=4, programs=2)


def test_other_calls_on_the_host_read_what_a_hook_counts() -> None:
    def use(counts: Any, model: Any, x: Any, kept: list[Any]) -> Any:
        def tell(module: Any, inputs: Any, output: Any) -> None:
            kept[0] = counts.n

        handle = model[0].register_forward_hook(tell)
        try:
            return model(x)
        finally:
            handle.remove()

    with pytest.raises(CompileError, match="an object that the step makes, and another hook or statement"):
        agree(lambda: counting(use))


def test_an_object_of_an_earlier_call_of_which_the_analyzer_lost_track() -> None:
    pool, layer = list[Any](), nn.Linear(2, 1)

    @torch.compile
    def step(x: Any) -> Any:
        found = pool.pop() if pool else []
        handle = layer.register_forward_hook(lambda module, inputs, output: found.append(1))
        out = layer(x)
        handle.remove()
        pool.append(found)
        return out, len(found)

    assert step(torch.ones(1, 2))[1] == 1
    with pytest.raises(CompileError, match="it runs on the host, where it appends to `found`"):
        step(torch.ones(1, 2))
