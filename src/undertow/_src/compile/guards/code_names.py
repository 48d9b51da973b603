"""The globals, attributes and imports that code names, read from its bytecode, so that no source is needed."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

_BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_COMPARED = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
_BY_INSTRUCTION = {
    "BINARY_SUBSCR": ("__getitem__",), "BINARY_SLICE": ("__getitem__",), "STORE_SUBSCR": ("__setitem__",),
    "STORE_SLICE": ("__setitem__",), "UNARY_NEGATIVE": ("__neg__",), "UNARY_INVERT": ("__invert__",),
    "UNARY_POSITIVE": ("__pos__",), "CALL_INTRINSIC_1": ("__pos__",), "CONTAINS_OP": ("__contains__",),
    "GET_ITER": ("__iter__",), "UNPACK_SEQUENCE": ("__iter__",), "MATCH_CLASS": ("isinstance",),
}  # fmt: skip
_BY_BUILTIN: dict[str, tuple[str, ...]] = {
    name: (f"__{name}__",) for name in ("abs", "bool", "complex", "float", "int", "iter", "len", "reversed", "round")
}
_LOOPING = ("all", "any", "dict", "enumerate", "filter", "list", "map", "max", "min", "set", "sorted", "tuple", "zip")
_BY_BUILTIN |= dict.fromkeys(_LOOPING, ("__iter__",))
_BY_BUILTIN |= {
    "divmod": ("__divmod__", "__rdivmod__"), "pow": ("__pow__", "__rpow__"), "sum": ("__add__", "__iter__", "__radd__"),
}  # fmt: skip
_ON_GLOBALS = {
    "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL",
}  # fmt: skip
# Code with one of these names looks attributes up by strings.
BY_STRING = frozenset("getattr hasattr attrgetter methodcaller __getattribute__ getattr_static".split())


class Import(NamedTuple):
    """One import statement: `from ..name import names` has a level of 2."""

    name: str
    level: int
    names: tuple[str, ...]

    def module(self, namespace: dict[str, Any]) -> str:
        """Return the full name of the module, for code in a namespace."""
        if not self.level:
            return self.name
        package = namespace.get("__package__") or ""
        parents = package.split(".")[: len(package.split(".")) - self.level + 1]
        return ".".join([*parents, self.name] if self.name else parents)

    def loaded(self, namespace: dict[str, Any]) -> Iterator[str]:
        """Return the keys of `sys.modules` that the statement depends on."""
        parts = self.module(namespace).split(".")
        yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))
        package = sys.modules.get(".".join(parts))
        yield from (f"{'.'.join(parts)}.{name}" for name in self.names if not hasattr(package, name))


class Names(NamedTuple):
    """What a function, and those written inside it, may look up."""

    globals: set[str]
    all: set[str]  # names of globals and attributes
    stored: set[str]  # globals that the code sets
    imports: set[Import]
    methods: set[str]  # special methods that operators and builtins call
    strings: set[str]  # which may name attributes


_read: WeakKeyDictionary[types.CodeType, Names] = WeakKeyDictionary()  # every trace asks for the same functions


def names_of(code: types.CodeType) -> Names:
    """Return the names in a function's code, which the caller does not change."""
    names = _read.get(code)
    if names is None:
        names = _read[code] = _names_in(code)
    return names


def _names_in(code: types.CodeType) -> Names:
    found = list(dis.get_instructions(code))
    names = Names(
        {each.argval for each in found if each.opname in _ON_GLOBALS},
        set(code.co_names),
        {each.argval for each in found if each.opname == "STORE_GLOBAL"},
        set(),
        set(_by_syntax(found)),
        set(_strings_in(code.co_consts)),
    )
    for place, each in enumerate(found):
        if each.opname == "IMPORT_NAME":
            level, given = found[place - 2].argval, found[place - 1].argval
            names.imports.add(Import(each.argval, level or 0, tuple(given or ())))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for mine, inner in zip(names, names_of(constant)):
                mine |= inner  # type: ignore[operator]
    return names


def _strings_in(constants: Iterable[Any]) -> Iterator[str]:
    """Yield strings among constants, part by part: `attrgetter("weight.grad")`."""
    for each in constants:
        if isinstance(each, str):
            yield from each.split(".")
        elif isinstance(each, (tuple, frozenset)):
            yield from _strings_in(each)


def _by_syntax(found: list[dis.Instruction]) -> Iterator[str]:
    """Yield the names that operators, builtins and patterns look up implicitly."""
    for each in found:
        yield from _BY_INSTRUCTION.get(each.opname, ())
        if each.opname == "BINARY_OP":
            name = _BINARY.get(each.argrepr.removesuffix("="))
            if name is None:  # from Python 3.14 on, a subscript
                yield "__getitem__"
            else:
                yield from (f"__{before}{name}__" for before in ("i" if each.argrepr.endswith("=") else "", "", "r"))
        elif each.opname == "COMPARE_OP":
            name = _COMPARED.get(each.argrepr.removeprefix("bool(").removesuffix(")"))
            yield from (f"__{other}__" for other in _COMPARED.values()) if name is None else (f"__{name}__",)
        elif each.opname in _ON_GLOBALS:
            yield from _BY_BUILTIN.get(each.argval, ())
