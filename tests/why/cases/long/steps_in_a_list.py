import torch
from torch import nn


class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(self, x):
        loss = self.net(x).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss


torch.manual_seed(0)
trainer = Trainer(nn.Linear(3, 1))
losses = [trainer.step(torch.randn(4, 3)) for _ in range(6)]
print(sum(float(loss) for loss in losses))
