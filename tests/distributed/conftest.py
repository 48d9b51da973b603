"""The pools end with the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed import pools


@pytest.fixture(scope="package", autouse=True)
def worlds() -> Iterator[None]:
    yield
    pools.close_all()
