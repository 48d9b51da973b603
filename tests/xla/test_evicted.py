"""Programs that are kept: those that were used last, and no more than so many."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import undertow as torch
from undertow._src.compile import compiled as limits


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEPT", 4)
    monkeypatch.setattr(limits, "MOST", 3)
    monkeypatch.setattr(limits, "MANY", 1000)


def programs_of(step: Any) -> list[Any]:
    return [program for programs in step.programs.values() for program in programs]


def test_shapes_that_change_at_every_call() -> None:
    weight = torch.nn.Parameter(torch.ones(1))

    @torch.compile
    def step(x: Any, factor: float) -> Any:
        return (weight * x * factor).sum()

    made: list[Any] = []
    for size in (1, 2, 3, 4):
        step(torch.ones(size), 1.0)
        made += [weakref.ref(each) for each in programs_of(step) if all(each is not ref() for ref in made)]
    step(torch.ones(1), 1.0)  # which makes it the one that was used last
    for size in (5, 6):
        assert step(torch.ones(size), 1.0).item() == size
    gc.collect()
    assert [ref() is None for ref in made] == [False, True, True, False]
    assert len(programs_of(step)) == len(step.programs) == len(step._numbers) == 4
    facts = torch.compile.explain(step).data[0]
    assert facts["evicted"] == 2 and "2 programs evicted" in str(torch.compile.explain(step))
    assert step(torch.ones(2), 3.0).item() == 6  # compiled again


def test_state_that_changes_at_every_call() -> None:
    mode = {"name": ""}

    @torch.compile
    def step(x: Any) -> Any:
        return x * len(mode["name"])

    for name in ("a", "bb", "ccc", "a", "dddd", "a"):
        mode["name"] = name
        assert step(torch.ones(1)).item() == len(name)
    facts = torch.compile.explain(step).data[0]
    assert len(facts["programs"]) == 3 and facts["evicted"] == 1 and len(facts["recompiles"]) == 3


def test_what_is_refused_does_not_pile_up() -> None:
    step = torch.compile(lambda x: x.unique(), fallback="eager")
    for size in range(1, 8):
        with pytest.warns() if size == 1 else pytest.MonkeyPatch.context():
            assert step(torch.ones(size)).tolist() == [1.0]
    assert len(step.eager) == 4 and not step.programs
