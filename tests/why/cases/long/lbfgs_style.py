import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


def gram(features):
    b, c, h, w = features.shape
    flat = features.view(b, c, h * w)
    return flat @ flat.transpose(1, 2) / (c * h * w)


class Extractor:
    """Collects the outputs of some layers while its with block lasts."""

    def __init__(self, net, layers):
        self.net, self.layers = net, layers
        self.features = {}

    def _save(self, name):
        def hook(module, args, output):
            self.features[name] = output
        return hook

    def __enter__(self):
        self.handles = [self.net[i].register_forward_hook(self._save(i)) for i in self.layers]
        return self

    def __exit__(self, *exc):
        for handle in self.handles:
            handle.remove()

    def __call__(self, image):
        self.features = {}
        self.net(image)
        return dict(self.features)


net = nn.Sequential(
    nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
    nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
)
net.eval()
content, style = torch.rand(1, 3, 12, 12), torch.rand(1, 3, 12, 12)
image = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([image], lr=0.5, max_iter=4)
trace = []

with Extractor(net, [1, 3, 6]) as extract:
    with torch.no_grad():
        wanted_content = extract(content)[6]
        wanted_style = {i: gram(f) for i, f in extract(style).items()}
    for round_ in range(2):
        def closure():
            optimizer.zero_grad()
            found = extract(image)
            loss = F.mse_loss(found[6], wanted_content)
            for i, goal in wanted_style.items():
                loss = loss + 10 * F.mse_loss(gram(found[i]), goal)
            loss.backward()
            trace.append(loss.item())
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            image.clamp_(0, 1)
print("loss", trace[0], "->", trace[-1])
