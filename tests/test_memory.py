"""Freed arrays stay with the process, so that the next one needs no new pages."""

from __future__ import annotations

import platform
import resource

import numpy as np

from undertow._src.arrays.memory import keep_freed_memory


def test_temporaries_cost_no_page_faults() -> None:
    asked = keep_freed_memory()
    assert asked == (platform.libc_ver()[0] == "glibc")
    if not asked:
        return
    x = np.ones(1 << 18, np.float32)

    def faults(rounds: int) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(rounds):
            x + x, x * x
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults(5)
    assert faults(50) < 50 * 256  # each temporary has 256 pages
