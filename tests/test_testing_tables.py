"""The tables that tests written for PyTorch run over: operators, layers and optimizers, each row of which works here."""

from __future__ import annotations

import itertools
import unittest
import warnings
from typing import Any

import hypothesis
import pytest

import undertow
from tests.operator_tables import operators, reference_operators
from tests.operator_tables.autocast_lists import AutocastCPUTestLists, TestAutocast
from tests.operator_tables.gradients import TestGradients
from tests.operator_tables.op_info import OpInfo, SampleInput
from tests.operator_tables.subclasses import WrapperTensor, subclass_db
from undertow.testing._internal import hypothesis_utils as strategies
from undertow.testing._internal.common_device_type import (
    DeviceTypeTestBase,
    OpDTypes,
    instantiate_device_type_tests,
    ops,
    skip,
    skipOps,
    xfail,
)
from undertow.testing._internal.common_modules import module_db, modules
from undertow.testing._internal.common_nn import (
    CriterionTest,
    NewModuleTest,
    NNTestCase,
    criterion_tests,
    get_new_module_tests,
    module_tests,
)
from undertow.testing._internal.common_optimizers import optim_db, optims
from undertow.testing._internal.common_utils import TestCase
from undertow.testing._internal.opinfo.core import DecorateInfo


def outcome(case: Any) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_every_operator_takes_its_samples_in_every_dtype() -> None:
    refused = []
    for op in operators():
        for dtype in op.supported_dtypes("cpu") - {undertow.int8, undertow.int16, undertow.int32, undertow.float64}:
            samples = op.sample_inputs("cpu", dtype)
            for sample in samples if dtype is undertow.float32 else itertools.islice(samples, 1):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        op(sample.input, *sample.args, **sample.kwargs)
                except Exception as error:
                    refused.append(f"{op.full_name} {dtype}: {error}")
    assert not refused, "\n".join(refused)
    assert len({op.full_name for op in operators()}) == len(operators()) > 650


def test_tests_over_operators() -> None:
    chosen = [op for op in operators() if op.name in ("exp", "mul", "cat", "linalg.cholesky", "cumsum")]
    scope: dict[str, Any] = {}

    class TestOperators(TestGradients):
        @skipOps([skip("exp"), xfail("cumsum")])
        @ops(chosen, dtypes=OpDTypes.supported_backward, allowed_dtypes=(undertow.float64,))
        def test_gradient(self, device: str, dtype: Any, op: OpInfo) -> None:
            self._grad_test_helper(device, dtype, op, op.get_op(), check_forward_ad=True)
            if op.name == "cumsum":
                raise ValueError

        @ops(chosen, dtypes=OpDTypes.none)
        def test_without_dtype(self, device: str, op: OpInfo) -> None:
            self.assertTrue(op.sample_inputs_func)

    instantiate_device_type_tests(TestOperators, scope)
    assert list(scope) == ["TestOperatorsCPU"]
    names = [name for name in dir(scope["TestOperatorsCPU"]) if name.startswith(("test_g", "test_w"))]
    assert "test_gradient_linalg_cholesky_cpu_float64" in names and "test_without_dtype_mul_cpu" in names
    found = outcome(scope["TestOperatorsCPU"])
    assert (len(names), found.errors, found.failures) == (10, [], [])
    assert found.testsRun in (9, 10)  # Python 3.12.1 does not count the skipped one
    assert [case.id().rsplit(".")[-1] for case, _ in found.skipped] == ["test_gradient_exp_cpu_float64"]
    assert [case.id().rsplit(".")[-1] for case, _ in found.expectedFailures] == ["test_gradient_cumsum_cpu_float64"]


def test_an_error_names_the_sample() -> None:
    scope: dict[str, Any] = {}

    class TestWrong(TestCase):
        @ops([op for op in operators() if op.name == "flip"], allowed_dtypes=(undertow.float32,))
        def test_it(self, device: str, dtype: Any, op: OpInfo) -> None:
            for number, _ in enumerate(op.sample_inputs(device, dtype)):
                self.assertEqual(number, 0)

    instantiate_device_type_tests(TestWrong, scope)
    ((_, text),) = outcome(scope["TestWrongCPU"]).failures
    assert "Caused by sample input at index 1: SampleInput(input=Tensor[size=(2, 3)" in text


def test_references_take_the_samples_of_their_operators() -> None:
    refs: Any = reference_operators()
    assert len(refs) > 340
    for op in refs:
        dtype = undertow.float32 if undertow.float32 in op.dtypes else next(iter(op.dtypes))
        sample = next(iter(op.sample_inputs("cpu", dtype)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            op(sample.input, *sample.args, **sample.kwargs)
        assert op.name.startswith("_refs.") and op.torch_opinfo.name == op.torch_opinfo_name


def test_decorators_of_operators_and_samples() -> None:
    info = DecorateInfo(unittest.skip("no"), "TestA", "test_b", dtypes=(undertow.float32,))
    assert info.is_active("TestA", "test_b", "cpu", undertow.float32, {})
    assert not info.is_active("TestA", "test_b", "cpu", undertow.float64, {})
    sample = SampleInput(undertow.ones(2), 3, flag=undertow.float32)
    changed = sample.transform(lambda value: value + 1 if isinstance(value, undertow.Tensor) else value)
    assert changed.input.tolist() == [2.0, 2.0] and changed.args == (3,) and sample.numpy().input.tolist() == [1.0, 1.0]
    assert not SampleInput(undertow.ones(2, 3)).noncontiguous().input.is_contiguous()


def test_every_layer_takes_its_inputs() -> None:
    scope: dict[str, Any] = {}

    class TestLayers(TestCase):
        @modules(module_db, allowed_dtypes=(undertow.float64,))
        def test_forward(self, device: str, dtype: Any, module_info: Any, training: bool) -> None:
            options = {"device": device, "dtype": dtype, "requires_grad": False, "training": training}
            for given in module_info.module_inputs_func(module_info, **options):
                layer = module_info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = layer.to(dtype).train(training)(*given.forward_input.args)
                if given.reference_fn is not None:
                    self.assertEqual(result, given.reference_fn(layer, *given.forward_input.args))

    instantiate_device_type_tests(TestLayers, scope)
    assert hasattr(scope["TestLayersCPU"], "test_forward_nn_BatchNorm1d_eval_mode_cpu_float64")
    found = outcome(scope["TestLayersCPU"])
    assert found.testsRun > 110 and not found.errors + found.failures, found.errors + found.failures


def test_every_optimizer_takes_its_options_and_refuses_what_it_should() -> None:
    scope: dict[str, Any] = {}

    class TestOptimizers(TestCase):
        @optims(optim_db)
        def test_options(self, device: str, dtype: Any, optim_info: Any) -> None:
            for given in optim_info.optim_inputs_func(device=device):
                weight = undertow.nn.Parameter(undertow.ones(2, 3, dtype=dtype))
                optimizer = optim_info.optim_cls([weight], **given.kwargs)

                def loss(weight: Any = weight, optimizer: Any = optimizer) -> Any:
                    optimizer.zero_grad()
                    value = (weight * weight).sum()
                    value.backward()
                    if optim_info.only_supports_sparse_grads:
                        weight.grad = weight.grad.to_sparse()
                    return value

                before = loss().item()
                optimizer.step(loss) if optim_info.step_requires_closure else optimizer.step()
                self.assertNotEqual(before, loss().item())

        @optims(optim_db)
        def test_errors(self, device: str, dtype: Any, optim_info: Any) -> None:
            for each in optim_info.optim_error_inputs_func(device, dtype):
                given = each.optimizer_error_input
                warned = issubclass(each.error_type, Warning)
                expected = self.assertWarnsRegex if warned else self.assertRaisesRegex
                with expected(each.error_type, each.error_regex):
                    optim_info.optim_cls(given.params, **given.kwargs)

    instantiate_device_type_tests(TestOptimizers, scope)
    found = outcome(scope["TestOptimizersCPU"])
    assert found.testsRun == 2 * len(optim_db) and not found.errors + found.failures, found.errors + found.failures


@pytest.mark.parametrize("wanted", ["Linear", "ReLU", "LayerNorm", "NLLLoss", "MarginRankingLoss"])
def test_rows_about_layers_become_tests(wanted: str) -> None:
    class TestLayer(NNTestCase):
        def test_jacobian(self) -> None:
            x = undertow.randn(2, 3, dtype=undertow.float64, requires_grad=True)
            self.check_jacobian(undertow.nn.Linear(3, 2).double(), x)

    for row in [*module_tests, *get_new_module_tests(), *criterion_tests]:
        options = dict(row)
        name = options.pop("module_name")
        if name == wanted:
            made: Any = (CriterionTest if row in criterion_tests else NewModuleTest)(
                getattr(undertow.nn, name), **options
            )
            setattr(TestLayer, made.get_name(), lambda self, made=made: made(self))
    found = outcome(TestLayer)
    assert found.testsRun > 1 and not found.errors + found.failures, found.errors + found.failures


def test_wrong_layers_are_found() -> None:
    class Wrong(undertow.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 3

    class Layer(undertow.nn.Module):
        def forward(self, x: Any) -> Any:
            return Wrong.apply(x)

    with pytest.raises(AssertionError, match="not less than or equal to"):
        NNTestCase().check_jacobian(Layer(), undertow.ones(2, dtype=undertow.float64, requires_grad=True))


def test_operators_can_be_chosen_and_replaced_by_a_base() -> None:
    op = next(op for op in operators() if op.name == "exp")
    base: Any = type("Base", (DeviceTypeTestBase,), {"op_allowlist": {"mul"}, "op_overrides": {"exp": "other"}})
    assert base._apply_op_allowlist([op]) == [] and base._apply_op_overrides([op]) == ["other"]


def test_lists_of_functions_under_autocast() -> None:
    class TestLists(TestAutocast):
        def test_low_precision(self) -> None:
            for row in AutocastCPUTestLists("cpu").torch_16:
                name, args, options = self.args_maybe_kwargs(row)
                self._run_autocast_outofplace(name, args, undertow.bfloat16, "cpu", add_kwargs=options)

        def test_full_precision(self) -> None:
            for row in AutocastCPUTestLists("cpu").nn_fp32:
                self._run_autocast_outofplace(row[0], row[1], undertow.float32, "cpu", module=undertow._C._nn)

    found = outcome(TestLists)
    assert found.testsRun == 2 and not found.errors + found.failures, found.errors + found.failures


def test_subclasses_to_try_functions_with() -> None:
    for cls, info in subclass_db.items():
        made = info.create_fn((2, 3))
        assert type(made) is cls and (made.shape == (2, 3) or info.name == "diag_tensor_below")
        assert (type(made * 2) is cls) >= info.closed_under_ops


def test_wrappers_around_tensors() -> None:
    class Inside(WrapperTensor):
        elem: Any

        @classmethod
        def get_wrapper_properties(cls, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
            return args[0], {"requires_grad": False}

        def __init__(self, elem: Any) -> None:
            self.elem = elem

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return cls(func(*[each.elem if isinstance(each, cls) else each for each in args], **(kwargs or {})))

    found: Any = Inside(undertow.ones(2, 3)) * 2 + 1
    assert type(found) is Inside and found.shape == (2, 3) and found.elem.tolist() == [[3.0] * 3] * 2
    with pytest.raises(NotImplementedError, match="get_wrapper_properties"):
        WrapperTensor(undertow.ones(1))


def test_arrays_that_hypothesis_draws() -> None:
    sizes: list[int] = []

    @hypothesis.settings(max_examples=10, deadline=None, database=None)
    @hypothesis.given(strategies.tensor(strategies.array_shapes(1, 2, 1, 4), qparams=strategies.qparams()))
    def draw(drawn: Any) -> None:
        array, (step, zero, dtype) = drawn
        sizes.append(array.size)
        assert step > 0 and (zero == 0 or dtype is not undertow.qint32)
        assert strategies.assume_not_overflowing(array, (step, zero, dtype))

    draw()
    assert len(sizes) >= 10 and max(sizes) <= 16


def test_every_layer_refuses_what_its_row_says() -> None:
    refused = []
    for info in module_db:
        for error in (info.module_error_inputs_func or (lambda *a, **k: []))(
            info, "cpu", undertow.float32, False, True
        ):
            given = error.module_error_input
            with pytest.raises(error.error_type, match=error.error_regex):
                layer = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
                layer(*given.forward_input.args)
            refused.append(info.name)
    assert len(set(refused)) >= 18
