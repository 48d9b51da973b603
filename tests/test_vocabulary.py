"""Every word of the vocabulary is spoken by the three namespaces that rules run with, and asked for by a rule."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import undertow
from undertow._src.arrays.jax import namespace as jax_xp
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.tensor import namespace as tensor_xp
from undertow._src.arrays.vocabulary import VOCABULARY


@pytest.mark.parametrize("xp", [numpy_xp, tensor_xp, jax_xp], ids=["numpy", "tensor", "jax"])
def test_every_word_is_there(xp: ModuleType) -> None:
    assert [word for word in VOCABULARY if not callable(getattr(xp, word, None))] == []


def test_every_word_is_asked_for() -> None:
    package = Path(undertow.__file__).parent
    folders = package / "_src/rules", package / "_src/ops"
    asking = "".join(path.read_text() for folder in folders for path in folder.glob("*.py"))
    asked = set(re.findall(r"\bxp\.(\w+)|namespace_of\(.*?\)\.(\w+)", asking))
    assert set(VOCABULARY) - {word for pair in asked for word in pair} == set()
