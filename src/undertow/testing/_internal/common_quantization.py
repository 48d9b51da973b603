"""Marks for tests of quantized operators, of which undertow has none: such tests are skipped, and say why."""

from __future__ import annotations

import contextlib
import functools
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from undertow.testing._internal.common_utils import TestCase

HAS_FX = True
HAS_TORCHVISION = False


def _without(engine: str, fn: Any) -> Any:
    """Skip a test, or all the tests of a class, that need a library for quantized operators."""
    return unittest.skip(f"Quantized operations require {engine}: undertow has no quantized operators")(fn)


skipIfNoFBGEMM: Callable[[Any], Any] = functools.partial(_without, "FBGEMM")
skipIfNoQNNPACK: Callable[[Any], Any] = functools.partial(_without, "QNNPACK")
skipIfNoONEDNN: Callable[[Any], Any] = functools.partial(_without, "ONEDNN")
skipIfNoONEDNNBF16: Callable[[Any], Any] = functools.partial(_without, "ONEDNN with bfloat16")
skipIfNoX86: Callable[[Any], Any] = functools.partial(_without, "x86 kernels")
withQNNPACKBackend: Callable[[Any], Any] = functools.partial(_without, "QNNPACK")


def skipIfNoDynamoSupport(fn: Any) -> Any:
    """Skip a test that needs a compiler of bytecode."""
    return unittest.skip("dynamo doesn't support: undertow has no compiler of bytecode")(fn)


def skipIfNoInductorSupport(fn: Any) -> Any:
    """Skip a test that needs a generator of code."""
    return unittest.skip("inductor doesn't support: undertow has no generator of code")(fn)


@contextlib.contextmanager
def override_quantized_engine(qengine: str) -> Iterator[None]:
    """Return a block in which quantized operators come from one library: there are none."""
    yield


class QuantizationTestCase(TestCase):
    """The base of tests of quantized models."""


class QuantizationLiteTestCase(QuantizationTestCase):
    """The base of tests of quantized models on phones."""
