"""Operators whose public function has a different name or signature."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

REDUCTIONS = ("none", "mean", "sum")


def functional(name: str) -> Callable[..., Any]:
    """Return a function of `nn.functional`."""
    return getattr(importlib.import_module("undertow.nn.functional"), name)


def torch(name: str) -> Callable[..., Any]:
    """Return a function of the package."""
    return getattr(importlib.import_module("undertow"), name)


def linalg(name: str) -> Callable[..., Any]:
    return getattr(importlib.import_module("undertow.linalg"), name)


def _attention(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None,
    scale: Any = None,
) -> Any:  # fmt: skip
    shared = query.shape[1] != key.shape[1]
    output = functional("scaled_dot_product_attention")(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=shared
    )
    if shared:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        scores = scores.masked_fill(torch("ones_like")(scores).triu(1) > 0, float("-inf"))
    return output, scores.logsumexp(-1)


def _nll_loss_forward(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    loss = functional("nll_loss")(self, target, weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction])
    kept = target != ignore_index
    total = kept.sum().to(self.dtype) if weight is None else weight[target[kept]].sum()
    return loss, total


def _loss(name: str, *parameters: str) -> Callable[..., Any]:
    """Return a loss function whose reduction is given as a number."""

    def kernel(self: Any, target: Any, *given: Any, **named: Any) -> Any:
        options = dict(zip(parameters, given, strict=False)) | named
        options["reduction"] = REDUCTIONS[options.get("reduction", 1)]
        return functional(name)(self, target, **options)

    return kernel


def _padding(mode: str) -> Callable[..., Any]:
    return lambda self, padding: functional("pad")(self, tuple(padding), mode=mode)


def _upsample(mode: str, corners: bool) -> Callable[..., Any]:
    def kernel(self: Any, output_size: Any, *rest: Any) -> Any:
        options = {"align_corners": rest[0]} if corners and rest else {}
        scales = [scale for scale in (rest[1:] if corners else rest) if scale is not None]
        if scales:
            return functional("interpolate")(self, scale_factor=tuple(scales), mode=mode, **options)
        return functional("interpolate")(self, tuple(output_size), mode=mode, **options)

    return kernel


def _in_place(name: str) -> Callable[..., Any]:
    return lambda self, *given: functional(name)(self, *given, inplace=True)


def _elu(self: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    below = (self * input_scale).expm1() * (alpha * scale)
    return torch("where")(self > 0, self * scale, below)


def _with_rest(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return a kernel that adds the outputs its gradient reads; here nothing reads them."""

    def kernel(self: Any, *given: Any, **named: Any) -> tuple[Any, ...]:
        found = function(self, *given, **named)
        found = tuple(found) if isinstance(found, tuple) else (found,)
        return (*found, *[self.new_empty(0) for _ in range(count)])

    return kernel


FORWARD: dict[str, Callable[..., Any]] = {
    "detach": lambda self: self.detach(),
    "lift_fresh": lambda self: self,
    "_local_scalar_dense": lambda self: self.item(),
    "scalar_tensor": lambda s, *, dtype=None, layout=None, device=None, pin_memory=None: torch("full")(
        (), s, dtype=dtype
    ),
    "_prelu_kernel": lambda self, weight: torch("where")(self > 0, self, weight * self),
    "_adaptive_avg_pool2d": lambda self, size: functional("adaptive_avg_pool2d")(self, size),
    "_adaptive_avg_pool3d": lambda self, size: functional("adaptive_avg_pool3d")(self, size),
    "log_sigmoid_forward": lambda self: (functional("logsigmoid")(self), self.new_empty(0)),
    "elu": _elu,
    "mse_loss": _loss("mse_loss", "reduction"),
    "smooth_l1_loss": _loss("smooth_l1_loss", "reduction", "beta"),
    "huber_loss": _loss("huber_loss", "reduction", "delta"),
    "soft_margin_loss": _loss("soft_margin_loss", "reduction"),
    "binary_cross_entropy": _loss("binary_cross_entropy", "weight", "reduction"),
    "binary_cross_entropy_with_logits": _loss("binary_cross_entropy_with_logits", "weight", "pos_weight", "reduction"),
    "multi_margin_loss": _loss("multi_margin_loss", "p", "margin", "weight", "reduction"),
    "nll_loss_forward": _nll_loss_forward,
    "nll_loss2d_forward": _nll_loss_forward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "max_pool2d_with_indices": lambda self, *args: functional("max_pool2d_with_indices")(self, *args),
    "max_pool3d_with_indices": lambda self, *args: functional("max_pool3d_with_indices")(self, *args),
    "elu_": lambda self, *given: self.copy_(_elu(self, *given)),
    **{
        f"{kind}_pad{rank}d": _padding({"reflection": "reflect", "replication": "replicate"}[kind])
        for kind in ("reflection", "replication")
        for rank in (1, 2, 3)
    },
    **{f"upsample_nearest{rank}d": _upsample("nearest", False) for rank in (1, 2, 3)},
    "upsample_linear1d": _upsample("linear", True),
    "upsample_bilinear2d": _upsample("bilinear", True),
    "upsample_trilinear3d": _upsample("trilinear", True),
    "upsample_bicubic2d": _upsample("bicubic", True),
    **{name + "_": _in_place(name) for name in ("silu", "mish", "hardswish")},
    "im2col": lambda self, kernel_size, dilation, padding, stride: functional("unfold")(
        self, kernel_size, dilation, padding, stride
    ),
    "col2im": lambda self, output_size, kernel_size, dilation, padding, stride: functional("fold")(
        self, output_size, kernel_size, dilation, padding, stride
    ),
    "_logcumsumexp": lambda self, dim: torch("logcumsumexp")(self, dim),
    "_cdist_forward": lambda x1, x2, p, compute_mode=None: torch("cdist")(x1, x2, p),
    "_safe_softmax": lambda self, dim, dtype=None: torch("softmax")(self, dim).nan_to_num(0.0),
    "_linalg_det": _with_rest(lambda A: linalg("det")(A), 2),
    "_linalg_slogdet": _with_rest(lambda A: linalg("slogdet")(A), 2),
    "_linalg_solve_ex": _with_rest(lambda A, B, left=True, check_errors=False: linalg("solve")(A, B, left=left), 3),
    "_linalg_svd": lambda A, full_matrices=False, compute_uv=True, driver=None: tuple(linalg("svd")(A, full_matrices)),
    "_linalg_eigh": lambda A, UPLO="L", compute_v=True: tuple(linalg("eigh")(A, UPLO)),
}
