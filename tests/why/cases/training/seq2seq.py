"""A sequence-to-sequence model with attention: packed lengths, teacher forcing, padding masks, label smoothing."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

PAD, START, END = 0, 1, 2


def pairs(count):
    sources, targets = [], []
    for _ in range(count):
        length = random.randint(3, 6)
        tokens = torch.randint(3, 10, (length,))
        sources.append(tokens)
        targets.append(torch.cat([torch.tensor([START]), tokens.flip(0), torch.tensor([END])]))
    return pad_sequence(sources, batch_first=True), pad_sequence(targets, batch_first=True)


class Encoder(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.embed = nn.Embedding(tokens, width, padding_idx=PAD)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)

    def forward(self, source):
        output, last = self.rnn(self.embed(source))
        return output, torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1)))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(2 * width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, state, memory, mask):
        energy = self.score(torch.tanh(self.query(state).unsqueeze(1) + self.key(memory))).squeeze(2)
        weights = energy.masked_fill(mask, float("-inf")).softmax(1)
        return (weights.unsqueeze(1) @ memory).squeeze(1), weights


class Decoder(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.embed = nn.Embedding(tokens, width, padding_idx=PAD)
        self.attention = Attention(width)
        self.cell = nn.GRUCell(3 * width, width)
        self.out = nn.Linear(3 * width, tokens)

    def forward(self, token, state, memory, mask):
        context, weights = self.attention(state, memory, mask)
        state = self.cell(torch.cat([self.embed(token), context], 1), state)
        return self.out(torch.cat([state, context], 1)), state, weights


class Translator(nn.Module):
    def __init__(self, tokens=10, width=12):
        super().__init__()
        self.encoder = Encoder(tokens, width)
        self.decoder = Decoder(tokens, width)

    def forward(self, source, target, teacher):
        memory, state = self.encoder(source)
        mask = source == PAD
        token = target[:, 0]
        logits = []
        for t in range(1, target.shape[1]):
            step, state, _ = self.decoder(token, state, memory, mask)
            logits.append(step)
            token = target[:, t] if random.random() < teacher else step.argmax(1)
        return torch.stack(logits, dim=1)


def loss_of(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1)


random.seed(1)
torch.manual_seed(14)
model = Translator()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
history = []
for step in range(4):
    source, target = pairs(12)
    model.train()
    logits = model(source, target, teacher=max(0.5, 1 - 0.1 * step))
    loss = loss_of(logits, target)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    history.append(loss.item())
print([round(value, 3) for value in history])
