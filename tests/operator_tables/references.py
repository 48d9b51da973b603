"""The functions of `torch._refs` as tests see them: each with the samples of the operator that it stands for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from tests.operator_tables.kinds import ReductionOpInfo, SpectralFuncInfo
from tests.operator_tables.op_info import OpInfo, _getattr_qual
from tests.operator_tables.pointwise import BinaryUfuncInfo, UnaryUfuncInfo

_OWN = ("name", "op", "ref", "aliases", "aten_name", "method_variant", "inplace_variant", "operator_variant")
_CONVERSIONS = frozenset("bfloat16 bool byte char double float half int long short cdouble cfloat".split())


def _find_referenced_opinfo(
    referenced_name: str, variant_name: str, *, op_db: Iterable[OpInfo] | None = None
) -> OpInfo:
    """Return the operator that a reference stands for."""
    for op in op_db or ():
        if op.name == referenced_name and op.variant_test_name == variant_name:
            return op
    raise RuntimeError(f"Couldn't find OpInfo for {referenced_name}, {variant_name}")


class _Reference:
    """What every kind of reference is made with."""

    torch_opinfo: OpInfo
    torch_opinfo_name: str
    torch_opinfo_variant_name: str

    def __init__(
        self, name: str, *, op: Any = None, op_db: Iterable[OpInfo] | None = None, torch_opinfo_name: str,
        torch_opinfo_variant_name: str = "", validate_view_consistency: bool = True, **changes: Any,
    ) -> None:  # fmt: skip
        stood_for = _find_referenced_opinfo(torch_opinfo_name, torch_opinfo_variant_name, op_db=op_db)
        vars(self).update({key: value for key, value in vars(stood_for).items() if key not in _OWN})
        vars(self).update(name=name, aten_name=name)
        self.op = op or _getattr_qual(import_module("undertow"), name)
        self.ref, self.aliases, self.supports_out = stood_for.ref, (), False
        self.method_variant = self.inplace_variant = self.operator_variant = self.inplace_operator_variant = None
        self.torch_opinfo, self.validate_view_consistency = stood_for, validate_view_consistency
        self.torch_opinfo_name, self.torch_opinfo_variant_name = torch_opinfo_name, torch_opinfo_variant_name
        self.variant_test_name = torch_opinfo_variant_name
        vars(self).update(changes)


class PythonRefInfo(_Reference, OpInfo):
    """A reference of any operator."""


class ElementwiseUnaryPythonRefInfo(_Reference, UnaryUfuncInfo):
    """A reference of an operator of one tensor, element by element."""


class ElementwiseBinaryPythonRefInfo(_Reference, BinaryUfuncInfo):
    """A reference of an operator of two tensors, element by element."""


class ReductionPythonRefInfo(_Reference, ReductionOpInfo):
    """A reference of an operator that makes one element of many."""


class SpectralFuncPythonRefInfo(_Reference, SpectralFuncInfo):
    """A reference of a Fourier transform."""


_KINDS: tuple[tuple[type[OpInfo], Any], ...] = (
    (UnaryUfuncInfo, ElementwiseUnaryPythonRefInfo), (BinaryUfuncInfo, ElementwiseBinaryPythonRefInfo),
    (ReductionOpInfo, ReductionPythonRefInfo), (SpectralFuncInfo, SpectralFuncPythonRefInfo), (OpInfo, PythonRefInfo),
)  # fmt: skip


def references(op_db: list[OpInfo]) -> list[OpInfo]:
    """Return the references of a table's operators."""
    made: list[OpInfo] = []
    for op in op_db:
        home, _, short = op.name.rpartition(".")
        home = "_conversions" if not home and short in _CONVERSIONS else home
        path = ".".join(filter(None, ("_refs", home)))
        if path.count(".") > 2 or home.split(".")[0] not in ("", "special", "linalg", "fft", "nn", "_conversions"):
            continue
        module = import_module(f"undertow.{path}")
        if short in module.__all__ and op.variant_test_name != "in_place":
            kind = next(made_of for of, made_of in _KINDS if isinstance(op, of))
            made.append(kind(
                f"{path}.{short}", op=getattr(module, short), op_db=[op], torch_opinfo_name=op.name,
                torch_opinfo_variant_name=op.variant_test_name,
            ))  # fmt: skip
    return made
