"""Mixed precision on the CPU with a gradient scaler, accumulation over micro-batches, a cosine schedule and hooks."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(9)
        self.frequency = torch.randint(1, 5, (count,), generator=generator)
        time = torch.linspace(0, 1, 32)
        self.signal = torch.sin(6.28 * self.frequency[:, None] * time) + 0.1 * torch.randn(count, 32, generator=generator)

    def __len__(self):
        return len(self.frequency)

    def __getitem__(self, index):
        return self.signal[index], self.frequency[index] - 1


class ConvNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 6, 5, stride=2, padding=2),
            nn.GroupNorm(2, 6),
            nn.ReLU(inplace=True),
            nn.Conv1d(6, 8, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
        )
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.classify = nn.Linear(8, classes)

    def forward(self, x):
        x = self.features(x.unsqueeze(1))
        return self.classify(self.pool(x).flatten(1))


class GradientMeter:
    """Norms of the gradients of some parameters, as they arrive."""

    def __init__(self, module, names):
        self.seen = {name: [] for name in names}
        self.handles = []
        for name, parameter in module.named_parameters():
            if name in self.seen:
                self.handles.append(parameter.register_hook(self.note(name)))

    def note(self, name):
        def hook(grad):
            self.seen[name].append(grad.float().norm().item())

        return hook

    def remove(self):
        while self.handles:
            self.handles.pop().remove()


class Trainer:
    def __init__(self, model, loader, accumulate=2, rate=5e-3):
        self.model, self.loader, self.accumulate = model, loader, accumulate
        self.optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, nesterov=True)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=8)
        self.scaler = torch.amp.GradScaler("cpu", enabled=True)

    def step(self, number, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = self.model(x)
            loss = F.cross_entropy(logits, y) / self.accumulate
        self.scaler.scale(loss).backward()
        if (number + 1) % self.accumulate == 0:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad(set_to_none=True)
            self.scheduler.step()
        return loss.detach() * self.accumulate

    def epoch(self):
        total = torch.zeros(())
        for number, (x, y) in enumerate(self.loader):
            total += self.step(number, x, y)
        return (total / len(self.loader)).item()


torch.manual_seed(0)
loader = DataLoader(Waves(48), batch_size=12, shuffle=True, drop_last=True)
net = ConvNet()
meter = GradientMeter(net, ["features.0.weight", "classify.bias"])
trainer = Trainer(net, loader)
for epoch in range(2):
    print(f"epoch {epoch} loss {trainer.epoch():.3f} rate {trainer.scheduler.get_last_lr()[0]:.4f}")
meter.remove()
print({name: len(values) for name, values in meter.seen.items()})
