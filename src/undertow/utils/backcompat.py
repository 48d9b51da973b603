"""`torch.utils.backcompat`: warnings for programs of PyTorch's first years."""

from __future__ import annotations


class Warning:
    """A switch for one of these warnings; undertow, like current PyTorch, issues none."""

    def __init__(self) -> None:
        self.enabled = False


broadcast_warning, keepdim_warning = Warning(), Warning()
