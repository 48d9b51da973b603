"""Models of the effects analyzer, each alone: a stand-in for the analyzer, one operation, what it gives and records."""

from __future__ import annotations

import ast
import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow._src.compile import effects
from undertow._src.compile.effects.analyzer import Analyzer
from undertow._src.compile.effects.call_graph import Position, Worklist
from undertow._src.compile.effects.effect_log import EffectLog
from undertow._src.compile.effects.heap import ITEMS, Heap
from undertow._src.compile.effects.models import MODELS, attributes, builtin_functions, c_methods, items, reflection
from undertow._src.compile.effects.models.callbacks import call_back
from undertow._src.compile.effects.models.operators import arithmetic, call_special_methods
from undertow._src.compile.effects.values import (
    EMPTY,
    MADE,
    NONE,
    ONE,
    OPAQUE,
    PLAIN,
    TENSOR,
    CallArguments,
    Concrete,
    Fresh,
    Method,
)


class StandIn:
    """What a model sees of an analyzer: a real log and a real heap; calls and other operations are only noted."""

    def __init__(self) -> None:
        self.at = Position()
        self.log = EffectLog(self.at)
        self.heap = Heap(self.at, Worklist())
        self.decides = False
        self.called: list[Any] = []

    def once(self, key: Any, make: Callable[[], Any], *keep: Any) -> Any:
        return make()

    def call(self, called: Any, arguments: CallArguments, node: Any) -> Any:
        for atom in called:
            self.call_atom(atom, arguments, node)
        return ONE[PLAIN]

    def call_atom(self, atom: Any, arguments: CallArguments, node: Any) -> Any:
        self.called.append(atom)
        return ONE[PLAIN]

    def call_function(self, function: Any, arguments: CallArguments, node: Any) -> Any:
        self.called.append(function)
        return ONE[MADE]

    def protocols(self, value: Any, node: Any, others: Any = EMPTY, names: Any = ()) -> Any:
        return EMPTY

    def elements(self, value: Any, node: Any) -> Any:
        return EMPTY.union(*[items.iterate(self, atom, node) for atom in value])

    def attribute(self, atom: Any, name: str, node: Any) -> Any:
        return attributes.read(self, atom, name, node)

    @property
    def effects(self) -> list[str]:
        return [effect.what for effect in self.at.notes.effects.values()]

    @property
    def reads(self) -> list[str]:
        return [read.name for read in self.at.notes.reads.values()]


@pytest.fixture
def analysis() -> Any:
    return StandIn()


def one(value: Any, name: str = "x") -> Any:
    return frozenset([Concrete(value, name)])


class Box:
    shared = 3

    def __init__(self) -> None:
        self.size = 2

    @property
    def double(self) -> int:
        return self.size * 2

    def __getattr__(self, name: str) -> int:
        return 7

    def __add__(self, other: Any) -> Any:
        return self


def test_an_attribute_from_outside_is_found_and_read_again_by_its_path(analysis):
    box = Box()
    (found,) = attributes.read(analysis, Concrete(box, "box"), "size", None)
    assert (found.value, found.name, analysis.reads) == (2, "box.size", ["box.size"])
    box.size = 5
    assert found.get() == 5


def test_attributes_that_run_code_call_it(analysis):
    for name, code in (("double", Box.double.fget), ("missing", Box.__getattr__)):
        assert attributes.read(analysis, Concrete(Box(), "box"), name, None) == ONE[MADE]
        assert analysis.called.pop() is code


def test_what_is_written_to_an_attribute_is_found_besides_its_value(analysis):
    box = Concrete(Box(), "box")
    attributes.store(analysis, box, "size", ONE[TENSOR], None)
    assert analysis.effects == ["sets `box.size`"]
    assert attributes.read(analysis, box, "size", None) == one(2, "box.size") | ONE[TENSOR]


def test_an_attribute_of_a_tensor_is_another_tensor_or_plain(analysis):
    assert attributes.read(analysis, TENSOR, "shape", None) == ONE[PLAIN]
    assert attributes.read(analysis, TENSOR, "grad", None) == frozenset([TENSOR, NONE])
    assert attributes.read(analysis, TENSOR, "no_such_thing", None) == ONE[OPAQUE]
    assert analysis.effects == ["reads `.no_such_thing` of a tensor"]


def test_iterating_over_a_list_from_outside_gives_its_elements_and_notes_its_contents(analysis):
    tensor = torch.ones(2)
    found = items.iterate(analysis, Concrete([tensor, 3], "xs"), None)
    assert found == one(tensor) | ONE[PLAIN]
    assert analysis.reads == ["xs"]


def test_iterating_over_an_iterator_takes_from_it(analysis):
    items.iterate(analysis, Concrete(iter([1]), "batches"), None)
    assert analysis.effects == ["takes from the iterator `batches`"]


def test_an_item_is_found_by_a_known_key_and_what_was_stored_besides(analysis):
    table = Concrete({"a": 1, "b": torch.ones(1)}, "table")
    assert items.read(analysis, table, "a", one("a"), None) == one(1)
    items.store(analysis, table, one("a"), ONE[TENSOR], None)
    assert analysis.effects == ["stores into `table`"]
    (effect,) = analysis.at.notes.effects.values()
    assert effect.entries == {"a"}
    assert TENSOR in items.read(analysis, table, "a", one("a"), None)


@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("append", "appends to `xs`"),
        ("pop", "takes from `xs`"),
        ("copy", None),
        ("__len__", None),
        ("sort", "sorts `xs`"),
    ],
)
def test_methods_of_a_list_from_outside_change_it_or_read_it(analysis, method, what):
    c_methods.call_method(analysis, Method(method, Concrete([1], "xs")), CallArguments([ONE[TENSOR]]), None)
    assert analysis.effects == ([] if what is None else [what])


def test_what_is_appended_to_a_list_from_outside_is_among_its_elements(analysis):
    xs = Concrete([], "xs")
    c_methods.call_method(analysis, Method("append", xs), CallArguments([ONE[TENSOR]]), None)
    assert analysis.heap.written(xs.value, ITEMS) == ONE[TENSOR]
    assert TENSOR in items.iterate(analysis, xs, None)


def test_a_list_that_the_code_made_holds_what_is_appended_without_effect(analysis):
    (made,) = analysis.heap.fresh("node", list, EMPTY)
    c_methods.call_method(analysis, Method("append", made), CallArguments([ONE[TENSOR]]), None)
    assert (analysis.effects, analysis.at.notes.changes) == ([], {made})
    assert TENSOR in made.elements()


@pytest.mark.parametrize(("method", "writes"), [("add_", True), ("add", False), ("backward", True), ("item", False)])
def test_methods_of_tensors_write_by_their_names(analysis, method, writes):
    c_methods.call_method(analysis, Method(method, TENSOR), CallArguments([]), None)
    assert analysis.at.notes.writes is writes


def test_builtins_are_found_by_their_ids(analysis):
    def call(function: Any, *arguments: Any) -> Any:
        return builtin_functions.FUNCTIONS[id(function)](analysis, function, CallArguments(list(arguments)), None)

    box = Box()
    assert call(len, one([1])) == ONE[PLAIN]
    assert call(getattr, one(box), one("size")) == one(2)
    assert call(type, one(box)) == one(Box)
    assert call(max, ONE[TENSOR], ONE[PLAIN]) == frozenset([MADE, PLAIN])
    (pairs,) = call(enumerate, one([torch.ones(1)]))
    (pair,) = pairs.elements()
    assert isinstance(pair, Fresh) and pair.items is not None and pair.items[0] == ONE[PLAIN]
    call(sorted, one([2, 1]), ONE[PLAIN])
    assert analysis.effects == []


def test_the_key_of_a_builtin_is_called(analysis):
    key = Concrete(lambda value: value, "key")
    arguments = CallArguments([one([1, 2])], {"key": frozenset([key])})
    builtin_functions.FUNCTIONS[id(max)](analysis, max, arguments, None)
    assert analysis.called == [key]


def test_reads_by_names_that_are_not_known_cannot_be_guarded(analysis):
    reflection.FUNCTIONS[id(eval)](analysis, eval, CallArguments([ONE[PLAIN]]), None)
    reflection.FUNCTIONS[id(len)](analysis, len, CallArguments([one(globals(), "globals()")]), None)
    assert analysis.effects == ["calls `eval` with code that is not known", "goes through all of `globals()`"]
    assert {effect.field for effect in analysis.at.notes.effects.values()} == {"reflection"}


def test_operators_compute_tensors_arrays_and_numbers(analysis):
    node = ast.parse("a + b", mode="eval").body
    assert arithmetic(analysis, [ONE[TENSOR], ONE[PLAIN]], node) == frozenset([MADE, PLAIN])
    (made,) = arithmetic(analysis, [one(np.ones(2))], node)
    assert isinstance(made, Fresh)
    assert arithmetic(analysis, [ONE[OPAQUE]], node) == ONE[OPAQUE]


def test_special_methods_of_users_classes_are_called(analysis):
    assert call_special_methods(analysis, one(Box()), None, EMPTY, ("__add__", "__mul__")) == ONE[MADE]
    assert analysis.called == [Box.__add__]


def test_functions_among_arguments_are_called_back(analysis):
    hook = Concrete(lambda gradient: None, "hook")
    call_back(analysis, CallArguments([ONE[TENSOR], frozenset([hook])]), None)
    assert analysis.called == [hook]


def test_an_analyzer_takes_its_models_from_a_table():
    asked = []

    def attribute(analysis: Any, atom: Any, name: str, node: Any) -> Any:
        asked.append(name)
        return MODELS.attribute(analysis, atom, name, node)

    def function(x: Any) -> Any:
        return x.relu().sum()

    analyzer = Analyzer(models=dataclasses.replace(MODELS, attribute=attribute))
    assert analyzer.analyze(Concrete(function, "function"), CallArguments([ONE[TENSOR]])) == ONE[MADE]
    assert set(asked) == {"relu", "sum"}


def _classes(folder: pathlib.Path) -> dict[str, tuple[list[str], set[str]]]:
    """Return the classes in a folder: the names of their bases, and their instance attributes."""
    found = {}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                stores = (part for part in ast.walk(node) if isinstance(part, ast.Attribute))
                names = {
                    part.attr
                    for part in stores
                    if isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self"
                }
                fields = {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}  # type: ignore[union-attr]
                bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
                found[node.name] = bases, names | fields
    return found


@pytest.mark.parametrize("room", ["effects", "splitting"])
def test_classes_are_small_and_no_chains(room):
    classes = _classes(pathlib.Path(effects.__file__).parents[1] / room)
    assert len(classes) > 5
    for name, (bases, names) in classes.items():
        ancestors: dict[str, None] = {}
        waiting = [base for base in bases if base in classes]
        while waiting:
            base = waiting.pop()
            ancestors[base] = None
            waiting += [each for each in classes[base][0] if each in classes]
        attributes_of = names.union(*[classes[base][1] for base in ancestors])
        assert len(ancestors) <= 3 and len(attributes_of) <= 25, name
