"""Tables of layers and losses with their inputs, for `NewModuleTest` and `CriterionTest`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow import nn
from undertow._src.tensor.creation import full
from undertow._src.types.dtypes import float64
from undertow.random import rand, randint, randn
from undertow.testing._internal.common_nn.cases import get_reduction
from undertow.testing._internal.common_nn.references import loss_reference_fns

Row = dict[str, Any]


def _row(name: str, constructor_args: tuple[Any, ...], input_size: Any, **more: Any) -> Row:
    return {"module_name": name, "constructor_args": constructor_args, "input_size": input_size, **more}


def _softmax_reference(input: Any, parameters: Any, module: Any) -> Any:
    return input.exp() / input.exp().sum(module.dim if module.dim is not None else 1, True)


def _linear_reference(input: Any, parameters: Any, module: Any) -> Any:
    return input @ parameters[0].t() + (parameters[1] if len(parameters) > 1 else 0)


module_tests: list[Row] = [
    _row("Linear", (10, 8), (4, 10), reference_fn=_linear_reference),
    _row("Linear", (10, 8, False), (4, 10), reference_fn=_linear_reference, desc="no_bias"),
    _row("ReLU", (), (2, 3, 4, 5), check_inplace=True, reference_fn=lambda i, p, m: i.clamp(min=0)),
    _row("ReLU6", (), (2, 3, 4, 5), check_inplace=True, reference_fn=lambda i, p, m: i.clamp(0, 6)),
    _row("RReLU", (1.0, 1.0), (1, 2, 2), desc="with_equal_ends"),
    _row("Hardtanh", (), (3, 2, 5), reference_fn=lambda i, p, m: i.clamp(-1, 1)),
    _row("Sigmoid", (), (2, 3, 4, 5), reference_fn=lambda i, p, m: 1 / (1 + (-i).exp())),
    _row("Tanh", (), (2, 3, 4, 5), reference_fn=lambda i, p, m: (i.exp() - (-i).exp()) / (i.exp() + (-i).exp())),
    _row("Softmax", (1,), (10, 20), reference_fn=_softmax_reference),
    _row("Softmax2d", (), (1, 3, 10, 5), reference_fn=lambda i, p, m: i.exp() / i.exp().sum(1, True)),
    _row("LogSoftmax", (1,), (10, 20), reference_fn=lambda i, p, m: _softmax_reference(i, p, m).log()),
    _row("ELU", (2.0,), (3, 2, 5)),
    _row("Hardshrink", (2.0,), (4, 3, 2, 4)),
    _row("LeakyReLU", (0.5,), (3, 2, 5), check_inplace=True),
    _row("LogSigmoid", (), (2, 3, 4)),
    _row("Softplus", (2, -100), (10, 5)),
    _row("Softshrink", (1,), (3, 2, 5)),
    _row("PReLU", (3,), (2, 3, 4)),
    _row("Softsign", (), (3, 2, 5), reference_fn=lambda i, p, m: i / (1 + i.abs())),
    _row("Softmin", (1,), (10, 20)),
    _row("Tanhshrink", (), (2, 3, 4, 5)),
    _row("GELU", (), (2, 3)),
    _row("SiLU", (), (2, 3)),
    _row("Mish", (), (2, 3)),
]


def get_new_module_tests() -> list[Row]:
    """Return rows for layers on images, norms and padding."""
    found = [
        _row("BatchNorm1d", (3,), (4, 3, 2), desc="3d_input"), _row("BatchNorm2d", (3,), (2, 3, 4, 4)),
        _row("InstanceNorm1d", (3,), (2, 3, 5)), _row("LayerNorm", ([5],), (4, 5)), _row("GroupNorm", (3, 6), (4, 6, 5)),
        _row("Conv1d", (4, 5, 3), (2, 4, 6)), _row("Conv1d", (4, 5, 3, 2), (2, 4, 7), desc="stride"),
        _row("Conv2d", (3, 4, (3, 2)), (2, 3, 5, 5)), _row("Conv2d", (4, 6, 3, 1, 0, 1, 2), (1, 4, 5, 5), desc="groups"),
        _row("ConvTranspose1d", (3, 4, 3, 2), (1, 3, 5)), _row("ConvTranspose2d", (3, 4, 3), (1, 3, 4, 4)),
        _row("Conv3d", (2, 3, 2), (1, 2, 3, 3, 3)), _row("MaxPool1d", (3,), (2, 3, 9)),
        _row("MaxPool2d", (2,), (1, 3, 6, 6)),
        _row("AvgPool1d", (2,), (2, 3, 6)), _row("AvgPool2d", ((2, 2),), (2, 3, 6, 6)),
        _row("AdaptiveAvgPool2d", (3,), (1, 3, 5, 6)), _row("AdaptiveMaxPool1d", (3,), (1, 3, 5)),
        _row("ReflectionPad2d", ((1, 2, 1, 2),), (1, 2, 4, 4)), _row("ReplicationPad1d", ((1, 2),), (2, 3, 4)),
        _row("ConstantPad2d", ((1, 2, 1, 2), 2.0), (1, 2, 4, 4)), _row("ZeroPad2d", ((1, 2, 1, 0),), (1, 2, 4, 4)),
        _row("PixelShuffle", (2,), (1, 4, 3, 3)), _row("Upsample", (None, 2.0, "nearest"), (1, 2, 4)),
        _row("Fold", ((3, 3), 2), (1, 8, 4)), _row("Unfold", ((2, 2),), (1, 2, 4, 4)), _row("GLU", (1,), (5, 6, 7)),
        _row("Embedding", (4, 3), None, input_fn=lambda: randint(0, 4, (2, 3)), jacobian_input=False),
        _row("EmbeddingBag", (4, 3), None, input_fn=lambda: randint(0, 4, (2, 3)), jacobian_input=False),
    ]  # fmt: skip
    for row in found:
        if row["input_size"] is None:
            del row["input_size"]
    return found


def _loss(name: str, input_fn: Callable[[], Any], target_fn: Callable[[], Any], **more: Any) -> Row:
    reference = loss_reference_fns.get(name)
    row: Row = {"module_name": name, "input_fn": input_fn, "target_fn": target_fn, **more}
    if reference is not None and "reference_fn" not in more:
        row["reference_fn"] = lambda *args: reference(*args[:-1], reduction=get_reduction(args[-1]))
    return row


def _signs(*shape: int) -> Any:
    return randn(*shape, dtype=float64).sign()


def _positive(*shape: int) -> Any:
    return rand(*shape, dtype=float64).clamp(0.05, 0.95)


criterion_tests: list[Row] = [
    _loss("L1Loss", lambda: randn(2, 3, 4), lambda: randn(2, 3, 4),
          reference_fn=lambda i, t, m: (i - t).abs().mean()),
    _loss("MSELoss", lambda: randn(2, 3, 4), lambda: randn(2, 3, 4), reference_fn=lambda i, t, m: ((i - t) ** 2).mean()),
    _loss("NLLLoss", lambda: rand(15, 10).log(), lambda: randint(0, 10, (15,))),
    _loss("KLDivLoss", lambda: _positive(5, 4).log(), lambda: _positive(5, 4), check_gradgrad=True),
    _loss("CrossEntropyLoss", lambda: randn(15, 10), lambda: randint(0, 10, (15,))),
    _loss("BCELoss", lambda: _positive(5, 4), lambda: randn(5, 4).gt(0).to(float64)),
    _loss("BCEWithLogitsLoss", lambda: randn(5, 4), lambda: randn(5, 4).gt(0).to(float64)),
    _loss("HingeEmbeddingLoss", lambda: randn(10), lambda: _signs(10)),
    _loss("SoftMarginLoss", lambda: randn(5, 5), lambda: _signs(5, 5)),
    _loss("SmoothL1Loss", lambda: randn(5, 4), lambda: randn(5, 4)),
    _loss("HuberLoss", lambda: randn(5, 4), lambda: randn(5, 4)),
    _loss("MultiMarginLoss", lambda: randn(5, 4), lambda: randint(0, 4, (5,)), check_gradgrad=False),
    _loss("MultiLabelSoftMarginLoss", lambda: randn(5, 4), lambda: randn(5, 4).gt(0).to(float64)),
    _loss("PoissonNLLLoss", lambda: randn(2, 3), lambda: full((2, 3), 1.5, dtype=float64)),
    _loss("CosineEmbeddingLoss", lambda: (randn(5, 4), randn(5, 4)), lambda: _signs(5)),
    _loss("MarginRankingLoss", lambda: (randn(8), randn(8)), lambda: _signs(8)),
]  # fmt: skip


def wrap_functional(fn: Callable[..., Any], **kwargs: Any) -> type[nn.Module]:
    """Return a class of layers that call a function."""

    class FunctionalModule(nn.Module):
        def forward(self, *args: Any) -> Any:
            return fn(*args, **kwargs)

    return FunctionalModule
