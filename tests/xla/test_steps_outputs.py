"""Arguments of classes that are dicts and more, as libraries hand them around: each call brings another one."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn, optim


@dataclasses.dataclass
class ModelOutput(OrderedDict[str, Any]):
    """A dict whose entries are attributes, too: set together."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __getitem__(self, key: Any) -> Any:
        return dict(self.items())[key] if isinstance(key, str) else tuple(self.values())[key]


class Aliased(dict[str, Any]):
    """A dict that has an entry as an attribute, and does not set the two together."""

    def __init__(self, **entries: Any) -> None:
        super().__init__(**entries)
        self.first = next(iter(entries.values()))
        self.count = len(entries)


class BatchEncoding(UserDict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None


BATCHES: dict[str, tuple[Any, Any]] = {
    "entries that are attributes": (lambda x: ModelOutput(logits=x), lambda batch: batch.logits),
    "the same by key": (lambda x: ModelOutput(loss=x.sum(), logits=x), lambda batch: batch["logits"] * batch[0]),
    "an attribute beside": (lambda x: Aliased(x=x, y=x * 2), lambda batch: batch.first * batch.count + batch["y"]),
    "UserDict": (lambda x: BatchEncoding({"x": x}), lambda batch: batch["x"] + batch.x),
    "UserDict by keys": (lambda x: BatchEncoding({"x": x, "y": x * 2}), lambda batch: sum(batch.values())),
}


@pytest.mark.parametrize("name", BATCHES)
def test_another_one_in_each_call_is_one_program(name: str) -> None:
    make, use = BATCHES[name]

    def build() -> Case:
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(batch: Any) -> Any:
            optimizer.zero_grad()
            loss = model(use(batch)).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return Case(step, model, args=lambda turn: (make(torch.randn(4, 3)),))

    agree(build, steps=4, programs=2)


def test_an_attribute_that_is_no_entry_counts() -> None:
    step = torch.compile(lambda batch: batch["x"] * batch.count)
    for count in (1, 2, 1, 3):
        batch = Aliased(x=torch.ones(2))
        batch.count = count
        assert step(batch).tolist() == [count] * 2
