"""Feature distillation: hooks collect hidden features of teacher and student, a projection matches them."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, channels, classes=4):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(x, 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean(dim=(2, 3)))


class Features:
    """Collects the outputs of named layers while the block lasts."""

    def __init__(self, model, names):
        self.outputs = {}
        self.handles = []
        modules = dict(model.named_modules())
        for name in names:
            self.handles.append(modules[name].register_forward_hook(self.collect(name)))

    def collect(self, name):
        def hook(module, args, output):
            self.outputs[name] = output

        return hook

    def close(self):
        for handle in self.handles:
            handle.remove()


def images(count):
    x = torch.randn(count, 1, 8, 8) * 0.3
    y = torch.randint(0, 4, (count,))
    for i, label in enumerate(y.tolist()):
        row, column = divmod(label, 2)
        x[i, 0, row * 4 : row * 4 + 4, column * 4 : column * 4 + 4] += 1.0
    return x, y


class Distiller(nn.Module):
    def __init__(self, teacher, student, temperature=3.0, mix=0.5, match=0.1):
        super().__init__()
        self.teacher = teacher.eval()
        for p in self.teacher.parameters():
            p.requires_grad = False
        self.student = student
        self.project = nn.Conv2d(student.bn2.num_features, teacher.bn2.num_features, 1)
        self.temperature, self.mix, self.match = temperature, mix, match
        self.teacher_features = Features(teacher, ["bn2"])
        self.student_features = Features(student, ["bn2"])

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, x, y):
        with torch.no_grad():
            wanted = self.teacher(x)
        logits = self.student(x)
        hard = F.cross_entropy(logits, y)
        t = self.temperature
        soft = F.kl_div(F.log_softmax(logits / t, 1), F.softmax(wanted / t, 1), reduction="batchmean") * t * t
        mine = self.project(self.student_features.outputs["bn2"])
        match = F.mse_loss(mine, self.teacher_features.outputs["bn2"])
        return (1 - self.mix) * hard + self.mix * soft + self.match * match, logits


def pretrain(teacher, steps):
    optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        x, y = images(16)
        loss = F.cross_entropy(teacher(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(2)
teacher, student = Net(8), Net(4)
pretrain(teacher, 4)
distiller = Distiller(teacher, student)
trainable = [p for p in distiller.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=5e-3)
for step in range(4):
    distiller.train()
    x, y = images(16)
    loss, logits = distiller(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    accuracy = (logits.argmax(1) == y).float().mean().item()
    print(f"step {step} loss {loss.item():.3f} accuracy {accuracy:.2f}")
distiller.teacher_features.close()
distiller.student_features.close()
