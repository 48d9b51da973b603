"""Optimizers, and schedulers for their learning rates."""

from typing import TYPE_CHECKING

from undertow._src.base.lazy import homes_of, lazy_names

if TYPE_CHECKING:
    from undertow.optim import lr_scheduler as lr_scheduler
    from undertow.optim import swa_utils as swa_utils
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
    from undertow.optim.sparse_adam import SparseAdam as SparseAdam

__getattr__, __dir__ = lazy_names(__name__, homes_of(__name__, """
    _adafactor: Adafactor; _functional; _muon: Muon; adadelta: Adadelta; adagrad: Adagrad; adam: Adam; adamax: Adamax;
    adamw: AdamW; asgd: ASGD; lbfgs: LBFGS; lr_scheduler; nadam: NAdam; optimizer: Optimizer; radam: RAdam;
    rmsprop: RMSprop; rprop: Rprop; sgd: SGD; sparse_adam: SparseAdam; swa_utils
"""))  # fmt: skip

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip
