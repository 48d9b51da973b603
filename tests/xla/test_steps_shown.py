"""Steps that show objects whose tensors they have just changed: printed, logged and formatted, they are up to date."""

from __future__ import annotations

import contextlib
import io
import logging
import pprint
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree


class Meter:
    """A meter as people write it, with the text of its last value."""

    def __init__(self) -> None:
        self.value = torch.zeros(())

    def __repr__(self) -> str:
        return f"{self.value:.2f}"


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
LOGGER = logging.Logger("shown")


@pytest.mark.parametrize("way", SHOWN)
@pytest.mark.parametrize("place", PLACED)
@pytest.mark.parametrize("what", OBJECTS)
def test_the_text_of_an_object_is_up_to_date(what: str, place: str, way: str) -> None:
    def build() -> Case:
        changed, show, texts = OBJECTS[what](), SHOWN[way], io.StringIO()
        shown = PLACED[place](changed)
        LOGGER.handlers[:] = [logging.StreamHandler(texts)]

        def step(x: Any) -> None:
            changed.value = x.sum()
            show(shown)

        def look() -> str:
            text = texts.getvalue()
            texts.truncate(texts.seek(0))
            return text

        def between(turn: int) -> None:
            redirected.enter_context(contextlib.redirect_stdout(texts))

        return Case(step, args=lambda turn: (torch.full((2,), float(turn)),), look=look, between=between)

    with contextlib.ExitStack() as redirected:
        agree(build, programs=2)
