"""Optimizers, and schedulers for their learning rates."""

from undertow._src.base.lazy import homes_of, lazy_names

__getattr__, __dir__ = lazy_names(__name__, homes_of(__name__, """
    _adafactor: Adafactor; _functional; _muon: Muon;
    _stateless: swap_in_optimizer_params_and_state; adadelta: Adadelta; adagrad: Adagrad; adam: Adam; adamax: Adamax;
    adamw: AdamW; asgd: ASGD; lbfgs: LBFGS; lr_scheduler; nadam: NAdam; optimizer: Optimizer; radam: RAdam;
    rmsprop: RMSprop; rprop: Rprop; sgd: SGD; sparse_adam: SparseAdam; swa_utils
"""))  # fmt: skip

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
    "swap_in_optimizer_params_and_state",
]  # fmt: skip
