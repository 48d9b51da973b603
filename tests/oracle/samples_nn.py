"""Layers without state: activations, softmax, norms, linear, embedding, dropout, attention."""

from __future__ import annotations

from math import inf

from tests.oracle.sampling import COMPLEX, FLOATS, Table, distinct, index, mask, positive, signed, unit, values

PROMISED = ["relu", "gelu", "silu", "leaky_relu", "elu", "softplus", "sigmoid", "tanh"]
FURTHER = [
    *["relu6", "selu", "celu", "softsign", "mish", "logsigmoid", "hardtanh", "hardswish", "hardsigmoid", "hardshrink"],
    *["softshrink", "tanhshrink"],
]
FUNCTIONS_BEYOND = [
    *["threshold", "glu", "prelu", "softmin", "instance_norm", "local_response_norm", "normalize", "cosine_similarity"],
    *["pairwise_distance", "bilinear", "dropout1d", "dropout2d", "alpha_dropout", "embedding_bag"],
    *["leaky_relu_", "elu_", "selu_", "celu_", "hardtanh_", "relu_"],
]
table = Table("nn", beyond=" ".join(["selu", "celu", "prelu", *(f"F.{name}" for name in FURTHER + FUNCTIONS_BEYOND)]))
op, bad, expression = table.op, table.bad, table.expression

NUMBERS = f"{FLOATS} int64 bool complex64"
HALF = (8e-3, 8e-3)

# --- activations -----------------------------------------------------------------------------------------------------
# A value of exactly 0, and of each threshold, shows which side the gradient takes there.

KINKS = values([0.0, -0.0, 1.0, -1.0, 6.0, -6.0, 3.0, -3.0, 0.5, -0.5, 25.0, -25.0])
for name in PROMISED + FURTHER:
    second = name != "hardsigmoid"  # which has none in PyTorch
    op(f"F.{name}", "plain", "a", dtypes=NUMBERS, second=second, a=signed(3, 4))
    op(f"F.{name}", "zero_dim", "a", second=second, a=signed())
    op(f"F.{name}", "empty", "a", second=second, a=signed(0, 3))
    op(f"F.{name}", "transposed", "a.t()", second=second, a=signed(3, 4))
    op(f"F.{name}", "at_kinks", "a", second=False, a=KINKS)
    op(f"F.{name}", "infinite", "a", first=False, a=values([inf, -inf]))
    bad(f"F.{name}", "string", f"F.{name}('x')")
for name in [
    "relu",
    "relu6",
    "silu",
    "leaky_relu",
    "elu",
    "selu",
    "celu",
    "hardtanh",
    "hardswish",
    "mish",
]:
    expression(f"F.{name}", "inplace", f"F.{name}(x := a * 1, inplace=True)", a=signed(3, 4))
for name in ["relu", "sigmoid", "tanh"]:
    op(name, "methods", "a", "function method inplace", a=signed(3, 4))
for name in ["relu_", "leaky_relu_", "elu_", "selu_", "celu_", "hardtanh_"]:
    expression(f"F.{name}", "plain", f"F.{name}(x := a * 1)", a=signed(3, 4))
expression("relu", "torch_inplace", "torch.relu_(x := a * 1)", a=signed(3, 4))
op("selu", "torch", "a", a=signed(3, 4))
op("celu", "torch", "a, alpha=2.0", a=signed(3, 4))
op("F.gelu", "tanh", "a, approximate='tanh'", dtypes=FLOATS, a=signed(3, 4))
op("F.gelu", "none", "a, approximate='none'", a=signed(3, 4))
op("F.leaky_relu", "slope", "a, 0.2", a=signed(3, 4))
op("F.leaky_relu", "slope_keyword", "a, negative_slope=0.3", a=signed(3, 4))
op("F.elu", "alpha", "a, 2.0", a=signed(3, 4))
op("F.celu", "alpha", "a, alpha=0.5", a=signed(3, 4))
op("F.softplus", "beta", "a, beta=2.0, threshold=3.0", a=signed(3, 4))
op("F.hardtanh", "bounds", "a, -0.7, 0.9", a=signed(3, 4))
op("F.hardshrink", "lambd", "a, 0.8", a=signed(3, 4))
op("F.softshrink", "lambd", "a, 0.8", a=signed(3, 4))
op("F.threshold", "plain", "a, 0.5, -2.0", dtypes="float32 int64", a=signed(3, 4))
op("F.glu", "plain", "a", a=signed(3, 4))
op("F.glu", "dim", "a, 0", a=signed(4, 3))
op("F.prelu", "plain", "a, w", a=signed(2, 3, 4), w=positive(3))
op("F.prelu", "one", "a, w", a=signed(3, 4), w=positive(1))
op("prelu", "torch", "a, w", "function method", a=signed(3, 4), w=positive(4))
bad("F.gelu", "approximate", "F.gelu(a, approximate='erf')", words=10, a=signed(3))
bad("F.glu", "odd", "F.glu(a)", words=10, a=signed(3, 3))
bad("F.softshrink", "negative", "F.softshrink(a, -1.0)", words=10, a=signed(3))
bad("relu", "inplace_leaf", "a.relu_()", words=10, a=signed(3))
bad("relu", "mask", "torch.relu(a)", words=10, a=mask(3))
bad("F.prelu", "weights", "F.prelu(a, w)", words=10, a=signed(2, 3), w=positive(2))

# --- softmax ---------------------------------------------------------------------------------------------------------

for name in ["softmax", "log_softmax"]:
    op(name, "dim", "a, 1", "function method out", dtypes=NUMBERS, a=signed(3, 4))
    op(name, "negative_dim", "a, -2", "function method", a=signed(2, 3, 4))
    op(name, "dtype", "a, 1, dtype=torch.float64", "function method", dtypes="float32 int64", a=signed(3, 4))
    op(name, "zero_dim", "a, 0", a=signed())
    op(name, "empty", "a, 1", a=signed(0, 3))
    op(name, "transposed", "a.t(), 0", a=signed(3, 4))
    op(name, "large", "a, 0", a=values([1000.0, 1001.0, 999.0]))
    op(name, "masked", "a, 1", second=False, a=values([[1.0, -inf, 2.0], [-inf, -inf, 0.5]]))
    op(name, "all_masked", "a, 0", first=False, a=values([-inf, -inf]))
    op(f"F.{name}", "dim", "a, dim=1", a=signed(3, 4))
    op(f"F.{name}", "dtype", "a, dim=0, dtype=torch.float64", second=False, a=signed(3, 4, dtype="float32"))
    bad(name, "dim", f"torch.{name}(a, 2)", words=14, a=signed(3, 4))
    bad(name, "no_dim", f"torch.{name}(a)", a=signed(3, 4))
op("F.softmin", "dim", "a, dim=1", a=signed(3, 4))

# --- norms -----------------------------------------------------------------------------------------------------------

ROWS, WEIGHT, BIAS = signed(2, 3, 4), positive(4), signed(4)
for name in ["layer_norm", "F.layer_norm"]:
    op(name, "plain", "a, (4,)", dtypes=FLOATS, a=ROWS)
    op(name, "affine", "a, (4,), w, b", dtypes=FLOATS, a=ROWS, w=WEIGHT, b=BIAS)
    op(name, "two_dims", "a, (3, 4), w, b", a=ROWS, w=positive(3, 4), b=signed(3, 4))
    op(name, "weight_alone", "a, [4], w", a=ROWS, w=WEIGHT)
    op(name, "bias_alone", "a, [4], None, b", second=False, a=ROWS, b=BIAS)
    op(name, "keywords", "a, normalized_shape=[4], weight=w, bias=b, eps=0.1", a=ROWS, w=WEIGHT, b=BIAS)
    op(name, "constant_input", "a, (4,), w, b", a=signed(2, 3, 4, grad=False), w=WEIGHT, b=BIAS)
    op(name, "constant_weights", "a, (4,), w, b", a=ROWS, w=positive(4, grad=False), b=signed(4, grad=False))
    op(name, "transposed", "a.mT, (3,)", a=ROWS)
    op(name, "empty", "a, (4,)", a=signed(0, 4))
    op(name, "large", "a, (200,)", a=signed(3, 200))
    bad(name, "shape", "torch.layer_norm(a, (3,))", words=12, a=ROWS)
    bad(name, "weight_shape", "torch.layer_norm(a, (4,), w)", words=12, a=ROWS, w=positive(3))
    bad(name, "no_shape", "torch.layer_norm(a, ())", words=12, a=ROWS)
for name in ["rms_norm", "F.rms_norm"]:
    op(name, "plain", "a, (4,)", dtypes=FLOATS, a=ROWS)
    op(name, "weight", "a, (4,), w", dtypes=FLOATS, a=ROWS, w=WEIGHT)
    op(name, "eps", "a, (4,), w, 0.1", a=ROWS, w=WEIGHT)
    op(name, "two_dims", "a, (3, 4), w", a=ROWS, w=positive(3, 4))
bad("rms_norm", "shape", "torch.rms_norm(a, (3,))", words=12, a=ROWS)

CHANNELS = signed(2, 4, 3)
for name in ["group_norm", "F.group_norm"]:
    op(name, "plain", "a, 2", dtypes=FLOATS, a=CHANNELS)
    op(name, "affine", "a, 2, w, b", a=CHANNELS, w=WEIGHT, b=BIAS)
    op(name, "images", "a, 1, weight=w, bias=b, eps=0.1", a=signed(2, 4, 3, 2), w=WEIGHT, b=BIAS)
    op(name, "per_channel", "a, 4", a=CHANNELS)
    op(name, "two_dims", "a, 2", a=signed(3, 4))
    bad(name, "groups", "F.group_norm(a, 3)", words=12, a=CHANNELS)
    bad(name, "weight_shape", "F.group_norm(a, 2, w)", words=12, a=CHANNELS, w=positive(3))

MEAN, VAR = signed(4, grad=False), positive(4, grad=False)
op("F.batch_norm", "training", "a, None, None, training=True", dtypes="float32", a=CHANNELS)
op("F.batch_norm", "affine", "a, None, None, w, b, training=True", dtypes="float32", a=CHANNELS, w=WEIGHT, b=BIAS)
op("F.batch_norm", "running", "a, m, v, w, b", a=CHANNELS, m=MEAN, v=VAR, w=WEIGHT, b=BIAS)
op("F.batch_norm", "running_plain", "a, m, v", a=CHANNELS, m=MEAN, v=VAR)
op("F.batch_norm", "two_dims", "a, m, v, eps=0.1", a=signed(5, 4), m=MEAN, v=VAR)
op("F.batch_norm", "images", "a, None, None, w, b, training=True", a=signed(2, 4, 3, 2), w=WEIGHT, b=BIAS)
op("F.batch_norm", "eval_constant_weights", "a, m, v, w", a=signed(5, 4), m=MEAN, v=VAR, w=positive(4, grad=False))
BATCH_NORM_UPDATES = "(F.batch_norm(a, m := MEAN.clone(), v := VAR.clone(), training=True{}), m, v)"
for case, rest in {
    "updates": "",
    "updates_momentum": ", momentum=0.3",
    "updates_without_momentum": ", momentum=0.0",
}.items():
    program = BATCH_NORM_UPDATES.format(rest)
    expression("F.batch_norm", case, program, a=CHANNELS, MEAN=MEAN, VAR=VAR)
op("batch_norm", "torch", "a, w, b, None, None, True, 0.1, 1e-5, False", a=CHANNELS, w=WEIGHT, b=BIAS)
bad("F.batch_norm", "one_value", "F.batch_norm(a, None, None, training=True)", words=10, a=signed(1, 4))
bad("F.batch_norm", "no_statistics", "F.batch_norm(a, None, None)", words=10, a=CHANNELS)
bad(
    "F.batch_norm", "weight_shape", "F.batch_norm(a, None, None, w, training=True)", words=10, a=CHANNELS, w=positive(3)
)
bad("F.batch_norm", "mean_shape", "F.batch_norm(a, m, m)", words=10, a=CHANNELS, m=positive(3, grad=False))
op("batch_norm", "torch_running", "a, w, b, m, v, False, 0.1, 1e-5, False", a=CHANNELS, w=WEIGHT, b=BIAS, m=MEAN, v=VAR)
op("F.instance_norm", "plain", "a", a=CHANNELS)
op("F.instance_norm", "affine", "a, weight=w, bias=b", a=signed(2, 4, 3, 2), w=WEIGHT, b=BIAS)
op("F.local_response_norm", "plain", "a, 2", a=signed(2, 4, 3, 2))
op("F.normalize", "plain", "a", a=signed(3, 4))
op("F.normalize", "order", "a, p=1, dim=0", a=signed(3, 4))
op("F.normalize", "zeros", "a", second=False, a=values([[0.0, 0.0], [3.0, 4.0]]))
op("F.cosine_similarity", "plain", "a, b", a=signed(3, 4), b=signed(3, 4))
op("F.cosine_similarity", "dim", "a, b, dim=0", a=signed(3, 4), b=signed(3, 1))
op("F.pairwise_distance", "plain", "a, b", a=signed(3, 4), b=signed(3, 4))

# --- linear ----------------------------------------------------------------------------------------------------------

op("F.linear", "plain", "a, w", dtypes=f"{FLOATS} {COMPLEX} int64", a=signed(3, 4), w=signed(2, 4))
op("F.linear", "bias", "a, w, b", dtypes=FLOATS, a=signed(3, 4), w=signed(2, 4), b=signed(2))
op("F.linear", "vector", "a, w", a=signed(4), w=signed(2, 4))
op("F.linear", "vector_bias", "a, w, b", a=signed(4), w=signed(2, 4), b=signed(2))
op("F.linear", "batch", "a, w", a=signed(2, 3, 4), w=signed(5, 4))
op("F.linear", "batch_bias", "a, w, bias=b", a=signed(2, 3, 4), w=signed(5, 4), b=signed(5))
op("F.linear", "transposed_batch", "a.mT, w, b", a=signed(2, 4, 3), w=signed(5, 4), b=signed(5))
op("F.linear", "vector_weight", "a, w", a=signed(3, 4), w=signed(4))
op("F.linear", "keywords", "input=a, weight=w, bias=None", a=signed(3, 4), w=signed(2, 4))
op("F.linear", "empty", "a, w, b", a=signed(0, 4), w=signed(2, 4), b=signed(2))
op("F.linear", "constant_input", "a, w, b", a=signed(3, 4, grad=False), w=signed(2, 4), b=signed(2))
bad("F.linear", "inner", "F.linear(a, w)", words=12, a=signed(3, 4), w=signed(2, 3))
bad("F.linear", "bias_shape", "F.linear(a, w, b)", words=12, a=signed(3, 4), w=signed(2, 4), b=signed(3))
bad("F.linear", "dtypes", "F.linear(a, w)", words=12, a=signed(3, 4), w=signed(2, 4, dtype="float32"))
op("F.bilinear", "plain", "a, b, w, c", a=signed(3, 2), b=signed(3, 4), w=signed(5, 2, 4), c=signed(5))

# --- embedding -------------------------------------------------------------------------------------------------------

TABLE = signed(5, 3)
op("F.embedding", "plain", "i, w", dtypes=FLOATS, i=index(5, 4), w=TABLE)
op("F.embedding", "two_dims", "i, w", i=index(5, 2, 3), w=TABLE)
op("F.embedding", "zero_dim", "i, w", i=values(3, "int64"), w=TABLE)
op("F.embedding", "empty", "i, w", second=False, i=index(5, 0), w=TABLE)
op("F.embedding", "int32", "i, w", i=index(5, 4, dtype="int32"), w=TABLE)
op("F.embedding", "padding", "i, w, padding_idx=2", i=values([0, 2, 2, 4], "int64"), w=TABLE)
op("F.embedding", "negative_padding", "i, w, padding_idx=-1", i=values([0, 4, 2, 4], "int64"), w=TABLE)
op(
    "F.embedding",
    "scaled_by_frequency",
    "i, w, scale_grad_by_freq=True",
    second=False,
    i=values([0, 2, 2, 4], "int64"),
    w=TABLE,
)
op("F.embedding", "max_norm", "i, w, max_norm=1.0", i=index(5, 4), w=signed(5, 3, grad=False), first=False)
op("embedding", "torch", "w, i", i=index(5, 4), w=TABLE)
op("embedding", "torch_padding", "w, i, 2", i=values([0, 2, 2, 4], "int64"), w=TABLE)
bad("F.embedding", "range", "F.embedding(i + 5, w)", words=10, i=index(5, 4), w=TABLE)
bad("F.embedding", "negative", "F.embedding(i - 9, w)", words=10, i=index(5, 4), w=TABLE)
bad("F.embedding", "floats", "F.embedding(w, w)", words=10, w=TABLE)
bad("F.embedding", "padding", "F.embedding(i, w, padding_idx=7)", words=10, i=index(5, 4), w=TABLE)
bad("F.embedding", "vector", "F.embedding(i, w)", words=10, i=index(5, 4), w=signed(5))

# --- dropout ---------------------------------------------------------------------------------------------------------
# Both libraries start from the same seed, so the masks must be the same too.

for name in ["dropout", "F.dropout"]:
    op(name, "half", "a, 0.5, True", dtypes="float32", a=signed(5, 6))
    op(name, "little", "a, 0.1, True", a=signed(5, 6))
    op(name, "never", "a, 0.0, True", a=signed(3, 4))
    op(name, "always", "a, 1.0, True", a=signed(3, 4))
    op(name, "evaluating", "a, 0.5, False", a=signed(3, 4))
    op(name, "many", "a, 0.3, True", a=signed(40, 40))
    bad(name, "negative", f"torch.{name}(a, -0.1, True)".replace("torch.F", "F"), words=10, a=signed(3))
    bad(name, "above_one", f"torch.{name}(a, 1.1, True)".replace("torch.F", "F"), words=10, a=signed(3))
op("F.dropout", "default", "a", a=signed(5, 6))
op("F.dropout", "keywords", "a, p=0.25, training=True, inplace=False", a=signed(5, 6))
op("F.dropout", "zero_dim", "a", a=signed())
op("F.dropout", "empty", "a", a=signed(0, 3))
expression("F.dropout", "inplace", "F.dropout(x := a * 1, 0.5, True, inplace=True)", a=signed(5, 6))
expression("dropout", "torch_inplace", "torch.dropout_(x := a * 1, 0.5, True)", a=signed(5, 6))
op("F.dropout1d", "plain", "a, 0.5", a=signed(2, 3, 4))
op("F.dropout2d", "plain", "a, 0.5", a=signed(2, 3, 4, 2))
op("F.alpha_dropout", "plain", "a, 0.5, True", a=signed(5, 6))

# --- attention -------------------------------------------------------------------------------------------------------
# PyTorch's fused kernels have no second gradient; where they are chosen only the first is compared.

QUERY, KEY, VALUE = signed(2, 3, 4), signed(2, 5, 4), unit(2, 5, 6)
HEADS = {"q": signed(2, 3, 4, 8), "k": signed(2, 3, 5, 8), "v": unit(2, 3, 5, 8)}
name = "F.scaled_dot_product_attention"
op(name, "plain", "q, k, v", q=QUERY, k=KEY, v=VALUE)
op(name, "mask", "q, k, v, m", q=QUERY, k=KEY, v=VALUE, m=values([[True] * 4 + [False]] * 3, "bool"))
op(name, "bias", "q, k, v, attn_mask=m", q=QUERY, k=KEY, v=VALUE, m=signed(3, 5, grad=False))
op(name, "bias_gradient", "q, k, v, attn_mask=m", q=QUERY, k=KEY, v=VALUE, m=signed(2, 3, 5))
op(name, "causal", "q, k, v, is_causal=True", q=QUERY, k=KEY, v=VALUE)
op(name, "scale", "q, k, v, scale=0.3", q=QUERY, k=KEY, v=VALUE)
op(name, "two_dims", "q, k, v", q=signed(3, 4), k=signed(5, 4), v=unit(5, 6))
op(name, "heads", "q, k, v", second=False, tolerance=(1e-6, 1e-6), dtypes="float32", **HEADS)
op(name, "heads_causal", "q, k, v, is_causal=True", second=False, tolerance=(1e-6, 1e-6), **HEADS)
op(
    name,
    "heads_mask",
    "q, k, v, m",
    second=False,
    graph=False,
    tolerance=(1e-6, 1e-6),
    m=signed(4, 5, grad=False),
    **HEADS,
)
op(name, "dropout_always", "q, k, v, dropout_p=1.0", second=False, raises=None, q=QUERY, k=KEY, v=VALUE)
op(name, "dropout", "q, k, v, None, 0.5", second=False, q=QUERY, k=KEY, v=VALUE)
op(
    name,
    "grouped",
    "q, k, v, enable_gqa=True",
    second=False,
    tolerance=(1e-6, 1e-6),
    q=signed(2, 4, 3, 8),
    k=signed(2, 2, 5, 8),
    v=unit(2, 2, 5, 8),
)
op(name, "float32", "q, k, v", dtypes="float32 float16 bfloat16", second=False, q=QUERY, k=KEY, v=VALUE)
bad(name, "mask_and_causal", f"{name}(q, k, v, m, is_causal=True)", words=12, q=QUERY, k=KEY, v=VALUE, m=signed(3, 5))
bad(name, "dtypes", f"{name}(q, k, v)", words=12, q=QUERY, k=KEY, v=unit(2, 5, 6, dtype="float32"))
bad(name, "one_dim", f"{name}(q, q, q)", words=12, q=signed(4))
bad(name, "mask_dtype", f"{name}(q, k, v, m)", words=12, q=QUERY, k=KEY, v=VALUE, m=index(2, 3, 5))
op("F.embedding_bag", "mean", "i, w", second=False, i=index(5, 2, 3), w=distinct(5, 3))
