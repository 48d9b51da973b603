"""A small convolutional network learns scikit-learn's digits: 1797 images of 8×8 pixels (needs scikit-learn).

python examples/digits_cnn.py             on PyTorch
undertow run examples/digits_cnn.py       on undertow, with the same numbers
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from loss_curve import LossCurve, options
from sklearn.datasets import load_digits


class Net(nn.Module):
    """Two convolutions, each normalised and pooled, and a linear layer on top."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * channels)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(2 * channels * 2 * 2, 10)
        for conv in (self.conv1, self.conv2):
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return F.log_softmax(self.head(self.dropout(x.flatten(1))), dim=1)


def main():
    args = options(__doc__, steps=200, batch=64, channels=16, lr=0.05, seed=0)
    torch.manual_seed(args.seed)
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    labels = torch.tensor(labels)
    held_out = len(images) // 5

    model = Net(args.channels)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps)

    curve = LossCurve(args.steps)
    model.train()
    for _ in range(args.steps):
        batch = torch.randint(held_out, len(images), (args.batch,))
        optimizer.zero_grad()
        loss = F.nll_loss(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        scheduler.step()
        curve(loss.item())

    model.eval()
    with torch.no_grad():
        right = model(images[:held_out]).argmax(dim=1).eq(labels[:held_out]).float().mean()
    print(f"accuracy on images it has not seen {right.item():.3f}")
    curve.save(args.losses)


if __name__ == "__main__":
    main()
