"""The guard on values that are in no place: settings that code reads, context variables, weak references."""

from __future__ import annotations

from abc import get_cache_token
from collections.abc import Sequence
from typing import Any

from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.guards.places import change
from undertow._src.compile.guards.reachability import Look, Reached
from undertow._src.compile.guards.settings import LOOKS
from undertow._src.random.generators import Generator


class SettingGuard(Guard):
    """Guard the settings that the step's code reads."""

    def __init__(self, state: Reached) -> None:
        names = state.names_in_code()
        asked = [Look(name, LOOKS[name]) for name in sorted(names & LOOKS.keys())]
        if "initial_seed" in names:
            own = [each for each in state.generators if isinstance(each, Generator)]
            asked += [Look("the seed of a generator", generator.initial_seed) for generator in own]
        if state.mentions_kinds():
            asked.append(Look("which classes are registered with abstract ones", get_cache_token))
        self.looks = [(look, look.get()) for look in (*state.looks, *asked)]

    @property
    def watches(self) -> str:
        """Return the line for `explain`."""
        return "settings and other values: " + ", ".join(dict.fromkeys(look.name for look, _ in self.looks))

    def hold(self, arguments: Sequence[Any]) -> bool:
        """Return whether no setting has changed."""
        for look, was in self.looks:
            if not look.alike(look.get(), was):
                return False
        return True

    def reason(self) -> str:
        """Return a setting that changed, in words."""
        look, was = next(each for each in self.looks if not each[0].alike(each[0].get(), each[1]))
        return change(look.name, was, look.get())
