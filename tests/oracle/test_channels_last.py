"""Images whose channels lie side by side in memory: what functions over images hand on, as the next one sees it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree

IMAGES = """
F.conv2d(x, torch.randn(4, 3, 3, 3))
F.conv2d(x, torch.randn(4, 3, 1, 1), stride=2)
F.conv2d(x, torch.randn(3, 1, 3, 3), groups=3, dilation=2)
F.conv2d(x[0], torch.randn(4, 3, 3, 3))
F.conv2d(x.contiguous(), torch.randn(4, 3, 3, 3).contiguous(memory_format=torch.channels_last))
F.conv_transpose2d(x, torch.randn(3, 4, 2, 2), stride=2)
nn.BatchNorm2d(3)(x)
nn.BatchNorm2d(3).eval()(x)
nn.BatchNorm2d(3)(x[:1, :, :, :1].contiguous(memory_format=torch.channels_last))
nn.GroupNorm(3, 3)(x)
nn.GroupNorm(3, 3)(x[:1])
nn.InstanceNorm2d(3)(x)
F.layer_norm(x, (8, 8))
F.max_pool2d(x, 2, return_indices=True)
F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)
F.avg_pool2d(x, 3, 2, 1)
F.adaptive_avg_pool2d(x, 3)
F.adaptive_max_pool2d(x, 3, return_indices=True)
F.fractional_max_pool2d(x, 2, output_size=3)
F.lp_pool2d(x, 2, 2)
[F.interpolate(x, scale_factor=2, mode=mode) for mode in ('nearest', 'nearest-exact', 'bilinear', 'bicubic', 'area')]
F.interpolate(x, size=4, mode='bilinear', antialias=True)
[F.pad(x, (1, 1, 1, 1), mode) for mode in ('constant', 'reflect', 'replicate', 'circular')]
[F.softmax(x, 1), F.log_softmax(x, 2), F.gumbel_softmax(x)]
[F.relu(x), F.dropout(x), F.dropout2d(x), F.prelu(x, torch.ones(3)), x.sigmoid() * x]
torch.cat([x, x], 1)
torch.cat([x, x.contiguous()], 1)
F.conv3d(v, torch.randn(4, 3, 2, 2, 2))
F.conv_transpose3d(v, torch.randn(3, 4, 2, 2, 2))
[nn.BatchNorm3d(3)(v), nn.GroupNorm(3, 3)(v), F.max_pool3d(v, 2), F.avg_pool3d(v, 2), F.adaptive_avg_pool3d(v, 2)]
[F.interpolate(v, scale_factor=2, mode='trilinear'), F.pad(v, (1, 1)), F.pad(v, (1,) * 6, 'replicate')]
"""


@pytest.mark.parametrize("text", IMAGES.strip().split("\n"))
def test_order_of_results(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
        v = torch.randn(2, 3, 6, 6, 6).contiguous(memory_format=torch.channels_last_3d)
        x.requires_grad_()
        found = eval(text, {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "x": x, "v": v})
        found = found if isinstance(found, (list, tuple)) else [found]
        log([(value.stride(), value) for value in found])
        if found[0].requires_grad:
            found[0].pow(2).sum().backward()
            log(x.grad.stride(), x.grad)

    agree(program, rtol=1e-4, atol=1e-4)


def test_a_network_in_that_order() -> None:
    """Dropout masks are drawn in the order of memory, so the order decides what is dropped."""

    def program(torch: Any, log: Any) -> None:
        nn = torch.nn
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5)
        )
        net = net.to(memory_format=torch.channels_last)
        out = net(torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last))
        log(out, out.stride(), out.is_contiguous(memory_format=torch.channels_last))
        out.sum().backward()
        log([(parameter.grad.stride(), parameter.grad) for parameter in net.parameters()])

    agree(program, rtol=1e-4, atol=1e-4)


SEQUENCES = {
    "conv1d": lambda torch, x: torch.conv1d(x, torch.ones(6, 4, 3)).relu(),
    "conv_transpose1d": lambda torch, x: torch.conv_transpose1d(x, torch.ones(4, 3, 3)),
    "batch_norm": lambda torch, x: torch.nn.BatchNorm1d(4)(x),
    "batch_norm, known moments": lambda torch, x: torch.nn.BatchNorm1d(4).eval()(x),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_do_not_keep_their_channels_last(name: str) -> None:
    """Unlike images: a program may take views of what a convolution of transposed embeddings gives."""

    def program(torch: Any) -> Any:
        x = torch.arange(48.0).reshape(2, 6, 4).transpose(1, 2).clone().requires_grad_()
        y = SEQUENCES[name](torch, x)
        y.view(2, y.size(2), -1)[:, 0].sum().backward()
        return y, y.stride(), x.grad, x.grad.stride()

    agree(program)


@pytest.mark.parametrize("kind", [float, int, bool, complex, str])
def test_bits_seen_as_a_type_of_python_s(kind: type) -> None:
    agree(lambda torch: (torch.ones(2, 4).view(kind), torch.ones(2, 4).view(dtype=kind)))
