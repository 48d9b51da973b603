from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch.manual_seed(0)
nets = [nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(3)]


def train(i):
    opt = torch.optim.SGD(nets[i].parameters(), lr=0.1)
    for _ in range(5):
        x = torch.randn(8, 4)
        with torch.no_grad():
            hidden = nets[i][1](nets[i][0](x))
        loss = nets[i][2](hidden).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


with ThreadPoolExecutor(3) as pool:
    list(pool.map(train, range(3)))
