"""What a program says about compiling at all: stances, switches, and functions that are to stay as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import undertow as torch
from undertow import _dynamo


@pytest.fixture(autouse=True)
def stance_as_before() -> Iterator[None]:
    yield
    torch.compiler.set_stance("default")


class Step:
    """A compiled function. A call of this says whether it made a program."""

    def __init__(self) -> None:
        self.compiled = torch.compile(lambda x: x + 1)

    def __call__(self, size: int = 1) -> bool:
        before = self._programs()
        assert self.compiled(torch.ones(size)).tolist() == [2.0] * size
        return self._programs() > before

    def _programs(self) -> int:
        return sum(map(len, self.compiled.programs.values()))


def test_stances() -> None:
    step = Step()
    with torch.compiler.set_stance("force_eager"):
        assert not step()
        with torch.compiler.set_stance("eager_then_compile"):
            assert [step(), step(), step()] == [False, True, False]
    with torch.compiler.set_stance("eager_on_recompile"):
        assert not step(2)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert not step()
        with pytest.raises(RuntimeError, match="Detected recompile when"):
            step(3)

    @torch.compiler.set_stance("force_eager")
    def decorated() -> bool:
        return step(4)

    assert not decorated()
    assert step(5)
    torch.compiler.set_stance("force_eager")
    assert not step(4)


@pytest.mark.parametrize(
    ("stance", "error"),
    [
        (lambda: torch.compiler.set_stance("eager"), "invalid torch.compile stance 'eager'"),
        (lambda: torch.compiler.set_stance("force_eager", force_backend="eager"), "non-default stance cannot have"),
        (
            lambda: torch.compile(lambda x: torch.compiler.set_stance("force_eager"))(torch.ones(1)),
            "torch.compiler.set_st",
        ),
        (lambda: torch.compiler.disable(3), "fn must be callable"),
    ],
)
def test_wrong_stances(stance: Any, error: str) -> None:
    with pytest.raises((RuntimeError, AssertionError), match=error):
        stance()


def test_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step()
    monkeypatch.setattr(_dynamo.config, "disable", True)  # what TORCH_COMPILE_DISABLE=1 makes it
    assert not step()
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert torch.compile(stance_as_before) is stance_as_before


def test_what_is_disabled_does_all_that_it_does() -> None:
    noted: list[float] = []

    @torch.compiler.disable
    def note(x: Any) -> Any:
        noted.append(x.sum().item())
        return x * 2

    @torch.compile
    def step(x: Any) -> Any:
        return note(x) + 1

    assert [step(torch.full((1,), n)).item() for n in (1.0, 2.0, 3.0)] == [3.0, 5.0, 7.0]
    assert noted == [1.0, 2.0, 3.0]
    assert torch.compiler.disable(step) is step.function
    assert torch.compiler.disable(recursive=False)(note) is note
