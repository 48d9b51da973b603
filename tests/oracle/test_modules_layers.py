"""Every layer: the same text, state, first values, outputs and gradients as PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import layers
from tests.oracle.harness import agree
from tests.oracle.layers import Layer

FAMILIES = {
    name: getattr(layers, name.upper()) for name in "linear convolutions norms activations pools losses".split()
}
EVERY = [pytest.param(layer, id=layer.text) for family in FAMILIES.values() for layer in family]


def attributes(module: Any) -> dict[str, Any]:
    """What a module tells about itself, apart from what it is made of."""
    told = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return dict(sorted(told.items()))


def show(log: Any, module: Any) -> None:
    log("text", repr(module))
    log("state", module.state_dict())
    log("versions", getattr(module.state_dict(), "_metadata", None))
    log("parameters", dict(module.named_parameters()), [name for name, _ in module.named_buffers()])
    log("attributes", attributes(module), sorted(getattr(module, "__constants__", ())))


def tensors_of(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [part for item in value for part in tensors_of(torch, item)] if isinstance(value, (tuple, list)) else []


def differentiate(torch: Any, log: Any, module: Any, inputs: list[Any], output: Any) -> None:
    """A backward pass with weights of its own for every element."""
    parts = [part for part in tensors_of(torch, output) if part.requires_grad]
    if parts:
        sum(
            (part * torch.arange(1.0, part.numel() + 1).view(part.shape).to(part.dtype)).sum() for part in parts
        ).backward()
    log("input gradients", [item.grad for item in inputs if isinstance(item, torch.Tensor)])
    log("parameter gradients", [param.grad for param in module.parameters()])


@pytest.mark.parametrize("layer", EVERY)
def test_layer(layer: Layer) -> None:
    def program(torch: Any, log: Any) -> None:
        module = layer.make(torch)
        if "Lazy" in layer.text:
            log("text", repr(module))
        else:
            show(log, module)
        inputs = layer.arguments(torch)
        output = module(*inputs)
        log("output", output)
        show(log, module)
        differentiate(torch, log, module, inputs, output)
        module.eval()
        log("evaluated", module(*layer.arguments(torch)))

    # PyTorch's remark that an even kernel with padding='same' costs a copy is of no use here.
    agree(program, rtol=2e-4, atol=2e-5, warns="padding='same'" not in layer.text, raises=False)


@pytest.mark.parametrize("text", layers.IN_PLACE)
def test_layer_in_place(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        layer = Layer(text, ((2, 4, 3, 3),))
        module = layer.make(torch)
        log(repr(module), attributes(module))
        inputs = layer.arguments(torch)
        middle = inputs[0] * 2
        output = module(middle)
        log(output is middle, middle._version, output)
        differentiate(torch, log, module, inputs, output)

    agree(program, rtol=1e-5, raises=False)


REFUSED = """
nn.Bilinear(0, 1, 1); nn.Conv2d(3, 4, 3, groups=2); nn.Conv2d(4, 3, 3, groups=2); nn.Conv2d(4, 4, 3, groups=0)
nn.Conv2d(4, 4, 3, padding='x'); nn.Conv2d(4, 4, 3, padding='same', stride=2); nn.Conv2d(4, 4, 3, padding_mode='x')
nn.ConvTranspose2d(4, 4, 3, padding_mode='reflect'); nn.Hardtanh(1, 0); nn.Sigmoid(1); nn.Sigmoid(a=1); nn.Dropout(2)
nn.Dropout(-0.1); nn.GroupNorm(2, 3); nn.FractionalMaxPool2d(2); nn.FractionalMaxPool2d(2, 3, 0.5)
nn.FractionalMaxPool3d(2, output_ratio=2.0); nn.Unflatten(1, 'a'); nn.Unflatten(1, (2, 'a')); nn.Unflatten(1, 2)
nn.Embedding(3, 4, 3); nn.Embedding(3, 4, -4); nn.Embedding(3, 4, _weight=torch.ones(2, 2))
nn.EmbeddingBag(3, 4, padding_idx=5)
nn.Embedding.from_pretrained(torch.ones(3)); nn.TripletMarginLoss(margin=-1); nn.TripletMarginWithDistanceLoss(margin=0)
nn.MultiMarginLoss(p=3); nn.MultiMarginLoss(weight=torch.ones(2, 2)); nn.AdaptiveLogSoftmaxWithLoss(8, 10, [])
nn.AdaptiveLogSoftmaxWithLoss(8, 10, [5, 2]); nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 10]); nn.Linear(3, -1)
nn.BatchNorm1d(3)(torch.ones(3)); nn.BatchNorm2d(3)(torch.ones(3, 3)); nn.BatchNorm3d(3)(torch.ones(3, 3))
nn.BatchNorm1d(3)(torch.ones(2, 4)); nn.BatchNorm1d(3)(torch.ones(1, 3)); nn.SyncBatchNorm(3)(torch.ones(3))
nn.InstanceNorm2d(3)(torch.ones(2, 3)); nn.InstanceNorm2d(3, affine=True)(torch.ones(1, 2, 3, 3))
nn.CrossMapLRN2d(3)(torch.ones(3)); nn.Softmax2d()(torch.ones(2)); nn.CircularPad1d(1)(torch.ones(2))
nn.CircularPad3d(1)(torch.ones(2)); nn.LazyConv2d(3, 3)(torch.ones(2, 3))
nn.LazyConv2d(4, 3, groups=2)(torch.ones(1, 3, 4, 4))
nn.Linear(3, 4)(torch.ones(2, 5)); nn.Conv2d(3, 4, 3)(torch.ones(2, 5)); nn.LayerNorm(3)(torch.ones(2, 5))
nn.ConvTranspose2d(2, 2, 3, stride=2)(torch.ones(1, 2, 3, 3), output_size=(20, 20))
nn.ConvTranspose2d(2, 2, 3, stride=2)(torch.ones(1, 2, 3, 3), output_size=(20,))
nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2])(torch.ones(6, 8), torch.ones(3)); nn.Module()(1); nn.ModuleList()(1)
"""


@pytest.mark.parametrize("text", [part.strip() for line in REFUSED.strip().split("\n") for part in line.split(";")])
def test_refused(text: str) -> None:
    agree(lambda torch: eval(text, {"torch": torch, "nn": torch.nn}), raises=True)


def test_output_size_of_transposed_convolution() -> None:
    def program(torch: Any, log: Any) -> None:
        module = torch.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
        for size in ([6, 5], (5, 6), [1, 3, 6, 6]):
            log(module(torch.ones(1, 2, 3, 3), output_size=size))

    agree(program, rtol=1e-4)


def test_max_unpool_takes_values_back() -> None:
    def program(torch: Any, log: Any) -> None:
        nn = torch.nn
        for pool, unpool, shape in (
            (nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2), (1, 2, 6)),
            (nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2), (1, 2, 4, 6)),
            (nn.MaxPool2d(3, 2, 1, return_indices=True), nn.MaxUnpool2d(3, 2, 1), (1, 2, 6, 6)),
            (nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2), (1, 2, 4, 4, 2)),
        ):
            x = torch.randn(shape, requires_grad=True)
            values, places = pool(x)
            back = unpool(values, places, output_size=x.size())
            (back * torch.arange(1.0, back.numel() + 1).view(back.shape)).sum().backward()
            log(repr(unpool), values, places, back, x.grad)

    agree(program)


def test_embedding_bags_of_different_sizes() -> None:
    def program(torch: Any, log: Any) -> None:
        for options in ({}, {"mode": "sum"}, {"mode": "max"}, {"mode": "sum", "include_last_offset": True}):
            bag = torch.nn.EmbeddingBag(6, 3, **options)
            offsets = torch.tensor([0, 2, 3, 6] if "include_last_offset" in options else [0, 2, 3])
            output = bag(torch.tensor([1, 4, 2, 5, 5, 0]), offsets)
            (output * torch.arange(1.0, 10.0).view(3, 3)).sum().backward()
            log(output, bag.weight.grad)
        weights = torch.tensor([0.5, 1.0, 2.0, -1.0, 1.0, 3.0], requires_grad=True)
        bag = torch.nn.EmbeddingBag(6, 3, mode="sum")
        bag(torch.tensor([1, 4, 2, 5, 5, 0]), torch.tensor([0, 2, 3]), weights).sum().backward()
        log(weights.grad, bag.weight.grad)

    agree(program)


def test_adaptive_softmax_predicts() -> None:
    def program(torch: Any, log: Any) -> None:
        module = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5], div_value=2.0)
        x = torch.randn(7, 8)
        log(module.log_prob(x), module.predict(x), module.predict(x * 30), module(x[0], torch.tensor(7)))

    agree(program)


def test_same_names() -> None:
    """Every public name of torch.nn that is a class or a function, and the files that code imports from."""
    import torch

    import undertow

    quantization = {"intrinsic", "qat", "quantizable", "quantized"}
    missing = [name for name in dir(torch.nn) if not name.startswith("_") and not hasattr(undertow.nn, name)]
    assert set(missing) <= quantization
    for file in [name for name in dir(torch.nn.modules) if name.islower() and not name.startswith("_")]:
        assert hasattr(undertow.nn.modules, file), file


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_batch_norm_of_half_precision_rounds_no_running_statistics(kind):
    def program(torch, log):
        x = torch.linspace(-1, 2, 12).view(4, 3).to(getattr(torch, kind)).requires_grad_()
        mean, variance = (torch.full((3,), value).to(x.dtype) for value in (0.3, 1.7))
        y = torch.nn.functional.batch_norm(x, mean, variance)
        y.sum().backward()
        log(y, x.grad)

    agree(program, rtol=0, atol=0)


@pytest.mark.parametrize("parameters", ["float32", "half", "bfloat16"])
@pytest.mark.parametrize("kind", ["half", "bfloat16"])
@pytest.mark.parametrize("training", [True, False])
def test_a_normalised_batch_is_one_node(kind, parameters, training):
    """Conversions inside the kernel are no nodes: hooks and tools see what PyTorch's graph has."""

    def program(torch, log):
        makes = {(4, 3): torch.nn.BatchNorm1d}
        if parameters != kind:  # if they are of one dtype, PyTorch rounds the groups' statistics, and undertow doesn't
            makes[4, 3, 2] = lambda n: torch.nn.GroupNorm(1, n)
        for shape, make in makes.items():
            layer = make(3).to(getattr(torch, parameters)).train(training)
            x = (
                torch.linspace(-1, 2, 12 if shape == (4, 3) else 24)
                .view(shape)
                .to(getattr(torch, kind))
                .requires_grad_()
            )
            try:
                y = layer(x)
            except RuntimeError:
                log("refused")
                continue
            (y * torch.arange(1.0, 4).to(y.dtype).view(3, *[1] * (y.dim() - 2))).sum().backward()
            log(y, y.grad_fn.next_functions[0][0].name(), x.grad, [value.grad for value in layer.parameters()])
            log([name for name in dir(y.grad_fn) if name.startswith("_saved_")])

    agree(program, graph=True, rtol=2e-2, atol=2e-2)
