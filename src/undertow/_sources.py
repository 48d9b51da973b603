"""`torch._sources`: the source of a function, and its syntax tree."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent
from typing import Any, NamedTuple


def get_source_lines_and_file(obj: Any, error_msg: str | None = None) -> tuple[list[str], int, str | None]:
    """Return the lines that define an object, the number of the first, and the file; OSError if there is no source."""
    try:
        filename = inspect.getsourcefile(obj)
        lines, number = inspect.getsourcelines(obj)
    except OSError as error:
        raise OSError(
            f"Can't get source for {obj}. TorchScript compiles from source: "
            "keep its .py file where it was imported from." + (f"\n{error_msg}" if error_msg else "")
        ) from error
    return lines, number, filename


def normalize_source_lines(sourcelines: list[str]) -> list[str]:
    """Return the lines, each indented at least as far as the `def`."""
    start = next((nr for nr, line in enumerate(sourcelines) if line.lstrip().startswith("def")), None)
    if start is None:
        return sourcelines
    margin = sourcelines[start].split("def")[0]
    return [margin + line.removeprefix(margin) for line in sourcelines]


class ParsedDef(NamedTuple):
    """A function's syntax tree, source and location."""

    ast: ast.Module
    source: str
    filename: str | None
    file_lineno: int


def parse_def(fn: Any) -> ParsedDef:
    """Return the syntax tree of one function."""
    lines, number, filename = get_source_lines_and_file(fn)
    source = "".join(normalize_source_lines(lines))
    tree = ast.parse(dedent(source))
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise RuntimeError(f"Expected a single top-level function: {filename}:{number}")
    return ParsedDef(tree, source, filename, number)
