import torch
from torch import nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 8, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x, h):
        out, h = self.rnn(x, h)
        return self.head(out[:, -1]), h


def run_epoch(model, optimizer, count):
    hidden = torch.zeros(1, 4, 8)
    loss = None
    for _ in range(count):
        x, y = torch.randn(4, 5, 3), torch.randint(0, 2, (4,))
        logits, hidden = model(x, hidden.detach())
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
    return loss


torch.manual_seed(0)
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    loss = run_epoch(model, optimizer, 3)
    print(epoch, loss.item())
