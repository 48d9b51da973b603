"""Words of memory that guards are compared by: what they notice, and that nothing else runs while they are read."""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import undertow as torch
from undertow._src.compile.guards.memory_words import AVAILABLE, Words

CHANGES: dict[str, Callable[[Any], Any]] = {
    "an entry": lambda table: dict.__setitem__(table, "a", object()),
    "a new entry": lambda table: table.update(c=1),
    "an entry less": lambda table: dict.pop(table, "a"),
    "all": lambda table: table.clear(),
    "the order": lambda table: table.update(a=table.pop("a")),
    "the order, without an entry": lambda table: table.move_to_end("a"),
}


def watched(add: Callable[[Words], Any]) -> Words:
    words = Words()
    add(words)
    words.prepare()
    return words


def test_words_are_read_on_the_pythons_they_are_made_for() -> None:
    assert AVAILABLE is (sys.version_info < (3, 13))


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("change", CHANGES)
def test_the_version_of_a_dict(kind: type, change: str) -> None:
    table = kind(a=1, b=2)
    words = watched((lambda words: words.version_of(table)) if AVAILABLE else (lambda words: None))
    assert words.unchanged()
    if AVAILABLE and (kind is OrderedDict or "without" not in change):
        CHANGES[change](table)
        assert not words.unchanged()


def test_no_other_thread_runs_while_words_are_read() -> None:
    """Else a list that another thread empties could be freed between the pointer to its items and the items."""
    items = [object() for _ in range(5000)]
    words = watched((lambda words: words.items_of(items, items)) if AVAILABLE else (lambda words: None))
    turns, stop = [0], threading.Event()

    def run() -> None:
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        sys.setswitchinterval(1000)  # threads take turns only where C code lets them
        before = turns[0]
        held = [words.unchanged() for _ in range(200)]
        assert all(held) and turns[0] == before
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


class Name(str):
    pass


def test_options_of_an_optimizer_by_keys_that_are_no_plain_strings() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    group: dict[Any, Any] = optimizer.param_groups[0]
    group.update({5: object(), Name("name"): object()})

    @torch.compile
    def step() -> None:
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    torch.testing.assert_close(weight.detach(), torch.full((2,), 0.7))
