"""Layers with options drawn at random: values, strides, gradients, buffers and text are torch's, or both refuse."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.oracle.harness import agree


class Layer(NamedTuple):
    """A layer to be made, and the shape of its input."""

    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    shape: list[int]


def _sizes(draw: random.Random, count: int, low: int, high: int) -> list[int]:
    return [draw.randint(low, high) for _ in range(count)]


def _images(draw: random.Random, channels: int, rank: int, low: int, high: int) -> list[int]:
    """(batch, channels, *size), mostly with a batch dim."""
    shape = [draw.randint(1, 3), channels, *_sizes(draw, rank, low, high)]
    return shape[1:] if draw.random() < 0.2 else shape


def convolution(draw: random.Random) -> Layer:
    rank, groups = draw.randint(1, 3), draw.choice([1, 1, 2])
    channels = groups * draw.randint(1, 3)
    arguments = (channels, groups * draw.randint(1, 3), _sizes(draw, rank, 1, 3))
    options: dict[str, Any] = {
        "stride": draw.choice([1, 2, _sizes(draw, rank, 1, 2)]),
        "padding": draw.choice([0, 1, _sizes(draw, rank, 0, 2)]),
        "dilation": draw.choice([1, 1, 2]),
        "groups": groups,
        "bias": draw.random() < 0.7,
    }
    kind = draw.random()
    if kind < 0.15:
        options |= {"padding": "same", "stride": 1}
    elif kind < 0.4:
        options["padding_mode"] = draw.choice(["circular", "reflect", "replicate"])
    name = f"ConvTranspose{rank}d" if kind > 0.7 else f"Conv{rank}d"
    return Layer(name, arguments, options, _images(draw, channels, rank, 4, 8))


def pooling(draw: random.Random) -> Layer:
    rank = draw.randint(1, 3)
    shape = _images(draw, draw.randint(1, 3), rank, 4, 9)
    name = draw.choice(["MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "LPPool"])
    if name.startswith("Adaptive"):
        return Layer(f"{name}{rank}d", (_sizes(draw, rank, 1, 5),), {}, shape)
    kernel = draw.choice([2, 3])
    options: dict[str, Any] = {"stride": draw.choice([None, 1, 2, 3]), "ceil_mode": draw.random() < 0.4}
    if name == "LPPool":
        return Layer(f"{name}{rank}d", (draw.choice([1, 2, 3]), kernel), options, shape)
    options["padding"] = draw.choice([0, 0, 1])
    if name == "MaxPool":
        options["dilation"] = draw.choice([1, 1, 2])
    elif rank > 1:
        options |= {"divisor_override": draw.choice([None, 3]), "count_include_pad": draw.random() < 0.5}
    return Layer(f"{name}{rank}d", (kernel,), options, shape)


def normalisation(draw: random.Random) -> Layer:
    rank, channels = draw.randint(1, 3), draw.choice([2, 4, 6])
    shape = [draw.randint(2, 4), channels, *_sizes(draw, rank, 2, 4)]
    affine = draw.random() < 0.7
    name = draw.choice(["BatchNorm", "InstanceNorm", "GroupNorm", "LayerNorm", "RMSNorm"])
    if name == "GroupNorm":
        return Layer(name, (draw.choice([1, 2, channels]), channels), {"affine": affine}, shape)
    if name in ("LayerNorm", "RMSNorm"):
        return Layer(name, (shape[-draw.randint(1, rank + 1) :],), {"elementwise_affine": affine, "eps": 0.1}, shape)
    options: dict[str, Any] = {"affine": affine, "track_running_stats": draw.random() < 0.6}
    if name == "BatchNorm":
        options["momentum"] = draw.choice([0.1, None, 0.5])
    return Layer(f"{name}{rank}d", (channels,), options, shape)


def recurrence(draw: random.Random) -> Layer:
    name, width = draw.choice(["RNN", "LSTM", "GRU"]), draw.randint(1, 4)
    options: dict[str, Any] = {"num_layers": draw.choice([1, 2])}
    options |= {option: draw.random() < 0.5 for option in ("bidirectional", "batch_first", "bias")}
    if name == "LSTM" and draw.random() < 0.3:
        options["proj_size"] = 1
    if name == "RNN":
        options["nonlinearity"] = draw.choice(["tanh", "relu"])
    shape = [draw.randint(1, 4), draw.randint(1, 3), width]
    return Layer(name, (width, draw.randint(2, 4)), options, shape[1:] if draw.random() < 0.2 else shape)


def resizing(draw: random.Random) -> Layer:
    rank = draw.randint(1, 3)
    smooth = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[rank]
    options: dict[str, Any] = {"mode": draw.choice(["nearest", "nearest-exact", *smooth])}
    if options["mode"] in smooth:
        options["align_corners"] = draw.random() < 0.5
    if draw.random() < 0.5:
        options["size"] = _sizes(draw, rank, 1, 8)
    else:
        options["scale_factor"] = [draw.choice([0.5, 0.7, 1.3, 2.0, 2.6]) for _ in range(rank)]
    return Layer("Upsample", (), options, [draw.randint(1, 2), 2, *_sizes(draw, rank, 2, 6)])


def padding(draw: random.Random) -> Layer:
    rank, name = draw.randint(1, 3), draw.choice(["ReflectionPad", "ReplicationPad", "ZeroPad", "CircularPad"])
    return Layer(f"{name}{rank}d", (_sizes(draw, 2 * rank, 0, 2),), {}, [2, 1, *_sizes(draw, rank, 3, 5)])


def attention(draw: random.Random) -> Layer:
    heads = draw.choice([1, 2])
    width = heads * draw.randint(1, 3)
    options = {option: draw.random() < 0.4 for option in ("bias", "add_bias_kv", "add_zero_attn", "batch_first")}
    return Layer("MultiheadAttention", (width, heads), options, [draw.randint(1, 4), draw.randint(1, 3), width])


KINDS = [convolution, pooling, normalisation, recurrence, resizing, padding, attention]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_random_layers(kind: Callable[[random.Random], Layer], seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(25):
        layer, training = kind(draw), draw.random() < 0.8

        def program(torch: Any, log: Any) -> None:
            module = getattr(torch.nn, layer.name)(*layer.arguments, **layer.options).double().train(training)
            x = torch.randn(layer.shape, dtype=torch.float64, requires_grad=True)
            outputs = _flat(module(x, x, x) if layer.name == "MultiheadAttention" else module(x))
            log(outputs, [output.stride() for output in outputs])
            weighted = [(out * torch.arange(out.numel()).view(out.shape)).sum() for out in outputs if out.requires_grad]
            sum(weighted).backward()
            log(x.grad, [parameter.grad for parameter in module.parameters()], module.state_dict(), repr(module))

        try:
            agree(program, rtol=1e-6, atol=1e-7)
        except AssertionError as error:
            raise AssertionError(f"{layer}, training={training}: {error}") from error


def _flat(outputs: Any) -> list[Any]:
    return [part for output in outputs for part in _flat(output)] if isinstance(outputs, tuple) else [outputs]
