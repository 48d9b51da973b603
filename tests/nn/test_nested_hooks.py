"""Full backward hooks with nested=True: gradients in the nesting of the values they belong to."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

import undertow as torch

Pair = namedtuple("Pair", "left right")


@dataclass
class Out:
    scores: Any
    extras: Any = None
    label: str = ""


@dataclass(frozen=True)
class Frozen:
    value: Any


class Gives(torch.nn.Module):
    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.make(*args, **kwargs)


def leaf(*values: float) -> Any:
    return torch.tensor(values or (1.0, 2.0), requires_grad=True)


def plain(value: Any) -> Any:
    """Tensors as lists, in the same nesting."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[plain(part) for part in value])
    if isinstance(value, (tuple, list)):
        return type(value)(plain(part) for part in value)
    if isinstance(value, (Out, Frozen)):
        return type(value)(**{name: plain(part) for name, part in vars(value).items()})
    return value


def watch(module: Any) -> list[Any]:
    """Registers a nested hook and pre-hook that log."""
    log: list[Any] = []
    module.register_full_backward_pre_hook(lambda m, go: log.append(("pre", plain(go))), nested=True)
    module.register_full_backward_hook(
        lambda m, args, kwargs, go: log.append(("hook", plain(args), plain(kwargs), plain(go))), nested=True
    )
    return log


def total(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.sum()
    if isinstance(value, dict):
        value = list(value.values())
    elif isinstance(value, (Out, Frozen)):
        value = list(vars(value).values())
    return (
        sum((total(part) for part in value), torch.zeros(())) if isinstance(value, (list, tuple)) else torch.zeros(())
    )


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: {"a": x * 2, "n": 3}, {"a": [1, 1], "n": None}),
        (lambda x: [x * 2, [x * 3]], [[1, 1], [[1, 1]]]),
        (lambda x: OrderedDict(a=x * 2), OrderedDict(a=[1, 1])),
        (lambda x: Out(x * 2, {"more": (x, 5)}, "text"), Out([1, 1], {"more": ([1, 1], None)}, None)),  # type: ignore[arg-type]
        (lambda x: Frozen(x * 2), Frozen([1, 1])),
        (lambda x: Pair(x * 2, [x]), Pair([1, 1], [[1, 1]])),
        (lambda x: (x * 2, x * 3), ([1, 1], [1, 1])),
        (lambda x: x * 2, [1, 1]),
    ],
)
def test_outputs_of_every_nesting(make: Any, expected: Any) -> None:
    module, x = Gives(make), leaf()
    log = watch(module)
    output = module(x)
    assert type(output) is type(make(x))
    total(output).backward()
    assert log[0] == ("pre", expected)
    assert log[1][3] == expected
    reference = leaf()
    total(make(reference)).backward()
    assert x.grad.tolist() == reference.grad.tolist()
    assert log[1][1] == (x.grad.tolist(),)


def test_keyword_and_nested_inputs() -> None:
    module, a, b, c = Gives(lambda pair, *, by: pair[0] * by["c"] + pair[1]["b"]), leaf(), leaf(), leaf(3.0, 4.0)
    log = watch(module)
    module((a, {"b": b}), by={"c": c, "n": 7}).sum().backward()
    assert log[1] == ("hook", (([3, 4], {"b": [1, 1]}),), {"by": {"c": [1, 2], "n": None}}, [1, 1])
    assert a.grad.tolist() == [3, 4] and c.grad.tolist() == [1, 2]


def test_what_gets_no_gradient_is_none() -> None:
    module, x = Gives(lambda x, y: {"used": x * 2, "unused": x * 3, "constant": y}), leaf()
    log = watch(module)
    module(x, torch.ones(2))["used"].sum().backward()
    assert log[0] == ("pre", {"used": [1, 1], "unused": None, "constant": None})


def test_hooks_replace_gradients() -> None:
    module, a, b = Gives(lambda a, *, b: {"sum": a + b}), leaf(), leaf()
    module.register_full_backward_pre_hook(lambda m, go: {"sum": go["sum"] * 2}, nested=True)
    module.register_full_backward_hook(lambda m, args, kwargs, go: ((args[0] * 10,), {"b": None}), nested=True)
    module(a, b=b)["sum"].sum().backward()
    assert a.grad.tolist() == [20, 20]
    assert b.grad is None


@pytest.mark.parametrize("answer", [3, lambda args, kwargs: args, lambda args, kwargs: ((args[0], args[0]), kwargs)])
def test_another_nesting_is_refused(answer: Any) -> None:
    module, x = Gives(lambda x: [x * 2]), leaf()
    module.register_full_backward_hook(
        lambda m, args, kwargs, go: answer(args, kwargs) if callable(answer) else answer, nested=True
    )
    with pytest.raises(RuntimeError, match="nested backward hook of Gives returned another nesting"):
        module(x)[0].sum().backward()


def test_a_replaced_gradient_keeps_its_shape() -> None:
    module, x = Gives(lambda x: [x * 2]), leaf()
    module.register_full_backward_pre_hook(lambda m, go: [go[0][:1]], nested=True)
    with pytest.raises(RuntimeError, match="changed the size of value"):
        module(x)[0].sum().backward()


def test_plain_hooks_beside_nested_ones() -> None:
    module, x = torch.nn.Tanh(), leaf()
    log = watch(module)
    module.register_full_backward_hook(lambda m, gi, go: log.append(("plain", len(gi), plain(go))))
    module.register_full_backward_pre_hook(lambda m, go: log.append(("plain pre", plain(go))))
    module(x).sum().backward()
    assert [entry[0] for entry in log] == ["pre", "plain pre", "hook", "plain"]
    assert log[3] == ("plain", 1, ([1, 1],))


def test_plain_hooks_that_cannot_fire_are_named() -> None:
    module, x = Gives(lambda x: {"a": x * 2}), leaf()
    log = watch(module)
    module.register_full_backward_hook(lambda m, gi, go: log.append("plain"))
    with pytest.warns(UserWarning, match=r"module output should be a Tensor .*hooks of Gives will not fire"):
        module(x)["a"].sum().backward()
    assert [entry[0] for entry in log] == ["pre", "hook"]


def test_a_tuple_of_lists_is_said_to_be_out_of_reach() -> None:
    module, x = Gives(lambda x: ([x * 2], 3)), leaf()
    module.register_full_backward_hook(lambda m, gi, go: None)
    with pytest.warns(UserWarning, match="inside other containers"):
        module(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(torch.ones(2))  # nothing to differentiate: nothing to say


def test_no_input_asks() -> None:
    weight = leaf()
    module = Gives(lambda x: {"a": x * weight})
    log = watch(module)
    module(torch.ones(2))["a"].sum().backward()
    assert log[1] == ("hook", (None,), {}, {"a": [1, 1]})


def test_no_output_asks() -> None:
    module = Gives(lambda x: {"a": x * 2})
    log = watch(module)
    assert not module(torch.ones(2))["a"].requires_grad
    with torch.no_grad():
        module(leaf())
    assert not log


def test_global_nested_hooks() -> None:
    space = torch.nn.modules.module
    log: list[Any] = []
    with space.register_module_full_backward_hook(lambda m, a, k, go: log.append((a, k, go)), nested=True):
        Gives(lambda *, x: {"a": x * 2})(x=leaf())["a"].sum().backward()
    assert plain(log[0]) == ((), {"x": [2, 2]}, {"a": [1, 1]})
    space._registry._global_is_full_backward_hook = None


def test_gradients_of_gradients_pass_through() -> None:
    module, x = Gives(lambda x: {"a": x**3}), leaf()
    watch(module)
    (first,) = torch.autograd.grad(module(x)["a"].sum(), x, create_graph=True)
    first.sum().backward()
    assert x.grad.tolist() == [6, 12]


def keep(module: Any, *_: Any) -> None:
    module.seen = True


def test_copies_keep_nested_hooks() -> None:
    module = torch.nn.Identity()
    handle = module.register_full_backward_hook(keep, nested=True)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        twin([leaf()])[0].sum().backward()
        assert twin.seen
    handle.remove()
    module([leaf()])[0].sum().backward()
    assert not hasattr(module, "seen")
