"""The same answers on CPUs with fewer instructions, where torch and NumPy choose other kernels, which round otherwise.

Here some tests that notice run once more as on such a CPU. Run any others by hand with the variables of `environment`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatched  # type: ignore[import-not-found]

FOLDER = Path(__file__).parent
TESTS = {
    "avx2": ["test_amp.py", "test_large_inputs.py", "test_functions.py", "-k",
             "amp or large or (conv and not grad and (float32 or float16)) or (matmul and float)"],
    "default": ["test_tensors_ranges.py", "test_random_stream.py", "-k", "ranges or draws"],
}  # fmt: skip


def environment(capability: str) -> dict[str, str]:
    """Variables by which torch, its libraries and NumPy take the CPU for one with AVX2 at most, or with SSE alone."""
    newer = [each for each in dispatched if capability == "default" or "512" in each or each == "X86_V4"]
    return {
        "ATEN_CPU_CAPABILITY": capability,
        "ONEDNN_MAX_CPU_ISA": {"avx2": "AVX2", "default": "SSE41"}[capability],
        "MKL_ENABLE_INSTRUCTIONS": {"avx2": "AVX2", "default": "SSE4_2"}[capability],
        "OPENBLAS_CORETYPE": {"avx2": "Haswell", "default": "Nehalem"}[capability],
        "NPY_DISABLE_CPU_FEATURES": " ".join(newer),
    }


@pytest.mark.parametrize("capability", TESTS)
def test_the_same_answers(capability: str) -> None:
    files = [str(FOLDER / each) if each.endswith(".py") else each for each in TESTS[capability]]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=short", *files],
        cwd=FOLDER.parents[1], env={**os.environ, **environment(capability)}, capture_output=True, text=True,
    )  # fmt: skip
    assert not done.returncode, done.stdout[-4000:]
