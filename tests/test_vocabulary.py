"""Every word of the vocabulary is spoken by both namespaces that rules run with today."""

from __future__ import annotations

from types import ModuleType

import pytest

from undertow.xp import numpy as numpy_xp
from undertow.xp import tensor as tensor_xp
from undertow.xp.vocabulary import VOCABULARY


@pytest.mark.parametrize("xp", [numpy_xp, tensor_xp], ids=["numpy", "tensor"])
def test_every_word_is_there(xp: ModuleType) -> None:
    assert [word for word in VOCABULARY if not callable(getattr(xp, word, None))] == []
