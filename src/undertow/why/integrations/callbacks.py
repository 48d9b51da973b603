"""Callbacks that watch the first steps of a training run, for Lightning and for the Trainer of transformers."""

from __future__ import annotations

from typing import Any

from undertow.why.integrations.stretch import FirstSteps
from undertow.why.show import Findings


def lightning_callback(steps: int = 3) -> Any:
    """Return a callback for `lightning.Trainer(callbacks=[...])`.

    It watches the first optimizer steps, and logs the findings. After that it costs nothing, and `findings` has them. If
    only `pytorch_lightning` is installed, it is for modules and trainers of that package.
    """
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class WhyCallback(Callback):
        """Logs what `undertow why` finds in the first steps."""

        def __init__(self) -> None:
            self.first = FirstSteps(steps)

        @property
        def findings(self) -> Findings | None:
            return self.first.findings

        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            if stage == "fit":  # before the optimizers are made
                self.first.begin(pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self.first.stepped()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.first.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.first.end(exception)

    return WhyCallback()


def transformers_callback(steps: int = 3) -> Any:
    """Return a callback for `transformers.Trainer(callbacks=[...])`.

    It watches the first optimizer steps, and logs the findings. After that it costs nothing, and `findings` has them. The
    Trainer does not report exceptions to callbacks: after one, `callback.first.end()` stops watching.
    """
    from transformers import TrainerCallback

    class WhyCallback(TrainerCallback):
        """Logs what `undertow why` finds in the first steps."""

        def __init__(self) -> None:
            self.first = FirstSteps(steps)

        @property
        def findings(self) -> Findings | None:
            return self.first.findings

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.first.begin(others["model"])

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.first.stepped()

        def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.first.end()

    return WhyCallback()
