"""What a trace has to know beforehand, and learns from the traces before it."""

from __future__ import annotations

from typing import Any

from undertow._src.arrays.device.memory import TraceAborted
from undertow._src.compile.guards.places import Place
from undertow._src.compile.splitting.effect_splitting import EffectSplitter
from undertow._src.compile.tracing.decisions import Answer, Hints, Line
from undertow._src.compile.tracing.records import Kinds


class Retrace(TraceAborted, Exception):
    """The step has to be traced again, now that more is known about its hooks."""


class Plan:
    """What is known about a step before it is traced."""

    def __init__(self) -> None:
        self.all_inside = False  # none runs after the program
        self.waits_for = ""  # because of which hook
        self.on_host: set[Any] = set()  # hooks that must not be traced; see `HostSchedule._identity`
        self.counts_inside = False  # whether optimizers' step counts are counted by the program
        self.replaced: dict[Place, tuple[Any, Any]] = {}  # places in which the step leaves other tensors each time
        self.counters: dict[Place, tuple[Any, Any]] = {}  # places in which it leaves another number
        self.counts = True  # whether such numbers may be inputs
        self.exact_types = False  # whether code compares types of numbers, so that nothing may stand for one
        self.plain_numbers = False  # whether no number may be one: one got where it would stay as it is
        self.decided: set[Line] = set()  # lines that ask for values, and go on with a guess; see `decisions`
        self.selected: set[Line] = set()  # lines whose x[mask] is wanted with the rows themselves; see `selections`
        self.exact_tensors = False  # whether code compares types of tensors, so that nothing may stand for one
        self.decides_in_hooks = False  # whether hooks that only ask for values do so, too
        self.answers: list[Answer] = []  # to the first decisions of the call that is traced
        self.hints: Hints = {}  # to others
        self.numbers: list[Any] = []  # those among the arguments; see `counters.in_places`
        self.watched: set[Place] = set()  # places in which it does, too, but more counts than their values
        self.roots: list[tuple[Any, str]] = []  # modules and optimizers that only hooks reach, and their names
        self.kinds = Kinds()  # which arguments count by what they hold
        self.splitter: EffectSplitter | None = None  # which statements are not simply traced
