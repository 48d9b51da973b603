"""Write what `make tables` takes from an installed PyTorch: operators, the signatures undertow reads, public names.

python -m tools.aten_tables                  # refresh the tables
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


def _names(space: object) -> list[str]:
    """Return the names of functions and properties: public ones, operators, and those of private operators."""
    operators = {
        line.partition(" ")[0] for line in next(SOURCE.rglob("aten_operators.txt")).read_text().splitlines()[1:]
    }
    names = [name for name in dir(space) if name[0] != "_" or name in operators]
    return sorted(
        name for name in names if not isinstance(getattr(space, name, None), type(sys)) and not name.isupper()
    )


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
    public = [f"{kind}: {' '.join(_names(found))}" for kind, found in (("torch", torch), ("Tensor", torch.Tensor))]
    heading = f"# The functions of PyTorch {torch.__version__.partition('+')[0]} and the methods of its tensors."
    (Path(__file__).parent / "torch_names.txt").write_text("\n".join([heading, *public]) + "\n", encoding="utf-8")
    kept = (_listed("aten_schemas.txt") & signatures.keys()) | set(added)
    _rewrite("aten_schemas.txt", [signatures[name] for name in sorted(kept)])


if __name__ == "__main__":
    main(sys.argv[1:])
