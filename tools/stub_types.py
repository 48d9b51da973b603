"""The types of public functions: from their signatures, from PyTorch's operator signatures, and from names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import undertow
from undertow import return_types

Kind = inspect._ParameterKind
POSITIONAL, KEYWORD = Kind.POSITIONAL_OR_KEYWORD, Kind.KEYWORD_ONLY

# What the types of operator signatures are called in Python. A list of a given length may be one int.
SCHEMA_TYPES = {
    "Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool", "SymBool": "bool", "str": "str",
    "Scalar": "Number | complex", "ScalarType": "dtype", "Layout": "layout", "Device": "Device",
    "MemoryFormat": "memory_format", "Generator": "Generator", "Storage": "UntypedStorage", "()": "None",
}  # fmt: skip

# Names of parameters that mean the same thing in every function.
NAMED_TYPES = {
    "input": "Tensor", "other": "Tensor", "tensor": "Tensor", "target": "Tensor", "weight": "Tensor", "bias": "Tensor",
    "mat1": "Tensor", "mat2": "Tensor", "mask": "Tensor", "index": "Tensor", "indices": "Tensor", "grid": "Tensor",
    "query": "Tensor", "key": "Tensor", "x": "Tensor", "y": "Tensor", "tensors": "Sequence[Tensor]",
    "x1": "Tensor", "x2": "Tensor", "input1": "Tensor", "input2": "Tensor", "A": "Tensor", "B": "Tensor",
    "anchor": "Tensor", "positive": "Tensor", "negative": "Tensor", "LU_data": "Tensor", "LU_pivots": "Tensor",
    "pos_weight": "Tensor", "attn_mask": "Tensor", "running_mean": "Tensor", "running_var": "Tensor", "var": "Tensor",
    "out": "Tensor", "dtype": "dtype", "device": "Device", "layout": "layout", "memory_format": "memory_format",
    "generator": "Generator", "requires_grad": "bool", "pin_memory": "bool", "keepdim": "bool", "inplace": "bool",
    "training": "bool", "dim": "int", "dim0": "int", "dim1": "int", "n": "int", "d": "float", "p": "float",
    "eps": "float", "margin": "float", "alpha": "Number", "reduction": "str", "norm": "str",
    "size_average": "bool", "reduce": "bool", "return_indices": "bool", "ceil_mode": "bool", "align_corners": "bool",
    "mode": "str", "padding_mode": "str", "count_include_pad": "bool", "stride": "int | _size", "padding": "int | _size",
    "dilation": "int | _size", "kernel_size": "int | _size", "output_size": "int | _size", "groups": "int",
    "size": "_size", "s": "_size", "dims": "_size", "_stacklevel": "int", "non_blocking": "bool", "copy": "bool",
    "steps": "int", "window_length": "int", "periodic": "bool", "low": "int", "high": "int", "hidden": "Tensor",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; an empty type is one that is not known."""

    name: str
    type: str = ""
    default: str | None = None
    kind: Kind = POSITIONAL

    def __str__(self) -> str:
        stars = {Kind.VAR_POSITIONAL: "*", Kind.VAR_KEYWORD: "**"}.get(self.kind, "")
        value = "" if self.default is None else f" = {self.default}"
        if self.type == "itself":
            return self.name
        return f"{stars}{self.name}: {self.type or 'Any'}{value}"


@dataclass(frozen=True)
class Form:
    """One signature of a function."""

    parameters: tuple[Parameter, ...]
    returns: str = ""

    def __str__(self) -> str:
        texts: list[str] = []
        starred = False
        for parameter in self.parameters:
            if parameter.kind is Kind.VAR_POSITIONAL:
                starred = True
            elif parameter.kind is KEYWORD and not starred:
                texts.append("*")
                starred = True
            texts.append(str(parameter))
            following = self.parameters[len([text for text in texts if text not in "*/"]) :]
            only = Kind.POSITIONAL_ONLY
            if parameter.kind is only and (not following or following[0].kind is not only):
                texts.append("/")
        return f"({', '.join(texts)}) -> {self.returns or 'Any'}"


def union(types: Iterable[str]) -> str:
    """Return the union of types, each once, None last."""
    parts = dict.fromkeys(part for text in types for part in _alternatives(text))
    if "Any" in parts:
        return "Any"
    none = "None" in parts
    parts.pop("None", None)
    return " | ".join([*parts, *(["None"] if none else [])])


def _alternatives(text: str) -> list[str]:
    return [part for part in re.split(r" \| (?![^\[]*\])", text) if part]


def default_of(value: Any) -> str:
    """Return a default as a stub shows it."""
    plain = value is None or type(value) in (bool, int, str) or (type(value) is float and abs(value) < 1e30)
    return repr(value) if plain or value == () else "..."


# --- PyTorch's operator signatures


@cache
def _schemas() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    path = next(Path(undertow.__file__).parent.rglob("aten_schemas.txt"))
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        found.setdefault(re.split(r"[.(]", line)[0], []).append(line)
    return found


def schema_forms(name: str) -> list[Form]:
    """Return the signatures of an operator that a program calls: those that write into given tensors left out."""
    forms = [form for text in _schemas().get(name, ()) if (form := _schema_form(name, text)) is not None]
    of_tensors = [form for form in forms if "Tensor" in str(form)]
    return list(dict.fromkeys(of_tensors or forms))


def _schema_form(name: str, text: str) -> Form | None:
    in_place = "-> Tensor(a!)" in text and "(Tensor(a!) self" in text
    text = re.sub(r"\([a-z](?:!|\|[a-z])*(?: -> \*)?\)", lambda mark: "!" if "!" in mark[0] else "", text)
    inside, _, result = text.partition("(")[2].rpartition(") -> ")
    parameters: list[Parameter] = []
    kind = POSITIONAL
    for argument in re.split(r", (?![^\[]*\])", inside) if inside else ():
        if argument == "*":
            kind = KEYWORD
            continue
        spelled, _, rest = argument.rpartition(" ")
        called, has_default, default = rest.partition("=")
        if "Dimname" in spelled or ("!" in spelled and (kind is KEYWORD or (parameters and not in_place))):
            return None
        shown = _schema_default(default) if has_default else None
        parameters.append(Parameter(called, _schema_type(spelled.replace("!", "")), shown, kind))
    return Form(tuple(parameters), "Self" if in_place else _schema_returns(name, result.replace("!", "")))


def _schema_default(text: str) -> str:
    text = {"True": "True", "False": "False", "None": "None"}.get(text, text)
    return (
        text
        if re.fullmatch(r"-?\d+(\.\d+)?|True|False|None", text)
        else text.replace('"', "'")
        if '"' in text
        else "..."
    )


def _schema_type(text: str) -> str:
    optional = text.endswith("?")
    text = text.removesuffix("?")
    if listed := re.fullmatch(r"(\w+\??)\[(\d*)\]", text):
        element, length = listed.groups()
        inner = _schema_type(element)
        whole = "_size" if inner == "int" else f"Sequence[{inner}]"
        found = f"{inner} | {whole}" if length and element in ("int", "SymInt", "float", "bool") else whole
    else:
        found = SCHEMA_TYPES.get(text, "Any")
    return union([found, "None"]) if optional else found


def _schema_returns(name: str, text: str) -> str:
    if text.startswith("(") and text != "()":
        if isinstance(getattr(return_types, name, None), type):
            return f"return_types.{name}"
        return f"tuple[{', '.join(_schema_returns('', part.split()[0]) for part in text[1:-1].split(', '))}]"
    if text == "Tensor[]":
        return "tuple[Tensor, ...]"
    return "Number" if text == "Scalar" else _schema_type(text)


# --- signatures at run time

_NAMES = {
    "Any", "Callable", "Iterable", "Iterator", "Sequence", "Tensor", "bool", "complex", "dict", "dtype", "float", "int",
    "layout", "list", "memory_format", "object", "set", "str", "tuple", "type", "device", "Size", "Generator", "Self",
    "Number", "Device", "_size",
}  # fmt: skip
_RENAMED = {"TensorCore": "Tensor", "Function": "Callable[..., Any]"}


def annotation_type(annotation: Any) -> str:
    """Return a source's annotation in the words that stubs have, or nothing where it does not say enough."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for name, renamed in _RENAMED.items():
        text = re.sub(rf"\b{name}\b", renamed, text)
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    known = names <= _NAMES and not any(isinstance(node, ast.Attribute) for node in ast.walk(ast.parse(text)))
    return text if known and (names - {"Any", "object"} or text == "None") else ""


def says_all(function: Callable[..., Any]) -> bool:
    """Tell whether the annotations of a function's source are enough for its users."""
    signature = inspect.signature(function)
    notes = [signature.return_annotation, *(each.annotation for each in signature.parameters.values())]
    vague = re.compile(r"\b(Any|TensorCore|object)\b")  # of an object the source says only that it is checked
    return not any(note is inspect.Parameter.empty or vague.search(str(note)) for note in notes)


def runtime_form(function: Callable[..., Any]) -> Form:
    """Return the signature that Python sees, with what its annotations say."""
    signature = inspect.signature(function)
    parameters = tuple(
        Parameter(each.name, annotation_type(each.annotation),
                  None if each.default is each.empty else default_of(each.default), each.kind)
        for each in signature.parameters.values()
    )  # fmt: skip
    return Form(parameters, annotation_type(signature.return_annotation))


def is_opaque(form: Form) -> bool:
    """Tell whether a signature leaves everything to the function: `(*args, **kwargs)`."""
    return bool(form.parameters) and form.parameters[-1].kind is Kind.VAR_KEYWORD and len(form.parameters) == 2


# --- the two together


def forms_of(function: Callable[..., Any], operator: str, result: str = "") -> list[Form]:
    """Return the signatures of a public function, one if the type of its result is always the same.

    `operator` is its name among PyTorch's operators, `result` what it returns if nothing else says so.
    """
    here, schemas = runtime_form(function), schema_forms(operator)
    takes_out = any(parameter.name == "out" for parameter in here.parameters) or is_opaque(here)
    results = {form.returns for form in schemas}
    if schemas and (len(results) > 1 or is_opaque(here)):
        named = [_as_function(form, takes_out) for form in schemas]
        if len(results) == 1 and len({tuple(each.name for each in form.parameters) for form in named}) == 1:
            return [_merged(named)]
        return _without_repeats(named)
    vague = not here.returns or "Any" in here.returns or results == {"Self"}
    returns = (next(iter(results)) if vague and results else here.returns) or result
    parameters = tuple(
        replace(each, type=_out_type(returns)) if each.name == "out" and not each.type else _typed(each, schemas)
        for each in here.parameters
    )
    return [Form(parameters, returns)]


def _out_type(returns: str) -> str:
    """Return the type of `out`: a tensor, or a tuple for a function that returns several."""
    given = "tuple[Tensor, ...]" if returns.startswith("return_types") else returns
    return union([given if given.startswith("tuple") else "Tensor", "None"])


def _as_function(form: Form, takes_out: bool) -> Form:
    """Return an operator's signature as a function's: its tensor is called input, and it may write into `out`."""
    parameters = tuple(replace(each, name="input") if each.name == "self" else each for each in form.parameters)
    if takes_out and form.returns != "Self":
        parameters += (Parameter("out", _out_type(form.returns), "None", KEYWORD),)
    return Form(parameters, form.returns)


def _merged(forms: list[Form]) -> Form:
    columns = zip(*(form.parameters for form in forms))
    together = tuple(
        replace(column[0], type=union(each.type for each in column), kind=max(each.kind for each in column))
        for column in columns
    )
    return Form(together, forms[0].returns)


def _without_repeats(forms: list[Form]) -> list[Form]:
    """Leave out a form that another one covers: the same parameters and result with wider types."""
    kept: dict[tuple[str, ...], list[Form]] = {}
    for form in forms:
        kept.setdefault((form.returns, *(each.name for each in form.parameters)), []).append(form)
    return [_merged(group) for group in kept.values()]


def _typed(parameter: Parameter, schemas: list[Form]) -> Parameter:
    """Return a parameter with the type that its operator gives it, or that its name says."""
    spellings = {parameter.name, "self"} if parameter.name == "input" else {parameter.name}
    same = [each.type for form in schemas for each in form.parameters if each.name in spellings]
    if parameter.kind is Kind.VAR_POSITIONAL:
        found = parameter.type or _typed_varargs(schemas)
    elif parameter.kind is Kind.VAR_KEYWORD:
        found = "Any"
    else:
        found = parameter.type or union(same) or NAMED_TYPES.get(parameter.name, "")
        if parameter.name == "device":
            found = "Device"
        elif found:
            found = union([found, _default_type(found, parameter.default)])
    return replace(parameter, type=found)


def _default_type(found: str, default: str | None) -> str:
    """Return the type that a parameter takes because of its default, if its own is none that has it."""
    if default == "None":
        return "None"
    if default and default[0] == "'" and "str" not in found:
        return "str"
    return (
        "Number" if default and re.match(r"-?\d", default) and not re.search(r"\b(int|float|Number)\b", found) else ""
    )


def _typed_varargs(schemas: list[Form]) -> str:
    sizes = any("_size" in each.type for form in schemas for each in form.parameters)
    tensors = any("Sequence[Tensor]" in each.type for form in schemas for each in form.parameters)
    return "int | _size" if sizes else "Tensor | Sequence[Tensor]" if tensors else ""
