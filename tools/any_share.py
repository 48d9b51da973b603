"""Count how many annotations say `Any`, room by room.

python -m tools.any_share [folder ...]    # below src/undertow
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "undertow"
ROOMS = {
    "engine": ("autograd", "_src/engine"), "rules": ("_src/rules",), "ops": ("_src/ops",), "nn": ("nn",),
}  # fmt: skip


def found_in(tree: ast.AST) -> Iterator[ast.expr]:
    """Give the annotations of parameters, results and variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation


def is_any(annotation: ast.expr) -> bool:
    """Tell whether an annotation leaves everything open: `Any`, and not `list[Any]`."""
    return ast.unparse(annotation).strip("'\"") in ("Any", "Any | None", "typing.Any")


def share(*folders: str) -> tuple[int, int]:
    """Return how many annotations in some folders are `Any`, and how many there are."""
    counts = [0, 0]
    for folder in folders:
        for path in sorted((SOURCE / folder).rglob("*.py")):
            found = [is_any(each) for each in found_in(ast.parse(path.read_text(encoding="utf-8")))]
            counts[0] += sum(found)
            counts[1] += len(found)
    return counts[0], counts[1]


def main(folders: list[str]) -> None:
    for room, parts in ({folder: (folder,) for folder in folders} or ROOMS).items():
        vague, all_of_them = share(*parts)
        print(f"{room:12} {vague:6} of {all_of_them:6}  {vague / max(1, all_of_them):.0%}")


if __name__ == "__main__":
    main(sys.argv[1:])
