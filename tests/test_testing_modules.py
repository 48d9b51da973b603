"""Modules of PyTorch's test tools that tests import: custom operators, classes of tensors, marks, scripts."""

from __future__ import annotations

import unittest
from typing import Any

import pytest

import undertow
from tests.operator_tables.custom_operators import custom_op_db
from tests.operator_tables.higher_order import hop_db
from tests.operator_tables.subclasses import subclass_db
from tests.operator_tables.wrapper_tensors import ConstantExtraMetadataTensor, CustomTensorPlainOut, WrapperSubclass
from undertow._src.base.tree import leaves
from undertow.autograd import grad, gradcheck, gradgradcheck
from undertow.testing._internal import common_distributed, common_nn, common_quantization
from undertow.testing._internal.common_utils import TestCase


def wants(value: Any) -> bool:
    return isinstance(value, undertow.Tensor) and value.requires_grad


@pytest.mark.parametrize("op", custom_op_db, ids=lambda op: op.name)
def test_custom_operators_and_their_gradients(op: Any) -> None:
    for dtype in op.dtypes - {undertow.float64}:
        for sample in op.sample_inputs("cpu", dtype):
            op(sample.input, *sample.args, **sample.kwargs)
    for sample in op.sample_inputs("cpu", undertow.float64, requires_grad=op.supports_autograd):
        given = [value for value in leaves((sample.input, sample.args)) if wants(value)]

        def function(*values: Any, sample: Any = sample) -> Any:
            rest = iter(values)

            def changed(value: Any) -> Any:
                if isinstance(value, list):
                    return [changed(each) for each in value]
                return next(rest) if wants(value) else value

            out = op(changed(sample.input), *[changed(each) for each in sample.args], **sample.kwargs)
            return tuple(each for each in leaves(out) if wants(each))

        assert bool(given) == op.supports_autograd
        if given:
            assert gradcheck(function, given) and gradgradcheck(function, given)


def test_operators_that_take_functions() -> None:
    for op in hop_db:
        for sample in op.sample_inputs("cpu", undertow.float64, requires_grad=op.supports_autograd):
            (first, *_) = leaves(op(sample.input, *sample.args))
            assert not op.supports_autograd or grad(first.sum(), sample.input)[0].shape == sample.input.shape


def test_classes_of_tensors() -> None:
    for cls, info in subclass_db.items():
        made = info.create_fn((3,))
        assert type(made) is cls and (type(made + 1) is cls) >= info.closed_under_ops
    for held in (WrapperSubclass, ConstantExtraMetadataTensor):
        tensor = held(undertow.arange(3.0)).requires_grad_()
        (tensor * tensor).sum().backward()
        assert type(tensor.grad) is held
        names, facts = tensor.__tensor_flatten__()
        parts = {name: getattr(tensor, name) for name in names}
        assert type(held.__tensor_unflatten__(parts, facts, tensor.shape, tensor.stride())) is held
    assert (CustomTensorPlainOut(undertow.ones(2), undertow.ones(2)) + 1).tolist() == [4.0, 4.0]


def test_marks_skip_and_say_why() -> None:
    class TestMarked(common_distributed.MultiProcessTestCase):
        def test_processes(self) -> None:
            raise AssertionError

    class TestAlone(common_quantization.QuantizationTestCase):
        @common_quantization.skipIfNoFBGEMM
        def test_quantized(self) -> None:
            raise AssertionError

        @common_distributed.requires_gloo()
        def test_groups(self) -> None:
            raise AssertionError

        def test_choices(self) -> None:
            seen: list[Any] = []
            table = {"a": [1, 2], "b": [3]}
            common_distributed.run_subtests(self, table, lambda a, b: seen.append((a, b)))
            self.assertEqual(seen, [(1, 3), (2, 3)])

    result = unittest.TestResult()
    for case in (TestMarked, TestAlone):
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert result.wasSuccessful() and result.testsRun == 4
    assert sorted(why.split(":")[0] for _, why in result.skipped) == [
        "Quantized operations require FBGEMM",
        "undertow starts no processes for tests",
        "undertow starts no processes for tests",
    ]


def test_references_of_losses_over_sequences() -> None:
    undertow.manual_seed(0)
    logits = undertow.randn(6, 2, 4, dtype=undertow.float64).log_softmax(2)
    lengths, sizes = undertow.tensor([6, 5]), undertow.tensor([3, 2])
    for targets in (undertow.tensor([[1, 2, 3], [2, 2, 0]]), undertow.tensor([1, 2, 3, 2, 2])):
        for reduction in ("none", "mean", "sum"):
            expected = undertow.nn.functional.ctc_loss(logits, targets, lengths, sizes, reduction=reduction)
            found = common_nn.ctcloss_reference(logits, targets, lengths, sizes, reduction=reduction)
            undertow.testing.assert_close(found, expected)
    layer = undertow.nn.Linear(2, 4)
    assert common_nn.single_batch_reference_fn(undertow.ones(2), None, layer).shape == (4,)
    common_nn._test_bfloat16_ops(TestCase(), undertow.nn.Hardswish(), "cpu", inp_dims=(5, 7))
