"""Write the tables of PyTorch's operators from an installed PyTorch: their overloads, and the signatures undertow reads.

python -m tools.aten_tables                  # refresh both tables
python -m tools.aten_tables add.Tensor ...   # and take these signatures in, too
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

SOURCE = Path(__file__).parent.parent / "src" / "undertow"


def _rewrite(name: str, lines: list[str]) -> None:
    """Replace all of a table but its first line, which says what it is."""
    path = next(SOURCE.rglob(name))
    heading = path.read_text(encoding="utf-8").splitlines()[0]
    path.write_text("\n".join([heading, *lines]) + "\n", encoding="utf-8")


def _listed(name: str) -> set[str]:
    """Return the operators whose signatures a table holds."""
    text = next(SOURCE.rglob(name)).read_text(encoding="utf-8")
    return {line.partition("(")[0] for line in text.splitlines()[1:]}


def main(added: list[str]) -> None:
    overloads: dict[str, list[str]] = {}
    signatures: dict[str, str] = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, signature = str(schema).partition("::")
        if namespace == "aten":
            overloads.setdefault(schema.name.removeprefix("aten::"), []).append(schema.overload_name or "default")
            signatures[signature.partition("(")[0]] = signature
    if unknown := sorted(set(added) - signatures.keys()):
        sys.exit(f"PyTorch {torch.__version__} has no operator {', '.join(unknown)}: name overloads as in add.Tensor")
    _rewrite("aten_operators.txt", [" ".join([name, *overloads[name]]) for name in sorted(overloads)])
    kept = (_listed("aten_schemas.txt") & signatures.keys()) | set(added)
    _rewrite("aten_schemas.txt", [signatures[name] for name in sorted(kept)])


if __name__ == "__main__":
    main(sys.argv[1:])
