import torch
from torch import nn
import torch.nn.functional as F


class TextModel(nn.Module):
    def __init__(self, vocab=30, width=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, 8, batch_first=True)
        self.out = nn.Linear(8, 2)

    def embed(self, ids):
        return self.emb(ids) * 2.0

    def classify(self, embedded):
        _, last = self.rnn(embedded)
        return self.out(last[-1])

    def forward(self, ids):
        return self.classify(self.embed(ids))


def fit(model, data, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        for ids, y in data:
            loss = F.cross_entropy(model(ids), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def saliency(model, ids):
    model.zero_grad()
    embedded = model.embed(ids)
    logits = model.classify(embedded)
    logits.max().backward()
    if embedded.grad is None:
        return None
    return embedded.grad.norm(dim=-1)


torch.manual_seed(0)
data = [(torch.randint(0, 30, (4, 5)), torch.randint(0, 2, (4,))) for _ in range(3)]
model = TextModel()
fit(model, data, 2)
scores = [saliency(model, ids) for ids, _ in data[:2]]
print(scores)
