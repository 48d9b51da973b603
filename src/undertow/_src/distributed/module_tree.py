"""How calls of `fully_shard` are nested, found in the first forward. Programs do not guard it: it does not change."""

from __future__ import annotations

from typing import Any


class Tree:
    """The place of one state among the nested ones."""

    def __init__(self, state: Any) -> None:
        self.is_known = False
        self.root = state  # the state whose forward runs outermost
        self.states = [state]  # of the root: the root itself and the states inside
