"""The syntax tree of a function that is already loaded, found exactly or not at all."""

from __future__ import annotations

import ast
import linecache
import weakref
from types import CodeType, FunctionType
from typing import Any, NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class _File(NamedTuple):
    lines: list[str]
    definitions: dict[int, list[Definition]]  # by the line where they begin, decorators included
    found: dict[int, tuple[weakref.ref[CodeType], Definition | None]]  # found definitions, by the id of the code
    rewritten: dict[int, ast.FunctionDef]  # rewritten definitions, by the id of the original


_files: dict[str, _File] = {}


_made: weakref.WeakKeyDictionary[FunctionType, Definition] = weakref.WeakKeyDictionary()


def made_of(function: FunctionType, node: Definition) -> None:
    """Record the definition of a function that is in no file."""
    _made[function] = node


def definition(function: FunctionType) -> Definition | None:
    """Return the node that `function` was compiled from, or the one that replaces it.

    None without source, or with source that has changed since.
    """
    if function in _made:
        return _made[function]
    file, found = _written_as(function)
    return found if file is None or found is None else file.rewritten.get(id(found), found)


def original(function: FunctionType) -> Definition | None:
    """Return the node that a function was compiled from."""
    return _made[function] if function in _made else _written_as(function)[1]


def rewrite(function: FunctionType, node: ast.FunctionDef | None) -> None:
    """Replace a function's definition by an equivalent one; None: restore its own."""
    file, found = _written_as(function)
    if file is not None and found is not None:
        file.rewritten.pop(id(found), None)
        if node is not None:
            file.rewritten[id(found)] = node


def _written_as(function: FunctionType) -> tuple[_File | None, Definition | None]:
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        return None, None
    file = _files.get(code.co_filename)
    if file is None or (file.lines is not lines and file.lines != lines):
        file = _files[code.co_filename] = _File(lines, _definitions(lines), {}, {})
    known = file.found.get(id(code))
    if known is None or known[0]() is not code:  # code with probes holds much, and lasts as long as a program
        known = file.found[id(code)] = weakref.ref(code), _search(file, code)
    return file, known[1]


def _search(file: _File, code: CodeType) -> Definition | None:
    candidates = [node for node in file.definitions.get(code.co_firstlineno, ()) if _could_be(node, code)]
    if len(candidates) > 1:
        candidates = _around(candidates, code)
    if len(candidates) != 1 or not _names(code) <= _written(candidates[0]):
        return None
    return candidates[0]


def _definitions(lines: list[str]) -> dict[int, list[Definition]]:
    found: dict[int, list[Definition]] = {}
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, []).append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found.setdefault(first, []).append(node)
    return found


def _could_be(node: Definition, code: CodeType) -> bool:
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    arguments = node.args
    parameters = [argument.arg for argument in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return name == code.co_name and [_plain(name) for name in parameters] == [_plain(name) for name in taken]


def _around(candidates: list[Definition], code: CodeType) -> list[Definition]:
    """Return the lambdas whose body contains every column of the code, the innermost first: several may share a line."""
    places: Any = [place for place in code.co_positions() if None not in place and place[2:] != (0, 0)]
    if not places:  # Python 3.12 gives none to a lambda that returns a constant
        return [node for node in candidates if _same_constant(node, code)][:1]
    holding = []
    for node in candidates:
        first, last = (node.body, node.body) if isinstance(node, ast.Lambda) else (node.body[0], node.body[-1])
        begin: Any = first.lineno, first.col_offset
        end: Any = last.end_lineno, last.end_col_offset
        if all(begin <= (p[0], p[2]) and (p[1], p[3]) <= end for p in places):
            holding.append((begin, node))
    if not holding:
        return candidates
    innermost = max(begin for begin, node in holding)
    return [node for begin, node in holding if begin == innermost]


def _same_constant(node: Definition, code: CodeType) -> bool:
    """Return whether a lambda, compiled separately, has the same code."""
    if not isinstance(node, ast.Lambda):
        return False
    constants = compile(ast.Expression(node), code.co_filename, "eval", dont_inherit=True).co_consts
    made = [each for each in constants if isinstance(each, CodeType)][-1]  # after those of its defaults
    return made.co_code == code.co_code and repr(made.co_consts) == repr(code.co_consts)


def _plain(name: str) -> str:
    """Return a private name without its class: `_Hook__count` and `__count` are one."""
    return (
        name[name.index("__", 1) :] if name.startswith("_") and "__" in name[1:] and not name.endswith("__") else name
    )


def _names(code: CodeType) -> set[str]:
    """Return the names that the code looks up, without those beginning with @, which a rewriter of assertions adds."""
    names = {_plain(name) for name in code.co_names if not name.startswith("@")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


# Names that the compiler looks up or sets on its own; some came with Python 3.12, 3.13 and 3.14.
_IMPLIED = {"AssertionError", "__name__", "__module__", "__qualname__", "__doc__", "__annotations__", "__class__",
            "__classcell__", "__type_params__", "__firstlineno__", "__static_attributes__", "__classdictcell__",
            "__annotate_func__"}  # fmt: skip
_REWRITTEN = {"_call_reprcompare", "_format_boolop", "_saferepr", "_should_repr_global_name", "_format_explanation",
              "_format_assertmsg", "locals"}  # fmt: skip


def _written(node: Definition) -> set[str]:
    names = set(_IMPLIED)
    asserts = False
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            names.add(_plain(part.id))
        elif isinstance(part, ast.Attribute):
            names.add(_plain(part.attr))
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            for alias in part.names:
                names.update(alias.name.split("."), (alias.name, alias.asname or ""))
            if isinstance(part, ast.ImportFrom) and part.module:
                names.add(part.module)
        elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(part.name)
        elif isinstance(part, ast.MatchClass):
            names.update(part.kwd_attrs)
        asserts = asserts or isinstance(part, ast.Assert)
    return names | _REWRITTEN if asserts else names
