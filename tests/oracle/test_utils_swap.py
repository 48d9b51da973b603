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

        kinds = (
            type(Twice) is module.FunctionMeta,
            Twice._backward_cls.__name__,
            Twice._backward_cls._forward_cls is Twice,
        )
        nested = issubclass(module.NestedIOFunction, torch.autograd.Function)
        return Twice.apply(torch.ones(1)), kinds, nested, torch.autograd.NestedIOFunction is module.NestedIOFunction

    agree(program)


@pytest.mark.parametrize("used", ["w * 2", "w * w", "w.view(2)", "w.detach()"])
def test_a_graph_that_leads_to_an_exchanged_tensor(used):
    def program(torch, log):
        w, other = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
        made = eval(used, {"w": w})
        torch.utils.swap_tensors(w, other)
        log(w, other)
        made.sum().backward()

    agree(program, words=6)


@pytest.mark.parametrize("between", ["", "forward", "saved"])
def test_modules_that_exchange_their_parameters(between):
    def program(torch, log):
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            layer = torch.nn.Linear(2, 2)
            weight, layer.weight.note = layer.weight, 1
            layer(torch.ones(1, 2)).sum().backward()
            gradient = weight.grad
            weight.register_hook(lambda gradient: log("hook"))
            output = layer(torch.ones(1, 2, requires_grad=between == "saved")) if between else None
            layer.double()
            log(layer.weight is weight, layer.weight.grad is gradient, weight.grad.dtype, hasattr(weight, "note"))
            if output is not None:
                output.sum().backward()
            layer(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
            state = {name: value.clone() for name, value in layer.state_dict().items()}
            for assign in (False, True):
                layer.load_state_dict(state, assign=assign)
                log(layer.weight is weight, weight.data_ptr() == state["weight"].data_ptr(), weight.requires_grad)
            empty = torch.nn.Linear(2, 2, device="meta")
            weight = empty.weight
            log(empty.to_empty(device="cpu").weight is weight, str(weight.device))
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    agree(program, words=3)


def test_subclasses_are_exchanged_as_they_convert():
    def program(torch, log):
        class Named(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                if function.__name__ == "to":
                    log("to")
                return super().__torch_function__(function, types, args, kwargs or {})

        layer = torch.nn.Linear(2, 2)
        layer.weight = torch.nn.Parameter(torch.ones(2, 2).as_subclass(Named))
        held = layer.weight
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            layer.to(torch.float64)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
        log(layer.weight is held, type(held).__name__, held.dtype, isinstance(held, torch.nn.Parameter))

    agree(program)
