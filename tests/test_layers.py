"""The layers of docs/how_it_works.md, kept true: the source is parsed, not imported.

A file imports only from its own layer or the ones above it in the table, and the files import each other in no circle.
Inside functions only optional dependencies are imported.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src"

# A name stands for that module and, for a package, for everything in it that is not named itself.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("_src.base",),
    (
        "_src.types",
        "return_types",
        "torch_version",
        "_compile",
        "_sources",
        "_logging",
        "utils._dtype_abbrs",
    ),
    ("_src.arrays",),
    ("_src.rules",),
    (
        "_src.tensor.core",
        "_src.tensor.typed_storage",
        "_src.tensor.lazy_conj",
        "storage",
    ),
    ("_src.random",),
    ("_src.overrides.torch_function", "overrides"),
    ("_src.engine", "autograd.anomaly_mode", "autograd.function", "autograd.graph"),
    ("_src.ops", "_src.arrays.tensor"),
    (
        "_src.tensor",
        "_tensor_str",
        "linalg",
        "special",
        "fft",
        "random",
        "_lowrank",
        "_lobpcg",
        "_linalg_utils",
        "quasirandom",
        "signal",
    ),
    (
        "_src.engine.gradcheck",
        "_src.engine.transforms",
        "_src.engine.profiling",
        "autograd.forward_ad",
        "autograd.functional",
        "autograd.gradcheck",
    ),
    ("_tensor", "autograd"),
    (
        "_src.overrides",
        "_src.compat",
        "_C",
        "_VF",
        "_guards",
        "_subclasses",
        "classes",
        "_classes",
        "_utils_internal",
        "_ops",
        "ops",
        "library",
        "_library",
        "futures",
        "types",
        "version",
        "cuda",
        "xpu",
        "accelerator",
        "backends",
        "__config__",
        "__future__",
        "functional",
        "compiler",
        "autograd.profiler",
        "autograd.profiler_legacy",
        "autograd.profiler_util",
        "autograd._functions",
    ),
    (
        "nn",
        "func",
        "_functorch",
        "optim",
        "serialization",
        "testing",
        "utils",
        "amp",
        "cpu",
        "cuda.amp",
        "cuda._utils",
        "jit",
        "_utils",
        "_C._functorch",
        "_dynamo",
        "_vmap_internals",
        "sparse",
        "distributions",
        "_jit_internal",
        "hub",
        "multiprocessing",
        "profiler",
        "onnx",
        "fx",
        "_inductor",
        "masked",
        "_prims_common",
        "_refs",
        "_weights_only_unpickler",
        "_src.tensor.meta_tensor",
        "_src.distributed",
    ),
    ("_src.compile", "distributed"),
    ("why", "cli", "pretend", "_src.compat.child_processes", "__main__"),
    ("",),
)
LAYER_OF = {f"undertow.{name}".rstrip("."): number for number, layer in enumerate(LAYERS) for name in layer}

REQUIRED = {"numpy", "ml_dtypes"}
OPTIONAL = {
    "PIL", "scipy", "jax", "jaxlib", "torch", "tqdm", "safetensors", "rich", "tabulate",
    "lightning", "pytorch_lightning", "transformers",
}  # fmt: skip
# Packages that exist only for an optional dependency may import it at their top.
MADE_FOR = {
    "undertow._src.arrays.jax": "jax",
    "undertow._src.compile": "jax",
    "undertow._src.distributed": "jax",
    "undertow.utils.tensorboard": "tensorboard",
    "undertow.why.integrations.pytest_plugin": "pytest",
}


class Import(NamedTuple):
    """One imported module or name, and where it is imported."""

    target: str
    line: int
    in_function: bool


@cache
def modules() -> dict[str, Path]:
    """Every module of the source by its dotted name."""
    found = {}
    for path in sorted((SOURCE / "undertow").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def layer(module: str) -> int | None:
    """The layer of the longest prefix of `module` that the table names; the package itself only re-exports."""
    if module in ("undertow", "undertow._src"):
        return LAYER_OF["undertow"]
    while module not in ("undertow", "undertow._src"):
        if module in LAYER_OF:
            return LAYER_OF[module]
        module = module.rpartition(".")[0]
    return None


@cache
def imports(module: str) -> tuple[Import, ...]:
    """What the file imports when it runs: blocks under `if TYPE_CHECKING` do not count."""
    path = modules()[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(_imports(ast.parse(path.read_text()), package, in_function=False))


def _imports(tree: ast.AST, package: str, in_function: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, in_function)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*parents, source] if source else parents)
            for alias in node.names:
                name = f"{source}.{alias.name}"
                yield Import(name if name in modules() else source, node.lineno, in_function)
        else:
            inside = in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _imports(node, package, inside)


def place(module: str, line: int) -> str:
    return f"{modules()[module].relative_to(SOURCE.parent)}:{line}"


def test_every_file_has_a_layer() -> None:
    strangers = [name for name in modules() if layer(name) is None]
    assert not strangers, f"say in tests/test_layers.py which layer these belong to: {strangers}"


def test_imports_go_to_earlier_layers() -> None:
    wrong = []
    for module in modules():
        for item in imports(module):
            if not item.target.startswith("undertow"):
                continue
            mine, theirs = layer(module), layer(item.target)
            if mine is not None and theirs is not None and theirs > mine:
                wrong.append(f"{place(module, item.line)} (layer {mine}) imports {item.target} (layer {theirs})")
    assert not wrong, "\n".join(wrong)


def test_imports_make_no_circle() -> None:
    done: set[str] = set()
    for start in modules():
        path: list[tuple[str, Iterator[str]]] = [(start, iter(_needs(start)))]
        open_now = [start]
        while path:
            module, rest = path[-1]
            following = next((name for name in rest if name not in done), None)
            if following is None:
                done.add(module)
                path.pop()
                open_now.pop()
                continue
            assert following not in open_now, " → ".join([*open_now[open_now.index(following) :], following])
            path.append((following, iter(_needs(following))))
            open_now.append(following)


def _needs(module: str) -> list[str]:
    """The modules that must be imported before `module`; a package file that names its own parts is not a circle."""
    targets = {item.target for item in imports(module)} & set(modules())
    return sorted(targets - {module})


def test_imports_inside_functions_are_optional_dependencies() -> None:
    wrong = [
        f"{place(module, item.line)} imports {item.target} inside a function"
        for module in modules()
        for item in imports(module)
        if item.in_function and item.target.partition(".")[0] not in OPTIONAL
    ]
    assert not wrong, "\n".join(wrong)


def test_only_required_dependencies_are_imported_at_the_top() -> None:
    wrong = []
    for module in modules():
        made_for = next(
            (needs for owner, needs in MADE_FOR.items() if re.fullmatch(rf"{owner}([._].*)?", module)), None
        )
        for item in imports(module):
            root = item.target.partition(".")[0]
            if root == "undertow" or root in sys.stdlib_module_names or root in REQUIRED or root == made_for:
                continue
            if not item.in_function:
                wrong.append(f"{place(module, item.line)} imports {root} at its top")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_importing_undertow_does_not_import(library: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import undertow; print({library!r} in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
