"""Every layer of torch.nn, as constructor calls with the inputs to call them on.

An input is a shape (floats that ask for gradients), or a small array description: `ints(high, *shape)`, `signs(*shape)`,
`probabilities(*shape)`, `log_probabilities(*shape)`. Both libraries get the same seeded numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.oracle.facts import to_tensor


class Input(NamedTuple):
    kind: str
    shape: tuple[int, ...]
    high: int = 0
    dtype: str = "float32"

    def tensor(self, torch: Any, seed: int) -> Any:
        random = np.random.default_rng(seed)
        if self.kind == "ints":
            return to_tensor(torch, random.integers(0, self.high, self.shape))
        if self.kind == "labels":  # never 0, which is the blank
            return to_tensor(torch, random.integers(1, self.high, self.shape))
        if self.kind == "signs":
            return to_tensor(torch, random.choice([-1.0, 1.0], self.shape).astype(self.dtype))
        values = random.standard_normal(self.shape)
        if self.kind == "probabilities":
            values = 1 / (1 + np.exp(-values))
            return to_tensor(torch, values.astype(self.dtype), requires_grad=bool(self.high))
        if self.kind == "log_probabilities":
            values = values - np.log(np.exp(values).sum(-1, keepdims=True))
        return to_tensor(torch, values.astype(self.dtype), requires_grad=self.kind != "constant")


def ints(high: int, *shape: int) -> Input:
    return Input("ints", shape, high)


def signs(*shape: int) -> Input:
    return Input("signs", shape)


def constant(*shape: int) -> Input:
    return Input("constant", shape)


def probabilities(*shape: int, grad: bool = False) -> Input:
    return Input("probabilities", shape, int(grad))


def log_probabilities(*shape: int) -> Input:
    return Input("log_probabilities", shape)


class Layer(NamedTuple):
    """A constructor call, and what the module is called on."""

    text: str
    inputs: tuple[Any, ...]

    def make(self, torch: Any) -> Any:
        return eval(self.text, {"torch": torch, "nn": torch.nn})

    def arguments(self, torch: Any) -> list[Any]:
        described = [Input("signed", item) if type(item) is tuple else item for item in self.inputs]
        return [item.tensor(torch, seed) if isinstance(item, Input) else item for seed, item in enumerate(described)]


def _layers(table: dict[str, tuple[Any, ...]]) -> list[Layer]:
    return [Layer(text.strip(), inputs) for texts, inputs in table.items() for text in texts.split(";")]


IMAGES, VOLUMES, LINES = (2, 4, 7, 6), (2, 4, 4, 5, 3), (2, 4, 9)

LINEAR = _layers({
    "nn.Identity(); nn.Identity(3, a=4)": ((2, 3),),
    "nn.Linear(3, 4); nn.Linear(3, 4, bias=False); nn.Linear(3, 1)": ((2, 3),),
    "nn.Linear(3, 4, dtype=torch.float64)": (Input("signed", (2, 3), dtype="float64"),),
    "nn.Linear(3, 2, True, 'cpu')": ((2, 5, 3),),
    "nn.modules.linear.NonDynamicallyQuantizableLinear(3, 4)": ((3,),),
    "nn.Bilinear(3, 4, 5); nn.Bilinear(3, 4, 2, bias=False)": ((2, 3), (2, 4)),
    "nn.LazyLinear(4); nn.LazyLinear(4, bias=False)": ((2, 3),),
    "nn.Flatten(); nn.Flatten(0); nn.Flatten(1, 2)": ((2, 3, 4),),
    "nn.Unflatten(1, (2, 3)); nn.Unflatten(-1, [3, 2]); nn.Unflatten(1, torch.Size([2, 3]))": ((2, 6),),
    "nn.CosineSimilarity(); nn.CosineSimilarity(0, 1e-4); nn.PairwiseDistance(); nn.PairwiseDistance(1.0, 1e-4, True)":
        ((3, 4), (3, 4)),
    "nn.Embedding(5, 3); nn.Embedding(5, 3, 1); nn.Embedding(5, 3, -1, scale_grad_by_freq=True)": (ints(5, 2, 4),),
    "nn.Embedding(5, 3, max_norm=1.0); nn.Embedding(5, 3, max_norm=1.5, norm_type=1)": (ints(5, 2, 4),),
    "nn.Embedding.from_pretrained(torch.ones(5, 2)); nn.Embedding.from_pretrained(torch.ones(5, 2), freeze=False)":
        (ints(5, 3),),
    "nn.EmbeddingBag(5, 3); nn.EmbeddingBag(5, 3, mode='sum'); nn.EmbeddingBag(5, 3, mode='max');"
    "nn.EmbeddingBag(5, 3, padding_idx=1); nn.EmbeddingBag(5, 3, max_norm=1.0)": (ints(5, 2, 4),),
})  # fmt: skip

CONVOLUTIONS = _layers({
    "nn.Conv1d(4, 6, 3); nn.Conv1d(4, 4, 3, 2, 1, 2, 2, False); nn.Conv1d(4, 2, 4, padding='same');"
    "nn.Conv1d(4, 2, 3, padding=2, padding_mode='circular'); nn.Conv1d(4, 2, 3, padding=2, padding_mode='reflect');"
    "nn.LazyConv1d(3, 2); nn.LazyConv1d(4, 3, groups=2, bias=False)": (LINES,),
    "nn.Conv2d(4, 6, 3); nn.Conv2d(4, 4, (3, 2), (2, 1), (1, 0), (1, 2), 2);"
    "nn.Conv2d(4, 2, 3, padding='same', dilation=2);"
    "nn.Conv2d(4, 2, 3, padding='valid'); nn.Conv2d(4, 4, 3, groups=4, bias=False);"
    "nn.Conv2d(4, 2, 3, padding=(1, 2), padding_mode='replicate'); nn.Conv2d(4, 2, 1); nn.LazyConv2d(3, 2, padding=1)":
        (IMAGES,),
    "nn.Conv2d(4, 2, 3, padding='same', padding_mode='circular')": ((4, 7, 6),),
    "nn.Conv3d(4, 2, 2);"
    "nn.Conv3d(4, 2, (1, 2, 3), padding=1, padding_mode='circular'); nn.LazyConv3d(2, 2)": (VOLUMES,),
    "nn.ConvTranspose1d(4, 3, 3); nn.ConvTranspose1d(4, 4, 3, 2, 1, 1, 2, False, 2);"
    "nn.LazyConvTranspose1d(3, 2)": (LINES,),
    "nn.ConvTranspose2d(4, 3, 3); nn.ConvTranspose2d(4, 4, 3, 2, 1, 1, 2, True, 2); nn.LazyConvTranspose2d(3, (2, 3))":
        (IMAGES,),
    "nn.ConvTranspose3d(4, 3, 2); nn.ConvTranspose3d(4, 3, 2, 2, output_padding=1);"
    "nn.LazyConvTranspose3d(3, 2)": (VOLUMES,),
    "nn.Fold((4, 5), 2); nn.Fold((4, 5), (2, 2), 1, 0, 1)": ((2, 8, 12),),
    "nn.Unfold(2); nn.Unfold((2, 3), 2, 1, 2)": (IMAGES,),
})  # fmt: skip

NORMS = _layers({
    "nn.BatchNorm1d(4); nn.BatchNorm1d(4, momentum=None); nn.BatchNorm1d(4, 1e-3, 0.3, affine=False);"
    "nn.BatchNorm1d(4, track_running_stats=False); nn.BatchNorm1d(4, bias=False); nn.LazyBatchNorm1d();"
    "nn.LazyBatchNorm1d(affine=False); nn.LazyBatchNorm1d(bias=False, track_running_stats=False);"
    "nn.InstanceNorm1d(4); nn.InstanceNorm1d(4, affine=True, track_running_stats=True);"
    "nn.LazyInstanceNorm1d()": (LINES,),
    "nn.BatchNorm1d(4); nn.SyncBatchNorm(4)": ((5, 4),),
    "nn.BatchNorm2d(4); nn.InstanceNorm2d(4, affine=True, bias=False); nn.LazyBatchNorm2d(); nn.LazyInstanceNorm2d();"
    "nn.GroupNorm(2, 4); nn.GroupNorm(4, 4, affine=False); nn.GroupNorm(1, 4, bias=False); nn.LocalResponseNorm(2);"
    "nn.LocalResponseNorm(3, 0.1, 0.5, 2.0)": (IMAGES,),
    "nn.CrossMapLRN2d(3, 0.1); nn.CrossMapLRN2d(4, 0.1, 0.5, 2); nn.CrossMapLRN2d(5, 0.1)": (constant(2, 7, 3, 3),),
    "nn.InstanceNorm2d(4)": ((4, 7, 6),),
    "nn.BatchNorm3d(4); nn.InstanceNorm3d(4); nn.LazyBatchNorm3d(); nn.LazyInstanceNorm3d()": (VOLUMES,),
    "nn.LayerNorm(5); nn.LayerNorm((3, 5)); nn.LayerNorm([3, 5], 1e-3, bias=False);"
    "nn.LayerNorm(5, elementwise_affine=False);"
    "nn.RMSNorm(5); nn.RMSNorm((3, 5), 1e-3); nn.RMSNorm(5, elementwise_affine=False)": ((2, 3, 5),),
})  # fmt: skip

ACTIVATIONS = _layers({
    "nn.Threshold(0.1, 20); nn.ReLU(); nn.RReLU(); nn.RReLU(0.2, 0.4); nn.Hardtanh(); nn.Hardtanh(-2, 0.5); nn.ReLU6();"
    "nn.Sigmoid(); nn.Hardsigmoid(); nn.Tanh(); nn.SiLU(); nn.Mish(); nn.Hardswish(); nn.ELU();"
    "nn.ELU(0.5); nn.CELU(2.0);"
    "nn.SELU(); nn.GLU(); nn.GLU(0); nn.GELU(); nn.GELU('tanh'); nn.Hardshrink(); nn.Hardshrink(0.3); nn.LeakyReLU();"
    "nn.LeakyReLU(0.2); nn.LogSigmoid(); nn.Softplus(); nn.Softplus(2.0, 1.0); nn.Softshrink();"
    "nn.PReLU(); nn.PReLU(6, 0.1);"
    "nn.Softsign(); nn.Tanhshrink(); nn.Softmin(1); nn.Softmax(0); nn.Softmax(dim=-1); nn.LogSoftmax(1)": ((4, 6),),
    "nn.Softmax2d()": (IMAGES,),
    "nn.Dropout(); nn.Dropout(0.2); nn.Dropout(0); nn.Dropout(1); nn.AlphaDropout(0.3)": ((4, 6),),
    "nn.Dropout1d(); nn.FeatureAlphaDropout(0.3)": (LINES,),
    "nn.Dropout2d(0.3)": (IMAGES,),
    "nn.Dropout3d()": (VOLUMES,),
})  # fmt: skip

IN_PLACE = [
    f"nn.{name}inplace=True)"
    for name in (
        "Threshold(0.1, 20, ;ReLU(;RReLU(;Hardtanh(;ReLU6(;Hardsigmoid(;SiLU(;Mish(;Hardswish(;ELU(;CELU(;SELU(;LeakyReLU(;"
        "Dropout(;Dropout2d("
    ).split(";")
]

POOLS = _layers({
    "nn.MaxPool1d(2); nn.MaxPool1d(3, 2, 1, 2, ceil_mode=True); nn.MaxPool1d(2, return_indices=True); nn.AvgPool1d(2);"
    "nn.AvgPool1d(3, 2, 1, True, False); nn.LPPool1d(2, 3); nn.LPPool1d(1.5, 2, 1, True);"
    "nn.AdaptiveMaxPool1d(3); nn.AdaptiveMaxPool1d(4, True); nn.AdaptiveAvgPool1d(4)": (LINES,),
    "nn.MaxPool2d(2); nn.MaxPool2d((3, 2), 2, (1, 0), ceil_mode=True); nn.MaxPool2d(2, return_indices=True);"
    "nn.AvgPool2d(2); nn.AvgPool2d(3, 2, 1, True, False); nn.AvgPool2d(2, divisor_override=3); nn.LPPool2d(2, (2, 3));"
    "nn.AdaptiveMaxPool2d(3); nn.AdaptiveMaxPool2d((3, None), True); nn.AdaptiveAvgPool2d(1);"
    "nn.AdaptiveAvgPool2d((None, 4))":
        (IMAGES,),
    "nn.MaxPool3d(2); nn.MaxPool3d(2, 1, 1, return_indices=True); nn.AvgPool3d(2);"
    "nn.AvgPool3d(2, 1, 1, divisor_override=5);"
    "nn.LPPool3d(2, 2); nn.AdaptiveMaxPool3d(2); nn.AdaptiveAvgPool3d((2, None, 1))": (VOLUMES,),
    "nn.FractionalMaxPool2d(2, 3); nn.FractionalMaxPool2d((2, 3), output_ratio=0.5, return_indices=True)": (IMAGES,),
    "nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.5, 0.4));"
    "nn.FractionalMaxPool3d((2, 1, 2), 1, return_indices=True)":
        (VOLUMES,),
    "nn.ConstantPad1d(2, 3.5); nn.ConstantPad1d((1, -2), 1.0); nn.ZeroPad1d((2, 1)); nn.ReflectionPad1d(2);"
    "nn.ReplicationPad1d((3, 1)); nn.CircularPad1d(2)": (LINES,),
    "nn.ConstantPad2d(1, 0.5); nn.ZeroPad2d((1, 0, 2, 1)); nn.ReflectionPad2d(2); nn.ReplicationPad2d((1, 2, 0, 3));"
    "nn.CircularPad2d((1, 2, 3, 0)); nn.Upsample(8); nn.Upsample(scale_factor=2);"
    "nn.UpsamplingNearest2d(scale_factor=2);"
    "nn.Upsample((9, 5), mode='bilinear'); nn.Upsample(scale_factor=(2, 1.5), mode='bicubic', align_corners=True);"
    "nn.UpsamplingBilinear2d((5, 9)); nn.PixelShuffle(2); nn.ChannelShuffle(2)": (IMAGES,),
    "nn.PixelUnshuffle(2)": ((2, 1, 4, 6),),
    "nn.ConstantPad3d(1, 0.5); nn.ZeroPad3d(1); nn.ReflectionPad3d(1); nn.ReplicationPad3d((1, 2, 0, 3, 1, 1));"
    "nn.CircularPad3d(1); nn.Upsample(scale_factor=2, mode='trilinear')": (VOLUMES,),
    "nn.Upsample(scale_factor=2.0, mode='linear', align_corners=False)": (LINES,),
})  # fmt: skip

_REDUCED = ("", "reduction='sum'", "reduction='none'")


def _losses(table: dict[str, tuple[Any, ...]]) -> list[Layer]:
    """Each loss with each reduction; `*` in its call is where the reduction goes."""
    made = []
    for texts, inputs in table.items():
        for text in texts.split(";"):
            for reduction in _REDUCED:
                further = f", {reduction}" if reduction and "(*)" not in text else reduction
                made.append(Layer(text.strip().replace("*", further), inputs))
    return made


LOSSES = _losses({
    "nn.L1Loss(*); nn.MSELoss(*); nn.SmoothL1Loss(*); nn.SmoothL1Loss(beta=0.3*); nn.HuberLoss(*);"
    "nn.HuberLoss(delta=0.4*)":
        ((3, 4), (3, 4)),
    "nn.PoissonNLLLoss(*); nn.PoissonNLLLoss(full=True*)": ((3, 4), probabilities(3, 4)),
    "nn.PoissonNLLLoss(False*)": (probabilities(3, 4, grad=True), probabilities(3, 4)),
    "nn.GaussianNLLLoss(*); nn.GaussianNLLLoss(full=True*)": ((3, 4), (3, 4), probabilities(3, 4, grad=True)),
    "nn.NLLLoss(*); nn.NLLLoss(ignore_index=1*); nn.NLLLoss(torch.tensor([1.0, 2.0, 0.5, 3.0])*)":
        (log_probabilities(5, 4), ints(4, 5)),
    "nn.CrossEntropyLoss(*); nn.CrossEntropyLoss(ignore_index=2*); nn.CrossEntropyLoss(label_smoothing=0.2*);"
    "nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5, 3.0]), label_smoothing=0.1*)": ((5, 4), ints(4, 5)),
    "nn.CrossEntropyLoss(*)": ((2, 4, 3), ints(4, 2, 3)),
    "nn.CrossEntropyLoss(label_smoothing=0.1*)": ((5, 4), probabilities(5, 4)),
    "nn.KLDivLoss(log_target=True*)": (log_probabilities(3, 4), log_probabilities(3, 4)),
    "nn.BCELoss(*);"
    "nn.BCELoss(torch.tensor([1.0, 2.0, 0.5, 3.0])*)": (probabilities(3, 4, grad=True), probabilities(3, 4)),
    "nn.BCEWithLogitsLoss(*); nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 0.5, 3.0])*)":
        ((3, 4), probabilities(3, 4)),
    "nn.SoftMarginLoss(*); nn.HingeEmbeddingLoss(*); nn.HingeEmbeddingLoss(0.5*)": ((3, 4), signs(3, 4)),
    "nn.CosineEmbeddingLoss(*); nn.CosineEmbeddingLoss(0.2*)": ((3, 4), (3, 4), signs(3)),
    "nn.MarginRankingLoss(*); nn.MarginRankingLoss(0.5*)": ((3,), (3,), signs(3)),
    "nn.MultiMarginLoss(*); nn.MultiMarginLoss(2, 0.5*);"
    "nn.MultiMarginLoss(weight=torch.tensor([1.0, 2.0, 0.5, 3.0])*)":
        ((3, 4), ints(4, 3)),
    "nn.MultiLabelMarginLoss(*)": ((3, 4), ints(4, 3, 4)),
    "nn.MultiLabelSoftMarginLoss(*); nn.MultiLabelSoftMarginLoss(torch.tensor([1.0, 2.0, 0.5, 3.0])*)":
        ((3, 4), probabilities(3, 4)),
    "nn.TripletMarginLoss(*); nn.TripletMarginLoss(0.5, 1.0, swap=True*); nn.TripletMarginWithDistanceLoss(*);"
    "nn.TripletMarginWithDistanceLoss(margin=2.0, swap=True*)": ((3, 4), (3, 4), (3, 4)),
    "nn.CTCLoss(3*)": (log_probabilities(6, 2, 4), ints(3, 2, 3), [6, 5], [3, 2]),
    "nn.CTCLoss(*)": (log_probabilities(7, 2, 4), Input("labels", (2, 3), 4), [7, 6], [3, 2]),
    "nn.CTCLoss(0, zero_infinity=True*)": (log_probabilities(6, 2, 4), Input("labels", (2, 3), 3), [6, 3], [3, 3]),
    "nn.LinearCrossEntropyLoss(3, 4*); nn.LinearCrossEntropyLoss(3, 4, bias=True, label_smoothing=0.1*)":
        ((5, 3), ints(4, 5)),
    "nn.LinearCrossEntropyLoss(3, 4, out_features=(2,)*)": ((5, 3), ints(4, 5, 2)),
})  # fmt: skip

LOSSES += _layers({
    "nn.KLDivLoss(reduction='batchmean');"
    "nn.KLDivLoss(reduction='sum')": (log_probabilities(3, 4), probabilities(3, 4)),
    "nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5], div_value=2.0);"
    "nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4], head_bias=True)": ((6, 8), ints(10, 6)),
})  # fmt: skip
