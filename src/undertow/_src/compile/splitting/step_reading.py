"""What is known of the code of a step and of its split hooks: effects, statements, variables."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from undertow._src.compile.effects import (
    TOO_LARGE,
    Called,
    Coverage,
    Effect,
    Exactly,
    Frame,
    Kind,
    Limits,
    Notes,
    Reading,
    TupleOf,
    combined,
    kind_of,
    purity,
    read,
)
from undertow._src.compile.effects.values import (
    GROUPS,
    MADE,
    MODULE,
    NONE,
    OPTIMIZER,
    OWN,
    PLAIN,
    TENSOR,
    TENSORS,
    Atom,
    Concrete,
)
from undertow._src.compile.guards.code_names import BY_STRING, names_of
from undertow._src.compile.guards.places import contents_of
from undertow._src.compile.guards.walking import Walk
from undertow._src.compile.splitting.statements import Statements, loaded_by
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer

FEW_STEPS = 12_000  # of the analyzer: if a step takes more, only code that runs is read
_MOST_READINGS = 24
ANY, OLDER = "*", "@"  # any attribute; before an attribute of an object from before the step
_BUILTIN = frozenset([list, dict, tuple, set, frozenset])
_NO_OBJECTS = frozenset([PLAIN, NONE, TENSOR, MADE, TENSORS, OWN, MODULE, OPTIMIZER, GROUPS])
# Code with one of these names may look at all attributes of an object, or at variables of a function.
_WHOLE = frozenset(
    "vars __dict__ __slots__ asdict astuple getmembers methodcaller __getstate__ __reduce_ex__ pickle __closure__ "
    "cell_contents __defaults__ __kwdefaults__ getclosurevars f_locals locals dir".split()
)
WITHOUT_NAMES = frozenset("== repr str print format".split())  # what calls methods that classes are given
_COMPARED = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn)


class StepReading:
    """The readings of a step and of hooks, each read once, until its code is split."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], coverage: Coverage | None
    ) -> None:
        self.function = getattr(function, "__func__", function)
        self.coverage = coverage  # the code that ran in traces, if there is too much to read
        given = [kind_of(arg) for arg in args], {name: kind_of(arg) for name, arg in kwargs.items()}
        self._calls: dict[Any, Called] = {None: (function, *given)}  # the readings: of the step, and of hooks by key
        self._readings: dict[Any, Reading] = {}
        self._known: dict[int, Statements] = {}  # by the ids of functions
        self._variables_of: dict[Any, dict[str, set[Atom]]] = {}
        self._times_read, self._reads_all = 0, False
        self._of_step: tuple[Reading | None, set[int]] = None, set()  # a reading of the step, and its functions
        self._read()

    # --- reading

    def _read(self) -> None:
        """Read the code that has not been read. A hook on the host is not traced, so it is read in full."""
        self._variables_of = {}
        for key, call in self._calls.items():
            if key not in self._readings:
                self._readings[key] = self._read_step(call) if key is None else read(*call)
        self.whole = combined([self._readings[key] for key in self._calls])

    def _read_step(self, call: Called) -> Reading:
        """Read all that the step can reach or, if that is too much, only what ran in traces, which is nothing at first."""
        if self.coverage is None:
            found = read(*call, decides=True, limits=Limits(None if self._reads_all else FEW_STEPS))
            if self._reads_all or _is_complete(found):
                return found
            self.coverage = Coverage()
        return read(*call, decides=True, limits=Limits(None, self.coverage))

    def read_step_again(self) -> None:
        """Read the step again, with its current coverage."""
        self._readings.pop(None, None)
        self._read()

    def read_more(self) -> None:
        """Read the step again, after more of it has run. After too many times, read all that it can reach."""
        self._times_read += 1
        if self._times_read > _MOST_READINGS:
            self.coverage, self._reads_all = None, True
        self.read_step_again()

    def replace_statements(self, node: ast.FunctionDef) -> None:
        """Read a definition again whose statements were split."""
        for key, known in self._known.items():
            if known.node is node:
                self._known[key] = Statements(known.function, known.node)
        self._readings = {key: reading.renewed(node) for key, reading in self._readings.items()}
        self._read()

    @property
    def is_complete(self) -> bool:
        """Whether all of the code was read. If not, the effects of statements are unknown."""
        return _is_complete(self.whole)

    # --- hooks that are split

    def is_of_step(self, function: FunctionType) -> bool:
        """Whether the step itself calls a function, and not only hooks."""
        if self._of_step[0] is not self.step:
            self._of_step = self.step, {id(frame.function) for frame in self.step.frames}
        return id(function) in self._of_step[1]

    def step_code(self) -> set[int]:
        """Return the ids of the code of the step and of all that it calls, without hooks."""
        return {id(frame.function.__code__) for frame in self.step.frames}

    def add_hooks(self, calls: list[Called]) -> None:
        """Read hooks as well."""
        self._calls.update({_key(call): call for call in calls})
        self._read()

    @property
    def step(self) -> Reading:
        """The reading of the step alone."""
        return self._readings[None]

    def calls_of_hooks(self) -> list[Called]:
        """Return the hooks that are read, with the kinds of their arguments."""
        return [call for key, call in self._calls.items() if key is not None]

    def of_hook(self, call: Called) -> Reading:
        """Return the reading of a hook that is read."""
        return self._readings[_key(call)]

    def effects_of_hook(self, call: Called) -> tuple[Effect, ...]:
        """Return the effects of a hook that was read."""
        return self.of_hook(call).effects.effects

    def forget(self, codes: set[int], calls: list[Called]) -> None:
        """Forget some code (by its id), and hooks that call it, because it has been rewritten."""
        self._known = {key: known for key, known in self._known.items() if id(known.function.__code__) not in codes}
        for call in calls:
            del self._readings[_key(call)]

    def hooks_of(self, is_one: Callable[[Any], bool]) -> list[Any]:
        """Return the keys of the hooks for which `is_one` is true."""
        return [key for key, call in self._calls.items() if key is not None and is_one(call[0])]

    def remove_hooks(self, keys: list[Any]) -> None:
        """Read the code without some hooks."""
        for key in keys:
            del self._calls[key]
            self._readings.pop(key, None)
        self._read()

    def reading_of(self, call: Called) -> tuple[Any, Reading] | None:
        """Return the key and the reading of a hook, if it was read."""
        key = _key(call)
        return (key, self._readings[key]) if key in self._calls else None

    # --- statements and variables

    def statements(self, frame: Frame) -> Statements | None:
        """Return the statements of a function that was read, if they can be moved."""
        if not isinstance(frame.owner, FunctionType) or not isinstance(frame.node, ast.FunctionDef):
            return None
        if purity.origin_of(frame.function) == "own":
            return None
        if id(frame.function) not in self._known:
            self._known[id(frame.function)] = Statements(frame.function, frame.node)
        return self._known[id(frame.function)]

    def statements_at(self, frame: Frame, notes: Notes) -> Statements | None:
        """Return the statements of a function, if the statement of some notes is among them."""
        found = self.statements(frame)
        return found if found is not None and all(id(each) in found.paths for each in notes.path) else None

    def statements_of(self, function: FunctionType) -> Statements:
        """Return the statements of a function that were found before."""
        return self._known[id(function)]

    def known_statements(self) -> list[Statements]:
        """Return the statements of all functions that were found so far."""
        return list(self._known.values())

    def all_statements(self) -> list[Statements]:
        """Return the statements of all functions that were read."""
        for frame in self.whole.frames:
            self.statements(frame)
        return self.known_statements()

    def of_same_code(self, statements: Statements) -> list[Statements]:
        """Return the statements of a function, and of others made by the same definition with other closures."""
        return [known for known in self.all_statements() if known.node is statements.node]

    def variables(self, statements: Statements) -> dict[str, set[Atom]]:
        """Return the possible values of a function's variables."""
        if not self._variables_of:
            for frame in self.whole.frames:
                known = self._variables_of.setdefault((frame.function, frame.node), {})
                for name, value in frame.scope.values.items():
                    known.setdefault(name, set()).update(value)
        return self._variables_of.get((statements.function, statements.node), {})

    # --- what the code looks at

    def compares_types(self, *kinds: str) -> bool:
        """Return whether the code compares exact types (`type(n) is int`), so that stand-ins can't be used."""
        frames = [frame for frame in self.whole.frames if purity.origin_of(frame.function) != "own"]
        parts = [part for frame in frames for part in ast.walk(frame.node)]
        tests = [part for part in parts if isinstance(part, ast.Compare) or _is_call_of(part, "issubclass")]
        return any("type" in names and not names.isdisjoint(kinds) for names in map(_names_in, tests)) or any(
            isinstance(each, ast.Name) and each.id in kinds  # `kind is int`
            for part in tests
            for each in ast.iter_child_nodes(part)
        )

    def reads_variable(self, hook: Any, value: Any) -> bool:
        """Whether the function around a hook reads the closure variable that holds the value, or whose cell it is."""
        names_of = getattr(getattr(hook, "__code__", None), "co_freevars", ())
        cells = zip(names_of, getattr(hook, "__closure__", None) or ())
        names = {name for name, cell in cells if cell is value or contents_of(cell) is value}
        return any(
            name in frame.function.__code__.co_cellvars and name in loaded_by(frame.node)
            for frame in self.whole.frames
            if isinstance(frame.owner, FunctionType)  # and not for a function inside it
            for name in names
        )

    def loaded_without(self, left_out: set[int]) -> set[str]:
        """Return the variables that the step reads, and as `.name` the attributes of objects that it may have made, without
        those in some statements; see `OLDER`. Code that may look at all attributes of an object adds `ANY`.
        """
        names = set[str]()
        for frame in self.step.frames:
            if purity.origin_of(frame.function) == "own":
                continue
            waiting: list[ast.AST] = [*frame.node.body] if isinstance(frame.node.body, list) else [frame.node.body]
            while waiting:
                part = waiting.pop()
                if id(part) in left_out or isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                    continue
                waiting += _looked_at(part)
                names |= _loaded_at(part, frame)
        words = {name.lstrip(f".{OLDER}") for name in names}
        return names if words.isdisjoint(_WHOLE) else names | {ANY}

    def names_without(self, left_out: set[int]) -> dict[CodeType, set[str]]:
        """Return the names in the code of functions, of attributes too, without those in some statements."""
        return {known.function.__code__: known.names_without(left_out) for known in self._known.values()}

    def all_names(self) -> set[str]:
        """Return all names in the code of functions, of attributes too, and strings by which it looks these up."""
        names = set[str]().union(*self.names_without(set()).values())
        if names.isdisjoint(BY_STRING):
            return names
        return names.union(*[names_of(known.function.__code__).strings for known in self._known.values()])

    def names_in_packages(self, walk: Walk) -> None:
        """Add the names that code of packages looked up in traces."""
        for code, namespace in self.coverage.packages.values() if self.coverage is not None else ():
            walk.look_up_for(code, namespace)

    def arrays_read(self) -> set[int]:
        """Return the ids of NumPy arrays from outside whose numbers the code reads."""
        return {id(place.owner) for place in self.whole.effects.places if isinstance(place.owner, np.ndarray)}


def _looked_at(part: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of code that it evaluates: a container to which it only writes is none."""
    for each in ast.iter_child_nodes(part):
        if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store) and not isinstance(part, ast.AugAssign):
            yield from [*ast.iter_child_nodes(each.value), each.slice]
        else:
            yield each


def _loaded_at(part: ast.AST, frame: Frame) -> set[str]:
    """Return the names that a part of code loads, without those of its own parts; see `StepReading.loaded_without`."""
    if isinstance(part, ast.AugAssign):
        return _loaded_by_target(part.target)
    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
        function = frame.function
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        known = contents_of(cells[part.id]) if part.id in cells else function.__globals__.get(part.id)
        return {part.id, ANY} if isinstance(known, (operator.attrgetter, operator.methodcaller)) else {part.id}
    if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load):
        return {f"{OLDER if _is_from_outside(part.value, frame) else '.'}{part.attr}"}
    if isinstance(part, ast.Call) and BY_STRING & {_last_name(each) for each in (part.func, *part.args)}:
        if len(part.args) > 1 and _is_from_outside(part.args[0], frame):
            return set()
        strings = [each.value for each in part.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        return {f".{name}" for each in strings for name in each.split(".")} if strings else {ANY}
    if isinstance(part, ast.MatchClass):
        return {f".{name}" for name in part.kwd_attrs} | ({ANY} if part.patterns else set())
    if isinstance(part, ast.Compare) and any(isinstance(each, _COMPARED) for each in part.ops):
        return {"=="}
    return {"format"} if isinstance(part, ast.FormattedValue) else set()


def _loaded_by_target(target: ast.AST) -> set[str]:
    if isinstance(target, ast.Attribute):
        return {f".{target.attr}"}
    return {target.id} if isinstance(target, ast.Name) else set()


def _last_name(expression: ast.AST) -> str | None:
    return getattr(expression, "attr", getattr(expression, "id", None))


def _is_from_outside(expression: ast.AST, frame: Frame) -> bool:
    """Return whether an expression is a variable with no other values than objects from outside, tensors and containers."""
    if not isinstance(expression, ast.Name):
        return False
    held = frame.scope.values.get(expression.id)
    if not held:
        known = frame.function.__globals__.get(expression.id)
        return isinstance(known, (ModuleType, type, Module, Optimizer, TensorCore))
    return all(
        type(each) is Concrete or getattr(each, "kind", None) in _BUILTIN or each in _NO_OBJECTS for each in held
    )


def _is_complete(reading: Reading) -> bool:
    return not any(effect.what == TOO_LARGE for effect in reading.effects.effects)


def _key(call: Called) -> Any:
    """Return the key of a hook's call: the hook, and the kinds of its arguments."""

    def known(kind: Kind) -> Any:
        if isinstance(kind, Exactly):
            return id(kind.value)
        return tuple(map(known, kind.kinds)) if isinstance(kind, TupleOf) else kind

    hook, args, kwargs = call
    return id(hook), *map(known, args), *[(name, known(kind)) for name, kind in kwargs.items()]


def _is_call_of(part: ast.AST, name: str) -> bool:
    return isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == name


def _names_in(expression: ast.AST) -> set[str]:
    parts = [*ast.walk(expression)]
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names | {part.attr for part in parts if isinstance(part, ast.Attribute)}
