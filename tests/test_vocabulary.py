"""Every word of the vocabulary is spoken by the three namespaces that rules run with."""

from __future__ import annotations

from types import ModuleType

import pytest

from undertow.xp import jax as jax_xp
from undertow.xp import numpy as numpy_xp
from undertow.xp import tensor as tensor_xp
from undertow.xp.vocabulary import VOCABULARY


@pytest.mark.parametrize("xp", [numpy_xp, tensor_xp, jax_xp], ids=["numpy", "tensor", "jax"])
def test_every_word_is_there(xp: ModuleType) -> None:
    assert [word for word in VOCABULARY if not callable(getattr(xp, word, None))] == []
