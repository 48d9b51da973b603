"""Operators of `torch.nn.functional`."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.operator_tables.kinds import gradcheck_wrapper_ctc_loss
from tests.operator_tables.making import ALL, FLOATS, INEXACT, Calls, operator
from tests.operator_tables.op_info import OpInfo


def _row(name: str, letters: str, calls: Calls, **options: Any) -> OpInfo:
    return operator(f"nn.functional.{name}", letters, calls, **options)


def layer_operators() -> list[OpInfo]:
    """All of them, but those that work element by element."""
    return [*_layers(), *_pools(), *_losses()]


def _layers() -> list[OpInfo]:
    def convolved(dims: int, turned: bool = False) -> Calls:
        def calls(t: Any) -> list[Any]:
            weight = (2, 4, *[3] * dims) if turned else (4, 2, *[3] * dims)
            return [
                (t(1, 2, *[5] * dims), t(*weight), t(4)),
                (t(2, *[5] * dims), t(*weight), {"stride": 2, "padding": 1}),
                (t(1, 2, *[5] * dims), t(2, 1, *[2] * dims), {"groups": 2}),
            ]

        return calls

    def resized(mode: str, shape: tuple[int, ...], t: Any) -> list[Any]:
        return [(t(1, 2, *shape), {"scale_factor": 2.0, "mode": mode})]

    return [
        _row("linear", INEXACT, lambda t: [(t(2, 3), t(4, 3), t(4)), (t(3), t(4, 3))]),
        _row("bilinear", "f", lambda t: [(t(2, 3), t(2, 4), t(5, 3, 4), t(5))]),
        *[_row(f"conv{dims}d", "fc", convolved(dims)) for dims in (1, 2, 3)],
        *[_row(f"conv_transpose{dims}d", "fc", convolved(dims, turned=True)) for dims in (1, 2, 3)],
        _row("layer_norm", FLOATS, lambda t: [(t(2, 3), (3,)), (t(2, 3, 4), (3, 4), t(3, 4), t(3, 4))]),
        _row("rms_norm", "f", lambda t: [(t(2, 3), (3,)), (t(2, 3), (3,), t(3))]),
        _row("group_norm", FLOATS, lambda t: [(t(2, 4, 3), 2), (t(2, 4), 4, t(4), t(4))]),
        _row("instance_norm", "f", lambda t: [t(2, 3, 4), (t(2, 3, 4, 4), {"weight": t(3), "bias": t(3)})]),
        _row("batch_norm", "f", lambda t: [
            (t(3, 2), t(2, grad=False), t(2, low=1, high=2, grad=False), t(2), t(2)),
            (t(3, 2, 4), None, None, {"training": True})]),
        _row("local_response_norm", "f", lambda t: [(t(1, 4, 3), 3)]),
        _row("normalize", INEXACT, lambda t: [t(2, 3), (t(2, 3), {"p": 1.0})]),
        _row("embedding", FLOATS, lambda t: [(t.given([1, 0, 3]), t(4, 3))]),
        _row("embedding_bag", "f", lambda t: [
            (t.given([[1, 0], [3, 3]]), t(4, 3)), (t.given([1, 0, 2]), t(4, 3), t.given([0, 2]))]),
        _row("one_hot", "i", lambda t: [(t.given([0, 2, 1]), 4)]),
        _row("pad/constant", ALL, lambda t: [(t(2, 3), (1, 2)), (t(2, 3), (1, 0, 2, 1), "constant", 1)]),
        _row("pad/reflect", "fc", lambda t: [(t(2, 4), (1, 2), "reflect"), (t(1, 2, 4, 4), (1, 1, 2, 0), "reflect")]),
        _row("pad/replicate", "fc", lambda t: [(t(2, 4), (1, 2), "replicate")]),
        _row("pad/circular", ALL, lambda t: [(t(1, 2, 4), (1, 2), "circular")]),
        _row("unfold", "f", lambda t: [(t(1, 2, 4, 4), 2)]),
        _row("pixel_shuffle", ALL, lambda t: [(t(1, 4, 2, 2), 2)]),
        _row("pixel_unshuffle", ALL, lambda t: [(t(1, 1, 4, 4), 2)]),
        _row("channel_shuffle", ALL, lambda t: [(t(1, 4, 2, 2), 2)]),
        *[
            _row(f"interpolate/{mode}", "f", partial(resized, mode, shape))
            for mode, shape in (("nearest", (4, 4)), ("linear", (4,)), ("bilinear", (3, 4)), ("bicubic", (4, 4)),
                                ("trilinear", (2, 3, 2)), ("area", (4, 4)), ("nearest-exact", (4, 4)))
        ],
        _row("grid_sample", "f", lambda t: [(t(1, 2, 4, 4), t(1, 3, 3, 2, low=-1, high=1), {"align_corners": False})]),
        _row("scaled_dot_product_attention", "f", lambda t: [
            (t(1, 2, 3, 4), t(1, 2, 5, 4), t(1, 2, 5, 4)), (t(2, 4, 4), t(2, 4, 4), t(2, 4, 4), {"is_causal": True})]),
        _row("cosine_similarity", FLOATS, lambda t: [(t(2, 3), t(2, 3)), (t(3), t(3), {"dim": 0})]),
        _row("pairwise_distance", INEXACT, lambda t: [(t(2, 3), t(2, 3))]), _row("pdist", "f", lambda t: [t(4, 3)]),
    ]  # fmt: skip


def _pools() -> list[OpInfo]:
    shapes = {1: (2, 3, 6), 2: (1, 2, 6, 6), 3: (1, 2, 4, 4, 4)}

    def pooled(shape: tuple[int, ...], t: Any) -> list[Any]:
        return [(t(*shape), 2), (t(*shape), 3, 2, 1)]

    def adapted(shape: tuple[int, ...], dims: int, t: Any) -> list[Any]:
        return [(t(*shape), 3 if dims == 1 else (3,) * dims), (t(*shape), 1)]

    return [
        *[
            _row(f"{kind}_pool{dims}d", "f", partial(pooled, shape))
            for kind in ("avg", "max") for dims, shape in shapes.items()
        ],
        *[
            _row(f"adaptive_{kind}_pool{dims}d", "f", partial(adapted, shape, dims))
            for kind in ("avg", "max") for dims, shape in shapes.items()
        ],
        _row("lp_pool1d", "f", lambda t: [(t(2, 3, 6, low=0.5, high=2), 2, 2)]),
        _row("lp_pool2d", "f", lambda t: [(t(1, 2, 6, 6, low=0.5, high=2), 2, 2)]),
    ]  # fmt: skip


def _losses() -> list[OpInfo]:
    def two(*shape: int, **limits: Any) -> Calls:
        return lambda t: [
            (t(*shape, **limits), t(*shape, **limits), {"reduction": reduction})
            for reduction in ("mean", "sum", "none")
        ]

    def signs(t: Any, *shape: int) -> Any:
        return (t(*shape, grad=False) > 0).to(t.dtype) * 2 - 1

    return [
        *[_row(f"{name}_loss", "f", two(2, 3)) for name in ("mse", "l1", "smooth_l1", "huber")],
        _row("kl_div", "f", two(2, 3, low=0.1, high=0.9)), _row("poisson_nll_loss", "f", two(2, 3, low=0.1, high=2)),
        _row("binary_cross_entropy", "f", two(2, 3, low=0.1, high=0.9)),
        _row("binary_cross_entropy_with_logits", "f", two(2, 3, low=0.1, high=0.9)),
        _row("cross_entropy", "f", lambda t: [
            (t(3, 4), t.whole(4, 3)), (t(3, 4), t(3, 4, low=0, high=1)),
            (t(2, 4, 3), t.whole(4, 2, 3), {"label_smoothing": 0.1})]),
        _row("nll_loss", "f", lambda t: [
            (t(3, 4), t.whole(4, 3)), (t(3, 4), t.whole(4, 3), t(4, low=0.1, high=1, grad=False))]),
        _row("soft_margin_loss", "f", lambda t: [(t(2, 3), signs(t, 2, 3))]),
        _row("hinge_embedding_loss", "f", lambda t: [(t(2, 3), signs(t, 2, 3))]),
        _row("margin_ranking_loss", "f", lambda t: [(t(3), t(3), signs(t, 3), {"margin": 0.5})]),
        _row("cosine_embedding_loss", "f", lambda t: [(t(3, 4), t(3, 4), signs(t, 3))]),
        _row("triplet_margin_loss", "f", lambda t: [(t(3, 4), t(3, 4), t(3, 4))]),
        _row("multi_margin_loss", "f", lambda t: [(t(3, 4), t.whole(4, 3))], supports_gradgrad=False),
        _row("multilabel_margin_loss", "f", lambda t: [(t(3), t.given([1, 2, -1]))], supports_gradgrad=False),
        _row("multilabel_soft_margin_loss", "f", two(2, 3, low=0.1, high=0.9)),
        _row("gaussian_nll_loss", "f", lambda t: [(t(2, 3), t(2, 3), t(2, 3, low=0.5, high=2))]),
        _row("ctc_loss", "f", lambda t: [(t(6, 2, 4), t.whole(4, 2, 3, low=1), t.given([6, 6]), t.given([3, 2]))],
             gradcheck_wrapper=gradcheck_wrapper_ctc_loss, supports_gradgrad=False,
             supports_forward_ad=False, supports_fwgrad_bwgrad=False),
    ]  # fmt: skip
