"""A graph network with attention over edges, a virtual node, readout, and explanations by edge masks."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def random_graph(nodes, edges):
    source = torch.randint(0, nodes, (edges,))
    target = torch.randint(0, nodes, (edges,))
    features = torch.randn(nodes, 5)
    degree = torch.bincount(target, minlength=nodes).float()
    return features, torch.stack([source, target]), degree.mean()


class EdgeAttention(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.value = nn.Linear(inputs, outputs, bias=False)
        self.score = nn.Parameter(torch.randn(2 * outputs) * 0.3)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, edges, mask=None):
        source, target = edges
        value = self.value(x)
        score = F.leaky_relu(torch.cat([value[source], value[target]], 1) @ self.score, 0.2)
        score = score - torch.full((len(x),), -1e9).scatter_reduce(0, target, score.detach(), "amax")[target]
        weight = score.exp()
        if mask is not None:
            weight = weight * mask
        total = torch.zeros(len(x)).index_add(0, target, weight) + 1e-9
        out = torch.zeros(len(x), value.shape[1]).index_add(0, target, value[source] * (weight / total[target])[:, None])
        return out + self.bias


class GraphNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.one, self.two = EdgeAttention(5, width), EdgeAttention(width, width)
        self.virtual = nn.Linear(width, width)
        self.read = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, 1))

    def forward(self, x, edges, mask=None):
        x = F.elu(self.one(x, edges, mask))
        x = x + self.virtual(x.mean(0, keepdim=True))
        x = F.elu(self.two(x, edges, mask))
        return self.read(x.mean(0)).squeeze(0)


def explain(model, x, edges, steps=4):
    """Which edges matter: a mask is learned while the network stays as it is."""
    model.eval()
    for p in model.parameters():
        p.requires_grad_(False)
    wanted = model(x, edges)
    logits = torch.zeros(edges.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.2)
    for _ in range(steps):
        mask = torch.sigmoid(logits)
        loss = (model(x, edges, mask) - wanted) ** 2 + 0.01 * mask.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for p in model.parameters():
        p.requires_grad_(True)
    model.train()
    return torch.sigmoid(logits).detach()


torch.manual_seed(5)
model = GraphNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
for epoch in range(4):
    losses = []
    for _ in range(4):
        x, edges, target = random_graph(8, 20)
        losses.append(F.mse_loss(model(x, edges), target))
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
mask = explain(model, *random_graph(8, 20)[:2])
print("edges kept", int((mask > 0.5).sum()) <= 20)
