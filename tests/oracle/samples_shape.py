"""Functions that rearrange: views with their strides and bases, joining, splitting, repeating, triangles, grids."""

from __future__ import annotations

from tests.oracle.sampling import EVERY, Table, mask, signed, values

table = Table(
    "shape",
    beyond="broadcast_shapes tensor_split split_with_sizes dstack column_stack row_stack atleast_1d atleast_2d atleast_3d "
    "rot90 unfold as_strided diag_embed tril_indices view_as_real view_as_complex cartesian_prod diagflat block_diag "
    "combinations constant_pad_nd adjoint hsplit vsplit dsplit",
)

SHAPES = {"a": signed(2, 3, 4)}


def view(function: str, case: str, program: str, **rest: object) -> None:
    """A rearrangement of which strides, offset and base are compared too; `|` separates further spellings of it."""
    for count, spelling in enumerate(program.split(" | ")):
        table.expression(function, case if count == 0 else f"{case}-{count + 1}", spelling, layout=True, **rest)


op, bad, expression = table.op, table.bad, table.expression

# --- new shapes for the same elements --------------------------------------------------------------------------------

view("reshape", "plain", "torch.reshape(a, (4, 6)) | a.reshape(4, 6) | a.reshape((4, 6)) | a.reshape([4, 6])", **SHAPES)
view("reshape", "inferred", "torch.reshape(a, (-1, 6)) | a.reshape(-1) | a.reshape(6, -1, 2)", **SHAPES)
view("reshape", "keyword", "torch.reshape(input=a, shape=(6, 4)) | a.reshape(shape=(6, 4))", **SHAPES)
view("reshape", "same", "a.reshape(2, 3, 4) | a.reshape(a.shape) | a.reshape_as(a)", **SHAPES)
view("reshape", "copies", "a.t().reshape(12) | a[:, ::2].reshape(-1) | a.t().reshape(3, 4)", a=signed(3, 4))
view("reshape", "strided_view", "a[:, :2].reshape(3, 2, 1) | a[::2].reshape(2, 2, 2)", a=signed(3, 4))
view("reshape", "empty", "a.reshape(0, 6) | a.reshape(3, 0) | a.reshape(-1, 3)", a=signed(0, 3))
view("reshape", "zero_dim", "a.reshape(()) | a.reshape(1) | a.reshape(1, 1)", a=signed())
view("reshape", "to_zero_dim", "a.reshape(()) | a.reshape([])", a=signed(1))
bad("reshape", "count", "a.reshape(5, 5)", **SHAPES)
bad("reshape", "two_inferred", "a.reshape(-1, -1)", **SHAPES)
bad("reshape", "inferred", "a.reshape(-1, 7)", **SHAPES)
bad("reshape", "negative", "a.reshape(-2, 12)", **SHAPES)
bad("reshape", "float", "a.reshape(2.0, 12)", **SHAPES)
bad("reshape", "empty_inferred", "a.reshape(-1, 0)", a=signed(0, 3))

view(
    "view", "plain", "a.view(4, 6) | a.view((4, 6)) | a.view(-1) | a.view(2, -1) | a.view_as(a.reshape(6, 4))", **SHAPES
)
view("view", "size", "a.view(torch.Size([6, 4])) | a.view(size=(6, 4))", **SHAPES)
view("view", "compatible_strides", "a.t().view(4, 3, 1) | a[:, :2].view(3, 1, 2)", a=signed(3, 4))
view("view", "empty", "a.view(0) | a.view(6, 0)", a=signed(0, 3))
view("view", "whole", "a.view(6)", a=signed(2, 3, dtype="int64"))
expression(
    "view",
    "bits",
    "(a.view(torch.int32), a.view(torch.float16), a.view(torch.float64))",
    first=False,
    a=signed(2, 4, dtype="float32"),
)
expression("view_as_real", "plain", "torch.view_as_real(a)", a=signed(3, dtype="complex128"))
expression("view_as_complex", "plain", "torch.view_as_complex(a)", a=signed(3, 2))
bad("view", "count", "a.view(5, 5)", **SHAPES)
bad("view", "strides", "a.t().view(12)", words=12, a=signed(3, 4))
bad("view", "bits_size", "a.view(torch.float64)", a=signed(3, dtype="float32"))

view("flatten", "plain", "torch.flatten(a) | a.flatten() | a.ravel() | torch.ravel(a)", **SHAPES)
view("flatten", "from", "torch.flatten(a, 1) | a.flatten(1) | a.flatten(start_dim=-2)", **SHAPES)
view("flatten", "between", "a.flatten(0, 1) | torch.flatten(a, start_dim=0, end_dim=-2) | a.flatten(1, 1)", **SHAPES)
view("flatten", "zero_dim", "a.flatten()", a=signed())
view("flatten", "one_dim", "a.flatten()", a=signed(3))
view("flatten", "transposed", "a.t().flatten()", a=signed(3, 4))
view("flatten", "empty", "a.flatten()", a=signed(0, 3))
bad("flatten", "order", "a.flatten(2, 1)", **SHAPES)
bad("flatten", "dim", "a.flatten(5)", words=14, **SHAPES)

view(
    "unflatten", "plain", "torch.unflatten(a, 2, (2, 2)) | a.unflatten(2, (2, 2)) | a.unflatten(-1, (2, -1))", **SHAPES
)
view("unflatten", "keywords", "a.unflatten(dim=0, sizes=(1, 2))", **SHAPES)
bad("unflatten", "count", "a.unflatten(2, (3, 2))", **SHAPES)
bad("unflatten", "empty", "a.unflatten(2, ())", **SHAPES)
bad("unflatten", "dim", "a.unflatten(5, (2, 2))", words=14, **SHAPES)

# --- new order for the same dimensions -------------------------------------------------------------------------------

view(
    "permute",
    "plain",
    "torch.permute(a, (2, 0, 1)) | a.permute(2, 0, 1) | a.permute((2, 0, 1)) | a.permute(dims=(2, 0, 1))",
    **SHAPES,
)
view("permute", "negative", "a.permute(-1, 0, 1) | a.permute(0, -1, -2)", **SHAPES)
view("permute", "zero_dim", "a.permute(()) | a.permute([])", a=signed())
bad("permute", "count", "a.permute(0, 1)", words=14, **SHAPES)
bad("permute", "repeated", "a.permute(0, 0, 1)", **SHAPES)
bad("permute", "dim", "a.permute(0, 1, 3)", words=14, **SHAPES)

view(
    "transpose",
    "plain",
    "torch.transpose(a, 0, 2) | a.transpose(0, 2) | a.transpose(dim0=0, dim1=2) | a.swapaxes(0, 2)",
    **SHAPES,
)
view("transpose", "spellings", "a.swapdims(0, 2) | torch.swapaxes(a, 0, 2) | torch.swapdims(a, 0, 2)", **SHAPES)
view("transpose", "negative", "a.transpose(-1, -2) | a.mT | a.transpose(1, 1)", **SHAPES)
view("transpose", "zero_dim", "a.transpose(0, 0) | a.transpose(-1, 0)", a=signed())
expression("transpose", "inplace", "(x := a.clone()).transpose_(0, 2)", layout=True, **SHAPES)
bad("transpose", "dim", "a.transpose(0, 3)", words=14, **SHAPES)
bad("transpose", "missing", "a.transpose(0)", **SHAPES)

view("t", "plain", "torch.t(a) | a.t() | a.T", a=signed(3, 4))
view("t", "one_dim", "torch.t(a) | a.t()", a=signed(3))
view("t", "zero_dim", "a.t()", a=signed())
expression("t", "inplace", "(x := a.clone()).t_()", layout=True, a=signed(3, 4))
bad("t", "three_dims", "a.t()", words=14, **SHAPES)
bad("t", "mT", "a.mT", words=12, a=signed(3))

view(
    "movedim",
    "plain",
    "torch.movedim(a, 0, 2) | a.movedim(0, 2) | a.moveaxis(0, 2) | torch.moveaxis(a, 0, 2)",
    **SHAPES,
)
view("adjoint", "plain", "torch.adjoint(a) | a.adjoint() | a.mH", **SHAPES)
expression("adjoint", "complex", "(a.mH, a.H, a.adjoint())", a=signed(2, 3, dtype="complex128"))
bad("adjoint", "one_dim", "a.adjoint()", a=signed(3))
view("movedim", "several", "a.movedim((0, 1), (2, 0)) | a.movedim([0, 1], [-1, -2]) | a.movedim(-1, 0)", **SHAPES)
view("movedim", "keywords", "torch.movedim(a, source=0, destination=1)", **SHAPES)
bad("movedim", "counts", "a.movedim((0, 1), (0,))", **SHAPES)
bad("movedim", "repeated", "a.movedim((0, 0), (1, 2))", **SHAPES)
bad("movedim", "dim", "a.movedim(0, 5)", words=14, **SHAPES)

# --- dimensions of size one ------------------------------------------------------------------------------------------

ONES = {"a": signed(1, 3, 1, 4)}
view("squeeze", "all", "torch.squeeze(a) | a.squeeze()", **ONES)
view("squeeze", "dim", "torch.squeeze(a, 0) | a.squeeze(0) | a.squeeze(dim=-2)", **ONES)
view("squeeze", "other_dim", "a.squeeze(1) | a.squeeze(-1)", **ONES)
view("squeeze", "dims", "a.squeeze((0, 2)) | torch.squeeze(a, (0, 1)) | a.squeeze(dim=[-2])", **ONES)
view("squeeze", "zero_dim", "a.squeeze() | a.squeeze(0)", a=signed())
view("squeeze", "to_zero_dim", "a.squeeze()", a=signed(1, 1))
expression("squeeze", "inplace", "(x := a.clone()).squeeze_()", layout=True, **ONES)
expression("squeeze", "inplace_dim", "(x := a.clone()).squeeze_(0)", layout=True, **ONES)
bad("squeeze", "dim", "a.squeeze(4)", words=14, **ONES)
view(
    "unsqueeze",
    "plain",
    "torch.unsqueeze(a, 0) | a.unsqueeze(1) | a.unsqueeze(-1) | a.unsqueeze(dim=-3)",
    a=signed(3, 4),
)
view("unsqueeze", "zero_dim", "a.unsqueeze(0) | a.unsqueeze(-1)", a=signed())
view("unsqueeze", "transposed", "a.t().unsqueeze(1)", a=signed(3, 4))
expression("unsqueeze", "inplace", "(x := a.clone()).unsqueeze_(1)", layout=True, a=signed(3, 4))
bad("unsqueeze", "dim", "a.unsqueeze(3)", words=14, a=signed(3, 4))
bad("unsqueeze", "no_dim", "a.unsqueeze()", a=signed(3, 4))

view(
    "expand", "plain", "a.expand(2, 3, 4) | a.expand((2, 3, 4)) | a.expand(2, -1, 4) | a.expand(-1, 4)", a=signed(3, 1)
)
view("expand", "as", "a.expand_as(b)", a=signed(3, 1), b=signed(2, 3, 4))
view("expand", "broadcast_to", "torch.broadcast_to(a, (2, 3, 4)) | a.broadcast_to((3, 4))", a=signed(3, 1))
view("expand", "zero_dim", "a.expand(3) | a.expand(2, 3) | a.expand(())", a=signed())
view("expand", "empty", "a.expand(0, 3) | a.expand(3, 0)", a=signed(1))
view("expand", "same", "a.expand(3, 4)", a=signed(3, 4))
bad("expand", "size", "a.expand(2, 5)", words=12, a=signed(3, 4))
bad("expand", "fewer_dims", "a.expand(4)", words=12, a=signed(3, 4))
bad("expand", "new_negative", "a.expand(-1, 3, 4)", words=12, a=signed(3, 4))
bad("expand", "write", "a.detach().expand(3, 4).add_(1)", words=12, a=signed(3, 1))
expression("broadcast_tensors", "plain", "torch.broadcast_tensors(a, b)", a=signed(3, 1), b=signed(4))
bad("broadcast_tensors", "shapes", "torch.broadcast_tensors(a, b)", words=12, a=signed(3), b=signed(4))
expression("broadcast_shapes", "plain", "torch.broadcast_shapes((3, 1), (4,), (2, 1, 1))")
bad("broadcast_shapes", "shapes", "torch.broadcast_shapes((3,), (4,))")

# --- repeating -------------------------------------------------------------------------------------------------------

expression("repeat", "plain", "a.repeat(2, 3)", dtypes=EVERY, a=signed(3, 4))
expression("repeat", "grows", "a.repeat(2, 1, 3)", a=signed(3, 4))
expression("repeat", "tuple", "a.repeat((2, 2))", a=signed(3, 4))
expression("repeat", "zero", "a.repeat(2, 0)", a=signed(3, 4))
expression("repeat", "zero_dim", "(a.repeat(3), a.repeat(2, 2), a.repeat(()))", a=signed())
expression("repeat", "transposed", "a.t().repeat(1, 2)", a=signed(3, 4))
bad("repeat", "too_few", "a.repeat(2)", words=12, a=signed(3, 4))
bad("repeat", "negative", "a.repeat(2, -1)", a=signed(3, 4))
op("tile", "plain", "a, (2, 3)", "function method", a=signed(3, 4))
op("tile", "fewer", "a, (2,)", "function method", a=signed(3, 4))
op("tile", "more", "a, (2, 1, 3)", a=signed(3, 4))
expression("tile", "spread", "a.tile(2, 2)", a=signed(3, 4))
bad("tile", "negative", "a.tile((2, -1))", a=signed(3, 4))
bad("tile", "string", "torch.tile(a, 'x')", a=signed(3, 4))
op("repeat_interleave", "scalar", "a, 2", "function method", a=signed(3, 4))
op("repeat_interleave", "dim", "a, 3, 1", "function method", dtypes=EVERY, a=signed(2, 3))
op("repeat_interleave", "keywords", "a, repeats=2, dim=-2", a=signed(2, 3))
op("repeat_interleave", "tensor", "a, r, 0", "function method", a=signed(3, 4), r=values([2, 0, 3], "int64"))
op("repeat_interleave", "flat_tensor", "a, r", a=signed(4), r=values([1, 2, 0, 1], "int64"))
op("repeat_interleave", "one_tensor", "a, r, 1", a=signed(3, 4), r=values([2], "int64"))
op("repeat_interleave", "output_size", "a, r, dim=0, output_size=5", a=signed(3, 4), r=values([2, 0, 3], "int64"))
op("repeat_interleave", "counts", "r", r=values([1, 2, 0, 3], "int64"))
bad("repeat_interleave", "counts", "a.repeat_interleave(r, 0)", words=12, a=signed(3, 4), r=values([1, 2], "int64"))
bad("repeat_interleave", "negative", "a.repeat_interleave(r, 0)", a=signed(2, 4), r=values([1, -2], "int64"))
bad("repeat_interleave", "float_counts", "a.repeat_interleave(a)", a=signed(3))

# --- splitting -------------------------------------------------------------------------------------------------------

LONG = {"a": signed(5, 6)}
view("chunk", "plain", "torch.chunk(a, 2) | a.chunk(2) | a.chunk(3, 1) | a.chunk(chunks=2, dim=-1)", **LONG)
view("chunk", "uneven", "a.chunk(3) | a.chunk(4) | a.chunk(9) | a.chunk(4, 1)", **LONG)
view("chunk", "empty", "a.chunk(3)", a=signed(0, 3))
bad("chunk", "zero", "a.chunk(0)", **LONG)
bad("chunk", "zero_dim", "a.chunk(2)", a=signed())
bad("chunk", "dim", "a.chunk(2, 5)", words=14, **LONG)
view(
    "split",
    "plain",
    "torch.split(a, 2) | a.split(2) | a.split(4, 1) | a.split(split_size=2, dim=-1) | a.split(9)",
    **LONG,
)
view(
    "split",
    "sizes",
    "torch.split(a, [1, 4]) | a.split((1, 2, 3), 1) | a.split([0, 5]) | a.split(split_size=[2, 3])",
    **LONG,
)
view("split_with_sizes", "plain", "torch.split_with_sizes(a, [1, 4]) | a.split_with_sizes([2, 4], 1)", **LONG)
bad("split", "sum", "a.split([1, 2])", words=14, **LONG)
bad("split", "negative", "a.split(-1)", **LONG)
bad("split", "zero", "a.split(0)", **LONG)
bad("split", "zero_dim", "a.split(1)", a=signed())
view(
    "tensor_split",
    "plain",
    "torch.tensor_split(a, 3) | a.tensor_split(4, 1) | a.tensor_split((1, 3)) | a.tensor_split([2], dim=1)",
    **LONG,
)
view("hsplit", "plain", "torch.hsplit(a, 2) | a.hsplit((1, 3)) | a[0].hsplit(3)", **LONG)
view("vsplit", "plain", "torch.vsplit(a, 5) | a.vsplit([2])", **LONG)
view("dsplit", "plain", "torch.dsplit(a, 2) | a.dsplit([1, 3])", **SHAPES)
bad("hsplit", "uneven", "a.hsplit(4)", words=14, **LONG)
bad("dsplit", "two_dims", "a.dsplit(2)", words=14, **LONG)
view("unbind", "plain", "torch.unbind(a) | a.unbind() | a.unbind(1) | a.unbind(dim=-1)", **SHAPES)
view("unbind", "empty", "a.unbind()", a=signed(0, 3))
bad("unbind", "zero_dim", "a.unbind()", a=signed())
bad("unbind", "dim", "a.unbind(3)", words=14, **SHAPES)

# --- joining ---------------------------------------------------------------------------------------------------------

PAIR = {"a": signed(2, 3), "b": signed(2, 3)}
op("cat", "plain", "[a, b]", "function out", dtypes=EVERY, **PAIR)
op("cat", "dim", "(a, b, a), 1", **PAIR)
op("cat", "negative_dim", "[a, b], dim=-1", **PAIR)
op("cat", "uneven", "[a, b], 0", a=signed(2, 3), b=signed(4, 3))
op("cat", "one", "[a]", a=signed(2, 3))
op("cat", "keywords", "tensors=[a, b], dim=0", **PAIR)
op("cat", "legacy_empty", "[a, b]", a=signed(2, 3), b=signed(0))
op("cat", "empty", "[a, b]", a=signed(0, 3), b=signed(2, 3))
op("cat", "promotes", "[a, b]", second=False, tolerance=(1e-6, 1e-6), a=signed(2, dtype="float32"), b=signed(3))
op("cat", "promotes_whole", "[a, b]", a=signed(2, dtype="int64"), b=signed(3, dtype="float32"))
op("cat", "promotes_mask", "[a, b]", a=mask(2), b=signed(3, dtype="int32"))
op("cat", "transposed", "[a.t(), b.t()], 1", **PAIR)
op("concat", "plain", "[a, b], 1", "function out", **PAIR)
op("concatenate", "plain", "[a, b], axis=1", **PAIR)
bad("cat", "shapes", "torch.cat([a, b])", words=12, a=signed(2, 3), b=signed(2, 4))
bad("cat", "dims", "torch.cat([a, b])", words=12, a=signed(2, 3), b=signed(3))
bad("cat", "zero_dim", "torch.cat([a, a])", a=signed())
bad("cat", "nothing", "torch.cat([])")
bad("cat", "dim", "torch.cat([a, a], 2)", words=14, a=signed(2, 3))
bad("cat", "numbers", "torch.cat([1, 2])")
bad("cat", "tensor", "torch.cat(a)", a=signed(2, 3))
op("stack", "plain", "[a, b]", "function out", dtypes=EVERY, **PAIR)
op("stack", "dims", "[a, b, a], 1", **PAIR)
op("stack", "last", "(a, b), dim=-1", **PAIR)
op("stack", "zero_dim", "[a, b]", a=signed(), b=signed())
op("stack", "promotes", "[a, b]", a=signed(2, dtype="int64"), b=signed(2, dtype="float32"))
bad("stack", "shapes", "torch.stack([a, b])", words=12, a=signed(2, 3), b=signed(3, 3))
bad("stack", "nothing", "torch.stack([])")
bad("stack", "dim", "torch.stack([a], 3)", words=14, a=signed(2, 3))
for name in ["hstack", "vstack", "dstack", "column_stack", "row_stack"]:
    op(name, "two_dims", "[a, b]", "function out", **PAIR)
    op(name, "one_dim", "(a, b)", a=signed(3), b=signed(3))
    op(name, "zero_dim", "[a, b]", a=signed(), b=signed())
    bad(name, "nothing", f"torch.{name}([])")
for name in ["atleast_1d", "atleast_2d", "atleast_3d"]:
    expression(name, "plain", f"(torch.{name}(a), torch.{name}(b), torch.{name}(a, b))", a=signed(), b=signed(3))

# --- turning ---------------------------------------------------------------------------------------------------------

op("flip", "plain", "a, (0,)", "function method", dtypes=EVERY, a=signed(3, 4))
op("flip", "dims", "a, [0, -1]", "function method", **SHAPES)
op("flip", "number", "a, dims=(1,)", **SHAPES)
op("flip", "none", "a, ()", a=signed(3))
op("flip", "transposed", "a.t(), (1,)", layout=True, a=signed(3, 4))
expression(
    "flip",
    "spread",
    "(a.flip(0), a.flip(0, 1), torch.fliplr(a), torch.flipud(a), a.fliplr(), a.flipud())",
    a=signed(3, 4),
)
bad("flip", "repeated", "a.flip(0, 0)", words=10, **SHAPES)
bad("flip", "dim", "a.flip(3)", words=14, **SHAPES)
op("roll", "flat", "a, 2", "function method", a=signed(3, 4))
op("roll", "dim", "a, 1, 0", "function method", dtypes=EVERY, a=signed(3, 4))
op("roll", "negative", "a, -1, -1", **SHAPES)
op("roll", "several", "a, (1, -2), (0, 1)", **SHAPES)
op("roll", "keywords", "a, shifts=7, dims=1", **SHAPES)
op("roll", "zero_dim", "a, 1", a=signed())
op("roll", "empty", "a, 1, 0", a=signed(0, 3))
bad("roll", "counts", "a.roll((1, 2), (0,))", words=12, **SHAPES)
bad("roll", "dim", "a.roll(1, 3)", words=14, **SHAPES)
op("rot90", "plain", "a, 1, (0, 1)", "function method", a=signed(3, 4))

# --- parts -----------------------------------------------------------------------------------------------------------

view(
    "narrow",
    "plain",
    "torch.narrow(a, 1, 1, 2) | a.narrow(1, 1, 2) | a.narrow(-1, 0, 3) | a.narrow(1, -2, 1)",
    **SHAPES,
)
view("narrow", "keywords", "a.narrow(dim=0, start=1, length=1) | a.narrow(0, 0, 0)", **SHAPES)
view("narrow", "tensor_start", "torch.narrow(a, 1, s, 2)", a=signed(2, 3, 4), s=values(1, "int64"))
bad("narrow", "length", "a.narrow(1, 2, 3)", words=12, **SHAPES)
bad("narrow", "start", "a.narrow(1, 5, 0)", words=12, **SHAPES)
bad("narrow", "negative_length", "a.narrow(1, 0, -1)", **SHAPES)
bad("narrow", "zero_dim", "a.narrow(0, 0, 1)", a=signed())
view(
    "select", "plain", "torch.select(a, 1, 2) | a.select(1, 2) | a.select(-1, -1) | a.select(dim=0, index=0)", **SHAPES
)
view("select", "to_zero_dim", "a.select(0, 1)", a=signed(3))
bad("select", "index", "a.select(1, 3)", words=12, **SHAPES)
bad("select", "dim", "a.select(3, 0)", words=14, **SHAPES)
bad("select", "zero_dim", "a.select(0, 0)", a=signed())
view("diagonal", "plain", "torch.diagonal(a) | a.diagonal() | a.diagonal(1) | a.diagonal(offset=-1)", a=signed(3, 4))
view("diagonal", "dims", "torch.diagonal(a, 0, 1, 2) | a.diagonal(dim1=-1, dim2=0) | a.diagonal(1, -2, -1)", **SHAPES)
view("diagonal", "outside", "a.diagonal(5) | a.diagonal(-5)", a=signed(3, 4))
bad("diagonal", "same_dims", "a.diagonal(0, 1, 1)", words=12, **SHAPES)
bad("diagonal", "dim", "a.diagonal(0, 0, 3)", words=14, **SHAPES)
bad("diagonal", "one_dim", "a.diagonal()", words=14, a=signed(3))
view("unfold", "plain", "a.unfold(1, 2, 1) | a.unfold(-1, 3, 2)", a=signed(3, 5))
view("as_strided", "plain", "torch.as_strided(a, (2, 3), (1, 2)) | a.as_strided((2, 2), (4, 1), 1)", a=signed(3, 4))

op("diag", "matrix", "a", "function method out", a=signed(3, 4))
op("diag", "matrix_offset", "a, 1", "function method", a=signed(3, 4))
op("diag", "vector", "a", "function method", dtypes="float32 int64 complex64", a=signed(3))
op("diag", "vector_offset", "a, diagonal=-1", "function method", a=signed(3))
bad("diag", "three_dims", "torch.diag(a)", words=10, **SHAPES)
bad("diag", "zero_dim", "torch.diag(a)", words=10, a=signed())
op("diag_embed", "plain", "a", "function method", a=signed(2, 3))
op("diag_embed", "dims", "a, 1, 0, 2", "function method", a=signed(2, 3))
op("diagflat", "matrix", "a", "function method", a=signed(2, 2))
op("diagflat", "offset", "a, -1", a=signed(3))
for name in ["tril", "triu"]:
    op(name, "plain", "a", "function method inplace out", dtypes=EVERY, a=signed(3, 4))
    op(name, "offset", "a, 1", "function method inplace", a=signed(3, 4))
    op(name, "negative_offset", "a, diagonal=-1", "function method", a=signed(4, 3))
    op(name, "batch", "a", a=signed(2, 3, 3))
    op(name, "empty", "a", a=signed(0, 3))
    op(name, "transposed", "a.t()", a=signed(3, 4))
    bad(name, "one_dim", f"torch.{name}(a)", words=10, a=signed(3))
expression(
    "tril_indices", "plain", "(torch.tril_indices(3, 4), torch.triu_indices(3, 3, 1), torch.tril_indices(2, 2, -1))"
)

# --- grids -----------------------------------------------------------------------------------------------------------

op("meshgrid", "ij", "a, b, indexing='ij'", layout=True, a=signed(3), b=signed(4))
op("meshgrid", "xy", "a, b, indexing='xy'", layout=True, a=signed(3), b=signed(4))
op("meshgrid", "list", "[a, b, c], indexing='ij'", a=signed(3), b=signed(2), c=signed())
op("meshgrid", "three_xy", "a, b, c, indexing='xy'", a=signed(3), b=signed(2), c=signed(2))
bad("meshgrid", "two_dims", "torch.meshgrid(a, a, indexing='ij')", words=10, a=signed(3, 4))
bad("meshgrid", "indexing", "torch.meshgrid(a, indexing='ji')", words=10, a=signed(3))
bad("meshgrid", "dtypes", "torch.meshgrid(a, b, indexing='ij')", a=signed(3), b=signed(3, dtype="float32"))
op("cartesian_prod", "plain", "a, b", a=signed(3), b=signed(2))
op("combinations", "plain", "a", a=signed(4))
op("combinations", "three", "a, r=3, with_replacement=True", a=signed(3))
bad("combinations", "two_dims", "torch.combinations(a)", a=signed(2, 2))
op("block_diag", "plain", "a, b, c", a=signed(2, 3), b=signed(2), c=signed())
op(
    "block_diag",
    "promotes",
    "a, b",
    second=False,
    tolerance=(1e-6, 1e-6),
    a=signed(1, 2, dtype="float32"),
    b=signed(2, 1),
)
bad("block_diag", "three_dims", "torch.block_diag(a)", words=10, **SHAPES)

# --- frames ----------------------------------------------------------------------------------------------------------

op("constant_pad_nd", "plain", "a, (1, 2)", dtypes="float32 int64", a=signed(2, 3))
op("constant_pad_nd", "value", "a, (1, 0, 0, 2), 1.5", a=signed(2, 3))
op("constant_pad_nd", "crops", "a, (-1, 1, 1, -1)", a=signed(3, 4))
bad("constant_pad_nd", "odd", "torch.constant_pad_nd(a, (1,))", a=signed(2, 3))
bad("constant_pad_nd", "negative", "torch.constant_pad_nd(a, (-2, -2))", a=signed(2, 3))

# --- copies ----------------------------------------------------------------------------------------------------------

op("clone", "plain", "a", "function method", layout=True, dtypes=EVERY, a=signed(3, 4))
op("clone", "transposed", "a.t()", "function method", layout=True, a=signed(3, 4))
op("clone", "expanded", "a.expand(3, 4)", layout=True, a=signed(4))
op("clone", "memory_format", "a.t(), memory_format=torch.contiguous_format", layout=True, a=signed(3, 4))
view(
    "contiguous",
    "plain",
    "a.contiguous() | a.t().contiguous() | a[:, ::2].contiguous() | a.expand(2, 3, 4).contiguous()",
    a=signed(3, 4),
)
view("detach", "plain", "torch.detach(a) | a.detach()", a=signed(3, 4))
view("alias", "plain", "a[...] | a.view(3, 4) | a[:]", a=signed(3, 4))
expression(
    "numel",
    "plain",
    "(a.numel(), a.nelement(), torch.numel(a), a.dim(), a.ndim, a.size(), a.size(1), a.shape)",
    **SHAPES,
)
bad("size", "dim", "a.size(3)", words=14, **SHAPES)

# --- writing over ----------------------------------------------------------------------------------------------------

WRITTEN = {"a": signed(2, 3)}
expression("fill_", "number", "(x := a.clone()).fill_(1.5)", dtypes=EVERY, **WRITTEN)
expression("fill_", "tensor", "(x := a.clone()).fill_(b)", a=signed(2, 3), b=signed())
expression("fill_", "truncates", "(x := a.clone()).fill_(2.7)", a=signed(2, dtype="int64"))
expression("fill_", "other_dtype", "(x := a.clone()).fill_(b)", second=False, a=signed(2), b=signed(dtype="float32"))
bad("fill_", "complex", "a.clone().fill_(1j)", **WRITTEN)
bad("fill_", "dims", "a.clone().fill_(a)", words=10, **WRITTEN)
bad("fill_", "too_large", "a.clone().fill_(300)", words=9, a=signed(2, dtype="uint8"))
expression("zero_", "plain", "(x := a.clone()).zero_()", dtypes=EVERY, **WRITTEN)
expression("copy_", "plain", "(x := a.clone()).copy_(b)", dtypes=EVERY, a=signed(2, 3), b=signed(2, 3))
expression("copy_", "stretched", "(x := a.clone()).copy_(b)", a=signed(2, 3), b=signed(3))
expression("copy_", "narrower", "(x := a.clone()).copy_(b)", second=False, a=signed(2), b=signed(2, dtype="float32"))
expression("copy_", "to_whole", "(x := a.clone()).copy_(b)", first=False, a=signed(3, dtype="int64"), b=signed(3))
expression("copy_", "to_complex", "(x := a.clone()).copy_(b)", a=signed(3, dtype="complex128"), b=signed(3))
bad("copy_", "shape", "a.clone().copy_(b)", words=12, a=signed(2, 3), b=signed(2))
bad("copy_", "more_dims", "a.clone().copy_(b)", words=12, a=signed(3), b=signed(2, 3))
bad("copy_", "list", "a.clone().copy_([1.0])", a=signed(1))
expression("fill_diagonal_", "plain", "(x := a.clone()).fill_diagonal_(0)", first=False, a=signed(3, 4))
expression("fill_diagonal_", "wrap", "(x := a.clone()).fill_diagonal_(0, wrap=True)", first=False, a=signed(7, 3))
bad("fill_diagonal_", "vector", "a.clone().fill_diagonal_(0)", a=signed(3))
expression("resize_", "smaller", "(x := a.detach().clone()).resize_(2, 2)", first=False, **WRITTEN)
expression("resize_", "larger", "(x := a.detach().clone()).resize_(7)[:6]", first=False, graph=False, **WRITTEN)
bad("resize_", "grad", "a.clone().resize_(3)", **WRITTEN)
