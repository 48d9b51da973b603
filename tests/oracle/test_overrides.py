"""`__torch_function__` in detail: which function object is handed over, who is asked in which order, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import Log, agree, agree_error

# Each call, and the public name of the function that it hands over.
HANDED_OVER = {
    "t + 1": "Tensor.add",
    "1 + t": "Tensor.add",
    "t.add(1)": "Tensor.add",
    "torch.add(t, 1)": "add",
    "t - 1": "Tensor.sub",
    "1 - t": "Tensor.__rsub__",
    "2 / t": "Tensor.__rdiv__",
    "t % 2": "Tensor.remainder",
    "2 ** t": "Tensor.__rpow__",
    "t // 2": "Tensor.__floordiv__",
    "-t": "Tensor.neg",
    "abs(t)": "Tensor.abs",
    "t == 1": "Tensor.__eq__",
    "t != 1": "Tensor.ne",
    "t >= 1": "Tensor.ge",
    "t @ t": "Tensor.matmul",
    "t[0]": "Tensor.__getitem__",
    "t.sum()": "Tensor.sum",
    "torch.sum(t)": "sum",
    "t.reshape(-1)": "Tensor.reshape",
    "torch.reshape(t, (4,))": "reshape",
    "t.shape": "Tensor.shape.__get__",
    "t.T": "Tensor.T.__get__",
    "t.requires_grad": "Tensor.requires_grad.__get__",
    "t.item": "",
    "t.detach()": "Tensor.detach",
    "t.double()": "Tensor.double",
    "t.tolist()": "Tensor.tolist",
    "len(t)": "Tensor.__len__",
    "t.uniform_()": "Tensor.uniform_",
    "torch.zeros_like(t)": "zeros_like",
    "torch.rand_like(t)": "rand_like",
    "t.new_zeros(2)": "Tensor.new_zeros",
    "hash(t)": "",
    "torch.is_tensor(t)": "",
    "torch.tensor(t.tolist())": "Tensor.tolist",
    "torch.nn.functional.relu(t)": "nn.functional.relu",
}


def named(torch: Any, path: str) -> Any:
    for part in path.split("."):
        torch = getattr(torch, part)
    return torch


@pytest.mark.parametrize("call", HANDED_OVER)
def test_the_function_handed_over(call: str) -> None:
    def program(torch: Any, log: Log) -> None:
        seen = []

        class Watching(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.append(function)
                return super().__torch_function__(function, types, args, kwargs or {})

        tensor = torch.ones(2, 2).as_subclass(Watching)
        eval(call, {"torch": torch, "t": tensor})
        wanted = [named(torch, HANDED_OVER[call])] if HANDED_OVER[call] else []
        log([function.__name__ for function in seen])
        assert seen == wanted

    agree(program)


def asked_class(log: Log, name: str, answer: Any, *bases: type) -> Any:
    def answering(cls: type, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        log(name, function.__name__, [kind.__name__ for kind in types], kwargs)
        return answer

    return type(name, bases or (object,), {"__torch_function__": classmethod(answering)})


def test_everybody_is_asked_from_left_to_right_until_one_answers() -> None:
    def program(torch: Any, log: Log) -> Any:
        first, second = asked_class(log, "First", NotImplemented), asked_class(log, "Second", "answer")
        return torch.where(torch.ones(2) > 0, first(), second()), torch.stack([second(), first()])

    agree(program)


def test_a_subclass_on_the_right_is_asked_first() -> None:
    def program(torch: Any, log: Log) -> Any:
        base = asked_class(log, "Base", "base")
        derived = asked_class(log, "Derived", "derived", base)
        return torch.add(base(), derived()), torch.cat([base(), base(), derived()])

    agree(program)


def test_operators_fall_back_to_python_when_nobody_answers() -> None:
    def program(torch: Any, log: Log) -> Any:
        class Right(asked_class(log, "Asked", NotImplemented)):  # type: ignore[misc]
            def __radd__(self, other: Any) -> str:
                return "radd"

        return torch.ones(2) + Right()

    agree(program)


@pytest.mark.parametrize(
    "call",
    [
        "torch.ones(2) + shy",
        "torch.add(torch.ones(2), shy)",
        "torch.ones(2).add(shy)",
        "torch.cat([shy])",
        "tensor.shape",
    ],
)
def test_words_when_nobody_answers(call: str) -> None:
    def program(torch: Any, log: Log) -> Any:
        shy = asked_class(log, "Shy", NotImplemented)()
        tensor = torch.ones(2).as_subclass(asked_class(log, "ShyTensor", NotImplemented, torch.Tensor))
        eval(call, {"torch": torch, "shy": shy, "tensor": tensor})

    agree_error(program)


def test_a_plain_method_is_used_with_a_warning() -> None:
    def program(torch: Any, log: Log) -> Any:
        class Plain:
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return "answer", type(self).__name__

        return torch.add(torch.ones(2), Plain())

    agree(program, warns=True)


def test_switches() -> None:
    def program(torch: Any, log: Log) -> Any:
        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log(function.__name__)
                return function(*args, **(kwargs or {}))

        duck = asked_class(log, "Duck", "quack")()
        tensor = torch.ones(2)
        with Mode():
            with torch._C.DisableTorchFunctionSubclass():
                tensor + 1
            with torch._C.DisableTorchFunction():
                tensor + 1
        with torch._C.DisableTorchFunctionSubclass():
            log(torch.overrides.has_torch_function((duck,)))
            torch.add(tensor, duck)

    agree_error(program)


def test_a_class_that_opts_out() -> None:
    def program(torch: Any) -> Any:
        class Quiet(torch.Tensor):
            __torch_function__ = torch._C._disabled_torch_function_impl

        tensor = torch.ones(2).as_subclass(Quiet)
        return type(tensor + 1).__name__, type(tensor.detach()).__name__, repr(tensor), repr(tensor + 1)

    agree(program)


def test_a_mode_that_declines_passes_the_call_on() -> None:
    def program(torch: Any, log: Log) -> Any:
        class Declining(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log("mode", function.__name__)
                return NotImplemented

        duck = asked_class(log, "Duck", "quack")()
        tensor = torch.ones(2)
        with Declining():
            log(torch.add(tensor, duck))
            torch.add(tensor, 1)

    agree_error(program)


def test_names_of_functions() -> None:
    def program(torch: Any) -> Any:
        overrides = torch.overrides
        functions = [torch.add, torch.Tensor.add, torch.Tensor.shape.__get__, torch.nn.functional.relu, print]
        return [overrides.resolve_name(function) for function in functions], [
            overrides.is_tensor_method_or_property(function) for function in functions[:3]
        ]

    agree(program)


def test_the_stack_of_modes() -> None:
    def program(torch: Any, log: Any) -> None:
        overrides = torch.overrides

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log(len(overrides._get_current_function_mode_stack()), overrides._get_current_function_mode() is None)
                return func(*args, **(kwargs or {}))

        log(sorted(overrides.__all__), overrides._get_current_function_mode())
        with Mode(), Mode() as inner:
            torch.ones(2)
            with overrides._pop_mode_temporarily() as off:
                log(off is inner, overrides._len_torch_function_stack())
            overrides._push_mode(overrides._pop_mode())
        log(overrides.redispatch_function(torch.add, (), (torch.ones(1), 1), {}))
        overrides._pop_mode()

    agree_error(program)


NAMED = {
    "moveaxis": lambda torch, s: torch.moveaxis(s, 0, 1),
    "moveaxis, a method": lambda torch, s: s.moveaxis(0, 1),
    "polygamma_": lambda torch, s: (s + 1).polygamma_(1),
    "storage_type": lambda torch, s: s.storage_type() and None,
    "an operator in place": lambda torch, s: s.__ifloordiv__(2),
    "nelement": lambda torch, s: s.nelement(),
}


@pytest.mark.parametrize("case", NAMED)
def test_functions_are_offered_by_their_own_names(case: str) -> None:
    def program(torch: Any, log: Any) -> None:
        kind = noting(torch, log)
        result = NAMED[case](torch, torch.arange(6.0).reshape(2, 3).as_subclass(kind))
        log(type(result).__name__)

    agree(program)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_offered_to_their_weights(layer: str) -> None:
    def program(torch: Any, log: Any) -> Any:
        kind = noting(torch, log, skip="__get__")
        module = getattr(torch.nn, layer)(3, 2, batch_first=True)
        module.weight_hh_l0 = torch.nn.Parameter(module.weight_hh_l0.detach().as_subclass(kind))
        output, _ = module(torch.ones(2, 4, 3))
        return type(output).__name__, output.as_subclass(torch.Tensor)

    agree(program)


def noting(torch: Any, log: Any, skip: str = "") -> Any:
    """A class of tensors that logs the names under which functions are offered to it."""

    def __torch_function__(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ != skip:
            log(func.__name__, [each.__name__ for each in types], len(args))
        return super(kind, cls).__torch_function__(func, types, args, kwargs or {})

    kind: Any = type("Noting", (torch.Tensor,), {"__torch_function__": classmethod(__torch_function__)})
    return kind


def test_names_of_operators() -> None:
    def program(torch: Any, log: Any) -> None:
        aten = torch.ops.aten
        log([torch.overrides.resolve_name(each) for each in (aten.add, aten.add.Tensor, torch.add, torch.Tensor.add)])

    agree(program)
