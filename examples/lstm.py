"""An LSTM reads a short text over and over and learns to guess the next character.

Its state is carried from one stretch of the text to the next, and cut off from the graph in between.

    python examples/lstm.py             on PyTorch
    undertow run examples/lstm.py       on undertow, with the same numbers
"""

from pathlib import Path

import torch
from loss_curve import LossCurve, options
from torch import nn, optim


class Reader(nn.Module):
    """An embedding, two LSTM layers, and a guess for every place."""

    def __init__(self, characters, width):
        super().__init__()
        self.embedding = nn.Embedding(characters, 32)
        self.lstm = nn.LSTM(32, width, num_layers=2, dropout=0.1, batch_first=True)
        self.guess = nn.Linear(width, characters)

    def forward(self, tokens, state=None):
        output, state = self.lstm(self.embedding(tokens), state)
        return self.guess(output), state


def main():
    text_file = Path(__file__).parent / "data" / "tide.txt"
    args = options(__doc__, text=str(text_file), steps=300, readers=8, stretch=32, width=96, lr=2e-3, seed=0)
    torch.manual_seed(args.seed)

    text = Path(args.text).read_text()
    alphabet = sorted(set(text))
    data = torch.tensor([alphabet.index(character) for character in text])
    # Each reader has a part of the text for itself, one after the other in the rows of `parts`.
    length = len(data) // args.readers
    parts = data[: length * args.readers].view(args.readers, length)

    model = Reader(len(alphabet), args.width)
    optimizer = optim.RMSprop(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=100, gamma=0.5)
    criterion = nn.CrossEntropyLoss()

    curve = LossCurve(args.steps)
    place, state = 0, None
    for _ in range(args.steps):
        if place + args.stretch + 1 > length:
            place, state = 0, None
        tokens = parts[:, place : place + args.stretch]
        following = parts[:, place + 1 : place + 1 + args.stretch]
        guesses, (hidden, cell) = model(tokens, state)
        state = hidden.detach(), cell.detach()
        loss = criterion(guesses.transpose(1, 2), following)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        scheduler.step()
        curve(loss.item())
        place += args.stretch
    curve.save(args.losses)


if __name__ == "__main__":
    main()
