"""Parameters that have a gradient for every example, under PyTorch's name."""

from undertow.nn.utils._per_sample_grad import ExpandedWeight as ExpandedWeight
