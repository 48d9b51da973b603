"""Changes between calls in places that a look at attributes and entries does not find: keys of dicts, values in C, what
functions have cached, classes of tensors. Each row is a factor that a step and a hook multiply with, and a change of it."""

from __future__ import annotations

import ctypes
import decimal
import functools
import threading
import xml.etree.ElementTree as ElementTree
from collections import ChainMap, UserDict, UserList
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn

Row = tuple[Callable[[], Any], Callable[[], Any]]  # returns the factor; changes it
rows: dict[str, Callable[[], Row]] = {}
FIRST_CHANGE = 3  # of six calls


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor


def row(build: Callable[[], Row]) -> Callable[[], Row]:
    rows[build.__name__] = build
    return build


@row
def an_object_that_is_a_key() -> Row:
    key = Scale(2.0)
    table = {key: 1}
    return lambda: next(each.factor for each in table), lambda: setattr(key, "factor", 3.0)


@row
def an_object_in_a_tuple_that_is_a_key() -> Row:
    key = Scale(2.0)
    table = {("scale", key): 1}
    return lambda: next(each[1].factor for each in table), lambda: setattr(key, "factor", 3.0)


@row
def a_number_in_c() -> Row:
    number = ctypes.c_double(2.0)
    return lambda: number.value, lambda: setattr(number, "value", 3.0)


@row
def an_array_in_c() -> Row:
    numbers = (ctypes.c_double * 2)(1.0, 2.0)
    return lambda: numbers[1], lambda: numbers.__setitem__(1, 3.0)


@row
def a_structure_in_c() -> Row:
    class Options(ctypes.Structure):
        _fields_ = [("scale", ctypes.c_double)]

    options = Options(2.0)
    return lambda: options.scale, lambda: setattr(options, "scale", 3.0)


@row
def an_attribute_of_an_object_in_c() -> Row:
    element = ElementTree.fromstring("<options>2.0</options>")
    return lambda: float(element.text or ""), lambda: setattr(element, "text", "3.0")


@row
def a_dict_of_an_object_in_c() -> Row:
    element = ElementTree.fromstring("<options scale='2.0'/>")
    return lambda: float(element.attrib["scale"]), lambda: element.attrib.update(scale="3.0")


@row
def a_polynomial_of_numpy() -> Row:
    line = np.poly1d([1.0, 1.0])
    return lambda: float(line(1.0)), lambda: line.coeffs.__setitem__(0, 2.0)


@row
def a_function_made_elementwise() -> Row:
    scale = [2.0]
    scaled = np.vectorize(lambda value: value * scale[0])
    return lambda: float(scaled(1.0)), lambda: scale.__setitem__(0, 3.0)


@row
def the_precision_of_decimals() -> Row:
    decimal.getcontext().prec = 28
    return lambda: float(decimal.Decimal(2) / decimal.Decimal(3)), lambda: setattr(decimal.getcontext(), "prec", 2)


@row
def containers_of_python_in_containers() -> Row:
    inner = UserList([2.0])
    outer = UserDict(a=ChainMap({"b": UserList([UserDict(c=inner)])}))
    return lambda: outer["a"]["b"][0]["c"][0], lambda: inner.__setitem__(0, 3.0)


@row
def the_docstring_of_a_function() -> Row:
    def noted() -> None:
        """2.0"""

    return lambda: float(noted.__doc__ or ""), lambda: setattr(noted, "__doc__", "3.0")


@row
def the_name_of_a_class() -> Row:
    kind = type("Ab", (), {})
    return lambda: len(kind.__name__), lambda: setattr(kind, "__name__", "Abc")


@row
def the_class_of_a_tensor() -> Row:
    class Double(torch.Tensor):
        def factor(self) -> float:
            return 2.0

    class Triple(torch.Tensor):
        def factor(self) -> float:
            return 3.0

    tensor: Any = torch.ones(1).as_subclass(Double)
    return lambda: tensor.factor(), lambda: setattr(tensor, "__class__", Triple)


@row
def an_attribute_of_the_class_of_a_tensor() -> Row:
    class Scaled(torch.Tensor):
        scale = 2.0

        def factor(self) -> float:
            return self.scale

    tensor: Any = torch.ones(1).as_subclass(Scaled)
    return lambda: tensor.factor(), lambda: setattr(Scaled, "scale", 3.0)


@pytest.mark.parametrize("name", rows)
@pytest.mark.parametrize("where", ["step", "hook"])
def test_it_is_seen(name: str, where: str) -> None:
    def build() -> Case:
        factor, change = rows[name]()
        weight = nn.Parameter(torch.ones(2))
        if where == "hook":
            weight.register_hook(lambda gradient: gradient * factor())

        def step(x: Any) -> Any:
            weight.grad = None
            (weight * x).sum().backward()
            return weight.grad * factor() if where == "step" else weight.grad.clone()

        def between(turn: int) -> None:
            if turn == FIRST_CHANGE - 1:
                change()

        return Case(step, weight, args=lambda turn: (torch.ones(2) * (turn + 1),), between=between)

    with decimal.localcontext():
        agree(build, steps=6, programs=4)


@pytest.mark.parametrize("fills", [False, True])
def test_a_cache_that_is_emptied(fills: bool) -> None:
    """Until then, what was cached counts, and not what the function would return."""

    def build() -> Case:
        options = {"scale": 2.0}

        @functools.lru_cache
        def scale() -> float:
            return options["scale"]

        def between(turn: int) -> None:
            if turn == 1:
                options["scale"] = 3.0
            if turn == 3:
                scale.cache_clear()
                if fills:
                    scale()

        return Case(lambda x: x * scale(), args=lambda turn: (torch.ones(2),), between=between)

    agree(build, steps=6, programs=3)


def test_other_results_in_a_cache_count_for_nothing() -> None:
    @functools.lru_cache(maxsize=4)
    def double(number: int) -> float:
        return number * 2.0

    step = torch.compile(lambda x: x * double(2))
    for number in range(12):
        double(number)
        assert step(torch.ones(2)).tolist() == [4, 4]
    assert len(torch.compile.explain(step).data[0]["programs"]) <= 2


def test_each_thread_has_values_of_its_own() -> None:
    here = threading.local()
    here.scale = 2.0
    weight = nn.Parameter(torch.ones(2))
    weight.register_hook(lambda gradient: gradient * getattr(here, "scale", 5.0))
    seen: list[Any] = []

    @torch.compile
    def step(x: Any) -> Any:
        weight.grad = None
        (weight * x).sum().backward()
        return weight.grad * getattr(here, "scale", 5.0)

    def call() -> None:
        seen.extend(step(torch.ones(1)).tolist())

    for turn in range(5):
        if turn == 2:
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        else:
            call()
    assert seen == [4, 4, 4, 4, 25, 25, 4, 4, 4, 4]


class TestTensorSubclasses:
    """A class of tensors whose functions note down what is called: compiling calls nothing that eager code does not."""

    def noting(self, log: list[str]) -> Any:
        class Noting(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs or {})

        return Noting

    def test_as_an_argument(self) -> None:
        def build() -> Case:
            log: list[str] = []
            kind = self.noting(log)
            return Case(
                lambda x: (x * 2).as_subclass(torch.Tensor), log=log, args=lambda _: (torch.ones(2).as_subclass(kind),)
            )

        agree(build, steps=4)

    def test_as_a_leaf(self) -> None:
        def build() -> Case:
            log: list[str] = []
            weight = torch.ones(2).as_subclass(self.noting(log)).requires_grad_()
            log.clear()

            def step(x: Any) -> Any:
                (x * weight).sum().backward()

            return Case(step, log=log, args=lambda turn: (torch.ones(2),))

        agree(build, steps=4)
