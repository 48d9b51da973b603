# Written by `make tables` from the modules themselves: do not edit.
from typing import Any
from undertow.optim.asgd import ASGD as ASGD
from undertow.optim.adadelta import Adadelta as Adadelta
from undertow.optim._adafactor import Adafactor as Adafactor
from undertow.optim.adagrad import Adagrad as Adagrad
from undertow.optim.adam import Adam as Adam
from undertow.optim.adamw import AdamW as AdamW
from undertow.optim.adamax import Adamax as Adamax
from undertow.optim.lbfgs import LBFGS as LBFGS
from undertow.optim._muon import Muon as Muon
from undertow.optim.nadam import NAdam as NAdam
from undertow.optim.optimizer import Optimizer as Optimizer
from undertow.optim.radam import RAdam as RAdam
from undertow.optim.rmsprop import RMSprop as RMSprop
from undertow.optim.rprop import Rprop as Rprop
from undertow.optim.sgd import SGD as SGD
from undertow.optim.sparse_adam import SparseAdam as SparseAdam
from undertow.optim import _adafactor as _adafactor, _muon as _muon, _stateless as _stateless, adadelta as adadelta, adagrad as adagrad, adam as adam, adamax as adamax, adamw as adamw, asgd as asgd, lbfgs as lbfgs, lr_scheduler as lr_scheduler, nadam as nadam, optimizer as optimizer, radam as radam, rmsprop as rmsprop, rprop as rprop, sgd as sgd, sparse_adam as sparse_adam, swa_utils as swa_utils
from undertow.optim._stateless import swap_in_optimizer_params_and_state as swap_in_optimizer_params_and_state
_functional: Any
__all__: list[str]
