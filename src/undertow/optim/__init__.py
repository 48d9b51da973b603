"""Optimizers, and schedulers for their learning rates."""

from importlib import import_module
from typing import Any

from undertow.optim import lr_scheduler as lr_scheduler
from undertow.optim._adafactor import Adafactor as Adafactor
from undertow.optim._muon import Muon as Muon
from undertow.optim.adadelta import Adadelta as Adadelta
from undertow.optim.adagrad import Adagrad as Adagrad
from undertow.optim.adam import Adam as Adam
from undertow.optim.adamax import Adamax as Adamax
from undertow.optim.adamw import AdamW as AdamW
from undertow.optim.asgd import ASGD as ASGD
from undertow.optim.lbfgs import LBFGS as LBFGS
from undertow.optim.nadam import NAdam as NAdam
from undertow.optim.optimizer import Optimizer as Optimizer
from undertow.optim.radam import RAdam as RAdam
from undertow.optim.rmsprop import RMSprop as RMSprop
from undertow.optim.rprop import Rprop as Rprop
from undertow.optim.sgd import SGD as SGD

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip

Adafactor.__module__ = Muon.__module__ = __name__  # where PyTorch has them, and files name them


def __getattr__(name: str) -> Any:
    """What needs all of nn, or tensors that override functions, is loaded when it is first asked for."""
    if name in ("sparse_adam", "swa_utils"):
        return import_module(f"undertow.optim.{name}")
    if name == "SparseAdam":
        return import_module("undertow.optim.sparse_adam").SparseAdam
    raise AttributeError(f"module 'undertow.optim' has no attribute {name!r}")
