"""State that changes between calls in ways that few programs use: attributes that are deleted and set again, dicts of
attributes that are replaced, methods of objects that only a hook uses. The next call of a compiled step sees the change."""

from __future__ import annotations

import collections
import ctypes
import decimal
import enum
import functools
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, Cases, agree
from undertow import nn
from undertow._src.compile import CompileError

case, hook_case = Cases(), Cases()


def changing(step: Callable[[Any], Any], *changes: Callable[[], Any], state: Any = ()) -> Case:
    """A step that is called three times, and twice after each of these changes."""

    def between(turn: int) -> None:
        if turn >= 2 and turn % 2 == 0 and turn // 2 <= len(changes):
            changes[turn // 2 - 1]()

    made = Case(step, *state, args=lambda turn: (torch.tensor([1.0, 2.0, 3.0]),), between=between)
    made.steps = 3 + 2 * len(changes)  # type: ignore[attr-defined]
    return made


def swapped(owner: Any, one: str = "a", other: str = "b") -> None:
    """Let two attributes change places, so that their values are in the same order as before."""
    first, second = getattr(owner, one), getattr(owner, other)
    delattr(owner, one)
    delattr(owner, other)
    setattr(owner, other, first)
    setattr(owner, one, second)


class Box:
    a: Any
    b: Any


# --- keys of mappings


@case
def attributes_of_a_module_swapped() -> Case:
    model = nn.Module()
    model.a, model.b = [2.0], [5.0]
    return changing(lambda x: x * model.a[0] - model.b[0], lambda: swapped(model))


@case
def parameters_swapped() -> Case:
    model = nn.Module()
    model.a, model.b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.full((3,), 5.0))
    return changing(lambda x: x * model.a - model.b, lambda: swapped(model))


@case
def buffers_swapped() -> Case:
    model = nn.Module()
    model.register_buffer("a", torch.ones(3))
    model.register_buffer("b", torch.full((3,), 5.0))

    def change() -> None:
        first, second = model._buffers.pop("a"), model._buffers.pop("b")
        model._buffers.update(b=first, a=second)

    return changing(lambda x: x * model.a - model.b, change)


@case
def submodules_swapped() -> Case:
    model = nn.Module()
    model.a, model.b = nn.Tanh(), nn.ReLU()
    return changing(lambda x: model.b(model.a(x) - 0.8), lambda: swapped(model))


@case
def an_attribute_renamed() -> Case:
    model = nn.Module()
    model.scale = [2.0]

    def change() -> None:
        model.other = model.__dict__.pop("scale")

    return changing(lambda x: x * (2 if hasattr(model, "scale") else 7), change)


@case
def a_parameter_renamed() -> Case:
    model = nn.Linear(3, 2)

    def change() -> None:
        model._parameters["renamed"] = model._parameters.pop("bias")

    return changing(lambda x: x * sum(len(name) for name, _ in model.named_parameters()), change)


class Text(str):
    pass


@case
def a_key_that_is_equal_and_of_another_class() -> Case:
    table = {"a": 2.0}

    def step(x: Any) -> Any:
        for key, value in table.items():
            x = x * value + (10 if isinstance(key, Text) else 0)
        return x

    def change() -> None:
        table[Text("a")] = table.pop("a")

    return changing(step, change)


def in_turn(table: dict[str, Any]) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        for key, value in table.items():
            x = x * value + ord(key)
        return x

    return step


@case
def the_order_of_a_dict_with_a_changing_number() -> Case:
    table = {"a": 1.0, "b": 2.0}

    def reorder() -> None:
        table["a"] = table.pop("a")

    return changing(in_turn(table), lambda: table.update(a=5.0), lambda: table.update(a=6.0), reorder)


@case
def the_order_of_attributes_with_a_changing_number() -> Case:
    box = Box()
    box.a, box.b = 1.0, 2.0

    def step(x: Any) -> Any:
        for key, value in vars(box).items():
            x = x * value + ord(key)
        return x

    def reorder() -> None:
        value = box.a
        del box.a
        box.a = value

    return changing(step, lambda: setattr(box, "a", 5.0), lambda: setattr(box, "a", 6.0), reorder)


@case
def the_order_of_an_ordered_dict() -> Case:
    table = collections.OrderedDict(a=1.0, b=2.0)
    return changing(
        in_turn(table),
        lambda: table.move_to_end("a"),
        lambda: collections.OrderedDict.move_to_end(table, "b"),
        lambda: dict.__setitem__(table, "a", 4.0),
    )


@case
def the_order_of_a_dict_with_a_carried_tensor() -> Case:
    table: dict[str, Any] = {"h": torch.zeros(3), "longer": [2.0]}

    def step(x: Any) -> Any:
        table["h"] = (table["h"] + x).detach()
        return table["h"] * len(next(iter(table)))

    def reorder() -> None:
        table["h"] = table.pop("h")

    return changing(step, reorder)


@case
def the_sign_of_nan() -> Case:
    numbers = [math.nan]

    def change() -> None:
        numbers[0] = -numbers[0]

    return changing(lambda x: x * math.copysign(1, numbers[0]), change, change)


# --- the dict of attributes


def with_another_dict(owner: Any) -> tuple[Callable[[], None], Callable[[], None]]:
    owner.k = [2.0]

    def replace() -> None:
        owner.__dict__ = {"k": [5.0]}

    def put() -> None:
        owner.k = [6.0]

    return replace, put


def attributes_of(owner: Any) -> Case:
    return changing(lambda x: x * owner.k[0], *with_another_dict(owner))


def helper(x: Any) -> Any:
    return x


class Items(list[Any]):
    pass


class Pair(tuple[Any, ...]):
    pass


class Failure(ValueError):
    pass


case.update(
    attributes_of_a_function=lambda: attributes_of(types.FunctionType(helper.__code__, globals())),
    attributes_of_a_tensor=lambda: attributes_of(torch.ones(3)),
    attributes_of_a_parameter=lambda: attributes_of(nn.Parameter(torch.ones(3))),
    attributes_of_a_list=lambda: attributes_of(Items([1.0])),
    attributes_of_a_tuple=lambda: attributes_of(Pair([1.0])),
    attributes_of_a_partial_call=lambda: attributes_of(functools.partial(helper)),
    attributes_of_an_exception=lambda: attributes_of(ValueError("a")),
    attributes_of_a_users_exception=lambda: attributes_of(Failure("a")),
)


@case
def attributes_of_an_array() -> Case:
    class Array(np.ndarray[Any, Any]):
        k: Any

    array = np.ones(3).view(Array)
    array.k = 2.0

    def step(x: Any) -> Any:
        return x * array.k * float(array[0])

    return changing(step, lambda: setattr(array, "k", 3.0), lambda: array.fill(4.0), lambda: setattr(array, "k", 5))


@case
def notes_of_an_exception() -> Case:
    error = ValueError("a")
    return changing(lambda x: x * len(getattr(error, "__notes__", ())), lambda: error.add_note("b"))


@case
def the_class_of_a_module() -> Case:
    library: Any = types.ModuleType("library")
    library.k = 2.0

    class Computed(types.ModuleType):
        @property
        def k(self) -> float:
            return 8.0

    def change() -> None:
        library.__class__ = Computed

    return changing(lambda x: x * library.k, change, lambda: setattr(Computed, "k", property(lambda self: 9.0)))


@case
def the_names_of_a_module_by_its_dict() -> Case:
    library: Any = types.ModuleType("library")
    library.k = [2.0]
    return changing(lambda x: x * vars(library)["k"][0], lambda: setattr(library, "k", [3.0]))


# --- what is kept in C


@case
def what_a_pointer_points_to() -> Case:
    class Pointing(ctypes.Structure):
        _fields_ = [("pointer", ctypes.POINTER(ctypes.c_int))]

    number = ctypes.c_int(4)
    pointing = Pointing(ctypes.pointer(number))

    def step(x: Any) -> Any:
        return x * pointing.pointer.contents.value

    return changing(step, lambda: setattr(number, "value", 9), lambda: setattr(pointing.pointer.contents, "value", 3))


@case
def the_context_of_decimals() -> Case:
    one = decimal.Decimal(1)
    context = decimal.getcontext()
    return changing(
        lambda x: x * float(one / 3), lambda: setattr(context, "prec", 2), lambda: setattr(context, "prec", 28)
    )


@case
def how_numpy_handles_errors() -> Case:
    return changing(
        lambda x: x * (2 if np.geterr()["divide"] == "warn" else 3),
        lambda: np.seterr(divide="ignore"),
        lambda: np.seterr(divide="warn"),
    )


# --- what cached functions keep


def cached(settings: Any, *more: Callable[[], Any]) -> Case:
    return changing(
        lambda x: x * settings().k[0],
        lambda: settings().k.insert(0, 3.0),
        lambda: setattr(settings(), "k", [5.0]),
        settings.cache_clear,
        *more,
    )


@case
def an_object_in_a_cache() -> Case:
    @functools.lru_cache
    def settings() -> Any:
        return types.SimpleNamespace(k=[2.0])

    return cached(settings)


@case
def an_object_in_a_cache_without_limit() -> Case:
    @functools.cache
    def settings() -> Any:
        return types.SimpleNamespace(k=[2.0])

    return cached(settings)


@case
def an_object_that_a_full_cache_dropped() -> Case:
    @functools.lru_cache(maxsize=1)
    def numbers(first: float) -> list[float]:
        return [first]

    def replace() -> None:
        numbers(4.0)
        numbers(3.0)[0] = 9.0

    return changing(lambda x: x * numbers(3.0)[0], replace, replace)


@case
def a_cache_filled_in_a_trace() -> Case:
    scale, found = [2.0], [0.0]

    @functools.lru_cache
    def scaled(number: float) -> float:
        return scale[0] * number

    def change() -> None:
        scale[0] += 1.0
        scaled.cache_clear()

    return changing(
        lambda x: x * scaled(3.0), change, lambda: found.append(scaled(3.0)), change, change, state=(found,)
    )


@pytest.mark.parametrize("name", case)
def test_changes(name: str) -> None:
    agree(case[name], case[name]().steps)


# --- what only a hook uses


def hooked(compute: Callable[[Any], Any], *changes: Callable[[], Any], notes: bool) -> Case:
    """A step with a hook that returns what it computes, or notes a number of it."""
    model, log = nn.Linear(3, 2), list[float]()

    def returning(module: Any, args: Any, out: Any) -> Any:
        return compute(out)

    def noting(module: Any, args: Any, out: Any) -> None:
        log.append(compute(out).sum().item())

    model.register_forward_hook(noting if notes else returning)
    return changing(lambda x: model(x), *changes, state=(log,))


Parts = tuple[Any, ...]  # a function that a hook calls, and changes


def seven(self: Any, out: Any) -> Any:
    return out * 7


class Base:
    def go(self, out: Any) -> Any:
        return out * 2


@hook_case
def called() -> Parts:
    class Called:
        def __call__(self, out: Any) -> Any:
            return out * 2

    called = Called()
    return called, lambda: setattr(Called, "__call__", seven)


@hook_case
def inherited() -> Parts:
    class Parent(Base):
        pass

    class Child(Parent):
        def go(self, out: Any) -> Any:
            return super().go(out) + 1

    child = Child()
    return lambda out: child.go(out), lambda: setattr(Parent, "go", seven)


@hook_case
def of_a_property() -> Parts:
    class Scale:
        @property
        def k(self) -> float:
            return 2.0

    scale = Scale()

    def three(self: Any) -> float:
        return 3.0

    return lambda out: out * scale.k, lambda: setattr(Scale, "k", property(three))


@hook_case
def of_a_descriptor() -> Parts:
    class Two:
        def __get__(self, owner: Any, kind: Any) -> float:
            return 2.0

    class Scale:
        k = Two()

    scale = Scale()

    def three(self: Any, owner: Any, kind: Any) -> float:
        return 3.0

    return lambda out: out * scale.k, lambda: setattr(Two, "__get__", three)


@hook_case
def of_attributes_that_are_computed() -> Parts:
    class Scale:
        def __getattr__(self, name: str) -> float:
            return 2.0

    scale = Scale()

    def three(self: Any, name: str) -> float:
        return 3.0

    return lambda out: out * scale.k, lambda: setattr(Scale, "__getattr__", three)


@hook_case
def of_operators() -> Parts:
    class Scale:
        def __mul__(self, out: Any) -> Any:
            return out * 2

        def __len__(self) -> int:
            return 2

    scale = Scale()

    def three(self: Any) -> int:
        return 3

    return (
        lambda out: scale * out * len(scale),
        lambda: setattr(Scale, "__mul__", seven),
        lambda: setattr(Scale, "__len__", three),
    )


@hook_case
def of_a_class_that_it_makes() -> Parts:
    class Made(Base):
        pass

    return lambda out: Made().go(out), lambda: setattr(Made, "go", seven)


@hook_case
def of_a_metaclass() -> Parts:
    class Meta(type):
        def __call__(cls, number: float) -> float:
            return number * 2

    class Made(metaclass=Meta):
        pass

    doubled: Any = Made

    def three(cls: Any, number: float) -> float:
        return number * 3

    return lambda out: out * doubled(2.0), lambda: setattr(Meta, "__call__", three)


@hook_case
def of_an_element() -> Parts:
    class Element(Base):
        pass

    elements = [Element()]
    return lambda out: sum(each.go(out) for each in elements), lambda: setattr(Element, "go", seven)


@hook_case
def the_class_itself() -> Parts:
    class One:
        pass

    class Other(One):
        pass

    one = One()

    def change() -> None:
        one.__class__ = Other

    return lambda out: out * (2 if isinstance(one, Other) else 3), change


@hook_case
def a_number_that_moved() -> Parts:
    box = Box()
    box.a = [2.0]
    return (
        lambda out: out * box.a[0],
        lambda: box.a.__setitem__(0, 3.0),
        lambda: setattr(box, "a", [4.0]),
        lambda: setattr(box, "a", [5.0]),
    )


@hook_case
def of_a_member() -> Parts:
    class Scale(enum.Enum):
        SMALL = 2.0

    return lambda out: out * Scale.SMALL.value, lambda: setattr(Scale.SMALL, "_value_", 3.0)


@hook_case
def of_a_cache() -> Parts:
    numbers = [2.0]

    @functools.lru_cache
    def scale() -> list[float]:
        return [*numbers]

    def change() -> None:
        numbers[0] = 3.0
        scale.cache_clear()

    return lambda out: out * scale()[0], lambda: scale().insert(0, 4.0), change


@pytest.mark.parametrize("notes", [False, True], ids=["returns", "notes"])
@pytest.mark.parametrize("name", hook_case)
def test_methods_of_objects_that_a_hook_uses(name: str, notes: bool) -> None:
    def build() -> Case:
        return hooked(*hook_case[name](), notes=notes)

    agree(build, build().steps)  # type: ignore[attr-defined]


def test_a_class_that_a_hook_counts_in_does_not_compile_again() -> None:
    class Counting:
        calls = 0

        def __call__(self, module: Any, args: Any, out: Any) -> Any:
            Counting.calls += 1
            return out * 2

    model = nn.Linear(3, 2)
    model.register_forward_hook(Counting())
    step = torch.compile(lambda x: model(x).sum().item())
    for _ in range(6):
        step(torch.ones(3))
    assert Counting.calls == 6
    assert len(torch.compile.explain(step).data[0]["programs"]) <= 2


# --- what no guard can see


def frame_of_a_generator() -> Callable[[Any], Any]:
    def numbers() -> Any:
        number = 2.0
        while True:
            yield number
            number += 1

    generator = numbers()
    next(generator)
    return lambda x: x * generator.gi_frame.f_locals["number"]


def how_garbage_is_collected() -> Callable[[Any], Any]:
    import gc

    return lambda x: x * (2 if gc.isenabled() else 3) + gc.get_threshold()[2]


@pytest.mark.parametrize("build", [frame_of_a_generator, how_garbage_is_collected])
def test_refused(build: Any) -> None:
    with pytest.raises(CompileError, match=r"gi_frame|isenabled"):
        torch.compile(build())(torch.ones(3))
