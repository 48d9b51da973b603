"""Operators of linear algebra."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.operator_tables.kinds import gradcheck_wrapper_hermitian_input, gradcheck_wrapper_triangular_input
from tests.operator_tables.making import ALL, INEXACT, NUMBERS, operator
from tests.operator_tables.op_info import OpInfo, SampleInput


def algebra_operators() -> list[OpInfo]:
    """All of them."""
    return [*_products(), *_matrices()]


def _products() -> list[OpInfo]:
    return [
        operator("mm", NUMBERS, lambda t: [(t(2, 3), t(3, 4))]),
        operator("bmm", NUMBERS, lambda t: [(t(2, 2, 3), t(2, 3, 2))]),
        operator("mv", NUMBERS, lambda t: [(t(2, 3), t(3))]), operator("dot", NUMBERS, lambda t: [(t(3), t(3))]),
        operator("vdot", NUMBERS, lambda t: [(t(3), t(3))]),
        operator("inner", NUMBERS, lambda t: [(t(3), t(3)), (t(2, 3), t(3))]),
        operator("outer", ALL, lambda t: [(t(2), t(3))], aliases=("ger",)),
        operator("matmul", NUMBERS, lambda t: [
            (t(3), t(3)), (t(2, 3), t(3)), (t(3), t(3, 2)), (t(2, 3), t(3, 4)), (t(5, 2, 3), t(3, 4)),
            (t(2, 1, 2, 3), t(5, 3, 2))]),
        operator("addmm", NUMBERS, lambda t: [
            (t(2, 4), t(2, 3), t(3, 4)),
            SampleInput(t(4), t(2, 3), t(3, 4), beta=2, alpha=3).with_metadata(broadcasts_input=True)]),
        operator("addmv", NUMBERS, lambda t: [(t(2), t(2, 3), t(3))]),
        operator("addr", NUMBERS, lambda t: [(t(2, 3), t(2), t(3))]),
        operator("addbmm", NUMBERS, lambda t: [(t(2, 4), t(5, 2, 3), t(5, 3, 4))]),
        operator("baddbmm", NUMBERS, lambda t: [(t(5, 2, 4), t(5, 2, 3), t(5, 3, 4))]),
        operator("einsum", NUMBERS, lambda t: [("ij,jk->ik", t(2, 3), t(3, 4)), ("bij,bj", t(2, 3, 4), t(2, 4))],
                 method_variant=None, inplace_variant=None),
        operator("tensordot", NUMBERS, lambda t: [(t(2, 3), t(3, 4), 1), (t(2, 3, 4), t(4, 3), ([1, 2], [1, 0]))]),
        operator("kron", ALL, lambda t: [(t(2, 3), t(2, 2)), (t(2), t(3))]),
        operator("cross", NUMBERS, lambda t: [(t(2, 3), t(2, 3), {"dim": 1})]),
        operator("linalg.cross", NUMBERS, lambda t: [(t(2, 3), t(2, 3))]),
        operator("linalg.vecdot", INEXACT, lambda t: [(t(2, 3), t(3))]),
        operator("linalg.multi_dot", INEXACT, lambda t: [([t(2, 3), t(3, 4), t(4, 2)],)]),
        operator("cdist", "f", lambda t: [(t(3, 2), t(4, 2)), (t(3, 2), t(4, 2), 1.0)], method_variant=None,
                 supports_gradgrad=False),
        operator("cov", "fc", lambda t: [t(3, 5)]), operator("corrcoef", "fc", lambda t: [t(3, 5)]),
    ]  # fmt: skip


_hermitian = gradcheck_wrapper_hermitian_input


def _plain(op: Any, *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def _sizes_of_vectors(wrapper: Any) -> Any:
    """For gradcheck: values as they are, vectors by the sizes of their elements, as their signs are nobody's choice."""
    return lambda op, *args, **kwargs: tuple(part.abs() for part in wrapper(op, *args, **kwargs))


def _matrices() -> list[OpInfo]:
    wrapped = {"gradcheck_wrapper": _hermitian}
    return [
        operator("linalg.inv", "fc", lambda t: [t.regular(3, 3), t.regular(2, 3, 3)]),
        operator("linalg.det", "fc", lambda t: [t.regular(3, 3), t.regular(2, 2, 2)]),
        operator("linalg.slogdet", "fc", lambda t: [t.regular(3, 3)]),
        operator("logdet", "f", lambda t: [t.positive(3, 3)]),
        operator("linalg.solve", "fc", lambda t: [(t.regular(3, 3), t(3)), (t.regular(3, 3), t(3, 2))]),
        operator("linalg.solve_triangular", "fc", lambda t: [(t.regular(3, 3), t(3, 2), {"upper": True})]),
        operator("linalg.cholesky", "fc", lambda t: [t.positive(3, 3)], **wrapped),
        operator("linalg.cholesky_ex", "fc", lambda t: [t.positive(3, 3)], **wrapped),
        operator("cholesky_solve", "fc", lambda t: [(t(3, 2), t.regular(3, 3).tril())],
                 gradcheck_wrapper=partial(gradcheck_wrapper_triangular_input, idx=1)),
        operator("cholesky_inverse", "fc", lambda t: [t.regular(3, 3).tril()],
                 gradcheck_wrapper=gradcheck_wrapper_triangular_input),
        operator("linalg.eigh", "fc", lambda t: [t.positive(3, 3)], gradcheck_wrapper=_sizes_of_vectors(_hermitian)),
        operator("linalg.eigvalsh", "fc", lambda t: [t.positive(3, 3)], **wrapped),
        operator("linalg.eig", "fc", lambda t: [t.regular(3, 3)], gradcheck_wrapper=_sizes_of_vectors(_plain)),
        operator("linalg.eigvals", "fc", lambda t: [t.regular(3, 3)]),
        operator("linalg.svdvals", "fc", lambda t: [t(3, 2)]),
        operator("linalg.svd", "fc", lambda t: [
            (t(3, 2), {"full_matrices": False})], gradcheck_wrapper=_sizes_of_vectors(_plain)),
        operator("linalg.qr", "fc", lambda t: [t(3, 2), t(2, 3, 3)]),
        operator("linalg.pinv", "fc", lambda t: [t(3, 2)]),
        operator("linalg.lu_factor", "fc", lambda t: [t.regular(3, 3)]),
        operator("linalg.lu", "fc", lambda t: [t.regular(3, 3)]),
        operator("linalg.matrix_power", "fc", lambda t: [(t.regular(3, 3), 3), (t.regular(3, 3), -2)]),
        operator("matrix_exp", "fc", lambda t: [t(3, 3, low=-1, high=1)], aliases=("linalg.matrix_exp",)),
        operator("linalg.matrix_norm", "fc", lambda t: [t(3, 2), (t(2, 3, 3), "nuc" if t.dtype.itemsize > 2 else "fro")]),
        operator("linalg.norm", INEXACT, lambda t: [t(3), (t(3), 1)]),
        operator("linalg.cond", "fc", lambda t: [t.regular(3, 3)]),
        operator("linalg.matrix_rank", "fc", lambda t: [t(3, 3)], supports_autograd=False),
        operator("linalg.diagonal", ALL, lambda t: [t(3, 4)]),
        operator("linalg.vander", "ifc", lambda t: [t(3), (t(3), {"N": 4})]),
        operator("linalg.lstsq", "fc", lambda t: [(t(4, 2), t(4, 2))]),
        operator("linalg.tensorinv", "fc", lambda t: [
            (t.regular(4, 4).detach().reshape(2, 2, 4).requires_grad_(t.requires_grad), 2)]),
        operator("triangular_solve", "fc", lambda t: [(t(3, 2), t.regular(3, 3))]),
    ]  # fmt: skip
