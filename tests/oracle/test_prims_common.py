"""Questions about shapes, strides, dims and dtypes, as torch._prims_common answers them."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.oracle.harness import agree

SHAPES = """
[p.make_contiguous_strides_for(s) for s in ((2, 3, 4), (), (0, 3), (2, 0, 3))], p.make_contiguous_strides_for((2, 3), False)
[p.make_channels_last_strides_for(s) for s in ((2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 4, 5))]
p.make_channels_last_strides_for((2, 3))
p.canonicalize_dim(3, -1), p.canonicalize_dims(3, (-1, 0)), p.canonicalize_dims(3, 1), p.canonicalize_dim(0, -1)
p.canonicalize_dim(3, 3)
p.canonicalize_dim(0, 0, wrap_scalar=False)
p.suggest_memory_format(x), p.suggest_memory_format(torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last))
p.is_contiguous(x), p.is_contiguous(x.t()), p.is_channels_last_contiguous(torch.empty(2, 3, 4, 5))
"""
DTYPES = """
[(p.is_float_dtype(k), p.is_integer_dtype(k), p.is_complex_dtype(k)) for k in kinds]
[(p.is_boolean_dtype(k), p.is_low_precision_dtype(k)) for k in kinds]
[p.dtype_to_type(k) for k in kinds], [p.get_computation_dtype(k) for k in kinds]
[p.get_higher_dtype(a, b) for a in kinds for b in kinds]
[p.type_to_dtype(t) for t in (bool, int, float, complex)], p.number_type(1.5)
p.get_higher_dtype(None, x), p.get_higher_dtype(x, 1j)
[p.get_higher_type(a, b) for a in (bool, int, float) for b in (int, complex)]
p.corresponding_real_dtype(torch.complex64), p.corresponding_complex_dtype(torch.float64)
p.corresponding_real_dtype(torch.float32)
p.get_higher_type(str, int)
[p.elementwise_dtypes(*args, type_promotion_kind=k) for k in p.ELEMENTWISE_TYPE_PROMOTION_KIND for args in groups]
p.elementwise_dtypes("a", type_promotion_kind=p.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
"""


@pytest.mark.parametrize("code", [*SHAPES.strip().splitlines(), *DTYPES.strip().splitlines()])
def test_answers(code: str) -> None:
    def program(torch: Any) -> Any:
        p = importlib.import_module(f"{torch.__name__}._prims_common")
        x, n = torch.arange(6.0).reshape(2, 3), torch.tensor(2.0)
        names = "bool uint8 int8 int16 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
        kinds = [getattr(torch, name) for name in names]
        groups = [
            (x,), (x, 1), (x, 1.5), (x.int(), 1.5), (x.int(), n), (x.int(), n.double()), (x > 1, 1), (x > 1,),
            (x.half(), n), (x.half(), x.bfloat16()), (x, 1j), (x.double(), 1j), (x.int(), 1j), (1, 2.5), (True,),
            (x + 1j, 2), (n, n.int()),
        ]  # fmt: skip
        return eval(code, {"torch": torch, "p": p, "x": x, "n": n, "kinds": kinds, "groups": groups})

    agree(program)
