"""What a call of a compiled step costs on the host, by number of parameters: guards, and all that is not the program.

    python -m benchmarks.host_cost [--sizes 6,100,1000] [--calls 200]

The step trains layers of eight features, so that the program itself is short. A time is the processor's, of the calling
thread, in microseconds, and the median of many calls: guards (warm: asked again and again; and in the call, where the
program has just displaced them from the cache), and the whole call without the jitted function.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import undertow as torch
from undertow import nn, optim


def build(n_parameters: int, optimizer: str, hooks: bool) -> tuple[Any, Any]:
    """Return a compiled step, and what it is called with."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(n_parameters // 2)])
    if hooks:
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: gradient.clamp(-1, 1))
        for layer in model:
            layer.register_forward_hook(lambda module, given, result: None)
    opt = getattr(optim, optimizer)(model.parameters(), lr=1e-3)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    return torch.compile(step), torch.randn(4, 8)


def median_time(call: Callable[[], Any], calls: int) -> float:
    """Return the median time of a call, in microseconds."""
    times = []
    for _ in range(calls):
        started = time.thread_time_ns()
        call()
        times.append(time.thread_time_ns() - started)
    return statistics.median(times) / 1000


class Stopwatch:
    """Wraps a function, and notes how long its calls take."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._times: list[int] = []

    def __call__(self, *args: Any) -> Any:
        started = time.thread_time_ns()
        result = self._function(*args)
        self._times.append(time.thread_time_ns() - started)
        return result

    def median(self) -> float:
        """Return the median, in microseconds."""
        return statistics.median(self._times) / 1000


def measure(n_parameters: int, optimizer: str, hooks: bool, calls: int) -> tuple[float, float, float]:
    """Return the times of warm guards, of guards in calls, and of calls without the jitted function."""
    step, x = build(n_parameters, optimizer, hooks)
    for _ in range(5):
        step(x)
    program: Any = max((each for kept in step.programs.values() for each in kept), key=lambda each: each.used)
    warm = median_time(lambda: program.guards_hold([x]), calls)
    guards = program.guards_hold = Stopwatch(program.guards_hold)
    jitted = program.jitted = Stopwatch(program.jitted)
    whole = median_time(lambda: step(x), calls)
    return warm, guards.median(), whole - jitted.median()


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--sizes", default="6,100,1000")
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    print("parameters optimizer hooks  guards, warm  in the call  all of the host")
    for size in map(int, options.sizes.split(",")):
        for optimizer in ("SGD", "Adam"):
            for hooks in (False, True):
                warm, inside, host = measure(size, optimizer, hooks, options.calls)
                print(f"{size:10} {optimizer:9} {'yes' if hooks else 'no':5} {warm:13.1f} {inside:12.1f} {host:16.1f}")


if __name__ == "__main__":
    main()
