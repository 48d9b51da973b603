"""Arguments that layers refuse, and their errors, for tests that run over all layers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from undertow.testing._creation import Maker

# Arguments of the constructor and of the call (None: the constructor raises), the error class and its message.
Refusal = tuple[dict[str, Any], tuple[Any, ...] | None, Any, str]
Refusals = Callable[[Maker], list[Refusal]]


def _normed(dims: int, t: Maker) -> list[Refusal]:
    few = (t(3), "expected 2D or 3D input") if dims == 1 else (t(2, 3), f"expected {dims + 2}D input")
    image = (4,) * dims
    return [
        ({"num_features": 3}, (few[0],), ValueError, few[1]),
        ({"num_features": 5}, (t(2, 3, *image),), RuntimeError, "running_mean should contain"),
    ]


def _padded(dims: int, t: Maker) -> list[Refusal]:
    return [
        ({"padding": 1}, (t(2),), ValueError, f"expected {dims + 1}D or {dims + 2}D input"),
        ({"padding": 7}, (t(1, 2, *[4] * dims),), RuntimeError, "Padding value causes wrapping around more than once"),
    ]


def _recurrent(cell: bool, t: Maker) -> list[Refusal]:
    sizes = {"input_size": 5, "hidden_size": 4}
    words = "input has inconsistent input_size" if cell else "input.size\\(-1\\) must be equal to input_size"
    wrong = t(3, 6) if cell else t(3, 2, 6)
    refusals: list[Refusal] = [(sizes, (wrong,), RuntimeError, words)]
    if not cell:
        refusals += [
            ({**sizes, "hidden_size": 0}, None, ValueError, "hidden_size must be greater than zero"),
            ({**sizes, "num_layers": 0}, None, ValueError, "num_layers must be greater than zero"),
            ({**sizes, "hidden_size": 4.5}, None, TypeError, "hidden_size should be of type int"),
        ]
    return refusals


def _of_targets(t: Maker) -> list[Refusal]:
    return [({}, (t(3, 4), t.whole(4, 2)), ValueError, "Expected input batch_size .3. to match target batch_size .2.")]


REFUSALS: dict[str, Refusals] = {
    **{f"BatchNorm{dims}d": functools.partial(_normed, dims) for dims in (1, 2, 3)},
    **{f"CircularPad{dims}d": functools.partial(_padded, dims) for dims in (1, 2, 3)},
    **{name: functools.partial(_recurrent, False) for name in ("RNN", "GRU", "LSTM")},
    **{f"{name}Cell": functools.partial(_recurrent, True) for name in ("RNN", "GRU", "LSTM")},
    "CrossEntropyLoss": lambda t: [
        *_of_targets(t),
        ({"label_smoothing": 2.0}, (t(3, 4), t.whole(4, 3)), RuntimeError, "label_smoothing must be between 0.0 and 1.0"),
    ],
    "NLLLoss": _of_targets,
    "Embedding": lambda t: [
        ({"num_embeddings": 4, "embedding_dim": 3, "padding_idx": 9}, None, AssertionError, "within num_embeddings"),
        ({"num_embeddings": 4, "embedding_dim": 3, "_weight": t(3, 4)}, None, AssertionError, "[Ss]hape of weight"),
    ],
    "GroupNorm": lambda t: [
        ({"num_groups": 4, "num_channels": 6}, None, ValueError, "must be divisible by num_groups"),
        ({"num_groups": 3, "num_channels": 6}, (t(2, 5),), RuntimeError, "Expected (number of channels|weight)"),
    ],
    "HuberLoss": lambda t: [
        ({"delta": 0.0}, (t(3), t(3)), RuntimeError, "does not support non-positive values for delta"),
    ],
    "MaxPool2d": lambda t: [
        ({"kernel_size": 2, "padding": 3}, (t(1, 2, 6, 6),), RuntimeError, "pad should be at most half"),
        ({"kernel_size": 2}, (t(2, 6),), RuntimeError, "3D or 4D"),
    ],
    "MultiMarginLoss": lambda t: [
        ({"p": 3}, None, ValueError, "only p == 1 and p == 2 supported"),
    ],
}  # fmt: skip
