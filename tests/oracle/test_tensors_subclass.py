"""Subclasses of Tensor, `__torch_function__` on any class, and `TorchFunctionMode`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import Log, agree, agree_error


def tagged_class(torch: Any) -> Any:
    class Tagged(torch.Tensor):
        pass

    return Tagged


def logging_class(torch: Any, log: Log) -> Any:
    """A subclass that notes the name of every function that it is handed to."""

    class Logging(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            log(getattr(function, "__name__", str(function)), [kind.__name__ for kind in types], sorted(kwargs or {}))
            return super().__torch_function__(function, types, args, kwargs or {})

    return Logging


KEPT = {
    "operators": lambda t: [t + 1, 1 + t, t * t, -t, t @ t.t(), t > 1, t == t, abs(t), 2 / (t + 1)],
    "methods": lambda t: [t.sum(), t.mean(0), t.exp(), t.reshape(-1), t.t(), t[0], t.clone(), t.detach(), t.view(-1)],
    "several": lambda t: [*t.max(0), *t.chunk(2), *t.unbind(), *t.sort()],
    "converted": lambda t: [t.double(), t.int(), t.to("cpu"), t.contiguous(), t.requires_grad_(), t.bool()],
    "indexed": lambda t: [t[:, 1:], t[[0, 1]], t[t > 2], t[0, 0], t[None], t[...]],
    "made_like": lambda t: [t.new_zeros(2), t.new_tensor([1.0])],
    "in_place": lambda t: [t.add_(1), t.zero_(), t.t_()],
    "data": lambda t: [t.data, t.T, t.mT],
}


@pytest.mark.parametrize("case", KEPT)
def test_a_subclass_is_kept(case: str) -> None:
    def program(torch: Any) -> Any:
        tensor = torch.arange(6.0).reshape(2, 3).as_subclass(tagged_class(torch))
        results = KEPT[case](tensor)
        return results, [type(result).__name__ for result in results]

    agree(program)


def test_a_subclass_with_functions_of_the_module() -> None:
    def program(torch: Any) -> Any:
        tensor = torch.arange(6.0).reshape(2, 3).as_subclass(tagged_class(torch))
        plain = torch.ones(2, 3)
        results = [
            *[torch.add(tensor, plain), torch.add(plain, tensor), plain + tensor, torch.cat([plain, tensor])],
            *[torch.stack([tensor, tensor]), torch.where(plain > 0, plain, tensor), torch.zeros_like(tensor)],
            *[torch.softmax(tensor, 1), torch.matmul(plain, tensor.t()), torch.relu(tensor), torch.sum(tensor, dim=0)],
            torch.nn.functional.linear(plain, tensor),
        ]
        return results, [type(result).__name__ for result in results]

    agree(program)


def test_a_subclass_made_in_each_way() -> None:
    def program(torch: Any, log: Log) -> Any:
        Tagged = tagged_class(torch)
        made = [Tagged([1.0, 2.0]), Tagged(2, 3).shape, torch.tensor([1.0]).as_subclass(Tagged)]
        made += [torch.Tensor._make_subclass(Tagged, torch.ones(2)), Tagged(torch.ones(2))]
        log([type(one).__name__ for one in made])
        log(isinstance(made[0], torch.Tensor), issubclass(Tagged, torch.Tensor), isinstance(torch.ones(2), Tagged))
        return made[0], made[2:], repr(made[0])

    agree(program)


def test_a_subclass_has_gradients() -> None:
    def program(torch: Any) -> Any:
        leaf = torch.arange(3.0).as_subclass(tagged_class(torch)).requires_grad_()
        (leaf * leaf).sum().backward()
        return leaf.grad, type(leaf.grad).__name__, (leaf * 2).grad_fn.name(), leaf.is_leaf

    agree(program)


def test_a_subclass_with_attributes_and_methods() -> None:
    def program(torch: Any) -> Any:
        class Named(torch.Tensor):
            @staticmethod
            def __new__(cls, data: Any, name: str) -> Any:
                made = torch.as_tensor(data).as_subclass(cls)
                made.name_of_it = name
                return made

            def shout(self) -> str:
                return self.name_of_it.upper()

        named = Named([1.0, 2.0], "one")
        derived = named + 1
        return named.shout(), hasattr(derived, "name_of_it"), type(derived).__name__, derived

    agree(program)


def test_parameters() -> None:
    def program(torch: Any) -> Any:
        parameter = torch.nn.Parameter(torch.ones(2))
        frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
        whole = torch.nn.Parameter(torch.arange(2), requires_grad=False)
        results = [parameter + 1, parameter.detach(), parameter.data, parameter.clone(), parameter[0], frozen * 2]
        names = [type(result).__name__ for result in results]
        return parameter, frozen, whole, names, isinstance(parameter, torch.nn.Parameter), parameter.is_leaf, results

    agree(program)


def set_attributes(tensor: Any) -> tuple[Any, ...]:
    tensor.grad = None
    tensor.requires_grad = False
    return ()


CALLS: dict[str, Any] = {
    "operators": lambda torch, t: (t + 1, 1 - t, t * t, t / 2, -t, t**2, t @ t.t(), t == t, t < 2),
    "functions": lambda torch, t: (
        torch.add(t, 1),
        torch.exp(t),
        torch.sum(t, dim=0),
        torch.cat([t, t]),
        torch.relu(t),
    ),
    "methods": lambda torch, t: (t.sum(), t.mean(dim=1, keepdim=True), t.reshape(3, 2), t.max(0)),
    "attributes": lambda torch, t: (t.shape, t.dtype, t.requires_grad, t.grad, t.T, t.device, t.is_leaf),
    "indexing": lambda torch, t: (t[0], t[:, 1:], t.__setitem__(0, 5.0)),
    "functional": lambda torch, t: (
        torch.nn.functional.relu(t),
        torch.nn.functional.linear(t, torch.ones(2, 3)),
        torch.nn.functional.cross_entropy(t, torch.tensor([0, 1])),
    ),
    "numbers": lambda torch, t: (t.size(), t.dim(), len(t), float(t[0, 0]), t.tolist(), t.numel()),
    "second_argument": lambda torch, t: (torch.add(torch.ones(2, 3), t), torch.ones(2, 3) * t, torch.ones(2, 3).sub(t)),
    "keyword_argument": lambda torch, t: (torch.add(torch.ones(2, 3), other=t), torch.where(t > 1, t, t)),
    "in_place": lambda torch, t: (t.add_(1), t.mul_(t)),
    "setting": lambda torch, t: set_attributes(t),
    "linalg": lambda torch, t: (torch.linalg.norm(t), torch.einsum("ij->j", t), t.norm()),
}


@pytest.mark.parametrize("case", CALLS)
def test_torch_function_is_told_of_every_call(case: str) -> None:
    def program(torch: Any, log: Log) -> None:
        tensor = torch.arange(6.0).reshape(2, 3).as_subclass(logging_class(torch, log))
        log("start")
        results = CALLS[case](torch, tensor)
        log("names", [type(result).__name__ for result in results])

    agree(program)


def test_backward_of_a_subclass_is_told_too() -> None:
    def program(torch: Any, log: Log) -> None:
        tensor = torch.arange(3.0).as_subclass(logging_class(torch, log)).requires_grad_()
        log("start")
        (tensor * 2).sum().backward()
        log("done")

    agree(program)


def test_a_class_that_is_no_tensor() -> None:
    def program(torch: Any, log: Log) -> Any:
        class Scalar:
            @classmethod
            def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log(function.__name__, [kind.__name__ for kind in types], len(args), sorted(kwargs or {}))
                return "answered"

        one = Scalar()
        return (
            torch.add(one, 1),
            torch.sum(one, dim=0),
            torch.add(torch.ones(2), one),
            torch.cat([torch.ones(2), one]),
            torch.nn.functional.relu(one),
            torch.ones(2) + one,
            torch.stack((one, one)),
            torch.where(torch.ones(2) > 0, one, torch.ones(2)),
        )

    agree(program)


def test_a_class_that_declines() -> None:
    def program(torch: Any) -> Any:
        class Shy:
            @classmethod
            def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return NotImplemented

        return torch.add(torch.ones(2), Shy())

    agree_error(program)


def test_the_more_derived_class_answers_first() -> None:
    def program(torch: Any, log: Log) -> Any:
        Parent: Any = logging_class(torch, log)

        class Child(Parent):
            @classmethod
            def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log("child", function.__name__, [kind.__name__ for kind in types])
                return super().__torch_function__(function, types, args, kwargs or {})

        parent = torch.ones(2).as_subclass(Parent)
        child = torch.ones(2).as_subclass(Child)
        log("start")
        return type(parent + child).__name__, type(child + parent).__name__, type(torch.add(parent, child)).__name__

    agree(program)


def test_unrelated_subclasses_do_not_mix() -> None:
    def program(torch: Any) -> Any:
        return torch.ones(2).as_subclass(tagged_class(torch)) + torch.ones(2).as_subclass(tagged_class(torch))

    agree_error(program)


def test_disabled_torch_function() -> None:
    def program(torch: Any, log: Log) -> Any:
        tensor = torch.ones(2).as_subclass(logging_class(torch, log))
        log("start")
        with torch._C.DisableTorchFunctionSubclass():
            return type(tensor + 1).__name__, type(tensor.sum()).__name__

    agree(program)


# --- modes -----------------------------------------------------------------------------------------------------------


def logging_mode(torch: Any, log: Log, name: str = "mode") -> Any:
    class Logging(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            log(name, getattr(function, "__name__", str(function)), sorted(kwargs or {}))
            return function(*args, **(kwargs or {}))

    return Logging()


@pytest.mark.parametrize("case", [*CALLS, "creation"])
def test_a_mode_is_told_of_every_call(case: str) -> None:
    def program(torch: Any, log: Log) -> None:
        tensor = torch.arange(6.0).reshape(2, 3)
        with logging_mode(torch, log):
            if case == "creation":
                torch.zeros(2), torch.tensor([1.0]), torch.arange(3), torch.eye(2), torch.zeros_like(tensor)
                torch.full((2,), 1.0), torch.rand(2), torch.linspace(0, 1, 3), torch.from_numpy(tensor.numpy())
            else:
                CALLS[case](torch, tensor)
        log("after", (tensor + 1).shape)

    agree(program)


def test_modes_nest_and_the_inner_one_is_told_first() -> None:
    def program(torch: Any, log: Log) -> Any:
        with logging_mode(torch, log, "outer"), logging_mode(torch, log, "inner"):
            return torch.ones(2) + 1

    agree(program)


def test_a_mode_may_answer_itself() -> None:
    def program(torch: Any, log: Log) -> Any:
        class Answering(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if function is torch.add:
                    return "added"
                if function is torch.Tensor.mul:
                    return "multiplied"
                return function(*args, **(kwargs or {}))

        tensor = torch.ones(2)
        with Answering():
            inside = (torch.add(tensor, 1), tensor.mul(2), tensor.sum())
        return inside, torch.add(tensor, 1)

    agree(program)


def test_a_mode_that_raises_is_left_behind() -> None:
    def program(torch: Any, log: Log) -> Any:
        try:
            with logging_mode(torch, log):
                torch.ones(2) @ torch.ones(3)
        except RuntimeError as error:
            log(error)
        return torch.ones(2) + 1

    agree(program)


def test_a_mode_sees_a_subclass_before_the_subclass_does() -> None:
    def program(torch: Any, log: Log) -> Any:
        tensor = torch.ones(2).as_subclass(logging_class(torch, log))
        log("start")
        with logging_mode(torch, log):
            return type(tensor + 1).__name__

    agree(program)


def test_has_torch_function_and_its_relatives() -> None:
    def program(torch: Any, log: Log) -> Any:
        overrides = torch.overrides
        tensor = torch.ones(2).as_subclass(logging_class(torch, log))
        plain, tagged = torch.ones(2), torch.ones(2).as_subclass(tagged_class(torch))
        asked = [overrides.has_torch_function((one,)) for one in (plain, tensor, tagged, 5)]
        return asked, overrides.is_tensor_like(plain), overrides.is_tensor_like(5)

    agree(program)


def test_handle_torch_function_in_a_function_of_ones_own() -> None:
    def program(torch: Any, log: Log) -> Any:
        def double(value: Any) -> Any:
            if torch.overrides.has_torch_function((value,)):
                return torch.overrides.handle_torch_function(double, (value,), value)
            return value * 2

        class Loud:
            @classmethod
            def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return "loud " + function.__name__

        return double(torch.ones(2)), double(Loud())

    agree(program)


def test_set_default_device_context() -> None:
    def program(torch: Any) -> Any:
        with torch.device("cpu"):
            return torch.zeros(2).device.type, torch.ones(2) + 1

    agree(program)
