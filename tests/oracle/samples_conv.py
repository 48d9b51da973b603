"""Functions over windows of images and sequences: convolution, pooling, padding, interpolation."""

from __future__ import annotations

from math import inf

from tests.oracle.sampling import FLOATS, Table, distinct, positive, signed, values

MORE = "unfold fold pixel_shuffle pixel_unshuffle lp_pool1d lp_pool2d grid_sample affine_grid max_unpool2d"
table = Table("conv", beyond=" ".join(f"F.{name}" for name in MORE.split()))
op, bad, expression = table.op, table.bad, table.expression

ROUNDED = (1e-2, 1e-2)

# --- convolution -----------------------------------------------------------------------------------------------------

SIGNAL, KERNEL = signed(2, 4, 7), signed(6, 4, 3)
IMAGE, FILTER = signed(2, 4, 5, 6), signed(6, 4, 3, 2)
VOLUME, BLOCK = signed(2, 2, 4, 3, 4), signed(4, 2, 2, 2, 3)
BIAS = signed(6)

for name in ["conv1d", "F.conv1d"]:
    op(name, "plain", "a, w", dtypes="float32 complex128", a=SIGNAL, w=KERNEL)
    op(name, "bias", "a, w, b", dtypes="float32", a=SIGNAL, w=KERNEL, b=BIAS)
    op(name, "stride", "a, w, b, 2", a=SIGNAL, w=KERNEL, b=BIAS)
    op(name, "padding", "a, w, padding=2", a=SIGNAL, w=KERNEL)
    op(name, "dilation", "a, w, dilation=(2,)", a=SIGNAL, w=KERNEL)
    op(name, "groups", "a, w, b, groups=2", a=SIGNAL, w=signed(6, 2, 3), b=BIAS)
    op(name, "everything", "a, w, b, stride=2, padding=3, dilation=2, groups=2", a=SIGNAL, w=signed(6, 2, 3), b=BIAS)
    op(name, "same", "a, w, padding='same'", a=SIGNAL, w=KERNEL)
    op(name, "same_even", "a, w, padding='same', dilation=3", a=SIGNAL, w=signed(6, 4, 2))
    op(name, "valid", "a, w, padding='valid', stride=2", a=SIGNAL, w=KERNEL)
    op(name, "unbatched", "a, w, b", a=signed(4, 7), w=KERNEL, b=BIAS)
    op(name, "window_of_one", "a, w", a=SIGNAL, w=signed(6, 4, 1))
    op(name, "transposed", "a.mT, w", a=signed(2, 7, 4), w=KERNEL)
    op(name, "constant_input", "a, w, b", a=signed(2, 4, 7, grad=False), w=KERNEL, b=BIAS)
    op(name, "constant_weight", "a, w", a=SIGNAL, w=signed(6, 4, 3, grad=False))
    op(name, "empty_batch", "a, w", second=False, a=signed(0, 4, 7), w=KERNEL)
op("F.conv1d", "keywords", "input=a, weight=w, bias=b, stride=1, padding=(1,)", a=SIGNAL, w=KERNEL, b=BIAS)
for name in ["conv2d", "F.conv2d"]:
    op(name, "plain", "a, w", a=IMAGE, w=FILTER)
    op(name, "rounded", "a, w", dtypes=FLOATS, tolerance=ROUNDED, a=IMAGE, w=FILTER)
    op(name, "bias", "a, w, b", dtypes="float32", a=IMAGE, w=FILTER, b=BIAS)
    op(name, "stride", "a, w, stride=(2, 1)", a=IMAGE, w=FILTER)
    op(name, "padding", "a, w, b, 1, (0, 2)", a=IMAGE, w=FILTER, b=BIAS)
    op(name, "dilation", "a, w, dilation=(1, 3)", a=IMAGE, w=FILTER)
    op(name, "groups", "a, w, b, groups=2", a=IMAGE, w=signed(6, 2, 3, 2), b=BIAS)
    op(name, "depthwise", "a, w, groups=4", a=IMAGE, w=signed(8, 1, 3, 2))
    op(name, "everything", "a, w, b, (2, 1), (1, 2), (1, 2), 2", a=IMAGE, w=signed(6, 2, 3, 2), b=BIAS)
    op(name, "same", "a, w, padding='same'", a=IMAGE, w=FILTER)
    op(name, "unbatched", "a, w, b", a=signed(4, 5, 6), w=FILTER, b=BIAS)
    op(name, "window_of_one", "a, w, b", a=IMAGE, w=signed(6, 4, 1, 1), b=BIAS)
    op(name, "whole_image", "a, w, b", a=IMAGE, w=signed(6, 4, 5, 6), b=BIAS)
for name in ["conv3d", "F.conv3d"]:
    op(name, "plain", "a, w, b", dtypes="float32", a=VOLUME, w=BLOCK, b=signed(4))
    op(name, "options", "a, w, None, (2, 1, 1), 1, (1, 2, 1)", a=VOLUME, w=BLOCK)
    op(name, "groups", "a, w, groups=2", a=VOLUME, w=signed(4, 1, 2, 2, 3))
    op(name, "unbatched", "a, w", a=signed(2, 4, 3, 4), w=BLOCK)
bad("conv1d", "channels", "torch.conv1d(a, w)", words=14, a=SIGNAL, w=signed(6, 3, 3))
bad("conv1d", "dims", "torch.conv1d(a, w)", words=14, a=signed(7), w=KERNEL)
bad("conv1d", "kernel_too_large", "torch.conv1d(a, w)", words=10, a=signed(2, 4, 2), w=KERNEL)
bad("conv1d", "bias", "torch.conv1d(a, w, b)", words=10, a=SIGNAL, w=KERNEL, b=signed(5))
bad("conv1d", "groups", "torch.conv1d(a, w, groups=3)", words=10, a=SIGNAL, w=KERNEL)
bad("conv1d", "dtypes", "torch.conv1d(a, w)", words=10, a=SIGNAL, w=signed(6, 4, 3, dtype="float32"))
bad("conv1d", "stride", "torch.conv1d(a, w, stride=0)", words=10, a=SIGNAL, w=KERNEL)
bad("conv1d", "negative_padding", "torch.conv1d(a, w, padding=-1)", words=10, a=SIGNAL, w=KERNEL)
bad("conv1d", "same_with_stride", "torch.conv1d(a, w, stride=2, padding='same')", words=10, a=SIGNAL, w=KERNEL)
bad("conv1d", "padding_name", "torch.conv1d(a, w, padding='full')", words=10, a=SIGNAL, w=KERNEL)
bad("conv2d", "channels", "torch.conv2d(a, w)", words=14, a=IMAGE, w=signed(6, 3, 3, 2))
bad("conv2d", "dims", "torch.conv2d(a, w)", words=14, a=signed(5, 6), w=FILTER)

for name in ["conv_transpose1d", "F.conv_transpose1d"]:
    op(name, "plain", "a, w", dtypes="float32", a=signed(2, 6, 5), w=KERNEL)
    op(name, "bias", "a, w, b", a=signed(2, 6, 5), w=KERNEL, b=signed(4))
    op(name, "options", "a, w, None, 2, 1, 1", a=signed(2, 6, 5), w=KERNEL)
    op(name, "dilation", "a, w, stride=3, dilation=2, output_padding=1", a=signed(2, 6, 5), w=KERNEL)
    op(name, "groups", "a, w, b, groups=2", a=signed(2, 6, 5), w=KERNEL, b=signed(8))
    op(name, "unbatched", "a, w", a=signed(6, 5), w=KERNEL)
for name in ["conv_transpose2d", "F.conv_transpose2d"]:
    op(name, "plain", "a, w, b", dtypes="float32", a=signed(2, 6, 3, 4), w=FILTER, b=signed(4))
    op(name, "options", "a, w, None, (2, 1), (1, 0), (1, 0), 1, (1, 2)", a=signed(2, 6, 3, 4), w=FILTER)
    op(name, "groups", "a, w, stride=2, groups=3", a=signed(2, 6, 3, 4), w=FILTER)
op("conv_transpose3d", "plain", "a, w, b", a=signed(2, 4, 2, 3, 2), w=BLOCK, b=signed(2))
op(
    "F.conv_transpose3d",
    "options",
    "a, w, stride=(1, 2, 1), padding=1, output_padding=(0, 1, 0)",
    a=signed(1, 4, 3, 3, 2),
    w=BLOCK,
)
bad("conv_transpose1d", "channels", "torch.conv_transpose1d(a, w)", words=14, a=SIGNAL, w=KERNEL)
bad(
    "conv_transpose1d",
    "output_padding",
    "torch.conv_transpose1d(a, w, output_padding=1)",
    words=10,
    a=signed(2, 6, 5),
    w=KERNEL,
)

op("conv_transpose3d", "options", "a, w, stride=2, padding=1", a=signed(1, 4, 3, 3, 2), w=BLOCK)
for name, rank in [("conv3d", 3), ("conv_transpose2d", 2), ("conv_transpose3d", 3)]:
    bad(name, "channels", f"torch.{name}(a, w)", words=14, a=signed(1, 5, *[4] * rank), w=signed(3, 3, *[2] * rank))
    bad(name, "dims", f"torch.{name}(a, w)", words=14, a=signed(4, 4), w=signed(3, 3, *[2] * rank))

# --- pooling ---------------------------------------------------------------------------------------------------------

SEQUENCE, PICTURE, SOLID = distinct(2, 3, 8), distinct(2, 3, 6, 7), distinct(1, 2, 4, 5, 4)
for rank, inputs in [(1, SEQUENCE), (2, PICTURE), (3, SOLID)]:
    for name in [f"max_pool{rank}d", f"F.max_pool{rank}d"]:
        op(name, "plain", "a, 2", dtypes="float32" if rank > 1 else "float32 float64", a=inputs)
        op(name, "stride", "a, 3, stride=2", a=inputs)
        op(name, "padding", "a, 3, 2, 1", a=inputs)
        op(name, "dilation", "a, 2, stride=1, dilation=2", a=inputs)
        op(name, "ceil", "a, 3, stride=2, ceil_mode=True", a=inputs)
    name = f"F.max_pool{rank}d"
    op(name, "indices", "a, 2, return_indices=True", a=inputs)
    op(name, "indices_padded", "a, 3, stride=2, padding=1, return_indices=True", a=inputs)
    op(name, "transposed", "a.transpose(-1, 1), 2", a=inputs)
    op(name, "nan_and_infinity", "a, 2", first=False, a=values([[[1.0, -inf, -inf, -inf]]])) if rank == 1 else None
    bad(name, "kernel_zero", f"{name}(a, 0)", words=10, a=inputs)
    bad(name, "padding", f"{name}(a, 2, padding=2)", words=10, a=inputs)
    bad(name, "dims", f"{name}(a, 2)", words=10, a=signed(4))
    bad(name, "too_small", f"{name}(a, 20)", words=6, a=inputs)
    name = f"F.avg_pool{rank}d"
    op(name, "plain", "a, 2", dtypes="float32", a=inputs)
    op(name, "stride", "a, 3, stride=2", a=inputs)
    op(name, "padding", "a, 3, 2, 1", a=inputs)
    op(name, "ceil", "a, 3, stride=2, padding=1, ceil_mode=True", a=inputs)
    op(name, "excluding_padding", "a, 3, 2, 1, count_include_pad=False", a=inputs)
    bad(name, "padding", f"{name}(a, 2, padding=2)", words=10, a=inputs)
    name = f"F.adaptive_avg_pool{rank}d"
    op(name, "plain", "a, 2", dtypes="float32", a=inputs)
    op(name, "one", "a, 1", a=inputs)
    op(name, "uneven", "a, 3", a=inputs)
    op(name, "grows", "a, 9", a=inputs)
    name = f"F.adaptive_max_pool{rank}d"
    op(name, "plain", "a, 2", dtypes="float32", a=inputs)
    op(name, "uneven", "a, 3, return_indices=True", a=inputs)
    op(name, "one", "a, 1", a=inputs)
    bad(name, "dims", f"{name}(a, 2)", words=10, a=signed(4))
    bad(name.replace("max", "avg"), "dims_of_input", f"{name.replace('max', 'avg')}(a, 2)", words=10, a=signed(4))
op("F.max_pool2d", "pair", "a, (2, 3), (1, 2), (1, 1)", a=PICTURE)
op("F.max_pool2d", "unbatched", "a, 2", a=distinct(3, 4, 4))
op("F.max_pool1d", "unbatched", "a, 2", a=distinct(3, 6))
op("F.avg_pool2d", "pair", "a, kernel_size=(2, 3), stride=(1, 2), padding=(1, 0)", a=PICTURE)
op("F.avg_pool2d", "divisor", "a, 2, divisor_override=3", a=PICTURE)
op("F.avg_pool2d", "unbatched", "a, 2", a=distinct(3, 4, 4))
op("avg_pool1d", "torch", "a, 2, 1", a=SEQUENCE)
op("F.adaptive_avg_pool2d", "pair", "a, (2, None)", a=PICTURE)
op("F.adaptive_avg_pool2d", "unbatched", "a, (1, 3)", a=distinct(3, 4, 4))
op("adaptive_avg_pool1d", "torch", "a, 3", a=SEQUENCE)
op("F.adaptive_max_pool2d", "pair", "a, (2, 5)", a=PICTURE)
bad("F.adaptive_avg_pool2d", "size", "F.adaptive_avg_pool2d(a, (2, 2, 2))", words=10, a=PICTURE)
bad("F.adaptive_avg_pool1d", "dims", "F.adaptive_avg_pool1d(a, 2)", words=10, a=signed(4))
op("F.lp_pool2d", "plain", "a, 2, 2", a=positive(1, 2, 4, 4))

# --- padding ---------------------------------------------------------------------------------------------------------

op("F.pad", "constant", "a, (1, 2)", dtypes="float32 int64 bool complex64 bfloat16", a=signed(3, 4))
op("F.pad", "two_dims", "a, (1, 2, 0, 1)", a=signed(2, 3, 4))
op("F.pad", "value", "a, (1, 1), 'constant', 2.5", a=signed(3, 4))
op("F.pad", "keywords", "a, pad=[1, 1], mode='constant', value=-inf", second=False, a=signed(3))
op("F.pad", "crops", "a, (-1, 2, -1, 0)", a=signed(3, 4))
op("F.pad", "nothing", "a, (0, 0)", a=signed(3, 4))
op("F.pad", "empty", "a, (1, 1)", a=signed(2, 0))
for mode in ["reflect", "replicate", "circular"]:
    op("F.pad", f"{mode}_1d", f"a, (2, 1), '{mode}'", a=signed(2, 3, 4))
    op("F.pad", f"{mode}_1d_unbatched", f"a, (1, 2), mode='{mode}'", a=signed(3, 4))
    op("F.pad", f"{mode}_2d", f"a, (2, 1, 0, 1), '{mode}'", a=signed(2, 3, 4, 3))
    op("F.pad", f"{mode}_3d", f"a, (1, 1, 2, 0, 0, 1), '{mode}'", a=signed(1, 2, 3, 3, 4))
bad("F.pad", "odd", "F.pad(a, (1,))", words=10, a=signed(3, 4))
bad("F.pad", "too_many", "F.pad(a, (1, 1, 1, 1))", words=10, a=signed(3))
bad("F.pad", "reflect_too_far", "F.pad(a, (4, 0), 'reflect')", words=10, a=signed(2, 3, 4))
bad("F.pad", "circular_too_far", "F.pad(a, (5, 0), 'circular')", words=10, a=signed(2, 3, 4))
bad("F.pad", "mode", "F.pad(a, (1, 1), 'mirror')", words=10, a=signed(2, 3, 4))
bad("F.pad", "reflect_dims", "F.pad(a, (1, 1), 'reflect')", words=10, a=signed(4))
bad("F.pad", "negative_size", "F.pad(a, (-3, -3))", words=10, a=signed(3, 4))

# --- interpolation ---------------------------------------------------------------------------------------------------

for mode, inputs in [
    ("nearest", SEQUENCE),
    ("nearest", PICTURE),
    ("nearest", SOLID),
    ("nearest-exact", SEQUENCE),
    ("nearest-exact", PICTURE),
    ("linear", SEQUENCE),
    ("bilinear", PICTURE),
    ("trilinear", SOLID),
    ("bicubic", PICTURE),
    ("area", SEQUENCE),
    ("area", PICTURE),
]:
    rank = len(inputs.shape) - 2
    op("F.interpolate", f"{mode}_{rank}d_twice", f"a, scale_factor=2, mode='{mode}'", dtypes="float32", a=inputs)
    op("F.interpolate", f"{mode}_{rank}d_size", f"a, size={(5,) * rank}, mode='{mode}'", a=inputs)
    op("F.interpolate", f"{mode}_{rank}d_shrink", f"a, scale_factor=0.6, mode='{mode}'", a=inputs)
    if "linear" in mode or mode == "bicubic":
        for case, rest in {
            "aligned": "size=9, align_corners=True",
            "recomputed": "scale_factor=1.7, recompute_scale_factor=True",
        }.items():
            op("F.interpolate", f"{mode}_{rank}d_{case}", f"a, mode='{mode}', {rest}", a=inputs)
op("F.interpolate", "same_size", "a, size=(6, 7)", a=PICTURE)
op("F.interpolate", "scale_pair", "a, scale_factor=(2, 1.5), mode='bilinear', align_corners=False", a=PICTURE)
op("F.interpolate", "antialias", "a, scale_factor=0.5, mode='bilinear', antialias=True", raises=None, a=PICTURE)
bad("F.interpolate", "nothing", "F.interpolate(a)", words=10, a=PICTURE)
bad("F.interpolate", "both", "F.interpolate(a, size=2, scale_factor=2)", words=10, a=PICTURE)
bad("F.interpolate", "mode", "F.interpolate(a, size=2, mode='cubic')", words=10, a=PICTURE)
bad("F.interpolate", "rank", "F.interpolate(a, size=2, mode='bilinear')", words=10, a=SEQUENCE)
bad("F.interpolate", "align_nearest", "F.interpolate(a, size=2, align_corners=True)", words=10, a=PICTURE)
bad("F.interpolate", "sizes", "F.interpolate(a, size=(2, 2, 2))", words=10, a=PICTURE)
bad("F.interpolate", "empty_output", "F.interpolate(a, size=0)", words=10, a=PICTURE)

# --- rearrangements of windows ---------------------------------------------------------------------------------------

op("F.unfold", "plain", "a, (2, 3), padding=1, stride=2", a=PICTURE)
op("F.fold", "plain", "a, (4, 4), 2", a=signed(2, 8, 9))
op("F.pixel_shuffle", "plain", "a, 2", a=signed(1, 8, 2, 3))
op("F.pixel_unshuffle", "plain", "a, 2", a=signed(1, 2, 4, 6))
