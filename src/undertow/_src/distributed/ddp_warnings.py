"""Errors and warnings about gradients that DDP does not average: PyTorch's errors, and warnings that PyTorch lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NoReturn

from undertow._src.base.hooks import defined
from undertow._src.base.sites import warn_once

if TYPE_CHECKING:
    from undertow._src.distributed.reducer import Reducer


def refuse_unfinished(reducer: Reducer, missing: Sequence[int]) -> NoReturn:
    """Raise: the last backward pass did not give every parameter a gradient."""
    rank = reducer.group.rank()
    named = ", ".join([f"{reducer.names[index]} (number {index})" for index in missing])
    if reducer.static_graph:
        cure = "static_graph=True promises that every iteration uses the same parameters as the first."
    elif reducer.find_unused:
        cure = "Outputs that the loss does not use, or that DDP can't find in the forward's result, explain this."
    else:
        cure = (
            "Pass find_unused_parameters=True to DistributedDataParallel, or let every parameter take part in the loss on "
            "every rank."
        )
    raise RuntimeError(
        "Expected to have finished reduction in the prior iteration, but no gradient was averaged there: parameters "
        f"without a gradient on rank {rank}: {named}. {cure}"
    )


def refuse_twice(reducer: Reducer, index: int) -> NoReturn:
    """Raise: a parameter got a second gradient in one iteration."""
    raise RuntimeError(
        f"Expected to mark a variable ready only once. The gradient of {reducer.names[index]} (number {index}) arrived "
        "twice in one iteration: a second backward pass reached it, or a reentrant checkpoint uses it in several places. "
        "Pass static_graph=True if every iteration does the same."
    )


def warn_of_local_gradient(reducer: Reducer, index: int) -> None:
    """Warn of a gradient that arrives when none is expected, except after a forward under `no_sync`."""
    if not reducer.was_local:
        warn_once(
            f"DistributedDataParallel did not average the gradient of {reducer.names[index]}: each rank keeps its own. "
            "This backward pass is the second one of a forward, or goes past the wrapper: call the wrapped model itself, "
            "and use no_sync() where gradients are meant to stay local."
        )


def warn_of_step(reducer: Reducer, index: int) -> None:
    """Warn of a hook that changed a parameter with a gradient that is not yet averaged."""
    param = reducer.params[index]
    own = param._meta.post_hooks
    if own and reducer.versions and param._version != reducer.versions[index]:
        warn_once(
            f"A post-accumulate hook changed parameter {reducer.names[index]} before DistributedDataParallel averaged its "
            "gradient: the ranks' parameters diverge. Step the optimizer after backward()."
            + defined(next(iter(own.values())))
        )


def end_of_pass(reducer: Reducer) -> Callable[[], None]:
    """Return a function that warns, at the end of a backward pass, if a parameter can't get a gradient any more."""

    def check() -> None:
        if not reducer.is_unfinished:
            return
        missing = [index for index in range(len(reducer.params)) if index not in reducer.ready]
        # Parameters in a graph that still exists may get their gradients in another backward pass.
        if missing and not any(_is_in_a_graph(reducer.nodes, index) for index in missing):
            named = ", ".join([reducer.names[index] for index in missing])
            warn_once(
                f"DistributedDataParallel averaged no gradient in this iteration: {named} got none, and it waits for all. "
                "Each rank keeps its own gradients, and the next forward raises. Pass find_unused_parameters=True."
            )

    return check


def _is_in_a_graph(nodes: list[Any], index: int) -> bool:
    return getrefcount(nodes[index]) > 2  # the list's, and the argument's
