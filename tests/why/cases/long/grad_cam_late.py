import torch
from torch import nn
import torch.nn.functional as F


class SmallCNN(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(),
        )
        self.classifier = nn.Linear(6, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=(2, 3)))


class GradCAM:
    def __init__(self, model, layer):
        self.model, self.layer = model, layer
        self.activation = self.gradient = None

    def _save_activation(self, module, args, output):
        self.activation = output.detach()

    def _save_gradient(self, module, grad_input, grad_output):
        self.gradient = grad_output[0].detach()

    def explain(self, image):
        score = self.model(image).max()
        forward = self.layer.register_forward_hook(self._save_activation)
        backward = self.layer.register_full_backward_hook(self._save_gradient)
        score.backward()
        forward.remove()
        backward.remove()
        if self.gradient is None:
            return torch.zeros(image.shape[-2:])
        weights = self.gradient.mean(dim=(2, 3), keepdim=True)
        return F.relu((weights * self.activation).sum(1))


torch.manual_seed(0)
model = SmallCNN().eval()
cam = GradCAM(model, model.features[3])
heat = cam.explain(torch.rand(1, 1, 8, 8))
print("heat", heat.sum().item())
