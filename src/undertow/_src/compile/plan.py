"""The plan of a trace: what earlier traces of the same step have found out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.arrays.device.memory import TraceAborted
from undertow._src.compile.guards.places import Place
from undertow._src.compile.splitting.effect_splitting import EffectSplitter
from undertow._src.compile.tracing.data_dependent_branches import Answer, Hints, Line
from undertow._src.compile.tracing.records import Kinds

if TYPE_CHECKING:
    from undertow._src.compile.first_state import FirstState
    from undertow._src.compile.tracing.lengths import Lengths


class Retrace(TraceAborted, Exception):
    """The step has to be traced again, now that more is known about its hooks."""


class Plan:
    """What is known about a step before it is traced."""

    def __init__(self) -> None:
        self.all_inside = False  # no hook runs after the program
        self.waits_for = ""  # the hook that requires that
        self.on_host: set[Any] = set()  # hooks that must not be traced; see `HostState._identity`
        self.counts_inside = False  # whether the program counts the steps of optimizers
        self.replaced: dict[Place, tuple[Any, Any]] = {}  # places in which each call leaves new tensors
        self.counters: dict[Place, tuple[Any, Any]] = {}  # places in which each call leaves a new number
        self.counts = True  # whether such numbers may be inputs
        self.exact_types = False  # whether code compares types of numbers, so that stand-ins are ruled out
        self.plain_numbers = False  # whether stand-ins for numbers are ruled out: one became a constant
        self.decided: set[Line] = set()  # lines whose value is guessed; see `data_dependent_branches`
        self.selected: set[Line] = set()  # lines whose x[mask] needs its exact rows; see `selections`
        self.decides_in_hooks = False  # whether hooks that only need values use guesses, too
        self.answers: list[Answer] = []  # outcomes of the first branches of the call that is traced
        self.hints: Hints = {}  # guesses for other branches
        self.numbers: list[Any] = []  # the numbers among the arguments; see `counters.in_places`
        self.watched: set[Place] = set()  # such places that have to be guarded instead: see `Renewed.refused`
        # Ids of schedulers whose state traced code reads, as long as it is the same code: see `EffectSplitter.choices`.
        self.schedulers_read: dict[int, int] = {}
        self.finds_cached = False  # whether a trace has found objects in caches of functions for the first time
        self.roots: list[tuple[Any, str]] = []  # modules and optimizers that only hooks reach, and their names
        # Tensors and arrays that hooks on the host find, by id, and the tensor to whose buffer the step writes.
        self.shown: dict[int, tuple[Any, Any]] = {}
        self.kinds = Kinds()  # the arguments that are compared by their contents
        self.first: FirstState | None = None  # the state of a first call, if it was made before the trace
        self.lengths: Lengths | None = None  # sizes of arguments that vary, of `compile(…, dynamic=…)`
        self.splitter: EffectSplitter | None = None  # the statements that run on the host

    @property
    def choices(self) -> int:
        """Return how often the statements that run on the host were chosen."""
        return 0 if self.splitter is None else self.splitter.choices
