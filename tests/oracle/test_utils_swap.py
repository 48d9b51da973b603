"""Rare tools: `swap_tensors`, default devices as modes, and the classes behind custom functions."""

from __future__ import annotations

import importlib
import weakref

import pytest

from tests.oracle.harness import agree, agree_error


def test_all_of_two_tensors_is_exchanged():
    def program(torch, log):
        a, b = torch.ones(2), torch.zeros(3, requires_grad=True)
        a.note = "a's"
        b.register_hook(lambda g: log("hook", g))
        b.grad = torch.ones(3)
        torch.utils.swap_tensors(a, b)
        (a * 2).sum().backward()
        return a, b, a.grad, b.grad, b.note, hasattr(a, "note"), a.requires_grad, b.requires_grad

    agree(program)


def test_classes_are_exchanged():
    def program(torch):
        parameter, tensor = torch.nn.Parameter(torch.ones(2)), torch.zeros(2)
        torch.utils.swap_tensors(parameter, tensor)
        return type(parameter) is torch.Tensor, type(tensor) is torch.nn.Parameter, parameter, tensor

    agree(program)


def test_a_module_keeps_its_parameter():
    def program(torch):
        layer, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        weight = layer.weight
        torch.utils.swap_tensors(layer.weight, other.weight)
        layer(torch.ones(1, 2)).sum().backward()
        return layer.weight is weight, layer.weight, other.weight, layer.weight.grad, other.weight.grad

    agree(program)


@pytest.mark.parametrize("pair", [
    lambda torch, refs: (held(torch, refs), torch.ones(1)),
    lambda torch, refs: (torch.ones(1), held(torch, refs)),
])  # fmt: skip
def test_what_is_watched_is_not_exchanged(pair):
    def program(torch):
        refs = []
        torch.utils.swap_tensors(*pair(torch, refs))

    agree_error(program)


def held(torch, refs):
    tensor = torch.ones(2)
    refs.append((tensor, weakref.ref(tensor)))
    return tensor


def test_a_device_as_a_mode():
    def program(torch):
        module = importlib.import_module(torch.__name__ + ".utils._device")
        with module.DeviceContext("meta"):
            inside = torch.ones(1).device.type, torch.get_default_device().type
        return inside, torch.ones(1).device.type, issubclass(module.DeviceContext, torch.overrides.TorchFunctionMode)

    agree(program)


def test_classes_of_custom_functions():
    def program(torch):
        module = importlib.import_module(torch.__name__ + ".autograd.function")

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, isinstance(ctx, module.BackwardCFunction), isinstance(ctx, module.FunctionCtx)

        kinds = type(Twice) is module.FunctionMeta, Twice._backward_cls.__name__, Twice._backward_cls._forward_cls is Twice
        nested = issubclass(module.NestedIOFunction, torch.autograd.Function)
        return Twice.apply(torch.ones(1)), kinds, nested, torch.autograd.NestedIOFunction is module.NestedIOFunction

    agree(program)
