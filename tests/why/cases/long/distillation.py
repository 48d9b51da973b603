import copy

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.body(x)


class FeatureTap:
    """Remembers the last output of a layer."""

    def __init__(self, layer):
        self.value = None
        self.handle = layer.register_forward_hook(self)

    def __call__(self, module, args, output):
        self.value = output

    def close(self):
        self.handle.remove()


def distill_loss(student, teacher, labels, T=2.0, alpha=0.7):
    soft = F.kl_div(F.log_softmax(student / T, dim=1), F.softmax(teacher / T, dim=1), reduction="batchmean") * T * T
    return alpha * soft + (1 - alpha) * F.cross_entropy(student, labels)


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
        count = sum(len(y) for _, y in loader)
    model.train()
    return hits / count


torch.manual_seed(0)
x = torch.randn(80, 6)
y = (x[:, 0] + x[:, 1] > 0).long()
train, held = random_split(TensorDataset(x, y), [60, 20])
loaders = DataLoader(train, 20, shuffle=True), DataLoader(held, 20)
teacher, student = MLP([6, 32, 16, 2]), MLP([6, 16, 2])
teacher_optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-2)
for xb, yb in loaders[0]:
    teacher_optimizer.zero_grad()
    F.cross_entropy(teacher(xb), yb).backward()
    teacher_optimizer.step()
teacher.eval().requires_grad_(False)
taps = FeatureTap(teacher.body[2]), FeatureTap(student.body[0])
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=1)
best, best_accuracy, valid, patience = None, -1.0, [], 2
for epoch in range(4):
    for xb, yb in loaders[0]:
        with torch.no_grad():
            teacher_logits = teacher(xb)
        logits = student(xb)
        match = F.mse_loss(taps[1].value, taps[0].value)
        loss = distill_loss(logits, teacher_logits, yb) + 0.1 * match
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    score = accuracy(student, loaders[1])
    plateau.step(score)
    valid.append(score)
    if score > best_accuracy:
        best, best_accuracy, patience = copy.deepcopy(student.state_dict()), score, 2
    else:
        patience -= 1
        if not patience:
            break
for tap in taps:
    tap.close()
student.load_state_dict(best)
print("best", best_accuracy, "epochs", len(valid))
