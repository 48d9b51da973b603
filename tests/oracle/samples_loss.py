"""Losses: every reduction, weights, smoothing, ignored labels, class probabilities, batches of sequences and images."""

from __future__ import annotations

from math import inf

from tests.oracle.sampling import FLOATS, Table, index, positive, probability, signed, unit, values

MORE = [
    *["hinge_embedding_loss", "soft_margin_loss", "multi_margin_loss", "multilabel_soft_margin_loss"],
    *["poisson_nll_loss", "gaussian_nll_loss", "triplet_margin_with_distance_loss"],
]
table = Table("loss", beyond=" ".join(f"F.{name}" for name in MORE))
op, bad, expression = table.op, table.bad, table.expression

REDUCTIONS = ["mean", "sum", "none"]

# --- classes ---------------------------------------------------------------------------------------------------------

LOGITS, LABELS, WEIGHT = signed(4, 5), values([0, 3, 4, 0], "int64"), positive(5, grad=False)
CROSS = {
    "plain": "",
    "weight": ", w",
    "smoothing": ", label_smoothing=0.2",
    "weight_smoothing": ", w, label_smoothing=0.2",
    "ignored": ", ignore_index=0",
    "ignored_weight_smoothing": ", weight=w, ignore_index=0, label_smoothing=0.1",
}
for reduction in REDUCTIONS:
    for case, rest in CROSS.items():
        inputs = {"a": LOGITS, "i": LABELS} | ({"w": WEIGHT} if "w" in rest.split("=")[0] or "weight" in rest else {})
        op("F.cross_entropy", f"{case}_{reduction}", f"a, i{rest}, reduction='{reduction}'", **inputs)
    op(
        "F.cross_entropy",
        f"images_{reduction}",
        f"a, i, w, reduction='{reduction}'",
        a=signed(2, 5, 3, 2),
        i=index(5, 2, 3, 2),
        w=WEIGHT,
    )
    op(
        "F.cross_entropy",
        f"sequences_{reduction}",
        f"a, i, reduction='{reduction}'",
        a=signed(2, 5, 3),
        i=index(5, 2, 3),
    )
    op("F.cross_entropy", f"probabilities_{reduction}", f"a, p, reduction='{reduction}'", a=LOGITS, p=probability(4, 5))
    op(
        "F.cross_entropy",
        f"probabilities_weight_{reduction}",
        f"a, p, w, reduction='{reduction}'",
        a=LOGITS,
        p=probability(4, 5),
        w=WEIGHT,
    )
    op(
        "F.cross_entropy",
        f"probabilities_smoothing_{reduction}",
        f"a, p, label_smoothing=0.2, reduction='{reduction}'",
        a=LOGITS,
        p=probability(4, 5),
    )
    op(
        "F.cross_entropy",
        f"probabilities_images_{reduction}",
        f"a, p, reduction='{reduction}'",
        a=signed(2, 3, 4),
        p=probability(2, 3, 4),
    )
    op("F.nll_loss", f"plain_{reduction}", f"a, i, reduction='{reduction}'", a=LOGITS, i=LABELS)
    op("F.nll_loss", f"weight_{reduction}", f"a, i, w, reduction='{reduction}'", a=LOGITS, i=LABELS, w=WEIGHT)
    op("F.nll_loss", f"ignored_{reduction}", f"a, i, ignore_index=3, reduction='{reduction}'", a=LOGITS, i=LABELS)
    op(
        "F.nll_loss",
        f"images_{reduction}",
        f"a, i, w, ignore_index=1, reduction='{reduction}'",
        a=signed(2, 5, 3, 2),
        i=index(5, 2, 3, 2),
        w=WEIGHT,
    )
    op("F.nll_loss", f"sequences_{reduction}", f"a, i, reduction='{reduction}'", a=signed(2, 5, 3), i=index(5, 2, 3))
op("F.cross_entropy", "dtypes", "a, i", dtypes=FLOATS, a=LOGITS, i=LABELS)
op("F.cross_entropy", "unbatched", "a, i", a=signed(5), i=values(2, "int64"))
op("F.cross_entropy", "unbatched_probabilities", "a, p", a=signed(5), p=probability(5))
op("F.cross_entropy", "all_ignored", "a, i", second=False, a=LOGITS, i=values([-100] * 4, "int64"))
op("F.cross_entropy", "large", "a, i", a=values([[1000.0, 0.0], [0.0, -1000.0]]), i=values([1, 0], "int64"))
op("F.cross_entropy", "default_ignored", "a, i", a=LOGITS, i=values([1, -100, 2, -100], "int64"))
op("F.cross_entropy", "keywords", "input=a, target=i, weight=None, reduction='mean'", a=LOGITS, i=LABELS)
op("F.cross_entropy", "composed", "torch.relu(a @ b), i", a=signed(4, 3), b=signed(3, 5), i=LABELS)
op("F.cross_entropy", "empty_sum", "a, i, reduction='sum'", a=signed(0, 5), i=index(5, 0))
op("F.cross_entropy", "empty_mean", "a, i", second=False, a=signed(0, 5), i=index(5, 0))
op("F.nll_loss", "dtypes", "a, i", dtypes="float32 bfloat16", a=LOGITS, i=LABELS)
op("F.nll_loss", "unbatched", "a, i", a=signed(5), i=values(2, "int64"))
for name in ["cross_entropy", "nll_loss"]:
    bad(f"F.{name}", "label_range", f"F.{name}(a, i + 5)", words=6, a=LOGITS, i=LABELS)
    bad(f"F.{name}", "negative_label", f"F.{name}(a, i - 5)", words=6, a=LOGITS, i=LABELS)
    bad(f"F.{name}", "batch", f"F.{name}(a, i)", words=12, a=LOGITS, i=index(5, 3))
    bad(f"F.{name}", "label_dims", f"F.{name}(a, i)", words=8, a=LOGITS, i=index(5, 4, 2))
    bad(f"F.{name}", "label_dtype", f"F.{name}(a, i)", words=8, a=LOGITS, i=index(5, 4, dtype="int32"))
    bad(f"F.{name}", "weight_shape", f"F.{name}(a, i, w)", words=10, a=LOGITS, i=LABELS, w=positive(4, grad=False))
    bad(f"F.{name}", "reduction", f"F.{name}(a, i, reduction='max')", words=10, a=LOGITS, i=LABELS)
bad("F.cross_entropy", "smoothing", "F.cross_entropy(a, i, label_smoothing=1.5)", words=10, a=LOGITS, i=LABELS)
bad(
    "F.cross_entropy",
    "probabilities_ignored",
    "F.cross_entropy(a, p, ignore_index=1)",
    words=10,
    a=LOGITS,
    p=probability(4, 5),
)
bad("F.cross_entropy", "zero_dim", "F.cross_entropy(a, i)", words=8, a=signed(), i=values(0, "int64"))

# --- distances -------------------------------------------------------------------------------------------------------

PREDICTED, WANTED = signed(3, 4), unit(3, 4)
DISTANCES = {
    "F.mse_loss": [""],
    "F.l1_loss": [""],
    "F.smooth_l1_loss": ["", ", beta=0.5", ", beta=0.0"],
    "F.huber_loss": ["", ", delta=0.5"],
}
for name, variants in DISTANCES.items():
    for reduction in REDUCTIONS:
        for rest in variants:
            case = reduction + rest.replace(", ", "_").replace("=", "_")
            op(name, case, f"a, b, reduction='{reduction}'{rest}", a=PREDICTED, b=WANTED)
    op(name, "dtypes", "a, b", dtypes=FLOATS, a=PREDICTED, b=WANTED)
    op(name, "constant_target", "a, b", a=PREDICTED, b=unit(3, 4, grad=False))
    op(name, "zero_dim", "a, b", a=signed(), b=unit())
    op(name, "empty", "a, b, reduction='sum'", a=signed(0), b=unit(0))
    op(name, "equal", "a, b", second=False, a=values([1.0, 2.0]), b=values([1.0, 3.0]))
    op(
        name,
        "mixed_dtypes",
        "a, b",
        raises=None,
        second=False,
        tolerance=(1e-5, 1e-6),
        a=signed(3, dtype="float32"),
        b=unit(3),
    )
    op(name, "keywords", "input=a, target=b, reduction='mean'", a=PREDICTED, b=WANTED)
    bad(name, "shapes", f"{name}(a, b)", words=12, a=signed(3, 4), b=signed(2, 2))
    bad(name, "reduction", f"{name}(a, b, reduction='max')", words=10, a=PREDICTED, b=WANTED)
op("F.mse_loss", "weight", "a, b, weight=w", a=PREDICTED, b=WANTED, w=positive(3, 4, grad=False))
op("F.l1_loss", "weight", "a, b, weight=w", a=PREDICTED, b=WANTED, w=positive(3, 4, grad=False))
bad("F.smooth_l1_loss", "beta", "F.smooth_l1_loss(a, b, beta=-1.0)", words=10, a=PREDICTED, b=WANTED)
bad("F.huber_loss", "delta", "F.huber_loss(a, b, delta=0.0)", words=10, a=PREDICTED, b=WANTED)

# --- yes and no ------------------------------------------------------------------------------------------------------

CHANCE, TRUTH = probability(3, 4), probability(3, 4)
for reduction in REDUCTIONS:
    op("F.binary_cross_entropy", f"plain_{reduction}", f"a, b, reduction='{reduction}'", a=CHANCE, b=TRUTH)
    op(
        "F.binary_cross_entropy",
        f"weight_{reduction}",
        f"a, b, w, reduction='{reduction}'",
        a=CHANCE,
        b=TRUTH,
        w=positive(4, grad=False),
    )
    name = "F.binary_cross_entropy_with_logits"
    op(name, f"plain_{reduction}", f"a, b, reduction='{reduction}'", a=PREDICTED, b=TRUTH)
    op(
        name,
        f"weights_{reduction}",
        f"a, b, weight=w, pos_weight=p, reduction='{reduction}'",
        a=PREDICTED,
        b=TRUTH,
        w=positive(3, 1, grad=False),
        p=positive(4, grad=False),
    )
    op("F.kl_div", f"plain_{reduction}", f"a, b, reduction='{reduction}'", a=PREDICTED, b=TRUTH)
    op(
        "F.kl_div",
        f"log_target_{reduction}",
        f"a, b, log_target=True, reduction='{reduction}'",
        a=PREDICTED,
        b=PREDICTED,
    )
op("F.binary_cross_entropy", "dtypes", "a, b", dtypes=FLOATS, a=CHANCE, b=TRUTH)
op(
    "F.binary_cross_entropy",
    "certain",
    "a, b",
    second=False,
    a=values([0.0, 1.0, 0.0, 1.0]),
    b=values([0.0, 1.0, 1.0, 0.0], grad=False),
)
op("F.binary_cross_entropy", "constant_target", "a, b", a=CHANCE, b=probability(3, 4, grad=False))
bad("F.binary_cross_entropy", "range", "F.binary_cross_entropy(a, a)", words=10, a=values([1.5, 0.5]))
bad("F.binary_cross_entropy", "shapes", "F.binary_cross_entropy(a, b)", words=10, a=CHANCE, b=probability(4))
bad(
    "F.binary_cross_entropy",
    "dtypes",
    "F.binary_cross_entropy(a, b)",
    words=10,
    a=CHANCE,
    b=probability(3, 4, dtype="int64"),
)
name = "F.binary_cross_entropy_with_logits"
op(name, "dtypes", "a, b", dtypes=FLOATS, a=PREDICTED, b=TRUTH)
op(name, "extreme", "a, b", a=values([800.0, -800.0, 0.0]), b=values([0.0, 1.0, 0.5]))
op(name, "infinite", "a, b", first=False, a=values([inf, -inf]), b=values([1.0, 0.0]))
op(name, "constant_target", "a, b", a=PREDICTED, b=probability(3, 4, grad=False))
bad(name, "shapes", f"{name}(a, b)", words=10, a=PREDICTED, b=probability(4))
op("F.kl_div", "batchmean", "a, b, reduction='batchmean'", a=PREDICTED, b=TRUTH)
op("F.kl_div", "batchmean_log_target", "a, b, reduction='batchmean', log_target=True", a=PREDICTED, b=WANTED)
op("F.kl_div", "zero_target", "a, b, reduction='sum'", second=False, a=signed(3), b=values([0.0, 0.5, 0.5], grad=False))
op("F.kl_div", "dtypes", "a, b, reduction='sum'", dtypes=FLOATS, a=PREDICTED, b=TRUTH)

bad("F.kl_div", "shapes", "F.kl_div(a, b, reduction='sum')", words=12, a=signed(3, 4), b=probability(3, 3))
bad("F.kl_div", "reduction", "F.kl_div(a, b, reduction='max')", words=10, a=PREDICTED, b=TRUTH)

# --- pairs and triplets ----------------------------------------------------------------------------------------------

SIDES = values([1, -1, 1], "int64")
for reduction in REDUCTIONS:
    op(
        "F.cosine_embedding_loss",
        f"plain_{reduction}",
        f"a, b, i, reduction='{reduction}'",
        a=signed(3, 4),
        b=signed(3, 4),
        i=SIDES,
    )
    op(
        "F.cosine_embedding_loss",
        f"margin_{reduction}",
        f"a, b, i, margin=0.3, reduction='{reduction}'",
        a=signed(3, 4),
        b=signed(3, 4),
        i=SIDES,
    )
    op(
        "F.margin_ranking_loss",
        f"plain_{reduction}",
        f"a, b, i, reduction='{reduction}'",
        a=signed(3),
        b=signed(3),
        i=SIDES,
    )
    op(
        "F.margin_ranking_loss",
        f"margin_{reduction}",
        f"a, b, i, margin=0.7, reduction='{reduction}'",
        a=signed(3),
        b=signed(3),
        i=SIDES,
    )
    op(
        "F.triplet_margin_loss",
        f"plain_{reduction}",
        f"a, b, c, reduction='{reduction}'",
        a=signed(3, 4),
        b=signed(3, 4),
        c=signed(3, 4),
    )
op("F.cosine_embedding_loss", "unbatched", "a, b, i", a=signed(4), b=signed(4), i=values(-1, "int64"))
op(
    "F.cosine_embedding_loss",
    "float_target",
    "a, b, i",
    a=signed(3, 4),
    b=signed(3, 4),
    i=values([1.0, -1.0, 1.0], grad=False),
)
op(
    "F.margin_ranking_loss",
    "float_target",
    "a, b, i",
    a=signed(3),
    b=signed(3),
    i=values([1.0, -1.0, -1.0], grad=False),
)
TRIPLET = {"a": signed(3, 4), "b": signed(3, 4), "c": signed(3, 4)}
op("F.triplet_margin_loss", "options", "a, b, c, margin=2.0, p=1, eps=1e-3", **TRIPLET)
op("F.triplet_margin_loss", "swap", "a, b, c, margin=3.0, swap=True", **TRIPLET)
op("F.triplet_margin_loss", "order_three", "a, b, c, 5.0, 3.0", **TRIPLET)
op("F.triplet_margin_loss", "unbatched", "a, b, c", a=signed(4), b=signed(4), c=signed(4))
op("F.triplet_margin_loss", "dtypes", "a, b, c", dtypes="float32", **TRIPLET)
bad(
    "F.cosine_embedding_loss", "dims", "F.cosine_embedding_loss(a, b, i)", words=8, a=signed(3, 4), b=signed(4), i=SIDES
)
bad(
    "F.cosine_embedding_loss",
    "target_dims",
    "F.cosine_embedding_loss(a, a, i)",
    words=8,
    a=signed(3, 4),
    i=index(2, 3, 4),
)
bad("F.margin_ranking_loss", "dims", "F.margin_ranking_loss(a, b, i)", words=8, a=signed(3, 4), b=signed(4), i=SIDES)
bad("F.triplet_margin_loss", "dims", "F.triplet_margin_loss(a, b, a)", words=8, a=signed(3, 4), b=signed(4))

# --- further losses --------------------------------------------------------------------------------------------------

op("F.hinge_embedding_loss", "plain", "a, b", a=signed(3, 4), b=values([[1.0, -1.0, 1.0, -1.0]] * 3, grad=False))
op("F.soft_margin_loss", "plain", "a, b", a=signed(3, 4), b=values([[1.0, -1.0, 1.0, -1.0]] * 3, grad=False))
op("F.multi_margin_loss", "plain", "a, i", second=False, a=LOGITS, i=LABELS)
op("F.multilabel_soft_margin_loss", "plain", "a, b", a=PREDICTED, b=TRUTH)
op("F.poisson_nll_loss", "plain", "a, b", a=PREDICTED, b=TRUTH)
op("F.gaussian_nll_loss", "plain", "a, b, v", a=PREDICTED, b=WANTED, v=positive(3, 4))
op("F.triplet_margin_with_distance_loss", "plain", "a, b, c", **TRIPLET)
