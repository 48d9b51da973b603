"""The compiler is made of small parts: no class in it has many attributes, or a long line of ancestors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

COMPILE = Path(__file__).parents[1] / "src/undertow/_src/compile"
MOST_ATTRIBUTES = 25
MOST_ANCESTORS = 3
AT_WORK: set[str] = set()  # classes that are being taken apart

Known = dict[str, dict[str, ast.ClassDef]]  # classes by file and name


def classes_of(folder: Path) -> Known:
    found: Known = {}
    for path in folder.rglob("*.py"):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
        found[str(path.relative_to(folder))] = {node.name: node for node in nodes}
    return found


def own_attributes(node: ast.ClassDef) -> set[str]:
    """Fields that are annotated in the class, and all that methods assign to self."""
    fields = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and "ClassVar" not in ast.unparse(each)
    }
    stored = [each for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)]
    return fields | {each.attr for each in stored if isinstance(each.value, ast.Name) and each.value.id == "self"}


def ancestors(node: ast.ClassDef, file: str, known: Known) -> dict[str, ast.ClassDef]:
    """Classes of the folder that a class inherits from: of its own file first, else of the one that has the name."""
    found: dict[str, ast.ClassDef] = {}
    for base in node.bases:
        name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
        homes = [file] if name in known[file] else [each for each in known if name in known[each]]
        for home in homes:
            if known[home][name] is not node:
                found[name] = known[home][name]
                found |= ancestors(known[home][name], home, known)
    return found


def too_large(folder: Path) -> list[str]:
    known = classes_of(folder)
    said = []
    for file, classes in known.items():
        for name, node in classes.items():
            above = ancestors(node, file, known)
            attributes = own_attributes(node).union(*map(own_attributes, above.values()))
            if name not in AT_WORK and len(attributes) > MOST_ATTRIBUTES:
                said.append(f"{file}: {name} has {len(attributes)} attributes")
            if name not in AT_WORK and len(above) > MOST_ANCESTORS:
                said.append(f"{file}: {name} has {len(above)} ancestors")
    return said


def test_no_class_in_compile_is_large() -> None:
    assert not too_large(COMPILE)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class A:\n def f(self):\n" + "".join(f"  self.a{n} = {n}\n" for n in range(26)), "A has 26 attributes"),
        ("class A:\n" + "".join(f" a{n}: int\n" for n in range(26)), "A has 26 attributes"),
        (
            "class A:\n" + "".join(f" a{n}: int\n" for n in range(25)) + "class B(A):\n b: int\n",
            "B has 26 attributes",
        ),
        ("class A: pass\nclass B(A): pass\nclass C(B): pass\nclass D(C): pass\nclass E(D): pass", "E has 4 ancestors"),
    ],
)
def test_a_large_class_is_found(source: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(source)
    assert too_large(tmp_path) == [f"file.py: {said}"]
