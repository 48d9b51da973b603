"""What the optimizer tests share: every optimizer with its options, and parameters with given gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.facts import to_tensor

Case = tuple[str, dict[str, Any]]

# Every optimizer with each of its options, alone and together.
CASES: list[Case] = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "foreach": True}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "fused": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.99), "eps": 1e-3}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "maximize": True, "decoupled_weight_decay": True}),
    ("Adam", {"foreach": True}),
    ("Adam", {"fused": True}),
    ("AdamW", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.0}),
    ("RMSprop", {}),
    ("RMSprop", {"alpha": 0.9, "eps": 1e-4, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"centered": True}),
    ("RMSprop", {"momentum": 0.5}),
    ("RMSprop", {"momentum": 0.5, "centered": True, "foreach": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.01, "initial_accumulator_value": 0.1, "eps": 1e-3}),
    ("Adagrad", {"weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"fused": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "momentum_decay": 0.02, "maximize": True}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.05, "betas": (0.9, 0.6)}),
    ("ASGD", {}),
    ("ASGD", {"t0": 5, "lambd": 0.01, "alpha": 0.5, "weight_decay": 0.1, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2), "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "d": 2.0, "eps": (1e-8, 1e-2), "maximize": True}),
    ("Adafactor", {"beta2_decay": -0.5}),
]  # fmt: skip
MUON_CASES: list[Case] = [
    ("Muon", {"lr": 0.01}),
    ("Muon", {"lr": 0.01, "nesterov": False, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0}),
    ("Muon", {"lr": 0.01, "ns_steps": 3, "momentum": 0.5, "adjust_lr_fn": "original"}),
]
SHAPES = ((5, 3), (3,), (), (2, 3, 4))
# One case of each optimizer, for tests of what does not depend on options.
ONE_OF_EACH: list[Case] = [
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("RMSprop", {"lr": 0.001, "momentum": 0.5, "centered": True}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("Adamax", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("ASGD", {"t0": 3}),
    ("Rprop", {}),
    ("Adafactor", {}),
]


def case_name(case: Case) -> str:
    return "-".join([case[0], *(f"{key}={value}" for key, value in case[1].items())])


class Training:
    """Parameters of one library and the gradients they are given, the same for both libraries."""

    def __init__(self, torch: Any, shapes: Any = SHAPES, dtype: str = "float32", seed: int = 0) -> None:
        self.torch, self.dtype = torch, dtype
        self.random = np.random.RandomState(seed)
        self.params = [to_tensor(torch, self.draw(shape), True, dtype) for shape in shapes]

    def draw(self, shape: tuple[int, ...]) -> Any:
        values = self.random.randn(*shape) if shape else np.array(self.random.randn())
        if self.dtype.startswith("complex"):
            return (values + 1j * self.random.randn(*shape)).astype(self.dtype)
        return values.astype("float64" if self.dtype == "float64" else "float32")

    def give_gradients(self) -> None:
        """A mix of drifting and noisy gradients, small and large."""
        for place, param in enumerate(self.params):
            drift = self.draw(tuple(param.shape)) * 10.0 ** (place - 2)
            param.grad = to_tensor(self.torch, drift.astype(drift.dtype), dtype=self.dtype)

    def run(self, optimizer: Any, steps: int) -> None:
        for _ in range(steps):
            self.give_gradients()
            optimizer.step()


def result(training: Training, optimizer: Any) -> Any:
    """All that a training leaves behind: parameters, state and options."""
    return [param.detach() for param in training.params], optimizer.state_dict()
