"""ModuleTracker: which modules are at work, forward and backward."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tests.oracle.harness import agree


def test_parents() -> None:
    def program(torch: Any, log: Any) -> None:
        tracker = import_module(f"{torch.__name__}.utils.module_tracker").ModuleTracker()

        class Noting(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, name: str) -> Any:
                ctx.name = name
                log("forward", name, sorted(tracker.parents), tracker.is_bw)
                return x.clone()

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                log("backward", ctx.name, sorted(tracker.parents), tracker.is_bw)
                return g, None

        class Inner(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return Noting.apply(x * 2, "inner")

        class Outer(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = Inner(), torch.nn.Sequential(Inner(), Inner())

            def forward(self, x: Any) -> Any:
                return Noting.apply(self.second(self.first(x)), "outer")

        x = torch.ones(2, requires_grad=True)
        with tracker:
            y = Outer()(x * 1)
            log("between", sorted(tracker.parents))
            y.sum().backward()
            log("after", sorted(tracker.parents))
            with torch.no_grad():
                Outer()(x)

    agree(program, raises=False)
