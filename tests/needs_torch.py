"""Which test files need real PyTorch, the oracle: they are left out where it is not installed (`make test-pythons`)."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names of the modules that a file may import, and of what it takes from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def needs_torch(path: Path) -> bool:
    """Return whether a test file imports torch, directly or through other files of the tests."""
    names = list(_imported(ast.parse(path.read_text(encoding="utf-8"))))
    if any(name.split(".")[0] == "torch" for name in names):
        return True
    own = (ROOT / Path(*name.split(".")).with_suffix(".py") for name in names if name.startswith("tests."))
    return any(needs_torch(helper) for helper in own if helper.exists() and helper != path)
