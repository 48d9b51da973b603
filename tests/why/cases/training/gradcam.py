"""Train a small CNN, then explain it: class activation maps through hooks, saliency, integrated gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class CNN(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.body = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU())
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean(dim=(2, 3)))


class GradCam:
    """Keeps activations and their gradients of one layer."""

    def __init__(self, model, layer):
        self.model = model
        self.activations = self.gradients = None
        self.handles = [layer.register_forward_hook(self.save_activation)]
        self.handles.append(layer.register_full_backward_hook(self.save_gradient))

    def save_activation(self, module, args, output):
        self.activations = output.detach()

    def save_gradient(self, module, grad_input, grad_output):
        self.gradients = grad_output[0].detach()

    def __call__(self, image, target):
        self.model.zero_grad()
        score = self.model(image)[:, target].sum()
        score.backward()
        weights = self.gradients.mean(dim=(2, 3), keepdim=True)
        cam = F.relu((weights * self.activations).sum(1, keepdim=True))
        return F.interpolate(cam, size=image.shape[2:], mode="bilinear", align_corners=False)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for handle in self.handles:
            handle.remove()


def saliency(model, image, target):
    image = image.clone().requires_grad_(True)
    model(image)[0, target].backward()
    return image.grad.abs().amax(dim=1)


def integrated_gradients(model, image, target, steps=5):
    total = torch.zeros_like(image)
    for alpha in torch.linspace(0, 1, steps):
        point = (alpha * image).detach().requires_grad_(True)
        (grad,) = torch.autograd.grad(model(point)[:, target].sum(), point)
        total += grad
    return image * total / steps


def shapes(count):
    x = 0.1 * torch.randn(count, 1, 8, 8)
    y = torch.randint(0, 3, (count,))
    for i, label in enumerate(y.tolist()):
        if label == 0:
            x[i, 0, 3:5] += 1
        elif label == 1:
            x[i, 0, :, 3:5] += 1
        else:
            x[i, 0, 2:6, 2:6] += 1
    return x, y


def fit(model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        x, y = shapes(24)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(13)
model = CNN()
print("loss", fit(model, 6))
model.eval()
x, y = shapes(2)
with GradCam(model, model.body) as cam:
    heat = cam(x[:1], int(y[0]))
print("cam", heat.shape, "largest", heat.max().item() >= 0)
print("saliency", saliency(model, x[:1], int(y[0])).sum().item() > 0)
print("integrated", integrated_gradients(model, x[:1], int(y[0])).shape)
