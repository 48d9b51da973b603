"""Products of matrices and `torch.linalg`. Factors fixed only up to sign or phase are compared through their products."""

from __future__ import annotations

from math import nan

from tests.oracle.sampling import EVERY, FLOATS, Table, distinct, positive, signed, values

table = Table(
    "linalg",
    beyond="vdot inner ger addmv addr linalg.vector_norm linalg.matrix_norm logdet cholesky linalg.solve_triangular svd "
    "linalg.svdvals linalg.eigvalsh trace kron linalg.pinv linalg.matrix_power linalg.matrix_exp linalg.multi_dot cdist",
)
op, bad, expression = table.op, table.bad, table.expression

CALLS = "function method"
CALLS_OUT = "function method out"
ALL = "function method inplace out"
SOLID = f"{FLOATS} complex64 complex128 int64 bool"
LAPACK = "float32 float16 complex128 int64"
LOOSE = (1e-7, 1e-7)

# --- products --------------------------------------------------------------------------------------------------------

PRODUCTS = {
    "vector_vector": ((4,), (4,)),
    "matrix_vector": ((3, 4), (4,)),
    "vector_matrix": ((4,), (4, 3)),
    "matrix_matrix": ((2, 3), (3, 4)),
    "batch_matrix": ((2, 3, 4), (4, 2)),
    "batch_vector": ((2, 3, 4), (4,)),
    "vector_batch": ((3,), (2, 3, 4)),
    "matrix_batch": ((2, 3), (2, 3, 4)),
    "batch_batch": ((2, 3, 4), (2, 4, 2)),
    "broadcast_batch": ((2, 1, 3, 4), (3, 4, 2)),
    "batch_of_one": ((1, 3, 4), (2, 4, 3)),
    "empty_inner": ((3, 0), (0, 4)),
    "empty_rows": ((0, 3), (3, 4)),
    "empty_batch": ((0, 3, 4), (4, 2)),
}
for case, (left, right) in PRODUCTS.items():
    op("matmul", case, "a, b", CALLS, a=signed(*left), b=signed(*right))
    expression("matmul", f"{case}-operator", "a @ b", a=signed(*left), b=signed(*right))
op("matmul", "dtypes", "a, b", "function out", dtypes=EVERY, a=signed(3, 4), b=signed(4, 2))
op("matmul", "batch_dtypes", "a, b", dtypes=EVERY, a=signed(2, 3, 4), b=signed(2, 4, 2))
op("matmul", "transposed", "a.t(), b.t()", a=signed(3, 2), b=signed(4, 3))
op("matmul", "transposed_batch", "a.mT, b", a=signed(2, 3, 4), b=signed(2, 3, 5))
op("matmul", "strided", "a[:, ::2], b[::2]", a=signed(3, 8), b=signed(8, 2))
op("matmul", "same", "a, a", a=signed(3, 3))
op("matmul", "one_constant", "a, b", a=signed(3, 4), b=signed(4, 2, grad=False))
op("matmul", "keywords", "input=a, other=b", a=signed(3, 4), b=signed(4, 2))
bad("matmul", "inner", "a @ b", words=12, a=signed(3, 4), b=signed(3, 4))
bad("matmul", "inner_vectors", "a @ b", words=12, a=signed(3), b=signed(4))
bad("matmul", "inner_matrix_vector", "a @ b", words=12, a=signed(3, 4), b=signed(3))
bad("matmul", "inner_batch", "a @ b", words=12, a=signed(2, 3, 4), b=signed(2, 3, 4))
bad("matmul", "batches", "a @ b", words=12, a=signed(2, 3, 4), b=signed(3, 4, 2))
bad("matmul", "zero_dim", "a @ b", words=12, a=signed(), b=signed(3))
bad("matmul", "dtypes", "a @ b", words=12, a=signed(3, 4), b=signed(4, 2, dtype="float32"))
bad("matmul", "number", "a @ 2", a=signed(3, 4))

op("mm", "plain", "a, b", CALLS_OUT, dtypes=SOLID, a=signed(2, 3), b=signed(3, 4))
op("mm", "transposed", "a.t(), b", a=signed(3, 2), b=signed(3, 4))
op("mm", "empty", "a, b", a=signed(2, 0), b=signed(0, 4))
op("mm", "keywords", "a, mat2=b", a=signed(2, 3), b=signed(3, 4))
bad("mm", "inner", "torch.mm(a, b)", words=12, a=signed(3, 4), b=signed(3, 4))
bad("mm", "vector", "torch.mm(a, b)", words=10, a=signed(3, 4), b=signed(4))
bad("mm", "batch", "torch.mm(a, a)", words=10, a=signed(2, 3, 3))
bad("mm", "dtypes", "torch.mm(a, b)", words=12, a=signed(3, 4), b=signed(4, 2, dtype="float32"))
op("bmm", "plain", "a, b", CALLS_OUT, dtypes=SOLID, a=signed(2, 3, 4), b=signed(2, 4, 2))
op("bmm", "transposed", "a.mT, b", a=signed(2, 4, 3), b=signed(2, 4, 2))
op("bmm", "empty", "a, b", a=signed(0, 3, 4), b=signed(0, 4, 2))
bad("bmm", "batches", "torch.bmm(a, b)", words=12, a=signed(2, 3, 4), b=signed(3, 4, 2))
bad("bmm", "matrices", "torch.bmm(a, a)", words=10, a=signed(3, 3))
op("mv", "plain", "a, b", CALLS_OUT, dtypes=SOLID, a=signed(3, 4), b=signed(4))
op("mv", "transposed", "a.t(), b", a=signed(4, 3), b=signed(4))
op("mv", "empty", "a, b", a=signed(3, 0), b=signed(0))
bad("mv", "inner", "torch.mv(a, b)", words=12, a=signed(3, 4), b=signed(3))
bad("mv", "matrix", "torch.mv(a, a)", words=12, a=signed(3, 3))
op("dot", "plain", "a, b", CALLS_OUT, dtypes=SOLID, a=signed(4), b=signed(4))
op("dot", "strided", "a[::2], b", a=signed(8), b=signed(4))
op("dot", "empty", "a, b", a=signed(0), b=signed(0))
bad("dot", "lengths", "torch.dot(a, b)", words=10, a=signed(3), b=signed(4))
bad("dot", "matrix", "torch.dot(a, a)", words=10, a=signed(3, 3))
bad("dot", "dtypes", "torch.dot(a, b)", words=10, a=signed(3), b=signed(3, dtype="float32"))
op("vdot", "complex", "a, b", CALLS, a=signed(4, dtype="complex128"), b=signed(4, dtype="complex128"))
op("inner", "plain", "a, b", CALLS, a=signed(3, 4), b=signed(2, 4))
op("outer", "plain", "a, b", CALLS_OUT, dtypes=SOLID, a=signed(3), b=signed(4))
op("outer", "promotes", "a, b", a=signed(3, dtype="int64"), b=signed(2, dtype="float32"))
op("outer", "empty", "a, b", a=signed(0), b=signed(3))
op("ger", "plain", "a, b", CALLS, a=signed(3), b=signed(4))
bad("outer", "matrix", "torch.outer(a, a)", words=10, a=signed(3, 3))

op("addmm", "plain", "c, a, b", ALL, dtypes=SOLID, c=signed(3, 2), a=signed(3, 4), b=signed(4, 2))
op("addmm", "scaled", "c, a, b, beta=0.5, alpha=2", ALL, c=signed(3, 2), a=signed(3, 4), b=signed(4, 2))
op("addmm", "broadcast", "c, a, b", CALLS, c=signed(2), a=signed(3, 4), b=signed(4, 2))
op("addmm", "zero_dim", "c, a, b", c=signed(), a=signed(3, 4), b=signed(4, 2))
op("addmm", "zero_beta", "c, a, b, beta=0", first=False, c=values([[nan, nan]]), a=signed(3, 4), b=signed(4, 2))
op("addmm", "transposed", "c, a.t(), b.t()", c=signed(3, 2), a=signed(4, 3), b=signed(2, 4))
bad("addmm", "inner", "torch.addmm(c, a, a)", words=12, c=signed(3), a=signed(3, 4))
bad("addmm", "shape", "torch.addmm(c, a, b)", words=12, c=signed(5), a=signed(3, 4), b=signed(4, 2))
bad("addmm", "dtypes", "torch.addmm(c, a, b)", words=12, c=signed(2), a=signed(3, 4), b=signed(4, 2, dtype="float32"))
op("addmv", "plain", "c, a, b", ALL, c=signed(3), a=signed(3, 4), b=signed(4))
op("addmv", "scaled", "c, a, b, beta=0.5, alpha=2", CALLS, c=signed(), a=signed(3, 4), b=signed(4))
op("addr", "scaled", "c, a, b, beta=0.5, alpha=2", ALL, c=signed(3, 4), a=signed(3), b=signed(4))
op("baddbmm", "plain", "c, a, b", ALL, dtypes=SOLID, c=signed(2, 3, 5), a=signed(2, 3, 4), b=signed(2, 4, 5))
op("baddbmm", "scaled", "c, a, b, beta=0.5, alpha=2", CALLS, c=signed(3, 1), a=signed(2, 3, 4), b=signed(2, 4, 5))
op("baddbmm", "zero_beta", "c, a, b, beta=0", first=False, c=values(nan), a=signed(2, 3, 4), b=signed(2, 4, 5))
bad("baddbmm", "batches", "torch.baddbmm(c, a, b)", words=12, c=signed(2), a=signed(2, 3, 4), b=signed(3, 4, 2))
bad("baddbmm", "shape", "torch.baddbmm(c, a, b)", words=12, c=signed(7), a=signed(2, 3, 4), b=signed(2, 4, 2))

EINSUMS = {
    "matrix_product": ("ij,jk->ik", (2, 3), (3, 4)),
    "implicit": ("ij,jk", (2, 3), (3, 4)),
    "batch": ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    "attention": ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    "outer": ("i,j->ij", (3,), (4,)),
    "dot": ("i,i->", (3,), (3,)),
    "elementwise": ("ij,ij->ij", (3, 4), (3, 4)),
    "ellipsis": ("...ij,...jk->...ik", (2, 3, 4), (4, 2)),
    "ellipsis_implicit": ("...j,j", (2, 3, 4), (4,)),
    "sum_out": ("ij,k->j", (2, 3), (4,)),
    "broadcast_one": ("ij,ij->ij", (3, 1), (3, 4)),
    "spaces": ("i j , j k -> k i", (2, 3), (3, 4)),
    "repeated": ("ii,i->i", (3, 3), (3,)),
}
for case, (equation, left, right) in EINSUMS.items():
    op("einsum", case, f"'{equation}', a, b", a=signed(*left), b=signed(*right))
for case, equation in {
    "transpose": "ij->ji",
    "trace": "ii",
    "diagonal": "ii->i",
    "sum": "ij->",
    "row_sum": "ij->i",
    "same": "ij->ij",
}.items():
    op("einsum", case, f"'{equation}', a", a=signed(3, 3))
op("einsum", "three", "'ij,jk,kl->il', a, b, c", a=signed(2, 3), b=signed(3, 4), c=signed(4, 2))
op("einsum", "bilinear", "'bi,oij,bj->bo', a, b, c", a=signed(2, 3), b=signed(4, 3, 2), c=signed(2, 2))
op("einsum", "list", "'ij,jk->ik', [a, b]", a=signed(2, 3), b=signed(3, 4))
op("einsum", "sublists", "a, [0, 1], b, [1, 2], [0, 2]", a=signed(2, 3), b=signed(3, 4))
op("einsum", "dtypes", "'ij,jk->ik', a, b", dtypes=SOLID, a=signed(2, 3), b=signed(3, 4))
bad("einsum", "sizes", "torch.einsum('ij,jk->ik', a, a)", words=12, a=signed(2, 3))
bad("einsum", "dims", "torch.einsum('ijk->i', a)", words=12, a=signed(2, 3))
bad("einsum", "operands", "torch.einsum('ij,jk->ik', a)", words=12, a=signed(2, 3))
bad("einsum", "output_letter", "torch.einsum('ij->ik', a)", words=12, a=signed(2, 3))
bad("einsum", "repeated_output", "torch.einsum('ij->ii', a)", words=12, a=signed(2, 3))
bad("einsum", "character", "torch.einsum('i1->i', a)", words=12, a=signed(2, 3))
bad("einsum", "none", "torch.einsum('ij')", words=12)

op("tensordot", "number", "a, b, 1", a=signed(2, 3), b=signed(3, 4))
op("tensordot", "two", "a, b, dims=2", a=signed(2, 3, 4), b=signed(3, 4, 2))
op("tensordot", "lists", "a, b, dims=([1, 0], [0, 1])", a=signed(3, 4, 2), b=signed(4, 3, 2))
op("tensordot", "zero", "a, b, dims=0", a=signed(2), b=signed(3))
op("tensordot", "default", "a, b", a=signed(2, 3), b=signed(2, 3))
op("tensordot", "negative", "a, b, dims=([-1], [0])", a=signed(2, 3), b=signed(3, 4))
bad("tensordot", "sizes", "torch.tensordot(a, b, 1)", words=10, a=signed(2, 3), b=signed(4, 2))
bad("tensordot", "counts", "torch.tensordot(a, a, ([0, 1], [0]))", words=10, a=signed(2, 3))

# --- norms -----------------------------------------------------------------------------------------------------------

op("linalg.norm", "plain", "a", "function out", dtypes=LAPACK, a=signed(3, 4))
for order in ["2", "1", "inf", "-inf", "-1", "'fro'", "'nuc'", "-2"]:
    case = order.strip("'")
    op("linalg.norm", f"matrix_{case}", f"a, {order}", tolerance=LOOSE, a=distinct(3, 4))
for order in ["2", "1", "inf", "-inf", "0", "3", "0.5"]:
    op("linalg.norm", f"vector_{order}", f"a, {order}", a=distinct(4))
    op("linalg.vector_norm", f"order_{order}", f"a, {order}, dim=1", a=distinct(3, 4))
op("linalg.norm", "dim", "a, dim=1", a=signed(3, 4))
op("linalg.norm", "dims", "a, dim=(0, 2), keepdim=True", a=signed(2, 3, 4))
op("linalg.norm", "order_dims", "a, 1, dim=(-2, -1)", a=distinct(2, 3, 4))
op("linalg.norm", "dtype", "a, dtype=torch.float64", dtypes="float32", a=signed(3, 4))
op("linalg.norm", "zeros", "a", second=False, a=values([0.0, 0.0]))
op("linalg.vector_norm", "keepdim", "a, keepdim=True", a=signed(3, 4))
op("linalg.vector_norm", "complex", "a", a=signed(3, dtype="complex128"))
op("linalg.matrix_norm", "batch", "a, keepdim=True", a=signed(2, 3, 4))
op("linalg.matrix_norm", "order", "a, ord=1, dim=(0, 1)", a=distinct(3, 4, 2))
bad("linalg.norm", "order", "torch.linalg.norm(a, 'two')", words=10, a=signed(3, 4))
bad("linalg.norm", "vector_fro", "torch.linalg.norm(a, 'fro')", words=10, a=signed(3))
bad("linalg.norm", "three_dims", "torch.linalg.norm(a, 2)", words=10, a=signed(2, 3, 4))
bad("linalg.norm", "integers", "torch.linalg.norm(a)", words=10, a=signed(3, dtype="int64"))
bad("linalg.norm", "empty_inf", "torch.linalg.norm(a, float('inf'))", words=10, a=signed(0))

# --- square matrices -------------------------------------------------------------------------------------------------
# A multiple of the identity keeps every sample far from singular.

SQUARE = "a + 4 * torch.eye(3, dtype=a.dtype)"
HERMITIAN = "a @ a.mH + 2 * torch.eye(3, dtype=a.dtype)"

for name in ["linalg.det", "det"]:
    op(name, "plain", SQUARE, "function" if "." in name else CALLS, dtypes=LAPACK, a=signed(3, 3))
    op(name, "batch", "a", a=signed(2, 2, 2))
    op(name, "singular", "a", second=False, a=values([[1.0, 2.0], [2.0, 4.0]]))
    op(name, "one", "a", a=signed(1, 1))
    bad(name, "not_square", f"torch.{name}(a)", words=14, a=signed(2, 3))
    bad(name, "vector", f"torch.{name}(a)", words=14, a=signed(3))
op("linalg.det", "out", SQUARE, "out", a=signed(3, 3))
op("linalg.det", "empty", "a", a=signed(0, 0))
for name in ["linalg.slogdet", "slogdet"]:
    op(name, "plain", SQUARE, "function out" if "." in name else CALLS, dtypes=LAPACK, a=signed(3, 3))
    op(name, "batch", "a", a=signed(2, 3, 3))
    bad(name, "not_square", f"torch.{name}(a)", words=14, a=signed(2, 3))
op("linalg.slogdet", "singular", "a", first=False, a=values([[0.0, 0.0], [2.0, 4.0]]))
expression(
    "linalg.slogdet", "fields", f"(lambda r: (r.sign, r.logabsdet))(torch.linalg.slogdet({SQUARE}))", a=signed(3, 3)
)
op("logdet", "plain", HERMITIAN, CALLS, a=signed(3, 3))
for name in ["linalg.inv", "inverse"]:
    op(name, "plain", SQUARE, "function out" if "." in name else CALLS, dtypes=LAPACK, a=signed(3, 3))
    op(name, "batch", "(a + 4 * torch.eye(2, dtype=a.dtype))", a=signed(2, 2, 2))
    op(name, "empty", "a", a=signed(0, 0))
    bad(name, "singular", f"torch.{name}(a)", words=8, a=values([[1.0, 2.0], [2.0, 4.0]]))
    bad(name, "not_square", f"torch.{name}(a)", words=14, a=signed(2, 3))
    bad(name, "vector", f"torch.{name}(a)", words=14, a=signed(3))
    bad(name, "integers", f"torch.{name}(a)", words=10, a=signed(3, 3, dtype="int64"))
bad("linalg.inv", "singular_batch", "torch.linalg.inv(torch.zeros(2, 2, 2))", words=8)

op("linalg.solve", "matrix", f"{SQUARE}, b", "function out", dtypes=LAPACK, a=signed(3, 3), b=signed(3, 2))
op("linalg.solve", "vector", f"{SQUARE}, b", a=signed(3, 3), b=signed(3))
op("linalg.solve", "batch", f"{SQUARE}, b", a=signed(2, 3, 3), b=signed(2, 3, 4))
op("linalg.solve", "broadcast", f"{SQUARE}, b", a=signed(2, 3, 3), b=signed(3, 4))
op("linalg.solve", "batch_of_vectors", f"{SQUARE}, b", a=signed(2, 3, 3), b=signed(2, 3))
op("linalg.solve", "from_the_left", f"{SQUARE}, b, left=False", a=signed(3, 3), b=signed(2, 3))
bad("linalg.solve", "singular", "torch.linalg.solve(a, a)", words=8, a=values([[1.0, 2.0], [2.0, 4.0]]))
bad("linalg.solve", "sizes", "torch.linalg.solve(a, b)", words=12, a=signed(3, 3), b=signed(2, 2))
bad("linalg.solve", "not_square", "torch.linalg.solve(a, a)", words=14, a=signed(2, 3))
bad("linalg.solve", "dtypes", "torch.linalg.solve(a, b)", words=12, a=signed(3, 3), b=signed(3, 2, dtype="float32"))

for name in ["linalg.cholesky", "cholesky"]:
    op(name, "plain", HERMITIAN, "function out" if "." in name else CALLS, dtypes=LAPACK, a=signed(3, 3))
    op(name, "batch", HERMITIAN, a=signed(2, 3, 3))
    op(name, "upper", f"{HERMITIAN}, upper=True", a=signed(3, 3))
    bad(name, "not_positive", f"torch.{name}(-torch.eye(3))", words=8)
    bad(name, "not_square", f"torch.{name}(a)", words=14, a=signed(2, 3))
op("linalg.cholesky", "lower_half_only", "a", a=values([[4.0, 99.0], [2.0, 5.0]]))
op("linalg.solve_triangular", "upper", f"torch.triu({SQUARE}), b, upper=True", a=signed(3, 3), b=signed(3, 2))
op("linalg.solve_triangular", "lower", f"torch.tril({SQUARE}), b, upper=False", a=signed(3, 3), b=signed(3, 2))

# --- factors ---------------------------------------------------------------------------------------------------------

op("linalg.qr", "plain", "a", "function out", dtypes=LAPACK, tolerance=LOOSE, a=signed(4, 3))
op("linalg.qr", "square", "a", tolerance=LOOSE, a=signed(3, 3))
op("linalg.qr", "batch", "a", tolerance=LOOSE, a=signed(2, 4, 3))
op("linalg.qr", "complete", "a, 'complete'", first=False, a=signed(4, 3))
op("linalg.qr", "r", "a, mode='r'", first=False, a=signed(4, 3))
expression("linalg.qr", "fields", "(lambda r: (r.Q, r.R))(torch.linalg.qr(a))", tolerance=LOOSE, a=signed(4, 3))
expression("linalg.qr", "wide_values", "(lambda q, r: q @ r)(*torch.linalg.qr(a.detach()))", a=signed(3, 4))
bad(
    "linalg.qr",
    "wide_backward",
    "torch.linalg.qr(a)[0].sum().backward()",
    words=10,
    a=signed(3, 4, grad=True),
    raises=None,
)
bad("linalg.qr", "complete_backward", "torch.linalg.qr(a, 'complete')[0].sum().backward()", words=10, a=signed(4, 3))
bad("linalg.qr", "r_backward", "torch.linalg.qr(a, 'r')[1].sum().backward()", words=10, a=signed(4, 3))
bad("linalg.qr", "mode", "torch.linalg.qr(a, 'full')", words=10, a=signed(4, 3))
bad("linalg.qr", "vector", "torch.linalg.qr(a)", words=14, a=signed(4))

SVD = "(lambda u, s, v: ({}))(*torch.linalg.svd(a, full_matrices=False))"
expression("linalg.svd", "product", SVD.format("(u * s) @ v"), tolerance=LOOSE, a=signed(4, 3))
expression("linalg.svd", "low_rank", SVD.format("(u[:, :2] * s[:2]) @ v[:2]"), tolerance=LOOSE, a=signed(4, 3))
expression(
    "linalg.svd",
    "projectors",
    SVD.format("u[:, :1] @ u[:, :1].mT, v[:1].mT @ v[:1]"),
    tolerance=(1e-6, 1e-6),
    a=signed(3, 3),
)
expression("linalg.svd", "wide", SVD.format("s, (u * s ** 2) @ v"), tolerance=LOOSE, a=signed(3, 4))
expression("linalg.svd", "batch", SVD.format("s, (u * s[:, None]) @ v"), tolerance=LOOSE, a=signed(2, 3, 2))
expression("linalg.svd", "shapes", "[x.shape for x in (*torch.linalg.svd(a), *torch.svd(a))]", a=signed(4, 3))
expression(
    "linalg.svd",
    "fields",
    "(lambda r: (r.U.abs(), r.S, r.Vh.abs()))(torch.linalg.svd(a, full_matrices=False))",
    tolerance=(1e-6, 1e-6),
    a=signed(4, 3),
)
expression(
    "linalg.svd",
    "float32",
    SVD.format("s, (u * s) @ v"),
    tolerance=(1e-4, 1e-4),
    second=False,
    a=signed(4, 3, dtype="float32"),
)
expression("svd", "product", "(lambda u, s, v: (s, (u * s) @ v.mT))(*torch.svd(a))", tolerance=LOOSE, a=signed(4, 3))
op("linalg.svdvals", "plain", "a", "function out", dtypes=LAPACK, tolerance=LOOSE, a=signed(4, 3))
op("linalg.svdvals", "batch", "a", tolerance=LOOSE, a=signed(2, 3, 4))
bad("linalg.svd", "vector", "torch.linalg.svd(a)", words=14, a=signed(4))
bad("linalg.svd", "integers", "torch.linalg.svd(a)", words=10, a=signed(3, 3, dtype="int64"))
expression(
    "linalg.svd", "full", "(lambda u, s, v: (u[:, :3] * s) @ v)(*torch.linalg.svd(a))", tolerance=LOOSE, a=signed(4, 3)
)

EIGH = "(lambda w, v: ({}))(*torch.linalg.eigh(a + a.mH))"
expression("linalg.eigh", "product", EIGH.format("w, (v * w ** 2) @ v.mH"), tolerance=LOOSE, a=signed(3, 3))
expression("linalg.eigh", "projector", EIGH.format("v[:, :1] @ v[:, :1].mH"), tolerance=(1e-6, 1e-6), a=signed(3, 3))
expression("linalg.eigh", "batch", EIGH.format("w, (v * w.exp()[:, None]) @ v.mH"), tolerance=LOOSE, a=signed(2, 3, 3))
expression(
    "linalg.eigh", "complex", EIGH.format("w, (v * w) @ v.mH"), tolerance=LOOSE, a=signed(3, 3, dtype="complex128")
)
expression(
    "linalg.eigh",
    "float32",
    EIGH.format("w, (v * w) @ v.mH"),
    tolerance=(1e-4, 1e-4),
    second=False,
    a=signed(3, 3, dtype="float32"),
)
expression(
    "linalg.eigh",
    "fields",
    "(lambda r: (r.eigenvalues, r.eigenvectors.abs()))(torch.linalg.eigh(a + a.mT))",
    tolerance=(1e-6, 1e-6),
    a=signed(3, 3),
)
expression(
    "linalg.eigh",
    "one_half",
    "(torch.linalg.eigh(a)[0], torch.linalg.eigh(a, UPLO='U')[0])",
    tolerance=LOOSE,
    a=positive(3, 3),
)
op("linalg.eigvalsh", "plain", "a + a.mH", "function out", dtypes=LAPACK, tolerance=LOOSE, a=signed(3, 3))
op("linalg.eigvalsh", "batch", "a + a.mT", tolerance=LOOSE, a=signed(2, 3, 3))
bad("linalg.eigh", "not_square", "torch.linalg.eigh(a)", words=14, a=signed(2, 3))
bad("linalg.eigh", "half", "torch.linalg.eigh(a, UPLO='X')", words=10, a=signed(3, 3))

# --- further functions -----------------------------------------------------------------------------------------------

op("trace", "plain", "a", CALLS, a=signed(3, 4))
op("kron", "plain", "a, b", CALLS, a=signed(2, 3), b=signed(3, 2))
op("linalg.pinv", "plain", "a", tolerance=LOOSE, a=signed(4, 3))
op("linalg.matrix_power", "plain", "a, 3", a=signed(3, 3))
op("linalg.matrix_exp", "plain", "a", tolerance=LOOSE, a=signed(3, 3))
op("linalg.multi_dot", "plain", "[a, b, c]", a=signed(2, 3), b=signed(3, 4), c=signed(4, 2))
op("cdist", "plain", "a, b", second=False, a=signed(3, 4), b=signed(2, 4))
