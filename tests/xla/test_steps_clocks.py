"""Steps that take the time: what is only logged or returned is measured around the program."""

from __future__ import annotations

import time
from typing import Any

import pytest

import undertow as torch
from undertow import nn, optim
from undertow._src.compile import CompileError


class Training:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(3, 2)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1)
        self.times: list[Any] = []
        self.total, self.began = 0.0, 0.0

    def train(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(x).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def logged(self, x: Any) -> Any:
        start = time.perf_counter()
        loss = self.train(x)
        end = time.perf_counter()
        self.times.append((start, end, loss.item()))
        return loss

    def in_one_line(self, x: Any) -> Any:
        start = time.perf_counter()
        loss = self.train(x)
        self.times.append((start, time.perf_counter(), loss.item()))
        return loss

    def in_phases(self, x: Any) -> Any:
        start = time.perf_counter()
        loss = self.model(x).pow(2).mean()
        middle = time.perf_counter()
        loss.backward()
        assert start <= middle
        self.times.append((start, time.perf_counter(), loss.item()))
        return loss

    def kept(self, x: Any) -> Any:
        self.began = time.perf_counter()
        loss = self.train(x)
        self.times.append((self.began, time.perf_counter(), loss.item()))
        return loss

    def counted(self, x: Any) -> Any:
        start = time.perf_counter()
        loss = self.train(x)
        self.total += time.perf_counter() - start
        self.times.append((start, start + self.total, loss.item()))
        self.total = 0.0
        return loss

    def in_variables(self, x: Any) -> Any:
        start = time.time()
        loss = self.train(x)
        took = (time.time() - start) * 1000
        if len(x) > 3:
            kind = "slow" if took > 1e9 else "fast"
            self.times.append((start, start + took / 1000, loss.item() if kind == "fast" else 0.0))
        return loss

    def returned(self, x: Any) -> Any:
        start = time.perf_counter()
        loss = self.train(x)
        return {"loss": loss, "times": (start, time.perf_counter(), loss.item())}


WAYS = ["logged", "in_one_line", "in_phases", "kept", "counted", "in_variables", "returned"]


@pytest.mark.parametrize("way", WAYS)
def test_the_time_of_a_step(way: str) -> None:
    eager, compiled = Training(), Training()
    step = torch.compile(getattr(compiled, way))
    for turn in range(3):
        x = torch.full((4, 3), turn + 1.0)
        expected = getattr(eager, way)(x)
        clock = time.time if way == "in_variables" else time.perf_counter
        before = clock()
        result = step(x)
        after = clock()
        start, end, loss = result["times"] if way == "returned" else compiled.times[-1]
        assert before <= start <= end <= after
        expected = expected["loss"] if way == "returned" else expected
        assert abs(loss - expected.item()) < 1e-5
    torch.testing.assert_close(list(compiled.model.parameters()), list(eager.model.parameters()))
    assert len(torch.compile.explain(step).data[0]["programs"]) <= 2


def test_a_step_that_goes_on_with_the_time_is_refused() -> None:
    training = Training()
    with pytest.raises(CompileError, match=r"time\.time.*read the clock outside of the step"):
        torch.compile(lambda x: training.train(x) * time.time())(torch.ones(4, 3))

    def late(x: Any) -> Any:
        now = time.time()
        return training.train(x) * (now > 0)

    with pytest.raises(CompileError, match=r"time\.time.*read the clock outside of the step"):
        torch.compile(late)(torch.ones(4, 3))
