"""`PostLocalSGDOptimizer`: an optimizer that averages the ranks' parameters after its steps."""

from __future__ import annotations

from typing import Any

from undertow._src.base.sites import warn
from undertow.distributed.algorithms.model_averaging.averagers import ModelAverager
from undertow.optim.optimizer import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer whose steps are followed by an averager, which averages the parameters in some of them."""

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state, with the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the optimizer's state, and the averager's step if it has been saved."""
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warn("Loaded state dict does not contain a step counter for an averager. It is set to 0.")
        self.averager.step = state_dict.get("step", 0)

    def step(self) -> None:  # type: ignore[override]
        """Update the parameters, then average them over the ranks if the period is over."""
        self.optim.step()
        self.averager.average_parameters(params=self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters."""
        self.optim.add_param_group(param_group)
