"""PyTorch's classes for errors of process groups."""

from __future__ import annotations


class DistError(RuntimeError):
    """An error of `torch.distributed`."""

    __module__ = "torch.distributed"
    lost_peer = False  # whether another rank caused it


class DistBackendError(DistError):
    """A collective failed: a rank has ended, does not call it, or called a different collective."""

    details: list[str] = []  # if ranks disagree: the call of each

    __module__ = "torch.distributed"


class DifferentPrograms(DistBackendError):
    """The ranks run compiled steps with different collectives."""

    __module__ = "torch.distributed"


class DistNetworkError(DistError):
    """The other ranks, or the coordinator, could not be reached."""

    __module__ = "torch.distributed"


class DistStoreError(DistError):
    """A store did not answer, or a key did not appear in time."""

    __module__ = "torch.distributed"


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty."""

    __module__ = "torch.distributed"


NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."
