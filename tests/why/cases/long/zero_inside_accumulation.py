import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, lr, accumulate):
        self.model = model
        self.accumulate = accumulate
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.micro = self.steps = 0

    def training_step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.model(x), y) / self.accumulate
        loss.backward()
        self.micro += 1
        if self.micro % self.accumulate == 0:
            self.optimizer.step()
            self.steps += 1
        return loss.item() * self.accumulate

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            losses = [self.training_step(x, y) for x, y in loader]
            print(epoch, sum(losses) / len(losses))


torch.manual_seed(0)
x = torch.randn(24, 3)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=6)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
trainer = Trainer(model, 0.05, 4)
trainer.fit(loader, 3)
steps, micro = trainer.steps, trainer.micro
