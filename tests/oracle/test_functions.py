"""Every function against torch: value, dtype, shape, graph, gradient, second gradient, and what it refuses.

The samples are in `samples_*.py`, one table per family; run one family with `-k elementwise`, one function with
`-k elementwise-mul`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import undertow
from tests.oracle import (
    samples_beneath,
    samples_compare,
    samples_conv,
    samples_elementwise,
    samples_elementwise_more,
    samples_index,
    samples_layers,
    samples_linalg,
    samples_loss,
    samples_matrices,
    samples_nn,
    samples_reduce,
    samples_rest,
    samples_shape,
    samples_statistics,
)
from tests.oracle.facts import dtype_name, to_tensor
from tests.oracle.harness import Log, agree
from tests.oracle.sampling import Sample

TABLES = [
    samples_beneath.table,
    samples_compare.table,
    samples_conv.table,
    samples_elementwise.table,
    samples_elementwise_more.table,
    samples_index.table,
    samples_layers.table,
    samples_linalg.table,
    samples_loss.table,
    samples_matrices.table,
    samples_nn.table,
    samples_reduce.table,
    samples_rest.table,
    samples_shape.table,
    samples_statistics.table,
]
SAMPLES = [sample for table in TABLES for sample in table.samples_for(undertow)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_function(sample: Sample) -> None:
    rtol, atol = sample.tolerance or (None, None)
    run = {"out": run_out, "out_grad": run_out}.get(sample.form, run_call)

    def program(torch: ModuleType, log: Log) -> None:
        run(sample, torch, log)

    def exactly(torch: ModuleType, log: Log) -> None:
        run(sample, torch, log, exact=True)

    agree(
        program, graph=sample.graph, raises=sample.raises, words=sample.words, rtol=rtol, atol=atol, reference=exactly
    )


PROMISED = """
abs add sub mul div floor_divide remainder fmod neg pow exp expm1 log log2 log10 log1p sqrt rsqrt square reciprocal
sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid erf erfc erfinv clamp maximum minimum sign round floor ceil
trunc lerp addcmul addcdiv eq ne lt le gt ge logical_and logical_or logical_xor logical_not bitwise_and bitwise_or
bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift isnan isinf isfinite nan_to_num where masked_fill
masked_select masked_scatter allclose equal isclose any all sum mean prod max min amax amin argmax argmin var std
var_mean median norm logsumexp logaddexp cumsum cumprod matmul mm bmm mv dot outer addmm baddbmm einsum tensordot
reshape view flatten unflatten permute transpose t movedim squeeze unsqueeze expand repeat tile chunk split unbind cat
stack hstack vstack flip roll narrow select diagonal diag tril triu gather scatter scatter_add scatter_reduce
index_select index_add index_copy index_put take_along_dim nonzero topk sort argsort unique bincount repeat_interleave
meshgrid F.one_hot softmax log_softmax relu F.gelu F.silu F.leaky_relu F.elu F.softplus layer_norm rms_norm group_norm
batch_norm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d max_pool2d max_pool3d
F.avg_pool1d F.avg_pool2d F.avg_pool3d F.adaptive_avg_pool1d F.adaptive_avg_pool2d F.adaptive_avg_pool3d
F.adaptive_max_pool1d F.adaptive_max_pool2d F.adaptive_max_pool3d embedding dropout F.pad F.interpolate
F.scaled_dot_product_attention F.linear F.cross_entropy F.nll_loss F.mse_loss F.l1_loss F.smooth_l1_loss F.huber_loss
F.binary_cross_entropy F.binary_cross_entropy_with_logits F.kl_div F.cosine_embedding_loss F.margin_ranking_loss
F.triplet_margin_loss linalg.norm linalg.det linalg.slogdet linalg.inv linalg.solve linalg.cholesky linalg.qr
linalg.svd linalg.eigh
""".split()


@pytest.mark.parametrize("function", PROMISED)
def test_promised_function_is_sampled(function: str) -> None:
    good = [sample for sample in SAMPLES if sample.function == function and sample.raises is not True]
    bad = [sample for sample in SAMPLES if sample.function.split(".")[-1] == function.split(".")[-1] and sample.raises]
    assert len(good) >= 2 and bad


def test_ids_are_unique() -> None:
    names = [sample.name for sample in SAMPLES]
    assert sorted(set(names)) == sorted(names)


def run_call(sample: Sample, torch: ModuleType, log: Log, exact: bool = False) -> None:
    """Evaluate the program; note its value, then its gradients along fixed random directions."""
    names = sample.environment(torch, grad=sample.first, exact=exact)
    inputs = [names[name] for name in sample.inputs]
    result = eval(sample.program, names)
    log("value", result)
    outputs = list(tensors_in(torch, result))
    if "x" in names:
        log("returns itself", result is names["x"])
    log("inputs untouched", [tensor._version for tensor in inputs])
    if sample.layout:
        for output in outputs:
            log("layout", output.stride(), output.storage_offset(), output.is_contiguous(), output._is_view())
            log("base", [output._base is tensor for tensor in inputs])
    leaves = [tensor for tensor in inputs if tensor.requires_grad]
    outputs = [tensor for tensor in outputs if tensor.requires_grad]
    if sample.first and leaves and outputs:
        note_gradients(torch, log, outputs, leaves, sample.second)


def note_gradients(torch: ModuleType, log: Log, outputs: list[Any], leaves: list[Any], second: bool) -> None:
    """The second gradient is taken with respect to the inputs and to the direction of the first."""
    along = [direction(torch, tensor, seed) for seed, tensor in enumerate(outputs)]
    if second:
        # Recorded and unrecorded passes run the same rules on different arrays: the plain one is what users mostly run.
        plain = torch.autograd.grad(outputs, leaves, along, retain_graph=True, allow_unused=True)
        log("gradient", [None if gradient is None else gradient.detach() for gradient in plain])
        along = [tensor.requires_grad_() for tensor in along]
    gradients = torch.autograd.grad(outputs, leaves, along, create_graph=second, allow_unused=True)
    log("first gradient", [None if gradient is None else gradient.detach() for gradient in gradients])
    curved = [gradient for gradient in gradients if gradient is not None and gradient.requires_grad]
    if not (second and curved):
        return
    again = [direction(torch, tensor, seed + 100) for seed, tensor in enumerate(curved)]
    wanted = [*leaves, *along]
    seconds = torch.autograd.grad(curved, wanted, again, allow_unused=True)
    # Whether a gradient that vanishes everywhere is zero or unused is the formula's affair, not the caller's.
    found = [torch.zeros_like(to) if one is None else one for one, to in zip(seconds, wanted, strict=True)]
    log("second gradient", [gradient.detach() for gradient in found])


def run_out(sample: Sample, torch: ModuleType, log: Log, exact: bool = False) -> None:
    """Evaluate with `out=` empty tensors of the right dtype; with inputs that require grad this must raise."""
    names = sample.environment(torch, grad=False, exact=exact)
    found = eval(sample.program.replace(", out=out)", ")"), dict(names))
    empty = [torch.empty(0, dtype=tensor.dtype) for tensor in tensors_in(torch, found)]
    names = sample.environment(torch, grad=sample.form == "out_grad", exact=exact)
    names["out"] = empty[0] if isinstance(found, torch.Tensor) else tuple(empty)
    result = eval(sample.program, names)
    log("value", result, empty)
    log("same tensors", [one is other for one, other in zip(tensors_in(torch, result), empty, strict=True)])


def tensors_in(torch: ModuleType, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(torch, item)]
    return []


def direction(torch: ModuleType, like: Any, seed: int) -> Any:
    """A fixed random tensor shaped as `like`, to contract a gradient with: of numbers that every dtype has."""
    random = np.random.default_rng(seed)
    numbers: Any = random.uniform(0.5, 1.5, tuple(like.shape)) * random.choice([-1.0, 1.0], tuple(like.shape))
    if dtype_name(like.dtype).startswith("complex"):
        numbers = numbers + 1j * random.uniform(-1.0, 1.0, tuple(like.shape))
    return to_tensor(torch, np.round(numbers * 64) / 64, dtype=dtype_name(like.dtype))
