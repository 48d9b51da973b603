"""What a captured step becomes: a jitted function, with its inputs and outputs in order.

The inputs are the arguments' arrays, the buffers of tensors that the step reads, the numbers of optimizers, and random
draws. The outputs are the buffers that the step wrote to and the new buffers that outlive it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.compile.guards.alias_guards import Memory
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.lowering.compiled_backward import WayBack
from undertow._src.compile.lowering.donation import Gradients, PackedGradients
from undertow._src.compile.lowering.packing import StatePack
from undertow._src.compile.tracing.left_state import LeftState

KINDS = ("donated", "packed", "state", "argument", "draw", "numbers", "constant")  # of inputs, in their order


@dataclass(eq=False)
class Input:
    """A variable of the traced program, and where a call finds its value."""

    kind: str
    var: Any
    source: Any  # the buffer, or another source
    where: Any


@dataclass(frozen=True, eq=False)
class Origins:
    """Which tensors own the buffers of the trace."""

    known: set[int]  # ids of buffers from before the step
    adopted: dict[int, Any]  # tensors from before the step, by id
    owners: dict[int, Any]  # a buffer's tensor, by the buffer's id
    states: dict[int, tuple[Any, DeviceArray]]  # the same for the step's own tensors, with their arrays in the trace
    arguments: dict[int, int]  # a buffer's first argument
    argument_places: list[tuple[int, int]]  # all pairs of a buffer's id and an argument


@dataclass(frozen=True, eq=False)
class InputBuffers:
    """Where a call finds the program's inputs, in the order of the program's arguments."""

    donated: list[Memory]  # the program may overwrite them
    packed: list[Memory]
    pack: StatePack | None  # in which those are side by side
    donors: list[Gradients | PackedGradients]  # of buffers for gradients
    states: list[Memory]
    only_written: list[Memory]  # not inputs, but results are put into them
    arguments: list[int]  # indices among the call's arguments
    draws: list[tuple[int, int | None]]  # the number of the draw, and of the part of its result
    uses_numbers: bool
    gives_numbers: bool  # whether their buffer is donated to the next call's numbers


@dataclass(frozen=True, eq=False)
class OutputBuffers:
    """Where the program's results go, in their order."""

    buffers: list[Buffer]  # all of them; parts of packs one by one
    n_known: int  # how many are from before the step; they come first
    written: list[tuple[int, Buffer]]  # buffers of no argument, with the index of each result
    arguments: list[tuple[int, int]]  # indices of results that are written to arguments
    made: list[Buffer]  # new buffers, which come last
    decided: list[int]  # results that branches depend on


@dataclass(frozen=True, eq=False)
class Lowered:
    """A captured step as a jitted function of buffers."""

    jitted: Callable[..., list[Any]]
    inputs: InputBuffers
    outputs: OutputBuffers
    origins: Origins
    left: LeftState  # what the step leaves, without donated gradients
    passed_on: list[int]  # arguments that are returned or kept, themselves or as views
    way_back: WayBack | None
    uses_gradients: bool  # whether gradients or carried state are among the arguments
    guards: list[Guard]  # on the buffers of tensors
    size: int  # operations
