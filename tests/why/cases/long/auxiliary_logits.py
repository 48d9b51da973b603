import torch
from torch import nn
import torch.nn.functional as F


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.aux = nn.Conv2d(8, 2, 1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = F.relu(self.down1(x))
        b = F.relu(self.down2(a))
        c = F.relu(self.up(b))
        main = self.head(torch.cat([a, c], dim=1))
        aux = F.interpolate(self.aux(b), scale_factor=2)
        return {"out": main, "aux": aux}


class SegmentationLoss(nn.Module):
    def __init__(self, aux_weight=0.4):
        super().__init__()
        self.aux_weight = aux_weight

    def forward(self, outputs, mask):
        return F.cross_entropy(outputs["out"], mask)


torch.manual_seed(0)
net, criterion = UNet(), SegmentationLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=0.9)
for step in range(4):
    image = torch.rand(3, 1, 8, 8)
    mask = (image.squeeze(1) > 0.5).long()
    loss = criterion(net(image), mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(step, loss.item())
