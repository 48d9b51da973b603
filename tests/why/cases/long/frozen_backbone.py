import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.y = torch.arange(count) % 3
        self.x = torch.randn(count, 1, 8, 8, generator=generator) + self.y.view(-1, 1, 1, 1)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def conv_block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True), nn.MaxPool2d(2))


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = nn.Sequential(conv_block(1, 4), conv_block(4, 8))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(8, classes))

    def forward(self, x):
        return self.head(self.pool(self.backbone(x)))


def freeze(module):
    for p in module.parameters():
        p.requires_grad = False


def trainable(module):
    return filter(lambda p: p.requires_grad, module.parameters())


def log_gradients(model):
    norms = {}
    for name, p in model.named_parameters():
        if p.grad is not None:
            norms[name] = p.grad.norm().item()
    return norms


@torch.inference_mode()
def evaluate(model, loader):
    model.eval()
    right = total = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    model.train()
    return right / total


torch.manual_seed(0)
train, valid = DataLoader(Blobs(48, 1), 12, shuffle=True), DataLoader(Blobs(24, 2), 12)
model = Classifier(3)
state = model.state_dict()
model.load_state_dict({k: v.clone() for k, v in state.items()})
freeze(model.backbone)
optimizer = torch.optim.SGD(trainable(model), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

for epoch in range(3):
    if epoch == 2:
        model.backbone[1].requires_grad_(True)
        optimizer.add_param_group({"params": model.backbone[1].parameters(), "lr": 0.01})
    model.train()
    model.backbone[0].eval()
    running = 0.0
    for x, y in train:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        running += loss.item() * len(y)
    scheduler.step()
    accuracy = evaluate(model, valid)
    norms = log_gradients(model)
    print(f"epoch {epoch} loss {running / 48:.3f} accuracy {accuracy:.2f} layers {len(norms)}")
