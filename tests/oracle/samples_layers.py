"""What nn.functional holds beyond the engine's promise: options, rare modes, further layers and losses, and refusals."""

from __future__ import annotations

from tests.oracle.sampling import (
    Table,
    distinct,
    index,
    mask,
    positive,
    probability,
    signed,
    unit,
    values,
)

table = Table("layers")
op, bad, expression = table.op, table.bad, table.expression


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


IMAGE, SEQUENCE, VOLUME = signed(2, 4, 5, 6), signed(2, 4, 6), signed(1, 2, 4, 3, 4)
WEIGHT, BIAS = positive(4), signed(4)
MEAN, VAR = signed(4, grad=False), positive(4, grad=False)

# --- norms -----------------------------------------------------------------------------------------------------------

FAR = values([[1000.0, 1000.5, 1001.0, 999.0], [0.1, 0.2, 0.3, 0.4]])
op("F.layer_norm", "far_from_zero", "a, (4,), w, b", dtypes="float32", tolerance=(1e-4, 1e-4), a=FAR, w=WEIGHT, b=BIAS)
op("F.layer_norm", "whole_tensor", "a, (3, 4), w, b", a=signed(3, 4), w=positive(3, 4), b=signed(3, 4))
op("F.layer_norm", "mixed_precision", "a.bfloat16(), (4,), w, b", second=False, tolerance=(2e-2, 2e-2),
   a=signed(3, 4, dtype="float32"), w=positive(4, dtype="float32"), b=signed(4, dtype="float32"))  # fmt: skip
op("F.rms_norm", "constant_input", "a, (4,), w", a=signed(3, 4, grad=False), w=WEIGHT)
op("F.group_norm", "constant_input", "a, 2, w, b", a=signed(2, 4, 3, grad=False), w=WEIGHT, b=BIAS)
op("F.batch_norm", "far_from_zero", "a + 500, None, None, w, b, True", tolerance=(1e-6, 1e-6),
   a=signed(3, 4, 2), w=WEIGHT, b=BIAS)  # fmt: skip
op("F.batch_norm", "bfloat16", "a, m, v, w, b, True", dtypes="float16 bfloat16", second=False, graph=False,
   a=IMAGE, m=MEAN, v=VAR, w=WEIGHT, b=BIAS)  # fmt: skip
expression("F.batch_norm", "mixed_precision", "F.batch_norm(a.bfloat16(), m, v, w, b, True)", second=False, graph=False,
           tolerance=(2e-2, 2e-2), a=signed(3, 4, dtype="float32"), m=signed(4, dtype="float32", grad=False),
           v=positive(4, dtype="float32", grad=False), w=positive(4, dtype="float32"),
           b=signed(4, dtype="float32"))  # fmt: skip
op(
    "F.batch_norm",
    "empty",
    "a, m, v, w, b",
    second=False,
    graph=False,
    a=signed(0, 4, 3),
    m=MEAN,
    v=VAR,
    w=WEIGHT,
    b=BIAS,
)
op("F.instance_norm", "momentum", "a, m, v, w, b, True, 0.3", a=IMAGE, m=MEAN, v=VAR, w=WEIGHT, b=BIAS)
expression("F.instance_norm", "updates", "(F.instance_norm(a, m := MEAN.clone(), v := VAR.clone(), momentum=0.2), m, v)",
           a=IMAGE, MEAN=MEAN, VAR=VAR)  # fmt: skip
op("F.instance_norm", "running", "a, m, v, use_input_stats=False", a=IMAGE, m=MEAN, v=VAR)
op("F.local_response_norm", "sequence", "a, 3, alpha=0.5, beta=0.6, k=2.0", a=SEQUENCE)
op("F.local_response_norm", "volume", "a, 2", a=VOLUME)
op("F.normalize", "dims", "a, dim=(1, 2)", a=signed(2, 3, 4))
op("native_layer_norm", "statistics", "a, (4,), w, b, 1e-5", graph=False, second=False,
   a=signed(3, 4, grad=False), w=positive(4, grad=False), b=signed(4, grad=False))  # fmt: skip
bad("F.layer_norm", "int_shape", "F.layer_norm(a, 4)", a=signed(3, 4))
bad("F.layer_norm", "string", "F.layer_norm('x', (4,))")
bad("F.layer_norm", "weight_type", "F.layer_norm(a, (4,), 'x')", a=signed(3, 4))
bad("F.layer_norm", "weight_dtype", "F.layer_norm(a, (4,), w)", a=signed(3, 4), w=positive(4, dtype="float32"))
bad("F.layer_norm", "bias_shape", "F.layer_norm(a, (4,), w, b)", a=signed(3, 4), w=WEIGHT, b=signed(3))
bad("F.layer_norm", "integers", "F.layer_norm(a, (4,))", a=signed(3, 4, dtype="int64"))
bad("F.rms_norm", "no_shape", "F.rms_norm(a, ())", a=signed(3, 4))
bad("F.rms_norm", "weight_shape", "F.rms_norm(a, (4,), w)", a=signed(3, 4), w=positive(3))
bad("F.group_norm", "vector", "F.group_norm(a, 2)", a=signed(4))
bad("F.group_norm", "one_value", "F.group_norm(a, 2)", a=signed(1, 2))
bad("F.batch_norm", "vector", "F.batch_norm(a, None, None, training=True)", a=signed(4))
bad("F.batch_norm", "running_gradient", "F.batch_norm(a, m, v)", words=12, a=IMAGE, m=signed(4), v=VAR)
bad("F.batch_norm", "half_running", "F.batch_norm(a, m, None, training=True)", a=IMAGE, m=MEAN)
bad("F.batch_norm", "momentum", "F.batch_norm(a, m, v, training=True, momentum=None)", a=IMAGE, m=MEAN, v=VAR)
bad("F.batch_norm", "bias_shape", "F.batch_norm(a, m, v, bias=b)", a=IMAGE, m=MEAN, v=VAR, b=signed(3))
bad("F.instance_norm", "one_value", "F.instance_norm(a)", a=signed(2, 4, 1))
bad("F.instance_norm", "no_statistics", "F.instance_norm(a, use_input_stats=False)", a=IMAGE)
bad("F.local_response_norm", "dims", "F.local_response_norm(a, 2)", words=12, a=signed(2, 4))

# --- windows ---------------------------------------------------------------------------------------------------------

op("F.conv2d", "padded_stride", "a, w, b, 2, 1", dtypes="float32", tolerance=(1e-4, 1e-4),
   a=signed(3, 4, 9, 8), w=signed(6, 4, 3, 3), b=signed(6))  # fmt: skip
op("F.conv1d", "integers", "a, w", a=signed(2, 4, 7, dtype="int64"), w=signed(6, 4, 3, dtype="int64"))
op("F.conv1d", "complex_bias", "a, w, b", second=False, a=signed(2, 4, 7, dtype="complex128"),
   w=signed(6, 4, 3, dtype="complex128"), b=signed(6, dtype="complex128"))  # fmt: skip
op("F.conv_transpose2d", "same_size", "a, w, None, 1, 1", a=signed(2, 3, 4, 5), w=signed(3, 2, 3, 3))
op("F.unfold", "unbatched", "a, 2, dilation=2", a=signed(3, 5, 6))
op("F.fold", "options", "a, (5, 6), (2, 3), 2, 1, 2", a=signed(2, 12, 6))
op("F.fold", "unbatched", "a, (4, 4), 2", a=signed(8, 9))
for rank, inputs in [(1, distinct(2, 3, 8)), (2, distinct(2, 3, 6, 6)), (3, distinct(1, 2, 4, 4, 4))]:
    name = f"F.max_unpool{rank}d"
    expression(name, "plain", f"{name}(*F.max_pool{rank}d(a, 2, return_indices=True), 2)", a=inputs)
    expression(name, "overlap", f"F.max_pool{rank}d(a, 3, 1, 1)", a=inputs)
    op(f"F.lp_pool{rank}d", "three", "a, 3, 2", a=positive(*inputs.shape))
    op(f"F.lp_pool{rank}d", "stride", "a, 2, 3, stride=2, ceil_mode=True", a=positive(*inputs.shape))
    op(f"F.avg_pool{rank}d", "integers", "a, 2", a=signed(*inputs.shape, dtype="int64"), raises=None)
expression("F.max_unpool2d", "size", "F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2, output_size=(5, 7))",
           a=distinct(2, 3, 5, 7))  # fmt: skip
op("F.max_pool2d", "integers", "a, 2", a=distinct(1, 2, 4, 4, dtype="int64"))
op("F.max_pool2d", "empty_batch", "a, 2", a=signed(0, 2, 4, 4))
op("F.max_pool2d", "half", "a, 2", dtypes="float16 bfloat16", a=distinct(1, 2, 4, 4))
op("F.adaptive_avg_pool2d", "nothing", "a, 0", first=False, a=IMAGE)
for program in lines("""
    F.conv2d(a, w, stride=(1, 1, 1))
    F.conv2d(a, w, dilation=0)
    F.conv2d(a, w, groups=0)
    F.conv2d(a, w, groups=3)
    F.conv2d('x', w)
    F.conv2d(a, w, stride='x')
    F.conv2d(a, w[0])
    F.conv2d(a, w, a)
    F.conv2d(a, w.bool())
    F.conv_transpose2d(a, w.transpose(0, 1), output_padding=1)
    F.conv_transpose2d(a, w.transpose(0, 1), padding='same')
    F.conv_transpose2d(a, w.transpose(0, 1), w[:3, 0, 0, 0])
    F.conv2d(a, w, padding=(1, 1, 1))
    F.conv2d(a[:, :, :0], w)
    F.conv2d(a, w, w[:, 0, 0, 0].float())
    F.unfold(a, 20)
    F.unfold(a, (2, 2, 2))
    F.unfold(a, 0)
    F.unfold(a[0, 0, 0], 2)
    F.fold(a[0], (4, 4), 2)
    F.fold(a[0, 0, 0], (4, 4), 2)
    F.fold(a[0, :, :, :5], (9, 9), (2, 2))
    F.max_pool2d(a, (2, 2, 2))
    F.max_pool2d(a, 2, dilation=0)
    F.max_pool2d(a, 2, padding=-1)
    F.max_pool2d(a > 0, 2)
    F.max_pool2d(a[:, :0], 2)
    F.max_pool1d(a[0], 2, stride=0)
    F.max_pool1d(a[0], (2, 2))
    F.max_pool1d(a[0], 2, dilation=0)
    F.max_pool1d(a[0].long(), 2)
    F.avg_pool2d(a, 2, divisor_override=0)
    F.avg_pool2d(a[0, 0, 0], 2)
    F.avg_pool1d(a[0], (2, 2))
    F.avg_pool1d(a[0], 20)
    F.adaptive_avg_pool2d(a, -1)
    F.adaptive_avg_pool1d(a[0], (2, 2))
    F.adaptive_avg_pool1d(a[0], 'x')
    F.adaptive_max_pool2d(a, (2, 2, 2))
    F.adaptive_max_pool1d(a[0], (2, 2))
    F.adaptive_avg_pool2d(a.long(), 2)
    F.adaptive_max_pool2d(a[:, :, :0], 2)
    F.max_unpool2d(a, a, 2)
    F.max_unpool2d(a, a.long()[..., 1:], 2)
    F.max_unpool2d(a, a.long() * 0 + 999, 2)
    F.max_unpool2d(a, a.long(), 2, output_size=(1, 1))
    F.max_unpool2d(a, a.long(), 2, output_size=(1, 1, 1))
"""):
    name = program.split("(")[0]
    bad(name, program.replace("[", "_"), program, words=10, a=IMAGE, w=signed(4, 4, 3, 3))

# --- tables of rows --------------------------------------------------------------------------------------------------

TABLE, ROWS = signed(5, 3), index(5, 6)
for mode in ["sum", "mean", "max"]:
    op("F.embedding_bag", f"offsets_{mode}", f"i, w, o, mode='{mode}'", second=False, i=ROWS, w=TABLE,
       o=values([0, 2, 2, 5], "int64"))  # fmt: skip
    op(
        "F.embedding_bag",
        f"padding_{mode}",
        f"i, w, mode='{mode}', padding_idx=1",
        second=False,
        i=index(5, 2, 3),
        w=TABLE,
    )
    op("F.embedding_bag", f"last_offset_{mode}", f"i, w, o, mode='{mode}', include_last_offset=True", second=False,
       i=ROWS, w=TABLE, o=values([0, 2, 6], "int64"))  # fmt: skip
op("F.embedding_bag", "sample_weights", "i, w, o, mode='sum', per_sample_weights=p", second=False, i=ROWS, w=TABLE,
   o=values([0, 4], "int64"), p=positive(6))  # fmt: skip
op("F.embedding_bag", "by_frequency", "i, w, scale_grad_by_freq=True", second=False, w=TABLE,
   i=values([[1, 1], [3, 3]], "int64"))  # fmt: skip
expression("F.embedding", "max_norm_in_place", "(F.embedding(i, w, max_norm=0.7, norm_type=1.0), w)", first=False,
           i=ROWS, w=signed(5, 3, grad=False))  # fmt: skip
expression("embedding_renorm_", "plain", "torch.embedding_renorm_(w, i, 1.0, 2.0)", first=False, i=ROWS,
           w=signed(5, 3, grad=False))  # fmt: skip
for program in lines("""
    F.embedding_bag(i, w)
    F.embedding_bag(i, w, i + 1)
    F.embedding_bag(i, w, i * 0, mode='min')
    F.embedding_bag(i[None], w, i)
    F.embedding_bag(i[None, None], w)
    F.embedding_bag(i, w, i[None])
    F.embedding_bag(i + 9, w, i * 0)
    F.embedding_bag(i.double(), w, i * 0)
    F.embedding_bag(i, w, i * 0 + i.cumsum(0) * 9)
    F.embedding_bag(i, w, i * 0, mode='max', per_sample_weights=i.double())
    F.embedding_bag(i, w, i * 0, mode='sum', per_sample_weights=w[:, 0])
    F.embedding([0], w)
    F.embedding_bag(i, w, i * 0, mode='max', scale_grad_by_freq=True)
    F.embedding(i.byte(), w)
"""):
    bad(program.split("(")[0], program.replace("[", "_"), program, words=10, i=values([0, 1, 2], "int64"), w=TABLE)

# --- what is drawn ---------------------------------------------------------------------------------------------------

for name in ["dropout", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]:
    op(f"F.{name}", "images", "a, 0.4, True", a=IMAGE)
    op(f"F.{name}", "all", "a, 1.0, True", a=signed(2, 3, 4, 5))
    op(f"F.{name}", "off", "a, 0.5, False", a=signed(2, 3, 4, 5, 6) if name == "dropout3d" else IMAGE)
    bad(f"F.{name}", "chance", f"F.{name}(a, 1.5)", a=IMAGE)
    expression(f"F.{name}", "in_place", f"F.{name}(x := a * 1, 0.4, True, True)", a=signed(2, 3, 4, 3, 2))
op("F.dropout", "transposed", "a.transpose(0, 2), 0.5", a=signed(3, 4, 5))
op("F.dropout", "sliced", "a[:, 1:3].transpose(0, 1), 0.5", a=signed(3, 4, 5))
op("F.dropout", "half", "a, 0.3", dtypes="float16 bfloat16", a=signed(6, 7))
op("F.alpha_dropout", "transposed", "a.t(), 0.5, True", a=signed(3, 4))
op("F.dropout1d", "unbatched", "a, 0.5", a=signed(6, 4))
op("F.dropout3d", "unbatched", "a, 0.5", a=signed(6, 4, 2, 2))
expression("F.dropout1d", "unbatched_in_place", "F.dropout1d(x := a * 1, 0.5, True, True)", a=signed(6, 4))
expression("native_dropout", "plain", "torch.native_dropout(a, 0.3, True)", a=signed(5, 6))
op("feature_dropout", "plain", "a, 0.3, True", a=IMAGE)
op("F.rrelu", "training", "a, training=True", a=signed(5, 6))
op("F.rrelu", "evaluating", "a, 0.1, 0.5", a=signed(5, 6))
expression("F.rrelu", "in_place", "F.rrelu(x := a * 1, training=True, inplace=True)", a=signed(5, 6))
op("F.gumbel_softmax", "soft", "a, tau=0.7", a=signed(3, 4))
op("F.gumbel_softmax", "hard", "a, hard=True, dim=0", graph=False, a=signed(3, 4))
bad("F.dropout", "integers", "F.dropout(a)", a=signed(3, dtype="int64"))
bad("F.dropout1d", "dims", "F.dropout1d(a)", words=12, a=IMAGE)
bad("F.dropout2d", "vector", "F.dropout2d(a)", a=signed(4))

# --- places ----------------------------------------------------------------------------------------------------------

GRID = values([[[[-0.9, -0.3], [0.2, 0.7]], [[1.3, -0.1], [-1.7, 2.4]]]] * 2)
for mode in ["bilinear", "nearest", "bicubic"]:
    for padding in ["zeros", "border", "reflection"]:
        for corners in [True, False]:
            rest = f"mode='{mode}', padding_mode='{padding}', align_corners={corners}"
            op(
                "F.grid_sample",
                f"{mode}_{padding}_{corners}",
                f"a, g, {rest}",
                second=False,
                a=signed(2, 3, 4, 5),
                g=GRID,
            )
op("F.grid_sample", "volume", "a, g, align_corners=False", second=False, a=signed(2, 2, 3, 4, 3), g=unit(2, 2, 2, 3, 3))
op("F.grid_sample", "volume_nearest", "a, g, 'nearest', 'border', True", second=False, a=signed(2, 2, 3, 4, 3),
   g=unit(2, 2, 2, 3, 3))  # fmt: skip
op("F.affine_grid", "images", "t, (2, 3, 4, 5), align_corners=True", t=signed(2, 2, 3))
op("F.affine_grid", "volumes", "t, (2, 3, 4, 5, 2), align_corners=False", t=signed(2, 3, 4))
op("F.interpolate", "lanczos", "a, size=(3, 4), mode='lanczos', antialias=True", tolerance=(1e-6, 1e-6),
   a=signed(1, 2, 9, 8))  # fmt: skip
op("F.interpolate", "bicubic_antialias", "a, scale_factor=0.5, mode='bicubic', antialias=True", a=signed(1, 2, 9, 8))
op("F.interpolate", "antialias_up", "a, size=(12, 11), mode='bilinear', antialias=True, align_corners=True",
   a=signed(1, 2, 6, 7))  # fmt: skip
op("F.interpolate", "bytes", "a, size=(3, 9), mode='bilinear'", a=index(256, 1, 2, 5, 6, dtype="uint8"))
op("F.interpolate", "bytes_nearest", "a, scale_factor=2", a=index(256, 1, 2, 5, 6, dtype="uint8"))
op("F.interpolate", "half", "a, scale_factor=2, mode='bilinear'", dtypes="float16 bfloat16", a=signed(1, 2, 3, 4))
op("F.interpolate", "large", "a, scale_factor=1.3, mode='bilinear'", tolerance=(1e-8, 1e-8), a=signed(1, 1, 150, 140))
op("F.pixel_shuffle", "unbatched", "a, 2", a=signed(8, 2, 3))
op("F.channel_shuffle", "plain", "a, 2", a=signed(2, 6, 3))
for mode in ["reflect", "replicate", "circular"]:
    op("F.pad", f"{mode}_crops", f"a, (-1, 2), '{mode}'", a=signed(2, 3, 5))
    op("F.pad", f"{mode}_2d_crops", f"a, (1, -2, 0, 3), '{mode}'", a=signed(1, 2, 5, 6))
op("F.pad", "reflect_integers", "a, (1, 1), 'reflect'", a=signed(2, 3, dtype="int64"))
for program in lines("""
    F.interpolate(a, size=4, mode='lanczos')
    F.interpolate(a, size=4, mode='bilinear', recompute_scale_factor=True)
    F.interpolate(a[0], size=4, antialias=True)
    F.interpolate(a, scale_factor=(1, 2, 3))
    F.interpolate(a[0, 0], size=4)
    F.interpolate(a, size=4, mode='linear')
    F.interpolate(a, size=4, mode='trilinear')
    F.interpolate(a, size='x')
    F.interpolate(a.long(), size=4)
    F.interpolate(a[0], size=0)
    F.interpolate(a[:, :0], size=3)
    F.pixel_shuffle(a[0, 0], 2)
    F.pixel_shuffle(a, 3)
    F.pixel_shuffle(a, 0)
    F.pixel_unshuffle(a, 5)
    F.channel_shuffle(a[0, 0], 2)
    F.channel_shuffle(a, 3)
    F.channel_shuffle(a, 0)
    F.grid_sample(a, a, mode='x')
    F.grid_sample(a, a, padding_mode='x')
    F.grid_sample(a, a, align_corners=False)
    F.grid_sample(a, a[..., :2].float(), align_corners=False)
    F.grid_sample(a, a[:1, ..., :2], align_corners=False)
    F.affine_grid(a[0], (4, 1, 2, 2), align_corners=True)
    F.affine_grid(a[0], (1, 2), align_corners=True)
    F.affine_grid(a.long(), (1, 1, 2, 2), align_corners=True)
    F.pad(a, 1)
    F.pad(a, (1.5, 1))
    F.pad(a, (1, 1), 'constant', 'x')
    F.pad(a, (1, 1, 1, 1), 'reflect', 1.0)
    F.pad(a, (1, 1), 'circular')
    F.pad(a, (-5, -5, 0, 0), 'replicate')
    F.pad(a > 0, (1, 1, 1, 1), 'reflect')
    F.pad(a[:, :0], (1, 1, 1, 1), 'reflect')
"""):
    bad(program.split("(")[0], program.replace("[", "_"), program, words=10, a=IMAGE)

# --- attention -------------------------------------------------------------------------------------------------------

HEADS = {"q": signed(2, 3, 4, 8), "k": signed(2, 3, 5, 8), "v": unit(2, 3, 5, 8)}
name = "F.scaled_dot_product_attention"
op(name, "bool_mask", "q, k, v, m", second=False, tolerance=(1e-6, 1e-6), m=mask(4, 5), **HEADS)
op(name, "one_row_mask", "q, k, v, m", second=False, tolerance=(1e-6, 1e-6), m=signed(2, 1, 1, 5, grad=False), **HEADS)
op(name, "masked_row", "q, k, v, m", second=False, tolerance=(1e-6, 1e-6),
   m=values([[True] * 5, [False] * 5, [True, False, False, False, True], [True] * 5], "bool"), **HEADS)  # fmt: skip
op(name, "masked_row_3d", "q[0], k[0], v[0], m", tolerance=(1e-6, 1e-6),
   m=values([[True] * 5, [False] * 5, [True, False, False, False, True], [True] * 5], "bool"), **HEADS)  # fmt: skip
op(name, "mask_gradient", "q, k, v, m", tolerance=(1e-6, 1e-6), m=signed(4, 5), **HEADS)
op(name, "dropout_4d", "q, k, v, dropout_p=0.4, is_causal=True", second=False, **HEADS)
op(name, "scaled_4d", "q, k, v, scale=0.7", second=False, tolerance=(1e-6, 1e-6), **HEADS)
op(name, "large_scores", "q * 40, k * 40, v", second=False, tolerance=(1e-5, 1e-6), **HEADS)
op(name, "wide_values", "q, k, v", q=signed(2, 3, 4, 8), k=signed(2, 3, 5, 8), v=unit(2, 3, 5, 6))
op(name, "transposed_heads", "q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True", second=False,
   tolerance=(1e-6, 1e-6), q=signed(2, 4, 3, 8), k=signed(2, 5, 3, 8), v=unit(2, 5, 3, 8))  # fmt: skip
op(name, "half_4d", "q, k, v", dtypes="float16 bfloat16", second=False, tolerance=(2e-2, 2e-2), **HEADS)
bad(name, "groups", f"{name}(q, k[:, :2], v[:, :2], enable_gqa=True)", **HEADS)
bad(name, "chance", f"{name}(q, k, v, dropout_p=1.5)", **HEADS)
bad(name, "heads", f"{name}(q, k[:, :2], v[:, :2])", **HEADS)
bad(name, "mask_shape", f"{name}(q, k, v, q[0, 0, :3, :3])", **HEADS)

MHA = "F.multi_head_attention_forward(q, {kv}, 4, 2, w, b, None, None, False, 0.0, o, c, {rest})"
INPUTS = {
    "q": signed(3, 2, 4), "k": signed(5, 2, 4), "w": unit(12, 4), "b": unit(12), "o": unit(4, 4), "c": unit(4),
}  # fmt: skip
for case, kv, rest in [
    ("weights", "k, k", "need_weights=True"),
    ("all_weights", "k, k", "average_attn_weights=False"),
    ("no_weights", "k, k", "need_weights=False"),
    ("self", "q, q", "need_weights=True"),
    ("padding", "k, k", "key_padding_mask=torch.tensor([[True, False, False, False, False]] * 2)"),
    ("mask", "k, k", "need_weights=False, attn_mask=torch.ones(3, 5).triu(1) > 0"),
    ("float_mask", "q, q", "attn_mask=torch.ones(3, 3).double().triu(1)"),
    ("zero_attention", "k, k.clone()", "training=False"),
]:
    program = MHA.format(kv=kv, rest=rest)
    if case == "zero_attention":
        program = program.replace("None, None, False", "None, None, True")
    expression("F.multi_head_attention_forward", case, program, second=False, tolerance=(1e-6, 1e-6), **INPUTS)
expression("F.multi_head_attention_forward", "unbatched", MHA.format(kv="k[:, 0], k[:, 0]", rest="need_weights=True")
           .replace("(q,", "(q[:, 0],"), second=False, tolerance=(1e-6, 1e-6), **INPUTS)  # fmt: skip
bad("F.multi_head_attention_forward", "dims", MHA.format(kv="k[0], k[0]", rest="training=True"), **INPUTS)
bad("F.multi_head_attention_forward", "mask", MHA.format(kv="k, k", rest="attn_mask=torch.ones(2, 2) > 0"), **INPUTS)

# --- distances -------------------------------------------------------------------------------------------------------

op("F.cosine_similarity", "zeros", "a, b", second=False, a=values([[0.0, 0.0], [3.0, 4.0]]), b=signed(2, 2))
op("F.cosine_similarity", "mixed", "a, b", second=False, tolerance=(1e-5, 1e-6), a=signed(3, 4, dtype="float32"),
   b=signed(3, 4))  # fmt: skip
op("F.pairwise_distance", "orders", "a, b, p=3.0, keepdim=True", a=signed(3, 4), b=signed(4))
op("F.pairwise_distance", "one", "a, b, 1.0", a=signed(3, 4), b=signed(3, 4))
op("F.pairwise_distance", "vector", "a, b", a=signed(4), b=signed(4))
for p in ["0", "1", "2", "3", "float('inf')"]:
    op("F.pdist", f"order_{p[:5]}", f"a, {p}", second=False, a=distinct(5, 3))
op("F.bilinear", "batch", "a, b, w", a=signed(2, 3, 2), b=signed(2, 3, 4), w=signed(5, 2, 4))
for program in lines("""
    F.cosine_similarity(a, a[:2])
    F.cosine_similarity(a.long(), a.long())
    F.cosine_similarity(a[0], a[0])
    F.pdist(a[0])
    F.pdist(a, -1)
    F.bilinear(a, a, a[None, :, :3])
    F.bilinear(a, a[0], a[None])
"""):
    bad(program.split("(")[0], program.replace("[", "_"), program, words=10, a=signed(3, 4))

# --- losses ----------------------------------------------------------------------------------------------------------

LOGITS, LABELS = signed(4, 5), values([0, 3, 4, 0], "int64")
SIGNS = values([[1.0, -1.0, 1.0, -1.0, 1.0]] * 4, grad=False)
for reduction in ["none", "mean", "sum"]:
    rest = f"reduction='{reduction}'"
    op("F.multi_margin_loss", f"square_{reduction}", f"a, i, p=2, margin=0.7, {rest}", second=False, a=LOGITS, i=LABELS)
    op("F.multi_margin_loss", f"weight_{reduction}", f"a, i, weight=w, {rest}", second=False, a=LOGITS, i=LABELS,
       w=positive(5, grad=False))  # fmt: skip
    op("F.multilabel_margin_loss", f"plain_{reduction}", f"a, i, {rest}", second=False, a=signed(2, 4),
       i=values([[3, 0, -1, 1], [1, -1, -1, 0]], "int64"))  # fmt: skip
    op("F.soft_margin_loss", f"plain_{reduction}", f"a, b, {rest}", a=LOGITS, b=SIGNS)
    op("F.hinge_embedding_loss", f"plain_{reduction}", f"a, b, 0.5, {rest}", a=LOGITS, b=SIGNS)
    op("F.multilabel_soft_margin_loss", f"weight_{reduction}", f"a, b, w, {rest}", a=LOGITS, b=probability(4, 5),
       w=positive(5, grad=False))  # fmt: skip
    op("F.poisson_nll_loss", f"plain_{reduction}", f"a, b, {rest}", a=LOGITS, b=positive(4, 5))
    op(
        "F.gaussian_nll_loss",
        f"full_{reduction}",
        f"a, b, v, full=True, {rest}",
        a=LOGITS,
        b=unit(4, 5),
        v=positive(4, 5),
    )
    op("F.mse_loss", f"weight_{reduction}", f"a, b, weight=w, {rest}", a=LOGITS, b=unit(4, 5), w=positive(4, 5))
    op("F.huber_loss", f"weight_{reduction}", f"a, b, weight=w, {rest}", a=LOGITS, b=unit(4, 5), w=positive(4, 5))
    op("F.ctc_loss", f"plain_{reduction}", f"a.log_softmax(2), t, i, n, {rest}", second=False, a=signed(7, 2, 4),
       t=values([[1, 2, 2], [3, 1, 0]], "int64"), i=values([7, 6], "int64"), n=values([3, 2], "int64"))  # fmt: skip
op("F.multi_margin_loss", "unbatched", "a, i, reduction='none'", second=False, a=signed(5), i=values(2, "int64"))
op("F.multi_margin_loss", "unbatched_1d", "a, i, reduction='none'", second=False, graph=False, a=signed(5),
   i=values([2], "int64"))  # fmt: skip
op("F.multilabel_margin_loss", "unbatched", "a, i", second=False, a=signed(4), i=values([3, 0, -1, 1], "int64"))
op("F.poisson_nll_loss", "full", "a, b, full=True", a=LOGITS, b=positive(4, 5, grad=False))
op("F.poisson_nll_loss", "plain_input", "a, b, log_input=False", a=positive(4, 5), b=positive(4, 5))
op("F.gaussian_nll_loss", "number", "a, b, 0.5", a=LOGITS, b=unit(4, 5))
op("F.gaussian_nll_loss", "per_row", "a, b, v", a=LOGITS, b=unit(4, 5), v=positive(4))
op("F.gaussian_nll_loss", "small", "a, b, v", second=False, a=signed(2), b=unit(2), v=values([0.0, 1.0]))
op("F.triplet_margin_with_distance_loss", "swap", "a, b, c, swap=True, margin=2.0, reduction='sum'", a=signed(3, 4),
   b=signed(3, 4), c=signed(3, 4))  # fmt: skip
expression("F.triplet_margin_with_distance_loss", "own", "F.triplet_margin_with_distance_loss(a, b, c, "
           "distance_function=lambda x, y: (x - y).abs().sum(-1), margin=9.0)", a=signed(3, 4), b=signed(3, 4),
           c=signed(3, 4))  # fmt: skip
op("F.cross_entropy", "bytes", "a, i.byte()", a=LOGITS, i=LABELS)
op("F.cross_entropy", "float_target", "a, p", second=False, tolerance=(1e-5, 1e-6), a=signed(3, 4, dtype="float32"),
   p=probability(3, 4))  # fmt: skip
op("F.cross_entropy", "weight_gradient", "a, p, w", a=signed(3, 4), p=probability(3, 4), w=positive(4))
op("F.cross_entropy", "sequence_smoothing", "a, i, label_smoothing=0.1, ignore_index=2", a=signed(2, 5, 3),
   i=index(5, 2, 3))  # fmt: skip
op("F.ctc_loss", "flat_targets", "a.log_softmax(2), t, i, n", second=False, a=signed(7, 2, 4),
   t=values([1, 2, 2, 3], "int64"), i=values([7, 5], "int64"), n=values([3, 1], "int64"))  # fmt: skip
op("F.ctc_loss", "unbatched", "a.log_softmax(1), t, i, n", second=False, a=signed(7, 4), t=values([1, 2], "int64"),
   i=values(7, "int64"), n=values(2, "int64"))  # fmt: skip
op("F.ctc_loss", "impossible", "a.log_softmax(2), t, i, n, zero_infinity=True", second=False, a=signed(3, 2, 4),
   t=values([[1, 1, 1], [1, 2, 3]], "int64"), i=values([3, 3], "int64"), n=values([3, 2], "int64"))  # fmt: skip
op("F.ctc_loss", "infinite", "a.log_softmax(2), t, i, n, reduction='none'", first=False, a=signed(3, 2, 4),
   t=values([[1, 1, 1], [1, 2, 3]], "int64"), i=values([3, 3], "int64"), n=values([3, 2], "int64"))  # fmt: skip
op("F.ctc_loss", "empty_target", "a.log_softmax(2), t, i, n, reduction='sum'", second=False, a=signed(4, 2, 3),
   t=values([[1, 2], [1, 2]], "int64"), i=values([4, 4], "int64"), n=values([0, 2], "int64"))  # fmt: skip
op("F.ctc_loss", "blank_last", "a.log_softmax(2), t, (5, 4), (2, 1), blank=3", second=False, dtypes="float32",
   a=signed(5, 2, 4), t=values([[1, 2], [0, 0]], "int64"))  # fmt: skip
for program in lines("""
    F.multi_margin_loss(a, i[:2])
    F.multi_margin_loss(a, i + 9)
    F.multi_margin_loss(a, i, p=3)
    F.multi_margin_loss(a, i, weight=a[0, :3].detach())
    F.multi_margin_loss(a, i.int())
    F.multi_margin_loss(a[None], i)
    F.multilabel_margin_loss(a, i)
    F.multilabel_margin_loss(a, a.long() + 9)
    F.multilabel_margin_loss(a, a)
    F.nll_loss(a, i, a[0])
    F.nll_loss(a[:, :, None], i[:, None, None])
    F.nll_loss(a[..., None, None], i[:, None, None] + a.new_zeros(4, 1, 2).long())
    F.cross_entropy(a, i, a[0].float().detach())
    F.cross_entropy(a.long(), i)
    F.cross_entropy(a, a[0])
    F.cross_entropy(a, a, a[0, :3])
    F.cross_entropy('x', i)
    F.soft_margin_loss(a, a)
    F.mse_loss('x', a)
    F.binary_cross_entropy(a.sigmoid(), a.sigmoid(), a)
    F.binary_cross_entropy(a.sigmoid(), a.float())
    F.binary_cross_entropy_with_logits(a, a, a)
    F.binary_cross_entropy_with_logits(a, a.long())
    F.mse_loss(a, a, weight=a[0])
    F.mse_loss(a.long(), a.long())
    F.smooth_l1_loss(a.long(), a.long())
    F.huber_loss(a.long(), a.long())
    F.smooth_l1_loss(a, a, beta='x')
    F.l1_loss(a, [1])
    F.l1_loss(a.long(), a.long())
    F.gaussian_nll_loss(a, a, a - 9)
    F.gaussian_nll_loss(a, a, a.abs()[0])
    F.gaussian_nll_loss(a, a, 1.0, reduction='x')
    F.gaussian_nll_loss(a, a, -1.0)
    F.triplet_margin_loss(a, a, a, margin=-1)
    F.cosine_embedding_loss(a[0], a, i[0])
    F.triplet_margin_with_distance_loss(a, a[0], a)
    F.poisson_nll_loss(a, a, reduction='x')
    F.hinge_embedding_loss(a, a[:, :3])
    F.margin_ranking_loss(a[0], a[0], i)
    F.ctc_loss(a[:, None], i[None], (9,), (2,))
    F.ctc_loss(a[:, None], i[None], (4,), (9,))
    F.ctc_loss(a[:, None], i, (4,), (2,))
    F.ctc_loss(a[:, None], i[None], (4, 4), (2,))
    F.ctc_loss(a[:, None], i[None], (4,), (2,), blank=7)
    F.ctc_loss(a[:, None], i[None], i.double(), i)
    F.ctc_loss(a[:, None].half(), i[None], (4,), (2,))
"""):
    bad(program.split("(")[0], program.replace("[", "_"), program, words=8, a=LOGITS, i=LABELS)
