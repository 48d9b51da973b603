"""A training script that runs, prints a falling loss, and is wrong in six ways. Ask it why:

    undertow why examples/broken_training.py

It learns to name the busiest quarter of a 4×4 image. Nothing in it raises, and none of its mistakes shows in the loss.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    """Two layers over the pixels, and a learned mixing of their outputs."""

    def __init__(self, pixels: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(pixels, width)
        self.norm = nn.LayerNorm(width)
        self.second = nn.Linear(width, width)
        self.skip = nn.Linear(pixels, width)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.first(images)))
        return torch.relu(self.second(hidden))


class Classifier(nn.Module):
    """Several small heads over one encoder, averaged."""

    def __init__(self, pixels: int, width: int, classes: int, heads: int = 3) -> None:
        super().__init__()
        self.encoder = Encoder(pixels, width)
        self.heads = [nn.Linear(width, classes) for _ in range(heads)]
        self.final = nn.Linear(classes, classes)
        self.uncertainty = nn.Linear(width, 1)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.encoder(images)
        votes = torch.stack([head(features) for head in self.heads])
        return self.final(votes.mean(0)), self.uncertainty(features).squeeze(-1)


def batches(count: int, size: int = 32):
    """Random images and the number of their busiest quarter."""
    for _ in range(count):
        images = torch.rand(size, 4, 4)
        quarters = images.reshape(size, 2, 2, 2, 2).sum(dim=(2, 4)).reshape(size, 4)
        yield images.reshape(size, 16), quarters.argmax(1)


def calibration_loss(logits: torch.Tensor, uncertainty: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How well the predicted uncertainty fits the error that is made."""
    error = F.cross_entropy(logits, labels, reduction="none")
    wanted = torch.tensor(error.tolist())
    confidence = torch.sigmoid(uncertainty).round()
    return F.mse_loss(confidence, wanted)


def limit(gradient: torch.Tensor) -> None:
    """Keeps the last layer's gradient small."""
    gradient.clamp(-0.01, 0.01)


class Trainer:
    def __init__(self, model: nn.Module, rate: float = 0.05) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        self.losses: list[torch.Tensor] = []
        self.norms: list[float] = []
        model.final.weight.register_hook(limit)

    def record(self, module, grad_input, grad_output) -> None:
        self.norms.append(grad_output[0].norm().item())

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        logits, uncertainty = self.model(images)
        if not self.losses:
            handle = self.model.encoder.register_full_backward_hook(self.record)
        loss = F.cross_entropy(logits, labels) + 0.1 * calibration_loss(logits, uncertainty, labels)
        self.optimizer.zero_grad()
        loss.backward()
        if not self.losses:
            handle.remove()
        self.optimizer.step()
        self.losses.append(loss)

    def fit(self, steps: int) -> None:
        for number, (images, labels) in enumerate(batches(steps), 1):
            self.step(images, labels)
            if number % 10 == 0:
                recent = sum(self.losses[-10:]) / 10
                print(f"step {number:3}  loss {recent.item():.3f}")


def main() -> None:
    torch.manual_seed(0)
    trainer = Trainer(Classifier(pixels=16, width=24, classes=4))
    trainer.fit(steps=40)
    print("gradient norms at the encoder in the first step:", trainer.norms)


if __name__ == "__main__":
    main()
