"""Write the `.pyi` files of undertow's public modules, which tell editors and type checkers what is imported late.

python -m tools.stubs    # part of `make tables`
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tools.stub_forms import COMPILE, FUNCTIONS, METHODS, RESULT_OF
from tools.stub_types import Form, Parameter, annotation_type, forms_of, says_all
from undertow import Tensor, return_types

SOURCE = Path(__file__).resolve().parent.parent / "src"
HEADING = "# Written by `make tables` from the modules themselves: do not edit.\n"
# Modules of functions, with what their operators' names begin with; and packages that import their files late.
MODULES = {
    "undertow": "", "undertow.nn.functional": "", "undertow.linalg": "linalg_", "undertow.fft": "fft_",
    "undertow.special": "special_",
}  # fmt: skip
PACKAGES = (
    "undertow.distributions", "undertow.func", "undertow.masked", "undertow.nn", "undertow.nn.modules",
    "undertow.nn.utils", "undertow.optim", "undertow.utils", "undertow.utils.data",
)  # fmt: skip

# Where the words of annotations come from; those of undertow from the files that define them, so that type checkers
# need not go around in circles through the package.
WORDS = {
    "collections.abc": "Callable Iterable Iterator Sequence",
    "typing": "Any Literal Protocol Self TypeVar overload",
    "numpy.typing": "NDArray",
    "typing_extensions": "TypeIs",
    "builtins": "_bool _complex _float _int",
    "undertow": "Generator Size Tensor UntypedStorage device dtype layout memory_format return_types "
    "_device _dtype _layout",
    "undertow.autograd.graph": "Node",
    "undertow.types": "Device FileLike Number _size",
    "undertow.utils.hooks": "RemovableHandle",
}
VARIABLES = {"_T": "", "_R": "", "_F": ", bound=Callable[..., Any]"}
# What a name of Python's is called where PyTorch gives the name to something else.
SHADOWED = {
    "undertow": "bool complex float int",
    "undertow._tensor": "bool complex device dtype float int layout",
}


def stubs() -> dict[Path, str]:
    """Return the text of every stub."""
    bodies = {name: list(_module(name)) for name in (*MODULES, *PACKAGES)}
    bodies |= {"undertow._tensor": list(_tensor()), "undertow.return_types": list(_results())}
    return {_path(name): _text(body) for name, body in bodies.items()}


def _text(body: list[str]) -> str:
    """Return a whole stub: its imports, one line for each module, and then the rest."""
    imported: dict[str, list[str]] = {}
    rest = "".join(line for line in body if not line.startswith("from "))
    used = set(re.findall(r"\w+", rest))
    own = {line.split()[-1] for line in body if line.startswith("from ")} | set(re.findall(r"^class (\w+)", rest, re.M))
    variables = {each: options for each, options in VARIABLES.items() if each in used}
    used |= {word for options in variables.values() for word in re.findall(r"\w+", "TypeVar" + options)}
    for home, words in WORDS.items():
        for word in words.split():
            if word in used - own:
                found, text = _defining(home, word)
                imported.setdefault(found, []).append(text)
    for line in body:
        if line.startswith("from "):
            home, names = line.removeprefix("from ").rstrip().split(" import ")
            imported.setdefault(home, []).append(names)
    lines = [f"from {home} import {', '.join(names)}\n" for home, names in imported.items() if names]
    lines += [f'{each} = TypeVar("{each}"{options})\n' for each, options in variables.items()]
    return HEADING + "".join(lines) + rest


def _defining(home: str, word: str) -> tuple[str, str]:
    """Return the file that defines a word of annotations, and how it is imported from there."""
    module = importlib.import_module(home)
    plain = word if hasattr(module, word) else word.strip("_")
    if not home.startswith("undertow") or isinstance(getattr(module, plain), ModuleType):
        return home, _as(plain, word)
    while found := (_late_homes(module) | _imports(module.__name__)).get(plain):
        if found[0] == module.__name__:
            break
        module, plain = importlib.import_module(found[0]), found[1]
    return module.__name__, _as(plain, word)


def _as(name: str, word: str) -> str:
    return name if name == word else f"{name} as {word}"


def _path(name: str) -> Path:
    """Return where a module's stub is in this checkout, which has to be the one that is imported."""
    file = Path(importlib.import_module(name).__file__ or "")
    if not file.is_relative_to(SOURCE):
        sys.exit(f"tools.stubs describes {SOURCE}, but Python imports undertow from {file.parent}: set PYTHONPATH=src")
    return file.with_suffix(".pyi")


# --- modules


def _module(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    late, early = _late_homes(module), _imports(name)
    for each in sorted({*late, *early, *_defined(name)}):
        found = getattr(module, each, None)
        home, attribute = late.get(each) or early.get(each) or (name, each)
        if isinstance(found, ModuleType) and getattr(found, "__file__", None) is None:  # a row of compat/name_tables.py
            yield f"{each}: Any\n"
        elif isinstance(found, ModuleType):
            yield _import(*found.__name__.rpartition(".")[::2], each)
        elif isinstance(found, FunctionType) and name in MODULES and not _is_typed(name, each, attribute, found):
            yield from _function(name, each, found)
        elif _has(home, attribute) and home != name:
            yield _import(home, attribute, attribute)
            if each != attribute:  # an import under another name is none that a stub exports
                yield f"{each} = {attribute}\n"
        elif isinstance(found, FunctionType):
            yield from _function(name, each, found)
        elif isinstance(found, type):
            base = found.__base__.__name__ if found.__base__ else "object"
            yield f"class {each}({base if hasattr(module, base) else 'object'}): ...\n"
        else:
            yield f"{each}: {_data_type(name, found)}\n"
    if hasattr(module, "__all__") and name in PACKAGES:
        yield "__all__: list[str]\n"


def _import(home: str, attribute: str, name: str) -> str:
    while (found := _imported_anyhow(home).get(attribute)) and attribute not in _imports(home):
        home, attribute = found  # there it is used, and not re-exported
    return f"from {home} import {attribute} as {name}\n"


def _late_homes(module: ModuleType) -> dict[str, tuple[str, str]]:
    """Return where a module's late names are at home, as `lazy_names` was told."""
    finder = vars(module).get("__getattr__")
    if finder is None:
        return {}
    homes: dict[str, str] = inspect.getclosurevars(finder).nonlocals.get("homes", {})
    split = {name: home.partition(":")[::2] for name, home in homes.items()}
    return {name: (home, attribute or name) for name, (home, attribute) in split.items()}


@cache
def _tree(name: str) -> ast.Module:
    file = importlib.import_module(name).__file__
    return ast.parse(Path(file).read_text(encoding="utf-8") if file and file.endswith(".py") else "")


def _imports(name: str) -> dict[str, tuple[str, str]]:
    """Return the names that a module imports for its users: `import x as x`, or named in `__all__`."""
    module = importlib.import_module(name)
    listed = {node.value for each in _tree(name).body if _assigned(each) == ["__all__"] for node in ast.walk(each)
              if isinstance(node, ast.Constant)}  # fmt: skip
    found = {}
    for node in _tree(name).body:
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            shown = alias.asname or alias.name
            if shown in listed or (alias.asname and not _is_hidden(shown)) or alias.asname == alias.name:
                assert isinstance(node, ast.ImportFrom) and node.module and hasattr(module, shown)
                found[shown] = (node.module, alias.name)
    return found


def _is_hidden(name: str) -> bool:
    return name.startswith("_")


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _defined(name: str) -> set[str]:
    """Return the names that a module defines for its users."""
    found: set[str] = set()
    for node in _tree(name).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        found.update(_assigned(node))
    return {each for each in found if not _is_hidden(each) or each == "__version__"}


def _has(home: str, name: str) -> bool:
    """Tell whether a type checker finds a name in a module's source."""
    if home in MODULES or home in PACKAGES:
        return hasattr(importlib.import_module(home), name)
    bound = set(_imported_anyhow(home))
    for node in _tree(home).body:
        bound.update([node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else _assigned(node))
    return name in bound


def _imported_anyhow(home: str) -> dict[str, tuple[str, str]]:
    """Return the names that a module imports, and from where."""
    nodes = [node for node in _tree(home).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (node.module or "", alias.name) for node in nodes for alias in node.names}


def _data_type(module: str, value: Any) -> str:
    text = "None" if value is None else type(value).__name__
    public = text in ("None", "bool", "float", "int", "str", "dtype", "layout", "memory_format", "qscheme", "Generator")
    return _renamed(module, text) if public else "Any"


# --- functions


def _function(module: str, name: str, function: Callable[..., Any]) -> Iterator[str]:
    if name == "compile":
        yield COMPILE
        return
    if given := _given(module, name):
        yield from _lines(module, name, given, "")
        return
    result = RESULT_OF.get(name, "" if _is_hidden(name) or module == "undertow" else "Tensor")
    forms = forms_of(function, MODULES.get(module, "") + name, result)
    if name.startswith("_foreach_"):
        forms = [_of_lists(form, in_place=name.endswith("_")) for form in forms]
    yield from _lines(module, name, [str(_of_module(form)) for form in forms], "")


def _is_typed(module: str, name: str, attribute: str, function: Callable[..., Any]) -> bool:
    """Tell whether a function can be imported from where it is defined: its source says what its users must know."""
    made = "<locals>" in inspect.unwrap(function).__code__.co_qualname  # by another function: its name has no signature
    return name == attribute and not _given(module, name) and not made and says_all(function)


def _given(module: str, name: str) -> list[str]:
    return FUNCTIONS.get(f"{module}.{name}".removeprefix("undertow."), [])


def _of_lists(form: Form, in_place: bool) -> Form:
    """Return the signature of a function of lists of tensors, one of `_foreach_*`."""
    tensors = {"self", "src", "tensors1", "tensors2"}
    parameters = tuple(
        replace(each, type="Sequence[Tensor]") if each.name in tensors and each.default is None else each
        for each in form.parameters
    )
    return Form(parameters, "list[Tensor]" if in_place else "tuple[Tensor, ...]")


def _of_module(form: Form) -> Form:
    return Form(form.parameters, "Tensor" if form.returns == "Self" else form.returns)


def _lines(module: str, name: str, forms: list[str], indent: str) -> Iterator[str]:
    for form in forms:
        if len(forms) > 1:
            yield f"{indent}@overload\n"
        note = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""  # object's return bool
        yield f"{indent}def {name}{_renamed_form(module, form)}: ...{note}\n"


def _renamed_form(module: str, form: str) -> str:
    """Rename types in a signature, and leave the names of its parameters as they are."""
    return re.sub(r"(?<=: |> )[^=]+?(?=, \w+:|, \*|, /| = |\)|$)", lambda text: _renamed(module, text[0]), form)


def _renamed(module: str, text: str) -> str:
    shadowed = SHADOWED.get(module, "").split()
    return re.sub(rf"(?<![\w.])({'|'.join(shadowed)})\b", r"_\1", text) if shadowed else text


# --- class Tensor


def _tensor() -> Iterator[str]:
    module = "undertow._tensor"
    root = Tensor.__mro__[-2]
    for name, (home, attribute) in sorted((_late_homes(importlib.import_module(module)) | _imports(module)).items()):
        yield _import(home, attribute, name)
    kind = type(Tensor).__name__
    yield f"class {kind}(type): ...\nclass Tensor({root.__name__}, metaclass={kind}):\n"
    yield "    __getattr__: None  # type: ignore[assignment,misc]  # the base's stands for the names that follow\n"
    for name in sorted(dir(Tensor)):
        own = inspect.getattr_static(Tensor, name, None)
        if own is inspect.getattr_static(object, name, None) or name in vars(root) or name in _NOT_SHOWN:
            continue
        yield from _member(module, name, own)


_NOT_SHOWN = {"__class__", "__doc__", "__module__", "__slots__", "__static_attributes__", "__firstlineno__"}


def _member(module: str, name: str, own: Any) -> Iterator[str]:
    if name in METHODS:
        yield from _lines(module, name, METHODS[name], "    ")
        return
    found = getattr(Tensor, name)
    if isinstance(found, property):
        text = _renamed(module, RESULT_OF.get(name) or _property_type(found))
        yield f"    @property\n    def {name}(self) -> {text or 'Any'}: ...\n"
        if found.fset is not None and "refuse" not in found.fset.__qualname__:
            yield f"    @{name}.setter\n    def {name}(self, value: {text or 'Any'}) -> None: ...\n"
    elif isinstance(own, classmethod | staticmethod):
        yield f"    @{type(own).__name__}\n"
        first = (Parameter("cls", "itself"),) if isinstance(own, classmethod) else ()
        forms = [Form(first + form.parameters[len(first) :], form.returns) for form in forms_of(own.__func__, "")]
        yield from _lines(module, name, [str(form) for form in forms], "    ")
    elif callable(found):
        forms = forms_of(found, name, RESULT_OF.get(name, ""))
        yield from _lines(module, name, [str(_of_method(form)) for form in forms], "    ")
    else:
        yield f"    {name}: {_data_type(module, found)}\n"


def _property_type(found: property) -> str:
    assert found.fget is not None
    return annotation_type(inspect.signature(found.fget).return_annotation)


def _of_method(form: Form) -> Form:
    rest = tuple(parameter for parameter in form.parameters[1:] if parameter.name != "out")
    return Form((Parameter("self", "itself"), *rest), form.returns)


# --- return_types


def _results() -> Iterator[str]:
    for cls in _kinds_of_results():
        fields = {field: "tuple[Tensor, ...]" if field == "bin_edges" and cls.__name__ == "histogramdd" else "Tensor"
                  for field in cls.__match_args__}  # fmt: skip
        items = ", ".join(fields.values()) or "Any, ..."
        yield f"class {cls.__name__}(tuple[{items}]):\n"
        yield "    n_fields: int\n    n_sequence_fields: int\n    n_unnamed_fields: int\n"
        yield "    def __new__(cls, sequence: Sequence[Any], dict: dict[str, Any] | None = None, /) -> Self: ...\n"
        for field, text in fields.items():
            yield f"    @property\n    def {field}(self) -> {text}: ...\n"


def _kinds_of_results() -> list[type[Any]]:
    """Return the classes of results, without those that the module makes when they are asked for."""
    root: type[Any] = return_types.NamedResults
    kinds = [each for each in vars(return_types).values() if isinstance(each, type) and issubclass(each, root)]
    written = [each for each in kinds if not each.__name__.startswith("_") and not each.__name__.endswith("_out")]
    return sorted(written, key=lambda each: (each is not root, each.__name__))


def main() -> None:
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
