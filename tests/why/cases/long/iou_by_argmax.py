import torch
from torch import nn
import torch.nn.functional as F


class Segmenter(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU())
        self.mid = nn.Conv2d(6, 6, 3, padding=1)
        self.out = nn.Conv2d(6, classes, 1)

    def forward(self, x):
        h = self.down(x)
        h = F.relu(self.mid(h)) + h
        return self.out(h)


def hard_labels(logits):
    return logits.argmax(dim=1)


def iou_loss(logits, mask, classes=3, eps=1e-6):
    guess = hard_labels(logits)
    total = 0.0
    for k in range(classes):
        a, b = (guess == k).float(), (mask == k).float()
        total = total + ((a * b).sum() + eps) / ((a + b - a * b).sum() + eps)
    return 1 - total / classes


torch.manual_seed(0)
model = Segmenter(3)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    images = torch.rand(4, 1, 6, 6)
    masks = (images.squeeze(1) * 3).long()
    loss = iou_loss(model(images), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
