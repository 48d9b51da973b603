"""`torch.utils.backcompat`: warnings about programs of PyTorch's first years."""

from __future__ import annotations


class Warning:
    """Whether one of them is given; undertow, like PyTorch now, gives none."""

    def __init__(self) -> None:
        self.enabled = False


broadcast_warning, keepdim_warning = Warning(), Warning()
