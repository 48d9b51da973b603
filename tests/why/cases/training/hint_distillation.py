"""A student learns from a frozen teacher, with a hint on its features and a probe on its gradients."""

import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(67)


class CNN(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.SiLU())
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.SiLU())
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        features = self.body(self.stem(x))
        return self.head(features.mean((2, 3))), features


class Probe:
    """Watches what arrives at the student's body."""

    def __init__(self):
        self.norms = []

    def attach(self, net):
        return net.body.register_full_backward_hook(self.note)

    def note(self, module, grad_input, grad_output):
        self.norms.append(grad_output[0].norm().item())


class Distiller:
    def __init__(self, teacher, student):
        self.teacher = teacher.eval().requires_grad_(False)
        self.student = student
        self.temperature = nn.Parameter(torch.tensor(2.0))
        self.hint = nn.Conv2d(3, 6, 1)
        self.probe = Probe()
        self.probe.attach(student)
        params = [*self.student.parameters(), self.temperature]
        params += self.hint.parameters()
        self.opt = torch.optim.SGD(params, lr=0.05, momentum=0.9)
        self.best = []

    def project(self, features):
        return self.hint(features)

    def losses(self, x, y):
        with torch.no_grad():
            t_logits, t_features = self.teacher(x)
        logits, features = self.student(x)
        t = self.temperature.clamp_min(0.5)
        soft = F.kl_div((logits / t).log_softmax(-1), (t_logits / t).softmax(-1), reduction="batchmean")
        hint = F.mse_loss(self.project(features), t_features)
        return soft + 0.1 * hint, F.cross_entropy(logits, y)

    def epoch(self, data):
        total = 0.0
        for i, (x, y) in enumerate(data):
            soft, hard = self.losses(x, y)
            loss = soft + hard
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.best.append(loss.item())
            total += loss.item()
        return total

    @torch.no_grad()
    def accuracy(self, data):
        self.student.eval()
        right = sum((self.student(x)[0].argmax(1) == y).sum().item() for x, y in data)
        self.student.train()
        return right


x = torch.randn(16, 1, 4, 4)
y = torch.randint(0, 4, (16,))
data = list(zip(x.split(4), y.split(4)))
teacher = CNN(6)
job = Distiller(teacher, CNN(3))
for epoch in range(2):
    print(job.epoch(data), job.accuracy(data))
