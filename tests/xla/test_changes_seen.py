"""What a step reads may change between its calls, in whichever way it is read: a compiled step sees the change, or says why
it can't be compiled. Each row is a step and a change, which is made after the second and the third of four calls."""

from __future__ import annotations

import argparse
import builtins
import collections
import contextvars
import copy
import dataclasses
import enum
import functools
import importlib
import itertools
import math
import operator
import os
import random
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import undertow as torch
from tests.xla import guard_settings
from tests.xla.twins import differences, seen
from undertow import nn
from undertow._src.compile import CompileError
from undertow._src.compile.errors import CompileWarning

Step = Callable[..., Any]


class Row(NamedTuple):
    """A step, what is changed before calls 2 and 3 (counted from 0), and what it is called with."""

    step: Step
    change: Callable[[int], Any] = lambda turn: None
    args: Callable[[int], tuple[Any, ...]] = lambda turn: (torch.full((3,), 1.0 + turn, device="cpu"),)
    undo: Callable[[], Any] = lambda: None


rows: dict[str, Callable[[], Row]] = {}
refused: dict[str, tuple[Callable[[], Row], str]] = {}


def row(build: Callable[[], Row]) -> Callable[[], Row]:
    """A row in which both ways of running agree."""
    assert build.__name__ not in rows
    rows[build.__name__] = build
    return build


def refusal(words: str) -> Any:
    """A row that can't be compiled, and words that say why."""

    def note(build: Callable[[], Row]) -> Callable[[], Row]:
        refused[build.__name__] = build, words
        return build

    return note


def run(build: Callable[[], Row], compiled: bool) -> list[Any]:
    torch.manual_seed(0)
    case = build()
    step = torch.compile(case.step) if compiled else case.step
    results = []
    try:
        for turn in range(4):
            with warnings.catch_warnings():  # a function without source is named
                warnings.simplefilter("ignore", CompileWarning)
                results.append(seen(step(*case.args(turn))))
            if turn in (1, 2):
                case.change(turn)
    finally:
        case.undo()
    return results


@pytest.mark.parametrize("name", rows)
def test_changes_are_seen(name: str) -> None:
    found = differences(run(rows[name], False), run(rows[name], True))
    assert not found, "eager and compiled: " + "\n".join(found)


# What hooks in the program read is found by going through their code, so they have rows of their own.
IN_HOOKS = """
    an_imported_module_is_replaced whether_a_module_is_loaded an_injected_builtin a_patched_builtin a_global
    an_attribute_of_the_builtins_module a_global_shadows_a_builtin a_patched_function_of_the_standard_library
    a_patched_constant_of_the_standard_library an_attribute_put_into_numpy an_attribute_put_into_the_package
    an_attribute_put_into_a_module_of_the_package an_attribute_put_into_the_package_imported_inside
    a_patched_function_of_the_package a_patched_method_of_tensors an_attribute_put_on_modules
    an_attribute_put_on_a_layer_class getattr_with_a_default hasattr_of_an_object getattr_of_a_module_with_a_default
    a_method_patched_on_an_instance a_method_patched_on_a_class code numbers_as_keys negative_zero complex_negative_zero
    a_decimal a_fraction a_numpy_array_of_objects a_context_variable a_context_variable_with_a_default
    a_context_variable_in_a_helper thread_locals a_subclass_of_thread_locals an_environment_variable_with_getenv
    keywords_of_a_partial_call the_recursion_limit the_identity_of_an_object whether_warnings_repeat the_number_of_threads
    whether_autocast_caches attention_backends the_first_seed_asked_for the_namespace_by_a_constant_key eval_of_a_constant
""".split()


def as_a_hook(build: Callable[[], Row]) -> Callable[[], Row]:
    """The same row with a hook that reads what its step reads."""

    def built() -> Row:
        case, weight = build(), torch.ones(3, requires_grad=True)
        weight.register_hook(case.step)

        def step(x: Any) -> Any:
            weight.grad = None
            (weight * x).sum().backward()
            return weight.grad.clone()

        return case._replace(step=step)

    return built


@pytest.mark.parametrize("name", IN_HOOKS)
def test_changes_are_seen_by_hooks(name: str) -> None:
    build = as_a_hook(rows[name])
    found = differences(run(build, False), run(build, True))
    assert not found, "eager and compiled: " + "\n".join(found)


@pytest.mark.parametrize("name", refused)
def test_reads_that_cannot_be_guarded_are_refused(name: str) -> None:
    build, words = refused[name]
    with pytest.raises(CompileError, match=words):
        run(build, True)


def attribute(owner: Any, name: str) -> Callable[[int], None]:
    """A change: an attribute becomes another number."""
    return lambda turn: setattr(owner, name, 2.0 + turn)


def entry(owner: Any, key: Any) -> Callable[[int], None]:
    """A change: an entry becomes another number."""
    return lambda turn: operator.setitem(owner, key, 2.0 + turn)


SCALE: Any = 1.0
CONFIG: Any = {"scale": 1.0, "nested": {"scale": [1.0, 2.0]}}
DYNAMIC = "SCALE"
HERE = sys.modules[__name__]


def fresh_globals() -> None:
    global SCALE, CONFIG
    SCALE, CONFIG = 1.0, {"scale": 1.0, "nested": {"scale": [1.0, 2.0]}}
    guard_settings.SCALE, guard_settings.TABLE["scale"], guard_settings.Nested.scale = 1.0, 1.0, 1.0


# --- imports inside the step


@row
def an_import_inside() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        import tests.xla.guard_settings

        return x * tests.xla.guard_settings.SCALE

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def an_import_with_another_name() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        import tests.xla.guard_settings as settings

        return x * settings.SCALE

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def a_name_imported_inside() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        from tests.xla.guard_settings import SCALE as own

        return x * own

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def a_module_imported_from_its_package() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        from tests.xla import guard_settings as settings

        return x * settings.SCALE

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def a_dict_imported_inside() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        from tests.xla.guard_settings import TABLE

        return x * TABLE["scale"]

    return Row(step, entry(guard_settings.TABLE, "scale"))


@row
def a_class_imported_inside() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        from tests.xla.guard_settings import Nested

        return x * Nested.scale

    return Row(step, attribute(guard_settings.Nested, "scale"))


@row
def a_function_imported_inside_reads_its_global() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        from tests.xla.guard_settings import scale

        return x * scale()

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def an_imported_function_is_replaced() -> Row:
    fresh_globals()
    before = guard_settings.scale

    def step(x: Any) -> Any:
        from tests.xla.guard_settings import scale

        return x * scale()

    def change(turn: int) -> None:
        guard_settings.scale = lambda: 5.0 + turn

    return Row(step, change, undo=lambda: setattr(guard_settings, "scale", before))


class Importing(nn.Module):
    def forward(self, x: Any) -> Any:
        from tests.xla import guard_settings as settings

        return x * settings.SCALE


@row
def an_import_inside_a_forward() -> Row:
    fresh_globals()
    model = Importing()
    return Row(lambda x: model(x), attribute(guard_settings, "SCALE"))


@row
def an_import_inside_a_nested_function() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        def inner() -> Any:
            from tests.xla.guard_settings import SCALE as own

            return own

        return x * inner()

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def a_module_computes_an_attribute_that_is_imported() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        from tests.xla.guard_settings import computed

        return x * computed

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def a_module_computes_an_attribute() -> Row:
    fresh_globals()
    return Row(lambda x: x * guard_settings.computed, attribute(guard_settings, "SCALE"))


@row
def an_imported_module_is_replaced() -> Row:
    first = types.ModuleType("guard_made")
    first.SCALE = 1.0  # type: ignore[attr-defined]
    sys.modules["guard_made"] = first

    def step(x: Any) -> Any:
        import guard_made  # type: ignore[import-not-found]

        return x * guard_made.SCALE

    def change(turn: int) -> None:
        other = types.ModuleType("guard_made")
        other.SCALE = 4.0 + turn  # type: ignore[attr-defined]
        sys.modules["guard_made"] = other

    return Row(step, change, undo=lambda: sys.modules.pop("guard_made"))


@row
def an_import_that_fails_at_first() -> Row:
    def step(x: Any) -> Any:
        try:
            import guard_later  # type: ignore[import-not-found]

            return x * guard_later.SCALE
        except ImportError:
            return x

    def change(turn: int) -> None:
        module = sys.modules.setdefault("guard_later", types.ModuleType("guard_later"))
        module.SCALE = 2.0 + turn  # type: ignore[attr-defined]

    return Row(step, change, undo=lambda: sys.modules.pop("guard_later", None))


@row
def all_names_of_loaded_modules() -> Row:
    fresh_globals()
    return Row(lambda x: x * sys.modules["tests.xla.guard_settings"].SCALE, attribute(guard_settings, "SCALE"))


@row
def loaded_modules_asked_with_get() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        module: Any = sys.modules.get("tests.xla.guard_settings")
        return x * module.SCALE

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def whether_a_module_is_loaded() -> Row:
    sys.modules.pop("guard_later", None)

    def change(turn: int) -> None:
        if turn == 1:
            sys.modules["guard_later"] = types.ModuleType("guard_later")
        else:
            del sys.modules["guard_later"]

    return Row(lambda x: x * 2 if "guard_later" in sys.modules else x, change)


@row
def importlib_by_name() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        return x * importlib.import_module("tests.xla.guard_settings").SCALE

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def dunder_import() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        return x * __import__("tests.xla.guard_settings", fromlist=["SCALE"]).SCALE

    return Row(step, attribute(guard_settings, "SCALE"))


@row
def a_module_by_a_computed_name() -> Row:
    fresh_globals()
    name = "guard_settings"

    def step(x: Any) -> Any:
        return x * sys.modules["tests.xla." + name].SCALE

    return Row(step, attribute(guard_settings, "SCALE"))


# --- names


@row
def a_global() -> Row:
    fresh_globals()
    return Row(lambda x: x * SCALE, attribute(HERE, "SCALE"))


@row
def the_namespace_by_a_constant_key() -> Row:
    fresh_globals()
    return Row(lambda x: x * globals()["SCALE"], attribute(HERE, "SCALE"))


@row
def the_namespace_by_a_variable_key() -> Row:
    fresh_globals()
    return Row(lambda x: x * globals()[DYNAMIC], attribute(HERE, "SCALE"))


@row
def the_namespace_with_get() -> Row:
    fresh_globals()
    return Row(lambda x: x * globals().get("SCALE", 1.0), attribute(HERE, "SCALE"))


@row
def the_namespace_in_a_variable() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        names = globals()
        return x * names["SCALE"]

    return Row(step, attribute(HERE, "SCALE"))


@row
def the_namespace_under_another_name() -> Row:
    fresh_globals()
    names = globals
    return Row(lambda x: x * names()["SCALE"], attribute(HERE, "SCALE"))


@row
def vars_of_a_module() -> Row:
    fresh_globals()
    return Row(lambda x: x * vars(guard_settings)["SCALE"], attribute(guard_settings, "SCALE"))


@row
def the_dict_of_a_module() -> Row:
    fresh_globals()
    return Row(lambda x: x * guard_settings.__dict__["SCALE"], attribute(guard_settings, "SCALE"))


@row
def vars_of_an_object() -> Row:
    held = types.SimpleNamespace(scale=1.0)
    return Row(lambda x: x * vars(held)["scale"], attribute(held, "scale"))


@row
def the_dict_of_an_object() -> Row:
    held = Plain()
    return Row(lambda x: x * held.__dict__["scale"], attribute(held, "scale"))


@row
def locals_of_the_step() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        own = SCALE
        return x * locals()["own"]

    return Row(step, attribute(HERE, "SCALE"))


@row
def eval_of_a_constant() -> Row:
    fresh_globals()
    return Row(lambda x: x * eval("SCALE"), attribute(HERE, "SCALE"))


@row
def eval_of_a_variable() -> Row:
    fresh_globals()
    return Row(lambda x: x * eval(DYNAMIC), attribute(HERE, "SCALE"))


@row
def eval_of_an_expression_over_attributes() -> Row:
    fresh_globals()
    return Row(lambda x: x * eval("guard_settings.Nested.scale + 1"), attribute(guard_settings.Nested, "scale"))


@refusal("exec")
def exec_of_a_constant() -> Row:
    fresh_globals()

    def step(x: Any) -> Any:
        names = {"x": x, "SCALE": SCALE}
        exec("y = x * guard_settings.SCALE", globals(), names)
        return names["y"]

    return Row(step, attribute(guard_settings, "SCALE"))


@refusal("eval")
def code_that_was_compiled_by_hand() -> Row:
    fresh_globals()
    code = compile("SCALE * 2", "<guards>", "eval")
    return Row(lambda x: x * eval(code), attribute(HERE, "SCALE"))


@row
def a_function_made_by_exec() -> Row:
    fresh_globals()
    names: dict[str, Any] = {"SCALE": 1.0}
    exec("def inner(x):\n    return x * SCALE\n", names)
    inner = names["inner"]
    return Row(lambda x: inner(x), entry(names, "SCALE"))


@row
def a_function_of_types_with_other_globals() -> Row:
    names: dict[str, Any] = {"SCALE": 1.0, "__builtins__": builtins}
    other = types.FunctionType((lambda x: x * SCALE).__code__, names)
    return Row(lambda x: other(x), entry(names, "SCALE"))


@row
def an_injected_builtin() -> Row:
    builtins.GUARD_SCALE = 1.0  # type: ignore[attr-defined]

    def step(x: Any) -> Any:
        return x * GUARD_SCALE  # type: ignore[name-defined]  # noqa: F821

    return Row(step, attribute(builtins, "GUARD_SCALE"), undo=lambda: delattr(builtins, "GUARD_SCALE"))


@row
def an_injected_builtin_appears() -> Row:
    def step(x: Any) -> Any:
        try:
            return x * GUARD_SCALE  # type: ignore[name-defined]
        except NameError:
            return x

    return Row(step, attribute(builtins, "GUARD_SCALE"), undo=lambda: delattr(builtins, "GUARD_SCALE"))


@row
def a_patched_builtin() -> Row:
    before = builtins.max

    def change(turn: int) -> None:
        builtins.max = lambda *args: 7.0 + turn  # type: ignore[assignment]

    return Row(lambda x: x * max(1.0, 2.0), change, undo=lambda: setattr(builtins, "max", before))


@row
def an_attribute_of_the_builtins_module() -> Row:
    builtins.GUARD_SCALE = 1.0  # type: ignore[attr-defined]
    undo = lambda: delattr(builtins, "GUARD_SCALE")
    return Row(lambda x: x * builtins.GUARD_SCALE, attribute(builtins, "GUARD_SCALE"), undo=undo)  # type: ignore[attr-defined]


@row
def a_global_shadows_a_builtin() -> Row:
    names = globals()
    names.pop("round", None)
    undo = lambda: names.pop("round", None)
    return Row(lambda x: x * round(2.4), lambda turn: names.update(round=lambda n: n + turn), undo=undo)


@row
def a_patched_function_of_the_standard_library() -> Row:
    before = math.floor

    def change(turn: int) -> None:
        math.floor = lambda value: 3 + turn  # type: ignore[assignment]

    return Row(lambda x: x * math.floor(2.5), change, undo=lambda: setattr(math, "floor", before))


@row
def a_patched_constant_of_the_standard_library() -> Row:
    before = math.pi
    return Row(lambda x: x * math.pi, attribute(math, "pi"), undo=lambda: setattr(math, "pi", before))


@row
def an_attribute_put_into_numpy() -> Row:
    np.guard_scale = 1.0  # type: ignore[attr-defined]
    undo = lambda: delattr(np, "guard_scale")
    return Row(lambda x: x * np.guard_scale, attribute(np, "guard_scale"), undo=undo)  # type: ignore[attr-defined]


@row
def an_attribute_put_into_the_package() -> Row:
    torch.guard_scale = 1.0
    undo = lambda: delattr(torch, "guard_scale")
    return Row(lambda x: x * torch.guard_scale, attribute(torch, "guard_scale"), undo=undo)


@row
def an_attribute_put_into_a_module_of_the_package() -> Row:
    nn.functional.guard_scale = 1.0
    undo = lambda: delattr(nn.functional, "guard_scale")
    step = lambda x: x * nn.functional.guard_scale
    return Row(step, attribute(nn.functional, "guard_scale"), undo=undo)


@row
def an_attribute_put_into_the_package_imported_inside() -> Row:
    nn.functional.guard_scale = 1.0

    def step(x: Any) -> Any:
        import undertow.nn.functional as F

        return x * F.guard_scale

    return Row(step, attribute(nn.functional, "guard_scale"), undo=lambda: delattr(nn.functional, "guard_scale"))


@row
def a_patched_function_of_the_package() -> Row:
    before = nn.functional.relu

    def change(turn: int) -> None:
        nn.functional.relu = lambda x: x * (3 + turn)  # type: ignore[assignment, misc]

    return Row(lambda x: nn.functional.relu(x), change, undo=lambda: setattr(nn.functional, "relu", before))


@row
def a_patched_function_below_a_layer() -> Row:
    before = nn.functional.relu
    model = nn.ReLU()

    def change(turn: int) -> None:
        nn.functional.relu = lambda x, inplace=False: x * (3 + turn)  # type: ignore[assignment]

    return Row(lambda x: model(x), change, undo=lambda: setattr(nn.functional, "relu", before))


@row
def a_patched_method_of_tensors() -> Row:
    before = torch.Tensor.relu

    def change(turn: int) -> None:
        torch.Tensor.relu = lambda self: self * (3 + turn)

    return Row(lambda x: x.relu(), change, undo=lambda: setattr(torch.Tensor, "relu", before))


@row
def an_attribute_put_on_tensors() -> Row:
    torch.Tensor.guard_scale = 1.0  # type: ignore[attr-defined]
    undo = lambda: delattr(torch.Tensor, "guard_scale")
    return Row(lambda x: x * x.guard_scale, attribute(torch.Tensor, "guard_scale"), undo=undo)


@row
def an_attribute_put_on_modules() -> Row:
    nn.Module.guard_scale = 1.0
    model = nn.Identity()
    undo = lambda: delattr(nn.Module, "guard_scale")
    return Row(lambda x: x * model.guard_scale, attribute(nn.Module, "guard_scale"), undo=undo)


@row
def an_attribute_put_on_a_layer_class() -> Row:
    nn.Identity.guard_scale = 1.0
    undo = lambda: delattr(nn.Identity, "guard_scale")
    return Row(lambda x: x * nn.Identity.guard_scale, attribute(nn.Identity, "guard_scale"), undo=undo)


@row
def a_patched_operator_of_tensors() -> Row:
    before = torch.Tensor.__mul__

    def change(turn: int) -> None:
        torch.Tensor.__mul__ = lambda self, other: self + other + turn

    return Row(lambda x: x * 2, change, undo=lambda: setattr(torch.Tensor, "__mul__", before))


# --- attributes


class Plain:
    def __init__(self) -> None:
        self.scale: Any = 1.0


@row
def an_attribute() -> Row:
    held = Plain()
    return Row(lambda x: x * held.scale, attribute(held, "scale"))


@row
def getattr_with_a_constant() -> Row:
    held = Plain()
    return Row(lambda x: x * getattr(held, "scale"), attribute(held, "scale"))  # noqa: B009


@row
def getattr_with_a_computed_name() -> Row:
    held = Plain()
    return Row(lambda x: x * getattr(held, "sc" + "ale"), attribute(held, "scale"))


@row
def getattr_of_a_module_with_a_computed_name() -> Row:
    fresh_globals()
    name = "SCALE"
    return Row(lambda x: x * getattr(guard_settings, name), attribute(guard_settings, "SCALE"))


@row
def getattr_of_a_module_with_a_name_from_code() -> Row:
    fresh_globals()
    return Row(lambda x: x * getattr(guard_settings, "SC" + "A".upper() + "LE"), attribute(guard_settings, "SCALE"))


@row
def getattr_with_a_default() -> Row:
    held = Plain()
    return Row(lambda x: x * getattr(held, "other", 1.0), attribute(held, "other"))


@row
def hasattr_of_an_object() -> Row:
    held = Plain()
    return Row(lambda x: x * 2 if hasattr(held, "other") else x, attribute(held, "other"))


@row
def getattr_of_a_module_with_a_default() -> Row:
    undo = lambda: delattr(guard_settings, "LATER")
    return Row(lambda x: x * getattr(guard_settings, "LATER", 1.0), attribute(guard_settings, "LATER"), undo=undo)


@row
def attrgetter() -> Row:
    held = Plain()
    get = operator.attrgetter("scale")
    return Row(lambda x: x * get(held), attribute(held, "scale"))


@row
def attrgetter_of_a_module() -> Row:
    fresh_globals()
    get = operator.attrgetter("Nested.scale")
    return Row(lambda x: x * get(guard_settings), attribute(guard_settings.Nested, "scale"))


@row
def attrgetter_of_a_global_in_a_module() -> Row:
    fresh_globals()
    get = operator.attrgetter("SCALE")
    return Row(lambda x: x * get(guard_settings), attribute(guard_settings, "SCALE"))


@row
def itemgetter() -> Row:
    held = {"scale": 1.0}
    get = operator.itemgetter("scale")
    return Row(lambda x: x * get(held), entry(held, "scale"))


@row
def methodcaller() -> Row:
    held = Method()
    call = operator.methodcaller("now")
    return Row(lambda x: x * call(held), attribute(held, "scale"))


class Method(Plain):
    def now(self) -> Any:
        return self.scale


class WithProperty(Plain):
    @property
    def doubled(self) -> Any:
        return self.scale * 2 * SCALE


@row
def a_property() -> Row:
    fresh_globals()
    held = WithProperty()
    return Row(lambda x: x * held.doubled, attribute(held, "scale"))


@row
def a_property_that_reads_a_global() -> Row:
    fresh_globals()
    held = WithProperty()
    return Row(lambda x: x * held.doubled, attribute(HERE, "SCALE"))


class Descriptor:
    def __init__(self) -> None:
        self.scale: Any = 1.0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.scale * SCALE


class WithDescriptor:
    scale = Descriptor()


@row
def a_descriptor_with_state() -> Row:
    fresh_globals()
    descriptor = vars(WithDescriptor)["scale"]
    descriptor.scale = 1.0
    held = WithDescriptor()
    return Row(lambda x: x * held.scale, attribute(descriptor, "scale"))


@row
def a_descriptor_that_reads_a_global() -> Row:
    fresh_globals()
    vars(WithDescriptor)["scale"].scale = 1.0
    held = WithDescriptor()
    return Row(lambda x: x * held.scale, attribute(HERE, "SCALE"))


class Fallback:
    def __init__(self) -> None:
        self.values = {"scale": 1.0}

    def __getattr__(self, name: str) -> Any:
        if name in ("values", "__wrapped__"):
            raise AttributeError(name)
        return self.values[name]


@row
def a_fallback_for_attributes() -> Row:
    held = Fallback()
    return Row(lambda x: x * held.scale, entry(held.values, "scale"))


class Everything:
    def __init__(self) -> None:
        self.values = {"scale": 1.0}

    def __getattribute__(self, name: str) -> Any:
        values = object.__getattribute__(self, "values")
        return values[name] if name in values else object.__getattribute__(self, name)


@row
def own_attribute_lookup() -> Row:
    held = Everything()
    values = object.__getattribute__(held, "values")
    return Row(lambda x: x * held.scale, entry(values, "scale"))


class Meta(type):
    scale: Any = 1.0

    @property
    def doubled(cls) -> Any:
        return cls.scale * 2

    def __getattr__(cls, name: str) -> Any:
        if name == "computed":
            return SCALE
        raise AttributeError(name)

    def __getitem__(cls, key: str) -> Any:
        return SCALE


class OfMeta(metaclass=Meta):
    pass


@row
def an_attribute_of_a_metaclass() -> Row:
    Meta.scale = 1.0
    return Row(lambda x: x * OfMeta.scale, attribute(Meta, "scale"))


@row
def a_property_of_a_metaclass() -> Row:
    Meta.scale = 1.0
    return Row(lambda x: x * OfMeta.doubled, attribute(Meta, "scale"))


@row
def an_attribute_computed_by_a_metaclass() -> Row:
    fresh_globals()
    return Row(lambda x: x * OfMeta.computed, attribute(HERE, "SCALE"))


@row
def an_item_computed_by_a_metaclass() -> Row:
    fresh_globals()
    return Row(lambda x: x * OfMeta["scale"], attribute(HERE, "SCALE"))


@row
def an_attribute_of_a_metaclass_by_an_instance() -> Row:
    Meta.scale = 1.0
    held = OfMeta()
    return Row(lambda x: x * type(held).scale, attribute(Meta, "scale"))


class WithClassItem:
    def __class_getitem__(cls, key: str) -> Any:
        return SCALE


@row
def an_item_of_a_class() -> Row:
    fresh_globals()
    return Row(
        lambda x: x * WithClassItem["a"],  # type: ignore[misc]
        attribute(HERE, "SCALE"),
    )


class Base:
    scale: Any = 1.0


class Derived(Base):
    pass


@row
def an_attribute_of_a_base_class() -> Row:
    Base.scale = 1.0
    return Row(lambda x: x * Derived.scale, attribute(Base, "scale"))


@row
def an_attribute_of_a_base_class_by_an_instance() -> Row:
    Base.scale = 1.0
    held = Derived()
    return Row(lambda x: x * held.scale, attribute(Base, "scale"))


@row
def an_attribute_is_overridden() -> Row:
    Base.scale = 1.0
    undo = lambda: delattr(Derived, "scale")
    return Row(lambda x: x * Derived.scale, attribute(Derived, "scale"), undo=undo)


@row
def an_attribute_is_overridden_by_the_instance() -> Row:
    Base.scale = 1.0
    held = Derived()
    return Row(lambda x: x * held.scale, attribute(held, "scale"))


class OtherBase:
    scale: Any = 5.0


class Third:
    scale: Any = 7.0


@row
def other_bases() -> Row:
    Base.scale = 1.0

    class Own(Base):
        pass

    def change(turn: int) -> None:
        Own.__bases__ = (OtherBase,) if turn == 1 else (Third,)

    return Row(lambda x: x * Own.scale, change)


@row
def another_class() -> Row:
    held: Any = OtherBase()

    def change(turn: int) -> None:
        held.__class__ = Third if turn == 1 else OtherBase

    return Row(lambda x: x * held.scale, change)


@row
def the_dict_is_replaced() -> Row:
    held = Plain()

    def change(turn: int) -> None:
        held.__dict__ = {"scale": 3.0 + turn}

    return Row(lambda x: x * held.scale, change)


@row
def the_dict_of_a_layer_is_replaced() -> Row:
    model = Scaled()

    def change(turn: int) -> None:
        model.__dict__ = {**vars(model), "scale": 3.0 + turn}

    return Row(lambda x: model(x), change)


@row
def the_dict_is_edited() -> Row:
    held = Plain()
    return Row(lambda x: x * held.scale, entry(held.__dict__, "scale"))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale: Any = 1.0

    def forward(self, x: Any) -> Any:
        return x * self.scale


@row
def an_attribute_of_a_layer() -> Row:
    model = Scaled()
    return Row(lambda x: model(x), attribute(model, "scale"))


@row
def a_method_patched_on_an_instance() -> Row:
    held = Method()
    return Row(lambda x: x * held.now(), lambda turn: setattr(held, "now", lambda: 3.0 + turn))


@row
def a_method_patched_on_a_class() -> Row:
    class Own(Method):
        pass

    held = Own()
    return Row(lambda x: x * held.now(), lambda turn: setattr(Own, "now", lambda self: 3.0 + turn))


@row
def a_forward_patched_on_an_instance() -> Row:
    model = Scaled()
    return Row(lambda x: model(x), lambda turn: setattr(model, "forward", lambda x: x * (3.0 + turn)))


@row
def a_forward_patched_on_a_layer_of_the_package() -> Row:
    model = nn.ReLU()
    return Row(lambda x: model(x), lambda turn: setattr(model, "forward", lambda x: x * (3.0 + turn)))


@row
def a_call_patched_on_a_layer_class() -> Row:
    class Own(Scaled):
        pass

    model = Own()
    return Row(lambda x: model(x), lambda turn: setattr(Own, "__call__", lambda self, x: x * (3.0 + turn)))


def plainly(x: Any, scale: Any = 1.0, *, more: Any = 1.0) -> Any:
    return x * scale * more


def tripled(x: Any, scale: Any = 1.0, *, more: Any = 1.0) -> Any:
    return x * 3 * scale


def again(function: Any) -> Any:
    """Another function of the same code."""
    other = types.FunctionType(
        function.__code__, globals(), function.__name__, function.__defaults__, function.__closure__
    )
    other.__kwdefaults__ = dict(function.__kwdefaults__ or {})
    return other


@row
def defaults() -> Row:
    inner = again(plainly)
    return Row(lambda x: inner(x), lambda turn: setattr(inner, "__defaults__", (3.0 + turn,)))


@row
def keyword_defaults() -> Row:
    inner = again(plainly)
    return Row(lambda x: inner(x), lambda turn: setattr(inner, "__kwdefaults__", {"more": 3.0 + turn}))


@row
def keyword_defaults_edited() -> Row:
    inner = again(plainly)
    return Row(lambda x: inner(x), entry(inner.__kwdefaults__, "more"))


@row
def a_mutable_default() -> Row:
    held = [1.0]

    def inner(x: Any, scales: Any = held) -> Any:
        return x * scales[0]

    return Row(lambda x: inner(x), entry(held, 0))


@row
def code() -> Row:
    inner = again(plainly)

    def change(turn: int) -> None:
        inner.__code__ = (tripled if turn == 1 else plainly).__code__

    return Row(lambda x: inner(x), change)


@row
def the_code_of_the_step() -> Row:
    step = again(plainly)

    def change(turn: int) -> None:
        step.__code__ = (tripled if turn == 1 else plainly).__code__

    return Row(step, change)


@row
def the_defaults_of_the_step() -> Row:
    step = again(plainly)
    return Row(step, lambda turn: setattr(step, "__defaults__", (3.0 + turn,)))


@row
def a_closure_cell() -> Row:
    scale = 1.0

    def step(x: Any) -> Any:
        return x * scale

    def change(turn: int) -> None:
        nonlocal scale
        scale = 3.0 + turn

    return Row(step, change)


@row
def a_closure_cell_from_outside() -> Row:
    scale = 1.0
    step = lambda x: x * scale
    return Row(step, lambda turn: setattr(step.__closure__[0], "cell_contents", 3.0 + turn))  # type: ignore[index]


@row
def an_attribute_of_a_function() -> Row:
    inner = again(plainly)
    inner.scale = 1.0
    return Row(lambda x: x * inner.scale, attribute(inner, "scale"))


@row
def an_attribute_of_the_step() -> Row:
    def step(x: Any) -> Any:
        return x * step.scale  # type: ignore[attr-defined]

    step.scale = 1.0  # type: ignore[attr-defined]
    return Row(step, attribute(step, "scale"))


@row
def slots() -> Row:
    class Slotted:
        __slots__ = ("scale",)

    held = Slotted()
    held.scale = 1.0  # type: ignore[attr-defined]
    return Row(lambda x: x * held.scale, attribute(held, "scale"))  # type: ignore[attr-defined]


@row
def a_class_variable_through_self() -> Row:
    class Own(nn.Module):
        scale: Any = 1.0

        def forward(self, x: Any) -> Any:
            return x * self.scale

    model = Own()
    return Row(lambda x: model(x), attribute(Own, "scale"))


@row
def a_class_variable_through_class() -> Row:
    class Own(nn.Module):
        scale: Any = 1.0

        def forward(self, x: Any) -> Any:
            return x * __class__.scale  # type: ignore[name-defined]

    model = Own()
    return Row(lambda x: model(x), attribute(Own, "scale"))


@row
def a_base_attribute_through_super() -> Row:
    class Parent(nn.Module):
        scale: Any = 1.0

    class Own(Parent):
        def forward(self, x: Any) -> Any:
            return x * super().scale

    model = Own()
    return Row(lambda x: model(x), attribute(Parent, "scale"))


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@row
def an_enum_by_name() -> Row:
    held = Plain()
    held.scale = "RED"
    return Row(
        lambda x: x * Color[held.scale].value, lambda turn: setattr(held, "scale", "BLUE" if turn == 1 else "RED")
    )


@row
def an_attribute_of_an_enum_member() -> Row:
    Color.RED.extra = 1.0  # type: ignore[attr-defined]
    return Row(lambda x: x * Color.RED.extra, attribute(Color.RED, "extra"))  # type: ignore[attr-defined]


# --- containers


class MyDict(dict[Any, Any]):
    pass


class Computing(dict[Any, Any]):
    extra: Any = 0.0

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) + self.extra


class Sized:
    def __init__(self) -> None:
        self.entries = [1.0]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries)

    def __getitem__(self, key: Any) -> Any:
        return self.entries[key]

    def __contains__(self, key: Any) -> bool:
        return key in self.entries

    def __bool__(self) -> bool:
        return len(self.entries) > 1


@row
def a_nested_config() -> Row:
    fresh_globals()
    return Row(lambda x: x * CONFIG["nested"]["scale"][0], lambda turn: entry(CONFIG["nested"]["scale"], 0)(turn))


@row
def a_dict_that_is_gone_through() -> Row:
    held = {"a": 1.0, "b": 2.0}

    def step(x: Any) -> Any:
        for name, value in held.items():
            x = x * value + len(name)
        return x

    return Row(step, lambda turn: held.update({f"more{turn}": 3.0}))


@row
def the_order_of_a_dict() -> Row:
    held = {"a": 1.0, "b": 2.0}

    def step(x: Any) -> Any:
        for value in held.values():
            x = x * value + 1
        return x

    def change(turn: int) -> None:
        held["a"] = held.pop("a")
        if turn == 2:
            held["b"] = held.pop("b")

    return Row(step, change)


@row
def a_set_that_is_gone_through() -> Row:
    held = {1.0}
    return Row(lambda x: x * sum(held), lambda turn: held.add(3.0 + turn))


@row
def a_frozenset() -> Row:
    held = Plain()
    held.scale = frozenset([1.0])
    return Row(lambda x: x * sum(held.scale), lambda turn: setattr(held, "scale", frozenset([3.0 + turn])))


@row
def a_deque() -> Row:
    held = collections.deque([1.0], maxlen=2)
    return Row(lambda x: x * sum(held), lambda turn: held.append(3.0 + turn))


@row
def a_subclass_of_dict() -> Row:
    held = MyDict(scale=1.0)
    return Row(lambda x: x * held["scale"], entry(held, "scale"))


@row
def an_attribute_of_a_subclass_of_dict() -> Row:
    held = MyDict()
    held.scale = 1.0  # type: ignore[attr-defined]
    return Row(lambda x: x * held.scale, attribute(held, "scale"))  # type: ignore[attr-defined]


@row
def a_dict_that_computes() -> Row:
    held = Computing(scale=1.0)
    held.extra = 0.0
    return Row(lambda x: x * held["scale"], attribute(held, "extra"))


@row
def a_class_attribute_of_a_dict() -> Row:
    held = Computing(scale=1.0)
    return Row(
        lambda x: x * held["scale"], attribute(Computing, "extra"), undo=lambda: setattr(Computing, "extra", 0.0)
    )


@row
def an_attribute_of_a_subclass_of_list() -> Row:
    class Own(list[Any]):
        pass

    held = Own([1.0])
    held.scale = 1.0  # type: ignore[attr-defined]
    return Row(lambda x: x * held.scale * held[0], attribute(held, "scale"))  # type: ignore[attr-defined]


@row
def an_entry_of_a_subclass_of_list() -> Row:
    class Own(list[Any]):
        def __getitem__(self, place: Any) -> Any:
            return super().__getitem__(place) * SCALE

    fresh_globals()
    held = Own([1.0])
    return Row(lambda x: x * held[0], attribute(HERE, "SCALE"))


@row
def an_attribute_of_a_subclass_of_tuple() -> Row:
    class Own(tuple[Any, ...]):
        pass

    held = Own([2.0])
    held.scale = 1.0  # type: ignore[attr-defined]
    return Row(lambda x: x * held.scale * held[0], attribute(held, "scale"))  # type: ignore[attr-defined]


@row
def an_attribute_of_a_subclass_of_set() -> Row:
    class Own(set[Any]):
        pass

    held = Own([2.0])
    held.scale = 1.0  # type: ignore[attr-defined]
    return Row(lambda x: x * held.scale, attribute(held, "scale"))  # type: ignore[attr-defined]


class Word(str):
    scale: Any


class Whole(int):
    scale: Any


class Real(float):
    scale: Any


@row
def an_attribute_of_a_captured_str() -> Row:
    held = Word("a")
    held.scale = 1.0
    return Row(lambda x: x * held.scale, attribute(held, "scale"))


@row
def an_attribute_of_a_captured_int() -> Row:
    held = Whole(2)
    held.scale = 1.0
    return Row(lambda x: x * held.scale * held, attribute(held, "scale"))


@row
def an_attribute_of_a_captured_float() -> Row:
    held = Real(2)
    held.scale = 1.0
    return Row(lambda x: x * held.scale * held, attribute(held, "scale"))


@row
def a_captured_str_is_replaced_by_an_equal_one() -> Row:
    held = Plain()

    def change(turn: int) -> None:
        held.scale = Word("a")
        held.scale.scale = 1.0 + turn

    change(0)
    return Row(lambda x: x * held.scale.scale, change)


@row
def a_proxy_of_a_dict() -> Row:
    held = {"scale": 1.0}
    proxy = types.MappingProxyType(held)
    return Row(lambda x: x * proxy["scale"], entry(held, "scale"))


@row
def a_chain_of_dicts() -> Row:
    first, second = {"other": 1.0}, {"scale": 1.0}
    chain = collections.ChainMap(first, second)
    return Row(lambda x: x * chain["scale"], lambda turn: entry(second if turn == 1 else first, "scale")(turn))


@row
def a_user_dict() -> Row:
    held = collections.UserDict({"scale": 1.0})
    return Row(lambda x: x * held["scale"], entry(held, "scale"))


@row
def a_user_list() -> Row:
    held = collections.UserList([1.0])
    return Row(lambda x: x * held[0], entry(held, 0))


@row
def a_default_dict() -> Row:
    held: Any = collections.defaultdict(lambda: 1.0)
    held["scale"] = 1.0
    return Row(lambda x: x * held["scale"], entry(held, "scale"))


@row
def an_ordered_dict() -> Row:
    held = collections.OrderedDict(a=1.0, b=2.0)

    def step(x: Any) -> Any:
        for value in held.values():
            x = x * value + 1
        return x

    return Row(step, lambda turn: held.move_to_end("a" if turn == 1 else "b"))


@row
def a_counter() -> Row:
    held = collections.Counter("ab")
    return Row(lambda x: x * held["a"], lambda turn: held.update("a" * turn))


@row
def a_namespace() -> Row:
    held = types.SimpleNamespace(model=types.SimpleNamespace(scale=1.0))
    return Row(lambda x: x * held.model.scale, attribute(held.model, "scale"))


@row
def parsed_arguments() -> Row:
    held = argparse.Namespace(scale=1.0)
    return Row(lambda x: x * held.scale, attribute(held, "scale"))


@row
def a_named_tuple_is_replaced() -> Row:
    Sizes = collections.namedtuple("Sizes", "scale")
    held = Plain()
    held.scale = Sizes(1.0)
    return Row(lambda x: x * held.scale.scale, lambda turn: setattr(held, "scale", Sizes(3.0 + turn)))


@row
def a_list_in_a_tuple() -> Row:
    held = ([1.0], 2)
    return Row(lambda x: x * held[0][0], entry(held[0], 0))


@row
def an_object_of_ones_own_with_items() -> Row:
    held = Sized()
    return Row(lambda x: x * held[0], entry(held.entries, 0))


@row
def an_object_of_ones_own_gone_through() -> Row:
    held = Sized()
    return Row(lambda x: x * sum(held), lambda turn: held.entries.append(3.0 + turn))


@row
def the_length_of_an_object() -> Row:
    held = Sized()
    return Row(lambda x: x * len(held), lambda turn: held.entries.append(3.0 + turn))


@row
def the_truth_of_an_object() -> Row:
    held = Sized()
    return Row(
        lambda x: x * 2 if held else x, lambda turn: held.entries.append(3.0) if turn == 1 else held.entries.pop()
    )


@row
def whether_an_object_contains() -> Row:
    held = Sized()
    return Row(lambda x: x * 2 if 3.0 in held else x, lambda turn: held.entries.append(2.0 + turn))


@row
def a_key_that_is_an_object() -> Row:
    class Key:
        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key) and self.name == other.name

    held = {Key("a"): 1.0}
    return Row(lambda x: x * held[Key("a")], lambda turn: held.update({Key("a"): 3.0 + turn}))


class EqualKey:
    """A key that is equal to others of its kind, and different in what it holds."""

    def __init__(self, scale: Any) -> None:
        self.scale = scale

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualKey)


@row
def equal_keys_that_differ() -> Row:
    held = {EqualKey(1.0): 1.0}

    def step(x: Any) -> Any:
        for key in held:
            x = x * key.scale
        return x

    def change(turn: int) -> None:
        held.clear()
        held[EqualKey(3.0 + turn)] = 1.0

    return Row(step, change)


@row
def numbers_as_keys() -> Row:
    held: dict[Any, Any] = {1: 1.0}

    def step(x: Any) -> Any:
        for key, value in held.items():
            x = x * value + (2 if key is True else 5 if type(key) is float else 0)
        return x

    def change(turn: int) -> None:
        held.clear()
        held[True if turn == 1 else 1.0] = 1.0

    return Row(step, change)


@row
def negative_zero() -> Row:
    held = Plain()
    held.scale = 0.0
    step = lambda x: x * math.copysign(2.0, held.scale)
    return Row(step, lambda turn: setattr(held, "scale", -0.0 if turn == 1 else 0.0))


@row
def complex_negative_zero() -> Row:
    held = Plain()
    held.scale = complex(1.0, 0.0)
    step = lambda x: x * math.copysign(2.0, held.scale.imag)
    return Row(step, lambda turn: setattr(held, "scale", complex(1.0, -0.0) if turn == 1 else complex(1.0, 0.0)))


@row
def the_type_of_a_number() -> Row:
    held = Plain()
    held.scale = 1

    def step(x: Any) -> Any:
        return x * (2 if held.scale is True else 3 if isinstance(held.scale, float) else 4)

    return Row(step, lambda turn: setattr(held, "scale", True if turn == 1 else 1.0))


@row
def the_type_of_a_number_in_a_tuple() -> Row:
    held = Plain()
    held.scale = (1,)

    def step(x: Any) -> Any:
        return x * (2 if held.scale[0] is True else 3 if isinstance(held.scale[0], float) else 4)

    return Row(step, lambda turn: setattr(held, "scale", (True,) if turn == 1 else (1.0,)))


@row
def a_decimal() -> Row:
    held = Plain()
    held.scale = Decimal("1.0")
    values = [Decimal("1.00"), Decimal("1.000")]
    return Row(lambda x: x * len(str(held.scale)), lambda turn: setattr(held, "scale", values[turn - 1]))


@row
def a_fraction() -> Row:
    held = Plain()
    held.scale = Fraction(1, 2)
    return Row(lambda x: x * float(held.scale), lambda turn: setattr(held, "scale", Fraction(turn, 3)))


@row
def a_numpy_scalar() -> Row:
    held = Plain()
    held.scale = np.float32(1)
    return Row(lambda x: x * float(held.scale), lambda turn: setattr(held, "scale", np.float32(1 + turn)))


@row
def the_dtype_of_a_numpy_scalar() -> Row:
    held = Plain()
    held.scale = np.float32(1)
    values = [np.float64(1), np.int32(1)]
    return Row(lambda x: x * len(str(held.scale.dtype)), lambda turn: setattr(held, "scale", values[turn - 1]))


@row
def a_numpy_array() -> Row:
    held = np.ones(3, np.float32)
    return Row(lambda x: x * float(held[0]), entry(held, 0))


@row
def a_numpy_array_of_objects() -> Row:
    held = np.array([1.0, "a"], dtype=object)
    return Row(lambda x: x * held[0], entry(held, 0))


@row
def a_view_of_a_numpy_array() -> Row:
    held = np.ones(30000, np.float32)
    view = held[::2]
    return Row(lambda x: x * float(view[1]), entry(held, 2))


@row
def a_bytearray() -> Row:
    held = bytearray(b"\x01\x02")
    return Row(lambda x: x * held[0], lambda turn: operator.setitem(held, 0, 3 + turn))


@row
def a_memoryview() -> Row:
    held = bytearray(b"\x01\x02")
    view = memoryview(held)
    return Row(lambda x: x * view[0], lambda turn: operator.setitem(held, 0, 3 + turn))


@row
def a_range_and_a_slice() -> Row:
    held = Plain()
    held.scale = range(2)
    return Row(lambda x: x * len(held.scale), lambda turn: setattr(held, "scale", range(3 + turn)))


@refusal("iterator")
def a_generator_from_outside() -> Row:
    values = (float(each) for each in itertools.count(1))
    return Row(lambda x: x * next(values))


@refusal("iterator|something without source")
def a_count_from_outside() -> Row:
    values = itertools.count(1)
    return Row(lambda x: x * next(values))


@refusal("iterator")
def a_cycle_from_outside() -> Row:
    values = itertools.cycle([1.0, 2.0, 3.0])

    def step(x: Any) -> Any:
        for value in values:
            return x * value
        return x

    return Row(step)


# --- other state


VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("VARIABLE", default=1.0)


@row
def a_context_variable() -> Row:
    VARIABLE.set(1.0)
    return Row(lambda x: x * VARIABLE.get(), lambda turn: VARIABLE.set(3.0 + turn))


@row
def a_context_variable_with_a_default() -> Row:
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")
    return Row(lambda x: x * variable.get(1.0), lambda turn: variable.set(3.0 + turn))


@row
def a_context_variable_that_holds_a_dict() -> Row:
    held = {"scale": 1.0}
    VARIABLE.set(held)
    return Row(lambda x: x * VARIABLE.get()["scale"], entry(held, "scale"))


@row
def a_context_variable_in_a_helper() -> Row:
    VARIABLE.set(1.0)
    held = types.SimpleNamespace(variable=VARIABLE)

    def read() -> Any:
        return held.variable.get()

    return Row(lambda x: x * read(), lambda turn: VARIABLE.set(3.0 + turn))


@refusal("copy_context")
def the_context() -> Row:
    VARIABLE.set(1.0)
    return Row(lambda x: x * contextvars.copy_context()[VARIABLE], lambda turn: VARIABLE.set(3.0 + turn))


@row
def thread_locals() -> Row:
    held = threading.local()
    held.scale = 1.0
    return Row(lambda x: x * held.scale, attribute(held, "scale"))


class Locals(threading.local):
    scale: Any = 1.0


@row
def a_subclass_of_thread_locals() -> Row:
    held = Locals()
    return Row(lambda x: x * held.scale, attribute(held, "scale"))


@row
def an_environment_variable() -> Row:
    os.environ["GUARD_SCALE"] = "1"

    def change(turn: int) -> None:
        os.environ["GUARD_SCALE"] = str(turn + 2)

    return Row(lambda x: x * float(os.environ["GUARD_SCALE"]), change, undo=lambda: os.environ.pop("GUARD_SCALE"))


@row
def an_environment_variable_with_getenv() -> Row:
    def change(turn: int) -> None:
        os.environ["GUARD_SCALE"] = str(turn + 2)

    step = lambda x: x * float(os.getenv("GUARD_SCALE", "1"))
    return Row(step, change, undo=lambda: os.environ.pop("GUARD_SCALE", None))


@row
def an_environment_variable_with_get() -> Row:
    def change(turn: int) -> None:
        os.environ["GUARD_SCALE"] = str(turn + 2)

    step = lambda x: x * float(os.environ.get("GUARD_SCALE", 1))
    return Row(step, change, undo=lambda: os.environ.pop("GUARD_SCALE", None))


@row
def an_environment_variable_imported_inside() -> Row:
    def step(x: Any) -> Any:
        from os import environ as variables

        return x * float(variables.get("GUARD_SCALE", 1))

    def change(turn: int) -> None:
        os.environ["GUARD_SCALE"] = str(turn + 2)

    return Row(step, change, undo=lambda: os.environ.pop("GUARD_SCALE", None))


@row
def the_environment_as_a_captured_object() -> Row:
    variables = os.environ

    def change(turn: int) -> None:
        os.environ["GUARD_SCALE"] = str(turn + 2)

    step = lambda x: x * float(variables.get("GUARD_SCALE", "1"))
    return Row(step, change, undo=lambda: os.environ.pop("GUARD_SCALE", None))


@row
def weak_references() -> Row:
    held = Plain()
    reference = weakref.ref(held)
    return Row(lambda x: x * reference().scale, attribute(held, "scale"))  # type: ignore[union-attr]


@row
def a_weak_proxy() -> Row:
    held = Plain()
    proxy = weakref.proxy(held)
    return Row(lambda x: x * proxy.scale, attribute(held, "scale"))


@row
def a_weak_dict() -> Row:
    held = Plain()
    table: Any = weakref.WeakValueDictionary(scale=held)
    return Row(lambda x: x * table["scale"].scale, attribute(held, "scale"))


@row
def a_weak_key_dict() -> Row:
    held = Plain()
    table: Any = weakref.WeakKeyDictionary({held: 1.0})
    return Row(lambda x: x * table[held], entry(table, held))


@row
def a_partial_call() -> Row:
    held = [1.0]
    inner = functools.partial(lambda values, x: x * values[0], held)
    return Row(lambda x: inner(x), entry(held, 0))


@row
def keywords_of_a_partial_call() -> Row:
    inner = functools.partial(plainly, scale=1.0)
    return Row(lambda x: inner(x), entry(inner.keywords, "scale"))


@row
def a_partial_call_with_another_state() -> Row:
    inner = functools.partial(plainly, scale=1.0)

    def change(turn: int) -> None:
        inner.__setstate__((plainly, (), {"scale": 3.0 + turn}, {}))  # type: ignore[attr-defined]

    return Row(lambda x: inner(x), change)


@row
def an_attribute_of_a_partial_call() -> Row:
    inner: Any = functools.partial(plainly)
    inner.scale = 1.0
    return Row(lambda x: x * inner.scale, attribute(inner, "scale"))


@row
def a_cached_function() -> Row:
    fresh_globals()

    @functools.lru_cache
    def scale() -> Any:
        return SCALE

    def change(turn: int) -> None:
        global SCALE
        SCALE = 3.0 + turn
        scale.cache_clear()

    return Row(lambda x: x * scale(), change)


@row
def a_cached_function_keeps_an_old_value() -> Row:
    fresh_globals()

    @functools.lru_cache
    def scale() -> Any:
        return SCALE

    return Row(lambda x: x * scale(), attribute(HERE, "SCALE"))


@row
def a_cached_property() -> Row:
    fresh_globals()

    class Own:
        @functools.cached_property
        def scale(self) -> Any:
            return SCALE

    held = Own()

    def change(turn: int) -> None:
        global SCALE
        SCALE = 3.0 + turn
        vars(held).pop("scale", None)

    return Row(lambda x: x * held.scale, change)


@row
def single_dispatch() -> Row:
    @functools.singledispatch
    def scale(value: Any) -> Any:
        return 1.0

    def change(turn: int) -> None:
        scale.register(Plain, lambda value: 3.0 + turn)

    held = Plain()
    return Row(lambda x: x * scale(held), change)


@row
def a_decorated_function() -> Row:
    fresh_globals()

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args) * SCALE

        return wrapper

    inner = decorate(lambda x: x * 2)
    return Row(lambda x: inner(x), attribute(HERE, "SCALE"))


@row
def a_context_manager() -> Row:
    fresh_globals()

    @contextmanager
    def scaled() -> Iterator[Any]:
        yield SCALE

    def step(x: Any) -> Any:
        with scaled() as scale:
            return x * scale

    return Row(step, attribute(HERE, "SCALE"))


@row
def a_generator_function() -> Row:
    fresh_globals()

    def scales() -> Iterator[Any]:
        yield SCALE
        yield CONFIG["scale"]

    def change(turn: int) -> None:
        if turn == 1:
            CONFIG["scale"] = 4.0
        else:
            attribute(HERE, "SCALE")(turn)

    return Row(lambda x: x * sum(scales()), change)


@row
def a_callable_object() -> Row:
    class Own(Plain):
        def __call__(self, x: Any) -> Any:
            return x * self.scale

    held = Own()
    return Row(held, attribute(held, "scale"))


@row
def a_bound_method() -> Row:
    held = Method()
    now = held.now
    return Row(lambda x: x * now(), attribute(held, "scale"))


@row
def a_bound_method_of_a_dict() -> Row:
    held = {"scale": 1.0}
    get = held.get
    return Row(lambda x: x * get("scale"), entry(held, "scale"))


@row
def a_bound_item_method_of_a_list() -> Row:
    held = [1.0]
    get = held.__getitem__
    return Row(lambda x: x * get(0), entry(held, 0))


@row
def values_of_a_dict_kept_outside() -> Row:
    held = {"scale": 1.0}
    values = held.values()
    return Row(lambda x: x * sum(values), entry(held, "scale"))


@row
def a_copied_object() -> Row:
    held = Plain()
    return Row(lambda x: x * copy.deepcopy(held).scale, attribute(held, "scale"))


@row
def a_dataclass_as_a_dict() -> Row:
    held = Setting(1.0)
    return Row(lambda x: x * dataclasses.asdict(held)["scale"], attribute(held, "scale"))


@row
def a_replaced_dataclass() -> Row:
    held = Setting(1.0)
    return Row(lambda x: x * dataclasses.replace(held).scale, attribute(held, "scale"))


@row
def the_format_of_an_object() -> Row:
    class Own(Plain):
        def __repr__(self) -> str:
            return str(self.scale)

    held = Own()
    return Row(lambda x: x * float(f"{held!r}"), attribute(held, "scale"))


@row
def the_recursion_limit() -> Row:
    before = sys.getrecursionlimit()

    def change(turn: int) -> None:
        sys.setrecursionlimit(before + 100 * turn)

    undo = lambda: sys.setrecursionlimit(before)
    return Row(lambda x: x * sys.getrecursionlimit(), change, undo=undo)


@row
def the_search_path() -> Row:
    before = list(sys.path)

    def undo() -> None:
        sys.path[:] = before

    return Row(lambda x: x * len(sys.path), lambda turn: sys.path.append(f"/nowhere{turn}"), undo=undo)


@row
def program_arguments() -> Row:
    before = list(sys.argv)

    def undo() -> None:
        sys.argv[:] = before

    return Row(lambda x: x * len(sys.argv), lambda turn: sys.argv.append("more"), undo=undo)


@refusal("random")
def a_random_number() -> Row:
    return Row(lambda x: x * random.getrandbits(3))


@refusal("random")
def a_random_choice_imported_inside() -> Row:
    def step(x: Any) -> Any:
        from random import choice as chosen

        return x * chosen([1.0, 2.0, 3.0, 4.0])

    return Row(step)


@refusal("random")
def a_generator_of_random_numbers() -> Row:
    generator = random.Random(0)
    return Row(lambda x: x * generator.getrandbits(3))


@refusal("random")
def a_random_number_of_numpy() -> Row:
    return Row(lambda x: x * float(np.random.rand(1)[0]))


@refusal("random")
def a_generator_of_numpy() -> Row:
    generator = np.random.default_rng(0)
    return Row(lambda x: x * float(generator.normal(size=1)[0]))


@refusal("clock|measure|time")
def a_clock() -> Row:
    return Row(lambda x: x * time.perf_counter())


@refusal("clock|measure|time")
def a_clock_imported_inside() -> Row:
    def step(x: Any) -> Any:
        from time import time as now

        return x * now()

    return Row(step)


@refusal("clock|measure|now")
def the_date() -> Row:
    import datetime

    return Row(lambda x: x * datetime.datetime.now().microsecond)


@refusal("open|read|file")
def a_file() -> Row:
    def step(x: Any) -> Any:
        with open(__file__) as file:
            return x * len(file.read())

    return Row(step)


@refusal("file|exists|read|look")
def whether_a_file_exists() -> Row:
    return Row(lambda x: x * 2 if os.path.exists("/tmp/guards") else x)


@refusal("file|path|exists|read|look")
def whether_a_path_exists() -> Row:
    from pathlib import Path

    path = Path("/tmp/guards")
    return Row(lambda x: x * 2 if path.exists() else x)


@refusal("file|stat|read")
def the_size_of_a_file() -> Row:
    return Row(lambda x: x * os.path.getsize(__file__))


@refusal("listdir|file|look")
def a_folder() -> Row:
    return Row(lambda x: x * len(os.listdir(os.path.dirname(__file__))))


@row
def the_number_of_threads_alive() -> Row:
    return Row(lambda x: x * threading.active_count())


@refusal("stack|frame|calls")
def the_frame_of_the_caller() -> Row:
    return Row(lambda x: x * sys._getframe(1).f_lineno)


@row
def the_identity_of_an_object() -> Row:
    held = Plain()
    first, second = Plain(), Plain()
    held.scale = first
    step = lambda x: x * (2.0 if id(held.scale) == id(first) else 3.0)
    return Row(step, lambda turn: setattr(held, "scale", second if turn == 1 else first))


@row
def the_hash_of_an_object() -> Row:
    class Own(Plain):
        def __hash__(self) -> int:
            return int(self.scale)

    held = Own()
    return Row(lambda x: x * hash(held), attribute(held, "scale"))


@row
def a_counter_of_calls() -> Row:
    held = {"calls": 0}

    def step(x: Any) -> Any:
        held["calls"] += 1
        return x * held["calls"]

    return Row(step, entry(held, "other"))


@row
def a_distribution() -> Row:
    held = torch.distributions.Normal(torch.tensor(0.0), torch.tensor(1.0))
    return Row(lambda x: held.log_prob(x), lambda turn: setattr(held, "loc", torch.tensor(2.0 + turn)))


@row
def what_a_default_dict_makes() -> Row:
    held: Any = collections.defaultdict(lambda: 1.0)

    def change(turn: int) -> None:
        held.default_factory = lambda: 2.0 + turn

    return Row(lambda x: x * held.default_factory(), change)


@row
def the_seed_of_a_generator() -> Row:
    generator = torch.Generator()
    generator.manual_seed(1)
    return Row(lambda x: x * (generator.initial_seed() % 7), lambda turn: generator.manual_seed(turn + 1))


@row
def a_tensor_by_its_name() -> Row:
    global SCALE
    SCALE = torch.ones(3)
    return Row(lambda x: x * globals()["SCALE"], lambda turn: SCALE.fill_(2.0 + turn))


@refusal("goes through all of")
def how_many_names_there_are() -> Row:
    return Row(lambda x: x * len(globals()))


@refusal("goes through all of")
def the_names_of_a_module() -> Row:
    return Row(lambda x: x * len(dir(guard_settings)))


@refusal("goes through all of")
def a_loop_over_names() -> Row:
    return Row(lambda x: x * sum(1 for name in globals() if name.startswith("S")))


@refusal("__subclasses__")
def the_classes_below_a_class() -> Row:
    return Row(lambda x: x * len(Base.__subclasses__()))


@refusal("step's code uses")
def where_a_captured_view_begins() -> Row:
    view = torch.arange(6.0)[2:5]
    return Row(lambda x: x * view.storage_offset())


# --- settings of the process


def setting(step: Step, change: Callable[[int], Any], undo: Callable[[], Any]) -> Row:
    undo()
    return Row(step, change, undo=undo)


@row
def the_default_dtype() -> Row:
    return setting(
        lambda x: torch.ones(2) * 2,
        lambda turn: torch.set_default_dtype(torch.float64 if turn == 1 else torch.float32),
        lambda: torch.set_default_dtype(torch.float32),
    )


@row
def the_default_dtype_asked_for() -> Row:
    return setting(
        lambda x: x * (2 if torch.get_default_dtype() is torch.float32 else 3),
        lambda turn: torch.set_default_dtype(torch.float64 if turn == 1 else torch.float32),
        lambda: torch.set_default_dtype(torch.float32),
    )


@row
def the_default_device() -> Row:
    return setting(
        lambda x: len(torch.ones(2).device.type),
        lambda turn: torch.set_default_device("meta" if turn == 1 else "cpu"),
        lambda: torch.set_default_device(None),
    )


@row
def the_default_device_asked_for() -> Row:
    return setting(
        lambda x: len(str(torch.get_default_device())),
        lambda turn: torch.set_default_device("meta" if turn == 1 else "cpu"),
        lambda: torch.set_default_device(None),
    )


@row
def deterministic_algorithms() -> Row:
    return setting(
        lambda x: x * 2 if torch.are_deterministic_algorithms_enabled() else x,
        lambda turn: torch.use_deterministic_algorithms(turn == 1),
        lambda: torch.use_deterministic_algorithms(False),
    )


@row
def deterministic_algorithms_in_words() -> Row:
    return setting(
        lambda x: x * (1 + torch.get_deterministic_debug_mode()),
        lambda turn: torch.set_deterministic_debug_mode(turn),
        lambda: torch.set_deterministic_debug_mode(0),
    )


@row
def deterministic_filling() -> Row:
    def undo() -> None:
        torch.utils.deterministic.fill_uninitialized_memory = True

    return setting(
        lambda x: x * 2 if torch.utils.deterministic.fill_uninitialized_memory else x,
        lambda turn: setattr(torch.utils.deterministic, "fill_uninitialized_memory", turn == 2),
        undo,
    )


@row
def the_precision_of_products() -> Row:
    return setting(
        lambda x: x * len(torch.get_float32_matmul_precision()),
        lambda turn: torch.set_float32_matmul_precision("medium" if turn == 1 else "high"),
        lambda: torch.set_float32_matmul_precision("highest"),
    )


@row
def whether_warnings_repeat() -> Row:
    return setting(
        lambda x: x * 2 if torch.is_warn_always_enabled() else x,
        lambda turn: torch.set_warn_always(turn == 1),
        lambda: torch.set_warn_always(False),
    )


@row
def the_number_of_threads() -> Row:
    before = torch.get_num_threads()
    return setting(
        lambda x: x * torch.get_num_threads(),
        lambda turn: torch.set_num_threads(before + turn),
        lambda: torch.set_num_threads(before),
    )


@row
def whether_gradients_are_recorded() -> Row:
    weight = torch.ones(3, requires_grad=True)
    return setting(
        lambda x: (x * weight).requires_grad,
        lambda turn: torch.set_grad_enabled(turn != 1),
        lambda: torch.set_grad_enabled(True),
    )


@row
def inference_mode() -> Row:
    mode = torch.inference_mode()

    def change(turn: int) -> None:
        mode.__enter__() if turn == 1 else mode.__exit__(None, None, None)

    return Row(lambda x: torch.is_inference_mode_enabled(), change)


@row
def anomaly_mode() -> Row:
    return setting(
        lambda x: x * 2 if torch.is_anomaly_enabled() else x,
        lambda turn: torch.autograd.set_detect_anomaly(turn == 1),
        lambda: torch.autograd.set_detect_anomaly(False),
    )


@row
def autocast() -> Row:
    weight = torch.ones(3, 3)
    context = torch.autocast("cpu", torch.bfloat16)

    def change(turn: int) -> None:
        context.__enter__() if turn == 1 else context.__exit__(None, None, None)

    return Row(lambda x: str((x @ weight).dtype), change)


@row
def autocast_asked_for() -> Row:
    context = torch.autocast("cpu", torch.bfloat16)

    def change(turn: int) -> None:
        context.__enter__() if turn == 1 else context.__exit__(None, None, None)

    return Row(lambda x: x * 2 if torch.is_autocast_enabled("cpu") else x, change)


@row
def the_dtype_of_autocast() -> Row:
    def undo() -> None:
        torch.set_autocast_dtype("cpu", torch.bfloat16)

    return setting(
        lambda x: len(str(torch.get_autocast_dtype("cpu"))),
        lambda turn: torch.set_autocast_dtype("cpu", torch.float16 if turn == 1 else torch.bfloat16),
        undo,
    )


@row
def the_dtype_of_autocast_inside() -> Row:
    weight = torch.ones(3, 3)

    def step(x: Any) -> Any:
        with torch.autocast("cpu"):
            return str((x @ weight).dtype)

    return setting(
        step,
        lambda turn: torch.set_autocast_dtype("cpu", torch.float16 if turn == 1 else torch.bfloat16),
        lambda: torch.set_autocast_dtype("cpu", torch.bfloat16),
    )


@row
def whether_autocast_caches() -> Row:
    return setting(
        lambda x: x * 2 if torch.is_autocast_cache_enabled() else x,
        lambda turn: torch.set_autocast_cache_enabled(turn == 2),
        lambda: torch.set_autocast_cache_enabled(True),
    )


@row
def flags_of_backends() -> Row:
    return setting(
        lambda x: x * 2 if torch.backends.cudnn.benchmark else x,
        lambda turn: setattr(torch.backends.cudnn, "benchmark", turn == 1),
        lambda: setattr(torch.backends.cudnn, "benchmark", False),
    )


@row
def flags_of_cuda_products() -> Row:
    return setting(
        lambda x: x * 2 if torch.backends.cuda.matmul.allow_tf32 else x,
        lambda turn: setattr(torch.backends.cuda.matmul, "allow_tf32", turn == 1),
        lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", False),
    )


@row
def flags_of_mkldnn() -> Row:
    return setting(
        lambda x: x * 2 if torch.backends.mkldnn.enabled else x,
        lambda turn: setattr(torch.backends.mkldnn, "enabled", turn == 2),
        lambda: setattr(torch.backends.mkldnn, "enabled", True),
    )


@row
def attention_backends() -> Row:
    return setting(
        lambda x: x * 2 if torch.backends.cuda.math_sdp_enabled() else x,
        lambda turn: torch.backends.cuda.enable_math_sdp(turn == 2),
        lambda: torch.backends.cuda.enable_math_sdp(True),
    )


@row
def default_hooks_on_saved_tensors() -> Row:
    weight = torch.ones(3, requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)

    def step(x: Any) -> Any:
        (gradient,) = torch.autograd.grad((x.exp() * weight * weight).sum(), weight)
        return gradient

    def change(turn: int) -> None:
        hooks.__enter__() if turn == 1 else hooks.__exit__(None, None, None)

    return Row(step, change)


@row
def seeds() -> Row:
    return Row(lambda x: x * torch.rand(3), lambda turn: torch.manual_seed(turn))


@row
def the_state_of_random_numbers() -> Row:
    state = torch.get_rng_state()
    return Row(lambda x: x * torch.rand(3), lambda turn: torch.set_rng_state(state))


@row
def the_first_seed_asked_for() -> Row:
    return Row(lambda x: x * (torch.initial_seed() % 7), lambda turn: torch.manual_seed(turn))


@row
def a_generator_of_random_tensors() -> Row:
    generator = torch.Generator()
    generator.manual_seed(3)
    return Row(lambda x: x * torch.rand(3, generator=generator), lambda turn: generator.manual_seed(turn))


@refusal("value of a tensor")
def print_options() -> Row:
    return setting(
        lambda x: x * len(str(torch.full((2,), 1 / 3))),
        lambda turn: torch.set_printoptions(precision=4 + turn),
        lambda: torch.set_printoptions(profile="default"),
    )


@row
def flush_denormal() -> Row:
    return setting(
        lambda x: x * 1e-40,
        lambda turn: torch.set_flush_denormal(False),
        lambda: torch.set_flush_denormal(False),
    )


@row
def whether_it_is_compiled_asked_by_a_global() -> Row:
    held = nn.Dropout(0.5)
    return Row(lambda x: held(x), lambda turn: held.eval() if turn == 1 else held.train())


@row
def a_device_context() -> Row:
    context = torch.device("meta")
    undo = lambda: context.__exit__(None, None, None)
    return Row(lambda x: len(torch.ones(2).device.type), lambda turn: turn == 1 and context.__enter__(), undo=undo)


@refusal("has to see every function")
def a_function_mode() -> Row:
    class Doubling(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            return result * 2 if function is torch.exp else result

    mode = Doubling()

    return Row(lambda x: torch.exp(x), lambda turn: mode.__enter__(), undo=lambda: mode.__exit__(None, None, None))


@refusal("has to see every function")
def a_dispatch_mode() -> Row:
    from undertow.utils._python_dispatch import TorchDispatchMode

    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            return result * 2 if "exp" in str(function) else result

    mode = Doubling()

    return Row(lambda x: torch.exp(x), lambda turn: mode.__enter__(), undo=lambda: mode.__exit__(None, None, None))


# --- arguments that are equal and different


@dataclasses.dataclass
class Setting:
    scale: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
    scale: Any = dataclasses.field(default=1.0, compare=False)


class Equal:
    """Equal to any other of its kind."""

    def __init__(self, scale: Any) -> None:
        self.scale = scale

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 1


def worded(kind: Any, value: Any, scale: Any) -> Any:
    made = kind(value)
    made.scale = scale
    return made


def given(make: Callable[[int], Any], step: Step = lambda x, given: x * given.scale) -> Row:
    """A step with another argument in each call."""
    return Row(step, args=lambda turn: (torch.ones(3), make(turn)))


@row
def a_frozen_dataclass() -> Row:
    return given(lambda turn: Frozen("a", 1.0 + turn))


@row
def one_frozen_dataclass_that_changes() -> Row:
    held = Frozen("a", 1.0)
    step = lambda x, given: x * given.scale
    change = lambda turn: object.__setattr__(held, "scale", 2.0 + turn)
    return Row(step, change, args=lambda turn: (torch.ones(3), held))


@row
def an_own_equality() -> Row:
    return given(lambda turn: Equal(1.0 + turn))


@row
def one_object_with_an_own_equality_that_changes() -> Row:
    held = Equal(1.0)
    return Row(lambda x, given: x * given.scale, attribute(held, "scale"), args=lambda turn: (torch.ones(3), held))


@row
def a_str_with_an_attribute() -> Row:
    return given(lambda turn: worded(Word, "a", 1.0 + turn))


@row
def an_int_with_an_attribute() -> Row:
    return given(lambda turn: worded(Whole, 1, 1.0 + turn))


@row
def a_float_with_an_attribute() -> Row:
    return given(lambda turn: worded(Real, 1, 1.0 + turn))


class Pair(tuple[Any, ...]):
    scale: Any


@row
def a_tuple_with_an_attribute() -> Row:
    return given(lambda turn: worded(Pair, (1, 2), 1.0 + turn))


class Listed(list[Any]):
    scale: Any


@row
def a_list_with_an_attribute() -> Row:
    return given(lambda turn: worded(Listed, (1, 2), 1.0 + turn))


@row
def a_dict_with_an_attribute() -> Row:
    return given(lambda turn: worded(MyDict, {"a": 1.0}, 1.0 + turn))


@row
def a_frozenset_with_an_attribute() -> Row:
    class Own(frozenset[Any]):
        pass

    return given(lambda turn: worded(Own, [1], 1.0 + turn))


@row
def a_tensor_with_an_attribute() -> Row:
    def make(turn: int) -> Any:
        made = torch.ones(3)
        made.scale = 1.0 + turn
        return made

    return given(make)


@row
def an_equal_key_of_an_argument() -> Row:
    step = lambda x, given: x * next(iter(given)).scale
    return given(lambda turn: {EqualKey(1.0 + turn): 1.0}, step)


@row
def one_two_and_true() -> Row:
    values = [1, True, 1.0, np.float64(1)]
    kinds = {int: 2.0, bool: 3.0, float: 4.0}
    return given(lambda turn: values[turn], lambda x, given: x * kinds.get(type(given), 5.0))


@row
def one_and_true_in_a_tuple() -> Row:
    values = [(1,), (True,), (1.0,), (1,)]
    return given(lambda turn: values[turn], lambda x, given: x * (2 if given[0] is True else 3))


@row
def one_and_true_in_a_frozenset() -> Row:
    values = [frozenset([1]), frozenset([True]), frozenset([1.0]), frozenset([1])]
    return given(lambda turn: values[turn], lambda x, given: x * (2 if next(iter(given)) is True else 3))


@row
def one_and_true_as_keys() -> Row:
    values: list[Any] = [{1: 1}, {True: 1}, {1.0: 1}, {1: 1}]
    return given(lambda turn: values[turn], lambda x, given: x * (2 if next(iter(given)) is True else 3))


@row
def zeros() -> Row:
    values = [0.0, -0.0, 0.0, -0.0]
    return given(lambda turn: values[turn], lambda x, given: x / given)


@row
def complex_zeros() -> Row:
    values = [complex(1, 0.0), complex(1, -0.0), complex(1, 0.0), complex(1, -0.0)]
    return given(lambda turn: values[turn], lambda x, given: x * math.copysign(2.0, given.imag))


@row
def zeros_in_a_frozenset() -> Row:
    values = [frozenset([0.0]), frozenset([-0.0])] * 2
    return given(lambda turn: values[turn], lambda x, given: x * math.copysign(2.0, next(iter(given))))


@row
def not_a_number() -> Row:
    values = [1.0, math.nan, 2.0, math.nan]
    return given(lambda turn: values[turn], lambda x, given: x if given != given else x * given)


@row
def not_a_number_in_a_tuple() -> Row:
    values = [(math.nan,), (float("nan"),), (1.0,), (math.nan,)]
    return given(lambda turn: values[turn], lambda x, given: x if given[0] != given[0] else x * 2)


@row
def members_of_an_enum() -> Row:
    values = [Color.RED, Color.BLUE, Color.RED, Color.BLUE]
    return given(lambda turn: values[turn], lambda x, given: x * given.value)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@row
def members_of_an_int_enum() -> Row:
    values = [Level.LOW, 1, Level.HIGH, 2]
    return given(lambda turn: values[turn], lambda x, given: x * len(str(repr(given))))


@row
def equal_decimals() -> Row:
    values = [Decimal("1.0"), Decimal("1.00"), Decimal("1.000"), Decimal("1")]
    return given(lambda turn: values[turn], lambda x, given: x * len(str(given)))


@row
def fractions() -> Row:
    return given(lambda turn: Fraction(turn, 3), lambda x, given: x * float(given))


@row
def scalars_of_numpy() -> Row:
    values = [np.float32(1), np.float64(1), np.int64(1), np.float32(2)]
    return given(lambda turn: values[turn], lambda x, given: x * (len(str(given.dtype)) + float(given)))


@row
def zeros_of_numpy() -> Row:
    values = [np.float32(0.0), np.float32(-0.0)] * 2
    return given(lambda turn: values[turn], lambda x, given: x * math.copysign(2.0, given))


@row
def dates_of_numpy() -> Row:
    values = [np.timedelta64(1, "s"), np.timedelta64(1000, "ms")] * 2
    return given(lambda turn: values[turn], lambda x, given: x * len(str(given)))


@row
def a_list_that_is_mutated() -> Row:
    held = [1.0, 2.0]
    step = lambda x, given: x * given[0] * len(given)

    def change(turn: int) -> None:
        held[0] = 3.0 + turn
        held.append(1.0)

    return Row(step, change, args=lambda turn: (torch.ones(3), held))


@row
def a_dict_that_is_mutated() -> Row:
    held = {"scale": "a"}
    step = lambda x, given: x * len(given["scale"])
    change = lambda turn: held.update(scale="a" * (2 + turn))
    return Row(step, change, args=lambda turn: (torch.ones(3), held))


@row
def a_set_that_is_mutated() -> Row:
    held = {1}
    return Row(
        lambda x, given: x * len(given), lambda turn: held.add(1 + turn), args=lambda turn: (torch.ones(3), held)
    )


@row
def another_set_each_time() -> Row:
    return given(lambda turn: set(range(turn + 1)), lambda x, given: x * len(given))


@row
def another_deque_each_time() -> Row:
    return given(lambda turn: collections.deque(range(turn + 1)), lambda x, given: x * len(given))


@row
def another_bytearray_each_time() -> Row:
    return given(lambda turn: bytearray(range(turn + 1)), lambda x, given: x * len(given))


@row
def another_array_each_time() -> Row:
    return given(lambda turn: np.full(2, turn), lambda x, given: x * float(given[0]))


@row
def one_array_that_changes() -> Row:
    held = np.ones(2)
    return Row(lambda x, given: x * float(given[0]), entry(held, 0), args=lambda turn: (torch.ones(3), held))


@row
def another_dataclass_each_time() -> Row:
    return given(lambda turn: Setting(str(turn)), lambda x, given: x * float(given.scale))


@row
def a_dataclass_in_a_list() -> Row:
    return given(lambda turn: [Frozen("a", 1.0 + turn)], lambda x, given: x * given[0].scale)


@row
def a_frozen_dataclass_in_a_frozen_one() -> Row:
    return given(lambda turn: Frozen("a", Frozen("b", 1.0 + turn)), lambda x, given: x * given.scale.scale)


@row
def a_list_in_a_frozen_dataclass() -> Row:
    held = Frozen("a", [1.0])
    step = lambda x, given: x * given.scale[0]
    return Row(step, entry(held.scale, 0), args=lambda turn: (torch.ones(3), held))


@row
def another_object_each_time() -> Row:
    def make(turn: int) -> Any:
        made = Plain()
        made.scale = 1.0 + turn
        return made

    return given(make)


@row
def another_function_each_time() -> Row:
    def make(turn: int) -> Any:
        return lambda x: x * (turn + 1)

    return given(make, lambda x, given: given(x))


@row
def another_bound_method_each_time() -> Row:
    def make(turn: int) -> Any:
        made = Method()
        made.scale = 1.0 + turn
        return made.now

    return given(make, lambda x, given: x * given())


@row
def a_bound_method_of_equal_objects() -> Row:
    class Own(Equal):
        def now(self) -> Any:
            return self.scale

    return given(lambda turn: Own(1.0 + turn).now, lambda x, given: x * given())


@row
def another_partial_call_each_time() -> Row:
    return given(lambda turn: functools.partial(plainly, scale=1.0 + turn), lambda x, given: given(x))


@row
def equal_ranges() -> Row:
    values = [range(0), range(5, 5), range(0), range(1, 1)]
    return given(lambda turn: values[turn], lambda x, given: x * (1 + given.start))


@row
def slices() -> Row:
    return given(lambda turn: slice(0, 1 + turn % 3), lambda x, given: x[given].sum())


@row
def another_class_each_time() -> Row:
    values: list[Any] = [Base, OtherBase, Third, Base]
    Base.scale = 1.0
    return given(lambda turn: values[turn])


@row
def a_class_that_changes() -> Row:
    Base.scale = 1.0
    return Row(lambda x, given: x * given.scale, attribute(Base, "scale"), args=lambda turn: (torch.ones(3), Base))


@row
def classes_with_an_own_equality() -> Row:
    class Same(type):
        def __eq__(cls, other: object) -> bool:
            return isinstance(other, Same)

        def __hash__(cls) -> int:
            return 1

    values = [Same(f"Made{turn}", (), {"scale": 1.0 + turn}) for turn in range(4)]
    return given(lambda turn: values[turn])


@row
def a_user_dict_each_time() -> Row:
    return given(lambda turn: collections.UserDict(scale=1.0 + turn), lambda x, given: x * given["scale"])


@row
def a_user_string_each_time() -> Row:
    values = [worded(collections.UserString, "a", 1.0 + turn) for turn in range(4)]
    return given(lambda turn: values[turn])


@row
def a_named_tuple_with_numbers() -> Row:
    Sizes = collections.namedtuple("Sizes", "scale other")
    return given(lambda turn: Sizes(1.0 + turn, turn))


@row
def a_named_tuple_with_an_attribute() -> Row:
    class Sizes(collections.namedtuple("Sizes", "a b")):
        pass

    def make(turn: int) -> Any:
        made = Sizes(1.0, 2.0)
        made.scale = 1.0 + turn  # type: ignore[attr-defined]
        return made

    return given(make)


@row
def a_parameter_and_a_tensor() -> Row:
    step = lambda x, given: x * (2 if isinstance(given, nn.Parameter) else 3)
    return given(lambda turn: torch.ones(3, requires_grad=True) if turn % 2 else nn.Parameter(torch.ones(3)), step)


@row
def the_class_of_a_tensor() -> Row:
    class Own(torch.Tensor):
        pass

    step = lambda x, given: x * (2 if type(given) is Own else 3)
    return given(lambda turn: torch.ones(3).as_subclass(Own) if turn % 2 else torch.ones(3), step)


@refusal("step's code uses")
def a_leaf_and_what_was_computed() -> Row:
    weight = torch.ones(3, requires_grad=True)
    step = lambda x, given: x * (2 if given.is_leaf else 3)
    return given(lambda turn: weight * 2 if turn % 2 else torch.ones(3, requires_grad=True), step)


@refusal("step's code uses")
def whether_there_is_a_graph() -> Row:
    weight = torch.ones(3, requires_grad=True)
    step = lambda x, given: x * (2 if given.grad_fn is None else 3)
    return given(lambda turn: weight * 2 if turn % 2 == 0 else torch.ones(3, requires_grad=True), step)


@refusal("step's code uses")
def the_name_of_a_graphs_end() -> Row:
    weight = torch.ones(3, requires_grad=True)
    step = lambda x, given: x * len(type(given.grad_fn).__name__)
    return given(lambda turn: weight * 2 if turn % 2 == 0 else weight.exp(), step)


@refusal("step's code uses")
def whether_gradients_are_retained() -> Row:
    weight = torch.ones(3, requires_grad=True)

    def make(turn: int) -> Any:
        made = weight * 2
        if turn % 2:
            made.retain_grad()
        return made

    return given(make, lambda x, given: x * (2 if given.retains_grad else 3))


@row
def the_gradient_of_an_argument() -> Row:
    def make(turn: int) -> Any:
        made = torch.ones(3, requires_grad=True)
        if turn % 2:
            made.grad = torch.full((3,), 2.0 + turn)
        return made

    return given(make, lambda x, given: x if given.grad is None else x * given.grad)


@refusal("step's code uses")
def the_version_of_an_argument() -> Row:
    def make(turn: int) -> Any:
        made = torch.ones(3)
        for _ in range(turn):
            made.add_(1)
        return made

    return given(make, lambda x, given: x * given._version)


@refusal("step's code uses")
def whether_an_argument_is_a_view() -> Row:
    step = lambda x, given: x * (2 if given._base is None else 3)
    return given(lambda turn: torch.ones(6)[:3] if turn % 2 else torch.ones(3), step)


@refusal("storage_offset")
def where_an_argument_begins() -> Row:
    return given(lambda turn: torch.arange(6.0)[turn % 3 : turn % 3 + 3], lambda x, given: x * given.storage_offset())


@row
def the_strides_of_an_argument() -> Row:
    step = lambda x, given: x * given.stride()[0] + (1 if given.is_contiguous() else 2)
    return given(lambda turn: torch.ones(3, 3).t() if turn % 2 else torch.ones(3, 3), step)


@refusal("step's code uses")
def an_inference_tensor() -> Row:
    def make(turn: int) -> Any:
        with torch.inference_mode(turn % 2 == 0):
            return torch.ones(3)

    return given(make, lambda x, given: x * (2 if given.is_inference() else 3))


@refusal("step's code uses")
def a_conjugate() -> Row:
    def make(turn: int) -> Any:
        made = torch.full((3,), 1j)
        return made.conj() if turn % 2 else made

    return given(make, lambda x, given: x * (2 if given.is_conj() else 3))


@row
def a_tensor_in_an_attribute_of_a_tensor() -> Row:
    def make(turn: int) -> Any:
        made = torch.ones(3)
        made.scale = torch.full((3,), 1.0 + turn)
        return made

    return given(make)


@row
def one_tensor_whose_attribute_changes() -> Row:
    held = torch.ones(3)
    held.scale = 1.0
    return Row(lambda x, given: x * given.scale, attribute(held, "scale"), args=lambda turn: (torch.ones(3), held))


@row
def a_size() -> Row:
    return given(lambda turn: torch.Size([turn + 1, 2]), lambda x, given: x * len(given) * given[0])


@row
def dtypes_and_devices() -> Row:
    values = [torch.float32, torch.float64, torch.float32, torch.int32]
    return given(lambda turn: values[turn], lambda x, given: x.to(given))


@row
def a_module_given_in_turn() -> Row:
    values = [Scaled() for _ in range(4)]
    for turn, value in enumerate(values):
        value.scale = 1.0 + turn
    return given(lambda turn: values[turn])


@row
def an_object_with_slots_each_time() -> Row:
    class Slotted:
        __slots__ = ("scale",)

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    def make(turn: int) -> Any:
        made = Slotted()
        made.scale = 1.0 + turn  # type: ignore[attr-defined]
        return made

    return given(make)


@row
def a_complex_with_an_attribute() -> Row:
    class Own(complex):
        pass

    return given(lambda turn: worded(Own, 1j, 1.0 + turn))


@row
def bytes_with_an_attribute() -> Row:
    class Own(bytes):
        pass

    return given(lambda turn: worded(Own, b"a", 1.0 + turn))


@row
def a_nested_config_as_an_argument() -> Row:
    config: Any = {"model": {"scales": [1.0, "a"]}, "other": types.SimpleNamespace(scale="a")}
    step = lambda x, given: x * len(given["model"]["scales"][1]) * len(given["other"].scale)

    def change(turn: int) -> None:
        config["model"]["scales"][1] = "a" * (turn + 1)
        config["other"].scale = "b" * (turn + 2)

    return Row(step, change, args=lambda turn: (torch.ones(3), config))


@row
def an_equal_keyword() -> Row:
    step = lambda x, **more: x * more["given"].scale
    compiled_step = lambda x, given: step(x, given=given)
    return given(lambda turn: Equal(1.0 + turn), compiled_step)
