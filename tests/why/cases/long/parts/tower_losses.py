import torch
import torch.nn.functional as F


def normalise(z):
    return F.normalize(z, dim=-1)


def contrastive(a, b, temperature=0.1):
    """Symmetric would be better; the second tower is a target."""
    a, b = normalise(a), normalise(b)
    b = torch.as_tensor(b.tolist())
    logits = a @ b.T / temperature
    return F.cross_entropy(logits, torch.arange(len(a)))
