"""Steps that show objects whose tensors they have just changed: printed, logged and formatted, they are up to date."""

from __future__ import annotations

import io
import logging
import pprint
import sys
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import undertow as torch
from tests.xla.twins import Case, agree

LOGGER = logging.Logger("shown")


class Meter:
    """A meter as people write it, with the text of its last value."""

    def __init__(self) -> None:
        self.value = torch.zeros(())

    def __repr__(self) -> str:
        return f"{self.value:.2f}"

    def __iter__(self) -> Any:
        return iter([self.value.item()])

    def __float__(self) -> float:
        return self.value.item()


@dataclass
class Fields:
    """A class whose text Python writes."""

    value: Any


OBJECTS: dict[str, Callable[[], Any]] = {
    "an object": Meter, "a dataclass": lambda: Fields(0), "a namespace": lambda: SimpleNamespace(value=0),
}  # fmt: skip
PLACED: dict[str, Callable[[Any], Any]] = {
    "alone": lambda each: each, "deep inside": lambda each: ([{"a": [(each,)]}],),
    "in a dict of the library": lambda each: UserDict(a=each),
}  # fmt: skip
# fmt: off
SHOWN: dict[str, Callable[[Any], Any]] = {
    "print": lambda it: print(it),
    "an f-string": lambda it: print(f"now {it}"),
    "percent": lambda it: print("%s" % (it,)),  # noqa: UP031
    "format": lambda it: print("{0}".format(it)),  # noqa: UP030, UP032
    "str": lambda it: print(str(it)),
    "a logger": lambda it: LOGGER.warning("%s", it),
    "pprint": lambda it: pprint.pprint(it),
}
# fmt: on


def case_of(changed: Any, use: Callable[[], Any]) -> Case:
    """Return a step that sets the value of an object and then uses it, with what that writes."""
    texts = io.StringIO()
    LOGGER.handlers[:] = [logging.StreamHandler(texts)]

    def step(x: Any) -> None:
        changed.value = x.sum()
        use()

    def args(turn: int) -> tuple[Any, ...]:
        sys.stdout = texts
        return (torch.full((2,), float(turn)),)

    return Case(step, args=args, look=texts.getvalue)


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", sys.stdout)


@pytest.mark.parametrize("way", SHOWN)
@pytest.mark.parametrize("place", PLACED)
@pytest.mark.parametrize("what", OBJECTS)
def test_the_text_of_an_object_is_up_to_date(what: str, place: str, way: str) -> None:
    def build() -> Case:
        changed, show = OBJECTS[what](), SHOWN[way]
        shown = PLACED[place](changed)
        return case_of(changed, lambda: show(shown))

    agree(build, programs=2)


class Adapter(logging.LoggerAdapter):  # type: ignore[type-arg]
    """Put a meter in front of each message."""

    def process(self, msg: Any, kwargs: Any) -> Any:
        assert self.extra is not None
        return f"{self.extra['meter']} {msg}", kwargs


class Stamped:
    """A file that writes a meter in front of each text."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def write(self, text: str) -> None:
        sys.stdout.write(f"{self.meter}: {text}")


def stored_in_an_array(meter: Meter) -> Callable[[], Any]:
    row = np.zeros(2)

    def store() -> None:
        row[0] = meter
        print(row)

    return store


def logged_by_an_adapter(meter: Meter) -> Callable[[], Any]:
    logger = Adapter(LOGGER, {"meter": meter})
    return lambda: logger.warning("now")


def printed_to_a_file(meter: Meter) -> Callable[[], Any]:
    file: Any = Stamped(meter)
    return lambda: print("now", file=file)


@pytest.mark.parametrize("use", [stored_in_an_array, logged_by_an_adapter, printed_to_a_file])
def test_what_python_asks_an_object_for_is_up_to_date(use: Callable[[Meter], Callable[[], Any]]) -> None:
    def build() -> Case:
        meter = Meter()
        return case_of(meter, use(meter))

    agree(build, programs=2)


@pytest.mark.parametrize("kind", [list, set])
def test_what_a_container_takes_from_an_object_is_up_to_date(kind: Any) -> None:
    def build() -> Case:
        meter, found = Meter(), kind()

        def step(x: Any) -> None:
            meter.value = x.sum()
            if kind is list:
                found.extend(meter)
            else:
                found.update(meter)

        return Case(step, args=lambda turn: (torch.full((2,), float(turn)),), look=lambda: sorted(found))

    agree(build, programs=2)
