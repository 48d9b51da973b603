"""Decorators for tests of quantized operators, which undertow does not have: the tests are skipped with a reason."""

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
    """Skip a test that needs TorchDynamo."""
    return unittest.skip("dynamo doesn't support: undertow has no bytecode compiler")(fn)


def skipIfNoInductorSupport(fn: Any) -> Any:
    """Skip a test that needs TorchInductor."""
    return unittest.skip("inductor doesn't support: undertow has no code generator")(fn)


@contextlib.contextmanager
def override_quantized_engine(qengine: str) -> Iterator[None]:
    """Return a block without effect: there are no libraries for quantized operators."""
    yield


class QuantizationTestCase(TestCase):
    """The base class of tests of quantized models."""


class QuantizationLiteTestCase(QuantizationTestCase):
    """The base class of tests of quantized models on phones."""
