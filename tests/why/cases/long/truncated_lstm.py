import math

import torch
from torch import nn
import torch.nn.functional as F


class RNNModel(nn.Module):
    def __init__(self, vocab, width, layers=2):
        super().__init__()
        self.drop = nn.Dropout(0.1)
        self.encoder = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, width, layers, dropout=0.1)
        self.decoder = nn.Linear(width, vocab)
        self.decoder.weight = self.encoder.weight
        self.layers, self.width = layers, width
        self.init_weights()

    def init_weights(self, scale=0.1):
        nn.init.uniform_(self.encoder.weight, -scale, scale)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, ids, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(ids)), hidden)
        return self.decoder(self.drop(output)), hidden

    def init_hidden(self, batch):
        weight = next(self.parameters())
        shape = self.layers, batch, self.width
        return weight.new_zeros(shape), weight.new_zeros(shape)


def repackage(hidden):
    """Cuts the state off from its history."""
    if isinstance(hidden, torch.Tensor):
        return hidden.detach()
    return tuple(repackage(h) for h in hidden)


def batchify(data, batch):
    count = data.size(0) // batch
    return data[:count * batch].view(batch, -1).t().contiguous()


def evaluate(model, source, bptt):
    model.eval()
    total = 0.0
    hidden = model.init_hidden(source.size(1))
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, bptt):
            length = min(bptt, source.size(0) - 1 - i)
            output, hidden = model(source[i:i + length], hidden)
            hidden = repackage(hidden)
            loss = F.cross_entropy(output.flatten(0, 1), source[i + 1:i + 1 + length].flatten())
            total += length * loss.item()
    return total / (len(source) - 1)


def train(model, source, bptt, lr, clip=0.25):
    model.train()
    total = 0.0
    hidden = model.init_hidden(source.size(1))
    for i in range(0, source.size(0) - 1, bptt):
        length = min(bptt, source.size(0) - 1 - i)
        data, targets = source[i:i + length], source[i + 1:i + 1 + length].flatten()
        model.zero_grad()
        hidden = repackage(hidden)
        output, hidden = model(data, hidden)
        loss = F.cross_entropy(output.flatten(0, 1), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total += loss.item()
    return total


torch.manual_seed(1)
vocab = 9
text = torch.arange(120) * 4 % vocab
source = batchify(text, 4)
model = RNNModel(vocab, 8)
perplexities, lr, best = [], 1.0, None
for epoch in range(2):
    total = train(model, source, 6, lr)
    loss = evaluate(model, source, 6)
    perplexities.append(math.exp(loss))
    if best is None or loss < best:
        best = loss
    else:
        lr /= 4.0
    print(f"epoch {epoch} train {total:.3f} valid ppl {perplexities[-1]:.2f}")
