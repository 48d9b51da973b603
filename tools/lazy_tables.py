"""Write the tables that say in which file a function, a method or an array function is found when it is first used.

python -m tools.lazy_tables              # part of `make tables`
python -m tools.lazy_tables --own cube   # and take in a function that PyTorch lacks

A function of `ops` belongs to `undertow` if PyTorch's `torch` has its name, and is a method if PyTorch's Tensor has it and
no `...Methods` class does. Entries of other rooms are written by hand and stay as they are. The source is parsed, not
imported, so that a table that is wrong can be written again; files that make functions in a loop keep what the table has.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "tools" / "torch_names.txt"
# Where two files define a function, this one has the form that `torch` has; the other is nn.functional's.
FORMS_OF_TORCH = "native"

Table = dict[str, set[str]]


def tables(source: Path, own: Iterable[str] = ()) -> dict[Path, str]:
    """Return the text of each file below a source folder that holds tables."""
    package = source / "undertow"
    table, namespace = package / "_src/base/lazy_table.py", package / "_src/arrays/numpy/namespace.py"
    held = _dictionaries(table)
    ops = _path(source, next(home for home, names in held["HOMES"].items() if "relu" in names.split())).parent
    functions, methods = _torch_names()
    functions, methods = functions | set(own), methods | set(own)
    prefix = f"{_module(source, ops)}."
    early = _imported(package / "__init__.py") | held["RENAMED"].keys()
    homes = _functions(source, ops, functions - early - _elsewhere(held["HOMES"], prefix))
    homes |= _made_in_loops(source, held["HOMES"])
    of_classes = {name for path in package.rglob("*.py") if "Methods" in _text(path) for name in _methods_in(path)}
    plain = _functions(source, ops, methods - of_classes - _elsewhere(held["METHODS"], prefix))
    text = _replaced(_text(table), "HOMES", _with(held["HOMES"], homes, prefix))
    text = _replaced(text, "METHODS", _with(held["METHODS"], _families(source, ops, held["METHODS"]) | plain, prefix))
    late = {home: " ".join(sorted(names)) for home, names in _array_functions(source, namespace).items()}
    return {table: text, namespace: _replaced(_text(namespace), "_LATE", late)}


def _torch_names() -> tuple[set[str], set[str]]:
    """Return the names of PyTorch's functions and of its tensors' methods."""
    lines = _text(NAMES).splitlines()[1:]
    functions, methods = (set(line.partition(":")[2].split()) for line in lines)
    return functions, methods


# --- what the source has


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


def _module(source: Path, path: Path) -> str:
    return ".".join(path.relative_to(source).with_suffix("").parts)


def _path(source: Path, module: str) -> Path:
    return source.joinpath(*module.split(".")).with_suffix(".py")


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    """Give the names of functions, and of what is assigned: `exp, exp_ = pair(rules.exp)`."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            parts = [part for target in node.targets for part in getattr(target, "elts", [target])]
            yield from (part.id for part in parts if isinstance(part, ast.Name))


def _imported(path: Path) -> set[str]:
    nodes = [node for node in _tree(path).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in nodes for alias in node.names}


def _methods_in(path: Path, family: str = "Methods") -> set[str]:
    """Return the names that a file's `...Methods` classes have, or one of them."""
    classes = [node for node in _tree(path).body if isinstance(node, ast.ClassDef) and node.name.endswith(family)]
    return {name for node in classes for name in _defined(node.body)} - {"__slots__", "__hash__"}


def _functions(source: Path, ops: Path, wanted: set[str]) -> Table:
    """Return which file of `ops` has each of the wanted functions."""
    homes: dict[str, str] = {}
    for path in sorted(ops.glob("*.py"), key=lambda path: path.stem == FORMS_OF_TORCH):
        homes |= dict.fromkeys(set(_defined(_tree(path).body)) & wanted, _module(source, path))
    found: Table = {}
    for name, home in homes.items():
        found.setdefault(home, set()).add(name)
    return found


def _families(source: Path, ops: Path, held: dict[str, str]) -> Table:
    """Return the members of the `...Methods` classes of `ops`, and of those that the table has from other rooms."""
    keys = {home for home in held if ":" in home and _path(source, home.partition(":")[0]).exists()}
    for path in ops.glob("*.py"):
        kinds = [node.name for node in _tree(path).body if isinstance(node, ast.ClassDef)]
        keys |= {f"{_module(source, path)}:{kind}" for kind in kinds if kind.endswith("Methods")}
    return {key: _methods_in(_path(source, key.partition(":")[0]), key.partition(":")[2]) for key in keys}


def _array_functions(source: Path, namespace: Path) -> Table:
    """Return the functions that rules ask `xp` for and that files beside NumPy's namespace have."""
    asked = {name for path in (source / "undertow").rglob("*.py") for name in re.findall(r"\bxp\.(\w+)", _text(path))}
    here = _imported(namespace) | set(_defined(_tree(namespace).body))
    homes: dict[str, str] = {}
    for path in sorted(namespace.parent.glob("*.py")):
        for name in set(_defined(_tree(path).body)) & asked - here:
            homes.setdefault(name, _module(source, path))
    found: Table = {}
    for name, home in homes.items():
        found.setdefault(home, set()).add(name)
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# --- the tables


def _dictionaries(path: Path) -> dict[str, dict[str, str]]:
    """Return the tables of a file that says nothing else."""
    values: dict[str, dict[str, str]] = {}
    exec(compile(_tree(path), str(path), "exec"), values)
    return values


def _elsewhere(held: dict[str, str], prefix: str) -> set[str]:
    """Return the names of a table that are found in other rooms."""
    return {name for home, names in held.items() if not home.startswith(prefix) for name in names.split()}


def _with(held: dict[str, str], found: Table, prefix: str) -> dict[str, str]:
    """Return a table with what was found in place of what it had of those files; other entries stay."""
    kept = {home: names for home, names in held.items() if not home.startswith(prefix) and home not in found}
    return kept | {home: " ".join(sorted(names)) for home, names in found.items() if names}


def _made_in_loops(source: Path, held: dict[str, str]) -> Table:
    """Return what a table has of files that make functions in a loop: their names can't be read in the source."""
    paths = {home: _path(source, home) for home in held if ":" not in home}
    return {
        home: set(held[home].split()) for home, path in paths.items() if path.exists() and "globals()" in _text(path)
    }


def _replaced(text: str, name: str, table: dict[str, str]) -> str:
    entries = "".join(_entry(home, names) for home, names in sorted(table.items()))
    return re.sub(rf"^{name} = {{\n.*?^}}\n", lambda _: f"{name} = {{\n{entries}}}\n", text, flags=re.M | re.S)


def _entry(home: str, names: str) -> str:
    """Return a line of a table, wrapped at 120 characters."""
    lines, line = [], f'    "{home}": "'
    words = names.split()
    for number, word in enumerate(words):
        last = number == len(words) - 1
        if len(line) + len(word) + 2 > 120:
            lines.append(f'{line}"\n')
            line = '    "'
        line += word if last else f"{word} "
    return "".join(lines) + f'{line}",\n'


def main(own: list[str]) -> None:
    for path, text in tables(ROOT / "src", own).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[2:] if sys.argv[1:2] == ["--own"] else [])
