import torch
from torch import nn
import torch.nn.functional as F

token_grads = []


class Vision(nn.Module):
    def __init__(self, width=8, patches=4, classes=3):
        super().__init__()
        self.embed = nn.Linear(6, width)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, patches + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, patches):
        h = self.embed(patches)
        h = torch.cat([self.token.expand(h.size(0), -1, -1), h], dim=1) + self.pos
        h = self.encoder(h)
        self.probe(h)
        return self.head(h[:, 0])

    def probe(self, h):
        if self.training:
            cls = h[:, 0]
            cls.register_hook(lambda g: token_grads.append(g.norm().item()))


torch.manual_seed(0)
model = Vision()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    x, y = torch.randn(5, 4, 6), torch.randint(0, 3, (5,))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), token_grads)
