"""Models for a GPU, each trained by an ordinary step, without hooks and with the hooks that people hang on such models.

A builder takes the torch-like module, the hooks to register (see `HOOKS`), and whether to make the model small enough for a
CPU. It returns the step and the list to which the hooks append.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

from benchmarks.rows import classes, normal

Built = tuple[Callable[[], Any], list[Any]]

HOOKS: dict[str, str] = {
    "none": "no hooks",
    "clip": "a hook on every parameter clamps its gradient",
    "keep": "a forward hook on every block keeps the mean square of its output, as a tensor",
    "number": "a full backward hook on every block keeps the norm of its gradient, as a Python number",
    "all": "all of these",
}


def hang(hooks: str, model: Any, blocks: list[Any]) -> list[Any]:
    """Register hooks of one kind and return the list to which they append."""
    log: list[Any] = []
    if hooks in ("clip", "all"):
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: gradient.clamp(-1, 1))
    for block in blocks:
        if hooks in ("keep", "all"):
            block.register_forward_hook(lambda module, args, out: log.append(out.detach().float().square().mean()))
        if hooks in ("number", "all"):
            block.register_full_backward_hook(lambda module, into, out: log.append(out[0].float().norm().item()))
    return log


def resnet50(torch: ModuleType, hooks: str = "none", small: bool = False) -> Built:
    """ResNet-50 on images of 224 by 224, channels last, computed in bfloat16, SGD with momentum."""
    nn, F = torch.nn, torch.nn.functional
    device, batch, size, stages = ("cpu", 2, 32, (1, 1)) if small else ("cuda", 128, 224, (3, 4, 6, 3))

    def conv(into: int, out: int, kernel: int, stride: int = 1) -> Any:
        return nn.Sequential(nn.Conv2d(into, out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(out))

    class Bottleneck(nn.Module):  # type: ignore[name-defined]
        def __init__(self, into: int, width: int, stride: int) -> None:
            super().__init__()
            self.narrow, self.middle = conv(into, width, 1), conv(width, width, 3, stride)
            self.widen = conv(width, 4 * width, 1)
            self.short = nn.Identity() if into == 4 * width else conv(into, 4 * width, 1, stride)

        def forward(self, x: Any) -> Any:
            return F.relu(self.widen(F.relu(self.middle(F.relu(self.narrow(x))))) + self.short(x))

    blocks: list[Any] = []
    into = 64
    for stage, count in enumerate(stages):
        for place in range(count):
            blocks.append(Bottleneck(into, 64 << stage, 2 if stage and not place else 1))
            into = 256 << stage
    stem = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    model = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, 1000)).to(device)
    model = model.to(memory_format=torch.channels_last)
    log = hang(hooks, model, blocks)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = normal(torch, 0, batch, 3, size, size).to(device).to(memory_format=torch.channels_last)
    targets = classes(torch, 1, 1000, batch).to(device)

    def step() -> Any:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=not small):
            loss = F.cross_entropy(model(images).float(), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, log


def unet(torch: ModuleType, hooks: str = "none", small: bool = False) -> Built:
    """A U-Net with group norms that learns to find noise in images of 128 by 128, AdamW."""
    nn, F = torch.nn, torch.nn.functional
    device, batch, size, widths = ("cpu", 1, 16, (8, 16)) if small else ("cuda", 16, 128, (64, 128, 256))

    def block(into: int, out: int) -> Any:
        parts = [[nn.Conv2d(n, out, 3, padding=1), nn.GroupNorm(8, out), nn.SiLU()] for n in (into, out)]
        return nn.Sequential(*parts[0], *parts[1])

    class UNet(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([block(into, out) for into, out in zip((3, *widths), widths)])
            pairs = list(pairwise(widths))[::-1]
            self.larger = nn.ModuleList([nn.ConvTranspose2d(wide, narrow, 2, 2) for narrow, wide in pairs])
            self.up = nn.ModuleList([block(2 * narrow, narrow) for narrow, _ in pairs])
            self.last = nn.Conv2d(widths[0], 3, 1)

        def forward(self, x: Any) -> Any:
            passed = []
            for place, down in enumerate(self.down):
                x = down(F.max_pool2d(x, 2) if place else x)
                passed.append(x)
            for larger, up, other in zip(self.larger, self.up, passed[-2::-1]):
                x = up(torch.cat([larger(x), other], 1))
            return self.last(x)

    model = UNet().to(device)
    log = hang(hooks, model, [*model.down[1:], *model.up])  # the first block gets images, which need no gradient
    optimizer = torch.optim.AdamW(model.parameters())
    images = normal(torch, 0, batch, 3, size, size).to(device)

    def step() -> Any:
        optimizer.zero_grad()
        noise = torch.randn_like(images)
        loss = F.mse_loss(model(images + noise), noise)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, log


def lstm(torch: ModuleType, hooks: str = "none", small: bool = False) -> Built:
    """Two LSTMs of 512 units over 256 steps, and a classifier, Adam."""
    nn, F = torch.nn, torch.nn.functional
    device, batch, length, into, width = ("cpu", 2, 5, 4, 8) if small else ("cuda", 64, 256, 256, 512)

    class Last(nn.Module):  # type: ignore[name-defined]
        def forward(self, out: Any) -> Any:
            return out[0][:, -1]

    head = nn.Linear(width, 10)
    model = nn.Sequential(nn.LSTM(into, width, 2, batch_first=True), Last(), head).to(device)
    log = hang(hooks, model, [head])
    optimizer = torch.optim.Adam(model.parameters())
    x, targets = normal(torch, 0, batch, length, into).to(device), classes(torch, 1, 10, batch).to(device)

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, log


def transformer(torch: ModuleType, hooks: str = "none", small: bool = False) -> Built:
    """ViT-B/16 of `nn.TransformerEncoderLayer`s, computed in bfloat16, with dropout and clipping."""
    nn, F = torch.nn, torch.nn.functional
    device, batch, size, width, layers, heads = ("cpu", 2, 32, 32, 2, 2) if small else ("cuda", 64, 224, 768, 12, 12)
    dropout = 0.0 if small else 0.1  # a GPU draws other masks

    class ViT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.place = nn.Parameter(torch.zeros(1, (size // 16) ** 2, width))
            options = {"activation": "gelu", "batch_first": True, "norm_first": True}
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout, **options)
            self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
            self.head = nn.Linear(width, 1000)

        def forward(self, images: Any) -> Any:
            patches = self.patches(images).flatten(2).transpose(1, 2) + self.place
            return self.head(self.encoder(patches).mean(1))

    model = ViT().to(device)
    log = hang(hooks, model, list(model.encoder.layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    images, targets = normal(torch, 0, batch, 3, size, size).to(device), classes(torch, 1, 1000, batch).to(device)

    def step() -> Any:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=not small):
            loss = F.cross_entropy(model(images).float(), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step, log


MODELS: dict[str, Callable[..., Built]] = {"ResNet-50": resnet50, "U-Net": unet, "LSTM": lstm, "ViT-B/16": transformer}
