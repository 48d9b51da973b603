"""Exactly one line of undertow calls a user's hook, in `hooks.fire`, and nothing is ever put in that function's place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType

import pytest

import undertow
from undertow._src.base import hooks

SOURCE = Path(undertow.__file__).parent
A_HOOK = re.compile(r"(\w+_)?hook")  # names under which code holds one
HOOKS = re.compile(r"hooks?\b|_hooks")  # in expressions that give several


def hooks_called(source: str) -> Iterator[tuple[int, str]]:
    """Calls of what a name says is a hook, or of what comes out of a map or list of hooks: line and text.

    A function or class of that name which the file defines or imports is none, and a call without arguments follows a weak
    reference: every hook is given something.
    """
    tree = ast.parse(source)
    known = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    held: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            known |= {each.asname or each.name for each in node.names}
        elif isinstance(node, (ast.For, ast.comprehension)) and HOOKS.search(ast.unparse(node.iter)):
            held |= {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        elif isinstance(node, ast.arg) and A_HOOK.fullmatch(node.arg):
            known.discard(node.arg)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (node.args or node.keywords):
            function = node.func
            by_name = isinstance(function, ast.Name) and function.id not in known
            if (
                (by_name and (A_HOOK.fullmatch(function.id) or function.id in held))
                or (isinstance(function, ast.Attribute) and function.attr in ("hook", "pack_hook", "unpack_hook"))
                or ast.unparse(function) == "self.__wrapped__"  # as stand-ins of `why` have it
                or (isinstance(function, ast.Subscript) and HOOKS.search(ast.unparse(function)))
            ):
                yield node.lineno, ast.unparse(node)


def rebinds_fire(source: str) -> Iterator[tuple[int, str]]:
    """Assignments to an attribute `fire` of something called `hooks`, also by setattr."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if node.attr == "fire" and ast.unparse(node.value).endswith("hooks"):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            if (
                len(node.args) > 1
                and ast.unparse(node.args[0]).endswith("hooks")
                and "fire" in ast.unparse(node.args[1])
            ):
                yield node.lineno, ast.unparse(node)


def everywhere(find: Callable[[str], Iterator[tuple[int, str]]]) -> list[tuple[str, int, str]]:
    return [
        (path.relative_to(SOURCE).as_posix(), *found)
        for path in sorted(SOURCE.rglob("*.py"))
        if "hook" in (source := path.read_text(encoding="utf-8"))
        for found in find(source)
    ]


def test_one_line_calls_a_users_hook() -> None:
    found = everywhere(hooks_called)
    assert [(file, text) for file, _, text in found] == [("_src/base/hooks.py", "hook(*args)")]
    code = hooks.fire.__code__
    assert found[0][1] in {line for _, _, line in code.co_lines()}


def test_fire_is_one_function() -> None:
    assert isinstance(hooks.fire, FunctionType) and hooks.fire.__module__ == hooks.__name__
    assert everywhere(rebinds_fire) == []


@pytest.mark.parametrize(
    "source",
    [
        "def run(hook, grad):\n    return hook(grad)",
        "class A:\n    def run(self, x):\n        return self.hook(x)",
        "for each in module._forward_hooks.values():\n    each(module, x)",
        "for _, each in hooks.items():\n    each(g)",
        "answers = [each(g) for each in tuple(self.post_hooks)]",
        "saved = self.pack_hook(tensor)",
        "self._forward_hooks[key](module, x)",
        "def hook(x): ...\n\n\ndef run(hook, x):\n    return hook(*x)",
        "def run(pre_hook, x):\n    return pre_hook(x)",
        "class A:\n    def __call__(self, *args):\n        return self.__wrapped__(*args)  # a hook",
    ],
)
def test_another_line_that_calls_one_is_found(source: str) -> None:
    assert len([*hooks_called(source)]) == 1


@pytest.mark.parametrize(
    "source",
    [
        "hooks.fire(hook, grad)",
        "hooks.fire(self.hook, grad, decided=True)",
        "handle = x.register_hook(hook)",
        "for reference in hooks:\n    reference()",
        "from undertow.why.questions import hook\n\nhook(handle)",
        "for hook in hooks:\n    hooks.fire(hook, g)",
    ],
)
def test_other_lines_are_not(source: str) -> None:
    assert [*hooks_called(source)] == []


@pytest.mark.parametrize("source", ["hooks.fire = f", "base.hooks.fire, x = f, 1", 'setattr(hooks, "fire", f)'])
def test_a_line_that_replaces_fire_is_found(source: str) -> None:
    assert len([*rebinds_fire(source)]) == 1
