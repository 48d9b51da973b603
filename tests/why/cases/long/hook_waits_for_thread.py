import queue
import threading

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
inbox, outbox = queue.Queue(), queue.Queue()


def server():
    while (grad := inbox.get()) is not None:
        outbox.put(grad * 0.5)


thread = threading.Thread(target=server, daemon=True)
thread.start()


def remote(grad):
    inbox.put(grad)
    return outbox.get()


net.weight.register_hook(remote)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(1):
    opt.zero_grad()
    net(torch.randn(4, 3)).sum().backward()
    opt.step()
inbox.put(None)
thread.join()
