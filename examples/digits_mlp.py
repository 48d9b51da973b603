"""A small perceptron learns scikit-learn's digits: 1797 images of 8×8 pixels (needs scikit-learn).

python examples/digits_mlp.py             on PyTorch
undertow run examples/digits_mlp.py       on undertow, with the same numbers
"""

import torch
from loss_curve import LossCurve, options
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def digits():
    """Pixels between 0 and 1, and the digit that each image shows."""
    images, labels = load_digits(return_X_y=True)
    return TensorDataset(torch.from_numpy(images).float() / 16, torch.from_numpy(labels))


@torch.no_grad()
def accuracy(model, dataset):
    """The share of the images that the model names correctly."""
    model.eval()
    right = sum((model(images).argmax(dim=1) == labels).sum().item() for images, labels in DataLoader(dataset, 256))
    model.train()
    return right / len(dataset)


def main():
    args = options(__doc__, steps=300, batch=64, width=128, lr=1e-3, seed=0)
    torch.manual_seed(args.seed)
    training, held_out = random_split(digits(), [0.8, 0.2])

    model = nn.Sequential(
        nn.Linear(64, args.width), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(args.width, args.width), nn.ReLU(),
        nn.Linear(args.width, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loss_of = nn.CrossEntropyLoss()

    curve = LossCurve(args.steps)
    while len(curve.losses) < args.steps:
        for images, labels in DataLoader(training, batch_size=args.batch, shuffle=True, drop_last=True):
            if len(curve.losses) == args.steps:
                break
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            curve(loss.item())

    print(f"accuracy {accuracy(model, training):.3f}, on images it has not seen {accuracy(model, held_out):.3f}")
    curve.save(args.losses)


if __name__ == "__main__":
    main()
