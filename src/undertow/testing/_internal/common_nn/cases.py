"""Classes that test one layer or loss with one input: `NNTestCase`, and tests made from rows of a table."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Sequence
from typing import Any

from undertow import nn
from undertow._src.base.modes import no_grad
from undertow._src.ops.join import cat
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import zeros
from undertow._src.types.dtypes import double, get_default_dtype
from undertow.autograd import gradcheck, gradgradcheck
from undertow.random import randn, randperm
from undertow.serialization import load, save
from undertow.testing._internal.common_utils import TestCase, freeze_rng_state, noncontiguous_like
from undertow.utils._pytree import tree_leaves, tree_map

PRECISION = 1e-5
_TensorOrTensors = TensorCore | Sequence[TensorCore]


def get_reduction(m: Any) -> str:
    """Return the reduction of a loss; "mean" by default."""
    return getattr(m, "reduction", None) or "mean"


def get_weight(m: Any) -> Any:
    """Return the class weights of a loss."""
    return getattr(m, "weight", None)


class NNTestCase(TestCase):
    """Compares the derivatives of layers with finite differences. Subclasses may override how a layer runs."""

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of a layer for `_forward(module, input)`, with the same random numbers each time."""
        module, given = args[0], args[1]
        with freeze_rng_state():
            return module(*given, **kwargs) if isinstance(given, tuple) else module(given, **kwargs)

    def _get_parameters(self, module: Any) -> tuple[list[Any], list[Any]]:
        """Return the parameters of a layer and their gradients; missing gradients are set to zeros."""
        params = list(module.parameters())
        for param in params:
            if param.grad is None:
                param.grad = zeros(param.shape, dtype=param.dtype)
        return params, [param.grad for param in params]

    def _zero_grad_parameters(self, module: Any) -> None:
        for param in module.parameters():
            if param.grad is not None:
                with no_grad():
                    param.grad.zero_()
                param.grad.detach_()

    def _backward(self, module: Any, input: Any, output: Any, grad_output: Any, create_graph: bool = False) -> Any:
        """Run a backward pass and return the gradients of the inputs."""
        output.backward(grad_output, retain_graph=True, create_graph=create_graph)
        grads = [each.grad for each in tree_leaves(input) if isinstance(each, TensorCore)]
        return grads[0] if isinstance(input, TensorCore) else tuple(grads)

    def _zero_grad_input(self, input: Any) -> None:
        for each in tree_leaves(input):
            if isinstance(each, TensorCore) and each.requires_grad and each.grad is not None:
                with no_grad():
                    each.grad.zero_()
                each.grad.detach_()

    def _jacobian(self, input: Any, num_out: int) -> Any:
        """Return zeros for a Jacobian, one row per element of the inputs."""
        if isinstance(input, TensorCore):
            return zeros(input.nelement(), num_out, dtype=input.dtype)
        return type(input)(self._jacobian(each, num_out) for each in input)

    def _flatten_tensors(self, x: Any) -> Any:
        if isinstance(x, TensorCore):
            return x.to_dense().view(-1) if x.is_sparse else x.reshape(-1)
        return tuple(self._flatten_tensors(each) for each in x)

    def _wanted(self, module: Any, input: Any, jacobian_input: bool, jacobian_parameters: bool) -> list[Any]:
        found = [each for each in tree_leaves(input) if isinstance(each, TensorCore)] if jacobian_input else []
        return found + (list(module.parameters()) if jacobian_parameters else [])

    def _analytical_jacobian(
        self, module: Any, input: Any, jacobian_input: bool = True, jacobian_parameters: bool = True
    ) -> tuple[Any, ...]:
        """Return the Jacobians of the inputs, and of all parameters together, from backward passes."""
        output = self._forward(module, input)
        wanted = self._wanted(module, input, jacobian_input, jacobian_parameters)
        columns: list[list[Any]] = [[] for _ in wanted]
        for place in range(output.numel()):
            self._zero_grad_parameters(module)
            self._zero_grad_input(input)
            seed = zeros(output.numel(), dtype=output.dtype)
            seed[place] = 1
            self._backward(module, input, output, seed.view_as(output))
            for column, each in zip(columns, wanted, strict=True):
                column.append(
                    (zeros(each.shape, dtype=each.dtype) if each.grad is None else each.grad).reshape(-1).clone()
                )
        return self._in_parts([cat([c.unsqueeze(1) for c in column], 1) for column in columns], input, jacobian_input)

    def _numerical_jacobian(
        self, module: Any, input: Any, jacobian_input: bool = True, jacobian_parameters: bool = True
    ) -> tuple[Any, ...]:
        """Return the same Jacobians by finite differences."""
        eps, found = 1e-6, []
        for each in self._wanted(module, input, jacobian_input, jacobian_parameters):
            rows, flat = [], each.detach().view(-1)
            for place in range(flat.numel()):
                before = flat[place].item()
                ends = []
                for step in (eps, -eps):
                    flat[place] = before + step
                    ends.append(self._forward(module, input).detach().reshape(-1).clone())
                flat[place] = before
                rows.append(((ends[0] - ends[1]) / (2 * eps)).unsqueeze(0))
            found.append(cat(rows, 0))
        return self._in_parts(found, input, jacobian_input)

    def _in_parts(self, found: list[Any], input: Any, jacobian_input: bool) -> tuple[Any, ...]:
        count = len([each for each in tree_leaves(input) if isinstance(each, TensorCore)]) if jacobian_input else 0
        of_input = (found[0] if isinstance(input, TensorCore) else tuple(found[:count]),) if jacobian_input else ()
        return (*of_input, *((cat(found[count:], 0),) if len(found) > count else ()))

    def check_jacobian(self, module: Any, input: Any, jacobian_input: bool = True) -> None:
        """Check that the analytical and the numerical Jacobian agree."""
        parameters = bool(list(module.parameters()))
        analytical = self._analytical_jacobian(module, input, jacobian_input, parameters)
        numerical = self._numerical_jacobian(module, input, jacobian_input, parameters)
        apart = 0.0
        for one, other in zip(tree_leaves(analytical), tree_leaves(numerical), strict=True):
            if one.numel():
                apart = max(apart, one.add(other, alpha=-1).abs().max().item())
        self.assertLessEqual(apart, PRECISION)


class TestBase:
    """A test of one layer with one input, from a row of a table.

    Each of `input`, `constructor_args` and `extra_args` is given directly, by a function (`input_fn`) or by a size
    (`input_size`).
    """

    __test__ = False
    _required_arg_names = {"constructor_args", "input", "extra_args"}

    def __init__(
        self, constructor: Any, desc: str = "", reference_fn: Any = None, fullname: str | None = None, **kwargs: Any
    ) -> None:
        self.desc, self.fullname, self.constructor, self.reference_fn = desc, fullname, constructor, reference_fn
        for name in self._required_arg_names:
            if name not in kwargs and f"{name}_fn" not in kwargs and f"{name}_size" not in kwargs:
                if name not in ("constructor_args", "extra_args"):
                    raise ValueError(f"{self.get_name()}: give {name}, {name}_fn or {name}_size")
                kwargs[name] = ()
        self._extra_kwargs = kwargs
        self._arg_cache: dict[str, Any] = {}

    def get_name(self) -> str:
        """Return the test's name."""
        if self.fullname is not None:
            return f"test_{self.fullname}"
        return f"test_{self.constructor.__name__}" + (f"_{self.desc}" if self.desc else "")

    def _unpack(self, value: Any) -> Any:
        return type(value)(map(self._unpack, value)) if isinstance(value, (list, tuple)) else value

    def _get_arg(self, name: str, unpack: bool) -> Any:
        if name not in self._required_arg_names:
            raise AssertionError(f"{name!r} is not one of {sorted(self._required_arg_names)}")
        if name not in self._arg_cache:
            given = self._extra_kwargs
            if name in given:
                self._arg_cache[name] = given[name]
            elif f"{name}_fn" in given:
                self._arg_cache[name] = given[f"{name}_fn"]()
            else:
                self._arg_cache[name] = _of_size(given[f"{name}_size"])
        return self._unpack(self._arg_cache[name]) if unpack else self._arg_cache[name]

    @property
    def constructor_args(self) -> Any:
        return self._get_arg("constructor_args", True)

    @property
    def extra_args(self) -> Any:
        return self._get_arg("extra_args", True)

    def _get_input(self, unpack: bool = True) -> Any:
        return self._get_arg("input", unpack)

    def __call__(self, test_case: Any) -> None:
        raise NotImplementedError


def _of_size(sizes: Any) -> Any:
    if isinstance(sizes, list) or (sizes and isinstance(sizes[0], (list, tuple))):
        return tuple(_of_size(size) for size in sizes)
    return randn(sizes)


class InputVariableMixin:
    """Inputs that require grad if their dtype allows it."""

    def _get_input(self) -> Any:
        def wanted(value: Any) -> Any:
            if isinstance(value, TensorCore) and (value.is_floating_point() or value.is_complex()):
                return value.requires_grad_()
            return value

        return tree_map(wanted, TestBase._get_input(self, False))  # type: ignore[arg-type]


class ModuleTest(TestBase):
    """A test of a layer: its result against a reference, if there is one, and its derivatives."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.jacobian_input = kwargs.get("jacobian_input", True)
        self.check_gradgrad, self.check_inplace = kwargs.get("check_gradgrad", True), kwargs.get("check_inplace", False)
        self.default_dtype = kwargs.get("default_dtype")

    def _made(self) -> tuple[Any, Any]:
        """Return the layer and its input, in double precision, which finite differences need."""
        module, given = self.constructor(*self.constructor_args).to(double), self._get_input()

        def doubled(value: Any) -> Any:
            if isinstance(value, TensorCore) and value.is_floating_point():
                return value.detach().to(double).requires_grad_(value.requires_grad)
            return value

        return module, tree_map(doubled, given)

    def __call__(self, test_case: Any) -> None:
        module, given = self._made()
        if self.reference_fn is not None:
            output = test_case._forward(module, given)
            expected = self.reference_fn(
                copy.deepcopy(given), test_case._get_parameters(copy.deepcopy(module))[0], copy.deepcopy(module)
            )
            test_case.assertEqual(output, expected, exact_dtype=False)
        self.test_noncontig(test_case, module, given)
        buffer = io.BytesIO()  # saving and loading a used layer must work
        save(module, buffer)
        buffer.seek(0)
        again = load(buffer, weights_only=False)
        test_case.assertEqual(test_case._forward(module, given), test_case._forward(again, given))
        self._do_test(test_case, module, given)

    def _do_test(self, test_case: Any, module: Any, input: Any) -> Any:
        test_case.check_jacobian(module, input, self.jacobian_input)

    def noncontiguize(self, obj: Any) -> Any:
        """Return non-contiguous copies of the inputs."""
        return tree_map(
            lambda value: noncontiguous_like(value.detach()).requires_grad_(value.requires_grad)
            if isinstance(value, TensorCore) else value,
            obj,
        )  # fmt: skip

    def test_noncontig(self, test_case: Any, module: Any, input: Any) -> None:
        """Check that a non-contiguous input gives the same result."""
        test_case.assertEqual(test_case._forward(module, self.noncontiguize(input)), test_case._forward(module, input))

    def test_cuda(self, test_case: Any) -> None:
        """Skip: there is no GPU."""
        test_case.skipTest("CUDA not available")


class NewModuleTest(InputVariableMixin, ModuleTest):  # type: ignore[misc]
    """A test of a layer with gradcheck, also of the second derivative and of the in-place variant."""

    def _check_gradients(self, test_case: Any, module: Any, input_tuple: tuple[Any, ...]) -> None:
        params = tuple(module.parameters())
        count = len(input_tuple)

        def run(*values: Any) -> Any:
            return test_case._forward(module, values[:count])

        inputs = input_tuple + params
        if any(isinstance(each, TensorCore) and each.requires_grad for each in inputs):
            test_case.assertTrue(gradcheck(run, inputs))
            if self.check_gradgrad:
                test_case.assertTrue(gradgradcheck(run, inputs))

    def _do_test(self, test_case: Any, module: Any, input: Any) -> None:
        given = input if isinstance(input, tuple) else (input,)
        self._check_gradients(test_case, module, given)
        if self.check_inplace:
            in_place = self.constructor(*self.constructor_args, inplace=True).to(double)
            copied = tuple(each.clone() if isinstance(each, TensorCore) else each for each in given)
            expected = test_case._forward(module, given)
            test_case.assertEqual(test_case._forward(in_place, copied), expected)
            test_case.assertEqual(copied[0], expected)

    def _get_target(self) -> Any:
        return self._get_arg("target", False)

    @property
    def constructor_args(self) -> Any:
        return self._get_arg("constructor_args", False)


class CriterionTest(InputVariableMixin, TestBase):  # type: ignore[misc]
    """A test of a loss: its result against a reference, if there is one, and its derivatives."""

    _required_arg_names = TestBase._required_arg_names | {"target"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.check_gradgrad, self.check_complex = kwargs.get("check_gradgrad", True), kwargs.get("check_complex", False)

    def __call__(self, test_case: Any) -> None:
        module, given, target = (
            self.constructor(*self.constructor_args).to(double),
            self._get_input(),
            self._get_target(),
        )
        given, target = tree_map(_doubled, given), tree_map(_doubled, target)
        inputs = (*(given if isinstance(given, tuple) else (given,)), target, *self.extra_args)
        if self.reference_fn is not None:
            expected = self.reference_fn(*copy.deepcopy(inputs), module)
            test_case.assertEqual(module(*inputs), expected, exact_dtype=False)
        count = len(inputs) - 1 - len(self.extra_args)
        sources = tuple(each.requires_grad_() if _is_floating(each) else each for each in inputs[:count])
        others = inputs[count:]

        def run(*values: Any) -> Any:
            return module(*values, *others)

        test_case.assertTrue(gradcheck(run, sources))
        if self.check_gradgrad:
            test_case.assertTrue(gradgradcheck(run, sources))

    def _get_target(self) -> Any:
        return self._get_arg("target", True)

    def test_cuda(self, test_case: Any, dtype: Any, extra_args: Any = None) -> None:
        test_case.skipTest("CUDA not available")


def _is_floating(value: Any) -> bool:
    return isinstance(value, TensorCore) and value.is_floating_point()


def _doubled(value: Any) -> Any:
    return value.detach().to(double) if _is_floating(value) else value


def _rand_tensor_non_equal(*size: int) -> Any:
    """Return a tensor of distinct numbers."""
    return randperm(math.prod(size)).view(size).to(get_default_dtype())


def _create_basic_net() -> tuple[Any, Any, Any]:
    """Return a small module, a module that contains an equal one, and a Sequential of the latter."""
    layer = _Holder("layer_dummy", zeros(1, 3, 3, 7))
    net = _Holder("dummy", zeros(7, 3, 3, 1), l1=_Holder("layer_dummy", zeros(1, 3, 3, 7)))
    return layer, net, nn.Sequential(net)


class _Holder(nn.Module):
    """A module of children, a parameter and a buffer, whose names begin alike."""

    def __init__(self, name: str, buffer: Any, **children: nn.Module) -> None:
        super().__init__()
        for child in children:
            self.add_module(child, children[child])
        self.register_parameter(f"{name}_param", nn.Parameter(randn(3, 5)))
        self.register_buffer(f"{name}_buf", buffer)


def _test_module_empty_input(
    test_case: Any, module: Any, inp: Any, check_size: bool = True, inference: bool = False
) -> None:
    """Check that a layer accepts an input without elements, and computes its gradient."""
    if not inference:
        inp.requires_grad_(True)
    out = module(inp)
    if not inference:
        out.backward(out.detach().clone().fill_(1))
        test_case.assertEqual(inp.grad, zeros(inp.shape, dtype=inp.dtype))
    if check_size:
        test_case.assertEqual(out.size(), inp.size())
