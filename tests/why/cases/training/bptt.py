"""A recurrent language model with truncated backpropagation: the state is carried, its graph is not."""

import math

import torch
import torch.nn as nn


class Corpus:
    def __init__(self, length, batch):
        phase = torch.arange(length)
        text = ((phase * 7 + phase // 5) % 11).long()
        columns = length // batch
        self.data = text[: columns * batch].view(batch, columns).t().contiguous()

    def chunks(self, span):
        for start in range(0, self.data.shape[0] - 1, span):
            end = min(start + span, self.data.shape[0] - 1)
            yield self.data[start:end], self.data[start + 1 : end + 1]


class Model(nn.Module):
    def __init__(self, tokens, width, layers):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.rnn = nn.LSTM(width, width, layers)
        self.drop = nn.Dropout(0.1)
        self.decode = nn.Linear(width, tokens)
        self.width, self.layers = width, layers

    def start(self, batch):
        weight = next(self.parameters())
        return tuple(weight.new_zeros(self.layers, batch, self.width) for _ in range(2))

    def forward(self, x, state):
        output, state = self.rnn(self.drop(self.embed(x)), state)
        return self.decode(self.drop(output)), state


def repackage(state):
    if isinstance(state, torch.Tensor):
        return state.detach()
    return tuple(repackage(part) for part in state)


class Trainer:
    def __init__(self, model, corpus, rate):
        self.model = model
        self.corpus = corpus
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        self.norms = []

    def loss(self, x, y, state):
        logits, state = self.model(x, state)
        return self.criterion(logits.flatten(0, 1), y.flatten()), state

    def epoch(self, span):
        self.model.train()
        state = self.model.start(self.corpus.data.shape[1])
        total, count = 0.0, 0
        for x, y in self.corpus.chunks(span):
            state = repackage(state)
            self.model.zero_grad()
            loss, state = self.loss(x, y, state)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
            self.norms.append(norm.item())
            self.optimizer.step()
            total += loss.item() * len(x)
            count += len(x)
        return total / count

    def evaluate(self, span):
        self.model.eval()
        state = self.model.start(self.corpus.data.shape[1])
        total, count = 0.0, 0
        with torch.no_grad():
            for x, y in self.corpus.chunks(span):
                loss, state = self.loss(x, y, state)
                total += loss * len(x)
                count += len(x)
        return (total / count).item()


torch.manual_seed(11)
corpus = Corpus(240, 4)
model = Model(11, 16, 2)
trainer = Trainer(model, corpus, rate=1.0)
best = math.inf
for epoch in range(3):
    training = trainer.epoch(span=12)
    valid = trainer.evaluate(span=12)
    if valid < best:
        best = valid
    else:
        for group in trainer.optimizer.param_groups:
            group["lr"] /= 4
    print(f"epoch {epoch} train {training:.3f} valid {valid:.3f} perplexity {math.exp(valid):.2f}")
