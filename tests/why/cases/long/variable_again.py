import torch
from torch import nn
from torch.autograd import Variable

torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(3, 4)).square().mean()
    loss = Variable(loss.data, requires_grad=True)
    opt.zero_grad()
    loss.backward()
    opt.step()
