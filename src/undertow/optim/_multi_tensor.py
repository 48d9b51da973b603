"""`torch.optim._multi_tensor`: the optimizers with `foreach=True`."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from undertow import optim


def partialclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a subclass with these arguments filled in."""
    return type(cls.__name__, (cls,), {"__init__": partialmethod(cls.__init__, *args, **kwargs)})


Adam, AdamW, NAdam, SGD, RAdam, RMSprop, Rprop, ASGD, Adamax, Adadelta, Adagrad = [
    partialclass(cls, foreach=True)
    for cls in (
        optim.Adam, optim.AdamW, optim.NAdam, optim.SGD, optim.RAdam, optim.RMSprop, optim.Rprop, optim.ASGD, optim.Adamax,
        optim.Adadelta, optim.Adagrad,
    )
]  # fmt: skip
