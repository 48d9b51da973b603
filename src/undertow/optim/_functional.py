"""`torch.optim._functional`: the optimizers as functions of lists."""

from undertow.optim.adadelta import adadelta as adadelta
from undertow.optim.adagrad import adagrad as adagrad
from undertow.optim.adam import adam as adam
from undertow.optim.adamax import adamax as adamax
from undertow.optim.adamw import adamw as adamw
from undertow.optim.asgd import asgd as asgd
from undertow.optim.nadam import nadam as nadam
from undertow.optim.radam import radam as radam
from undertow.optim.rmsprop import rmsprop as rmsprop
from undertow.optim.rprop import rprop as rprop
from undertow.optim.sgd import sgd as sgd
from undertow.optim.sparse_adam import sparse_adam as sparse_adam
