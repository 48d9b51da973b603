"""What PyTorch's operators support on the CPU, from `operator_facts.txt`.

A line of the file: name/variant, dtypes, dtypes with a gradient, flags, the operator's name in `aten`, other names.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.operator_tables.op_info import OpInfo
from undertow._src.types import dtypes as d
from undertow.testing._internal.common_utils import GRADCHECK_NONDET_TOL

_DTYPES = {
    "b": "bool", "i": "uint8 int8 int16 int32 int64", "f": "float32 float64", "h": "float16", "B": "bfloat16",
    "c": "complex64 complex128", "u": "uint16 uint32 uint64", "1": "uint8", "4": "float32", "8": "float64",
    "z": "complex64", "Z": "complex128", "l": "int64", "n": "int32", "s": "int16", "y": "int8", "2": "uint16",
    "3": "uint32", "6": "uint64", "-": "",
}  # fmt: skip
_FLAGS = {
    "o": "supports_out", "a": "supports_autograd", "g": "supports_gradgrad", "w": "supports_fwgrad_bwgrad",
    "i": "supports_inplace_autograd", "f": "supports_forward_ad", "s": "supports_sparse", "b": "check_batched_grad",
    "B": "check_batched_gradgrad", "d": "check_batched_forward_grad", "D": "check_inplace_batched_forward_grad",
    "v": "supports_varargs", "p": "promotes_int_to_float", "c": "test_conjugated_samples", "n": "test_neg_view",
    "y": "is_factory_function", "r": "has_nondeterministic_output",
}  # fmt: skip


@cache
def _table() -> dict[str, list[str]]:
    text = Path(__file__).with_suffix(".txt").read_text()
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


def _dtypes(letters: str) -> set[Any]:
    return {getattr(d, name) for letter in letters for name in _DTYPES[letter].split()}


def with_facts(op: OpInfo) -> OpInfo:
    """Return an operator with what is known of PyTorch's."""
    known = _table().get(f"{op.name}/{op.variant_test_name}")
    if known is not None:
        dtypes, backward, flags, aten_name, others = known
        op.dtypes, op.backward_dtypes = _dtypes(dtypes), _dtypes(backward)
        for letter, name in _FLAGS.items():
            setattr(op, name, letter in flags)
        op.gradcheck_fast_mode = True if "q" in flags else None
        op.gradcheck_nondet_tol = GRADCHECK_NONDET_TOL if "t" in flags else 0.0
        op.aten_name = op.name if aten_name == "-" else aten_name
        op.rename_aliases(() if others == "-" else others.split(","))
    return op
