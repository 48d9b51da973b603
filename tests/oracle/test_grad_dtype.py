"""Tensor.grad_dtype: gradients in another dtype than the leaf's, against torch."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import undertow

WANTED = ["default", None, "float32", "float64", "float16"]
LEAF = "bfloat16"


@pytest.fixture(autouse=True)
def leaves_are_gone() -> Iterator[None]:
    """Passes take their general path while a leaf wants another dtype, so none may stay in a cycle."""
    yield
    gc.collect()


def leaf(lib: Any, wanted: str | None) -> Any:
    made = lib.ones(4, dtype=getattr(lib, LEAF), requires_grad=True)
    if wanted != "default":
        made.grad_dtype = wanted and getattr(lib, wanted)
    return made


def factors(lib: Any) -> Any:
    return lib.tensor([0.1234567, -1.7654321, 3.1415927, 2.7182818])


def backward(lib: Any, tensor: Any, output: Any) -> Any:
    output.sum().backward()
    return tensor.grad


class Widened:
    """A custom function whose backward answers in float32."""

    @staticmethod
    def of(lib: Any) -> Any:
        class Wide(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x.float()

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * factors(lib)

        return Wide.apply


def with_hooks(lib: Any, x: Any) -> Any:
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(str(g.dtype)))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(str(p.grad.dtype)))
    backward(lib, x, x * factors(lib))
    return [each.split(".")[1] for each in seen]


def set_later(lib: Any, x: Any) -> Any:
    other = lib.ones(4, requires_grad=True)
    output = other * factors(lib)
    other.grad_dtype = lib.float64
    return backward(lib, other, output)


def sparse(lib: Any, x: Any) -> Any:
    weight = lib.ones(3, 2, requires_grad=True)
    weight.grad_dtype = x.grad_dtype
    places = lib.tensor([0, 2])
    return backward(lib, weight, lib.nn.functional.embedding(places, weight, sparse=True)).to_dense()


CASES = {
    "promoted": lambda lib, x: backward(lib, x, x * factors(lib)),
    "converted": lambda lib, x: backward(lib, x, x.float() * factors(lib)),
    "a custom function": lambda lib, x: backward(lib, x, Widened.of(lib)(x)),
    "added up": lambda lib, x: (backward(lib, x, x * factors(lib)), backward(lib, x, x + factors(lib)))[1],
    "a root": lambda lib, x: (x.backward(factors(lib)), x.grad)[1],
    "autograd.grad": lambda lib, x: lib.autograd.grad((x * factors(lib)).sum(), x)[0],
    "recorded": lambda lib, x: lib.autograd.grad((x * factors(lib)).sum(), x, create_graph=True)[0],
    "inputs": lambda lib, x: (lib.autograd.backward((x * factors(lib)).sum(), inputs=[x]), x.grad)[1],
    "a view": lambda lib, x: backward(lib, x, x.view(2, 2).t() * factors(lib).view(2, 2)),
    "a hook that changes it": lambda lib, x: (x.register_hook(lambda g: g * 2), backward(lib, x, x * factors(lib)))[1],
    "hooks see": with_hooks,
    "set after the forward pass": set_later,
    "kept by an optimizer": lambda lib, x: (lib.optim.SGD([x]).zero_grad(), x.grad_dtype)[1],
    "sparse": sparse,
    "a step": lambda lib, x: (backward(lib, x, x * factors(lib)), lib.optim.SGD([x], lr=0.1).step(), x)[2],
}


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("case", CASES)
def test_gradients_come_as_the_leaf_wants_them(case: str, wanted: str | None) -> None:
    results = [CASES[case](lib, leaf(lib, wanted)) for lib in (torch, undertow)]
    if hasattr(results[0], "dtype"):
        assert str(results[0].dtype) == str(results[1].dtype)
        assert results[0].tolist() == results[1].tolist()
    else:
        assert str(results[0]) == str(results[1])


def assigned(lib: Any) -> None:
    x = leaf(lib, "float16")
    x.grad = lib.ones(4)


def set_over_a_gradient(lib: Any) -> None:
    x = leaf(lib, "float16")
    x.grad = lib.ones(4, dtype=lib.float16)
    x.grad_dtype = lib.float32


REFUSED = {
    "another gradient": assigned,
    "while there is one": set_over_a_gradient,
    "no dtype": lambda lib: setattr(lib.ones(2), "grad_dtype", 3),
    "a result, set": lambda lib: setattr(leaf(lib, "default").sin(), "grad_dtype", lib.float16),
    "a result, asked": lambda lib: leaf(lib, "default").sin().grad_dtype,
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_refused_as_torch_refuses(case: str) -> None:
    assert refusal(case, torch) == refusal(case, undertow) != ""


def refusal(case: str, lib: Any) -> str:
    """The opening words; the exception itself would keep the leaf."""
    try:
        REFUSED[case](lib)
    except RuntimeError as error:
        return str(error)[:60]
    return ""


def test_it_is_the_leafs_own_affair() -> None:
    for lib in (torch, undertow):
        x = leaf(lib, "float16")
        assert x.detach().grad_dtype is lib.bfloat16
        x.grad_dtype = None
        x.grad = lib.ones(4, dtype=lib.float64)
        assert x.grad_dtype is None
        y = lib.ones(2)
        y.data = lib.ones(2, dtype=lib.float64)
        assert y.grad_dtype is lib.float64


def test_passes_are_quick_again_when_the_leaf_is_gone() -> None:
    from undertow._src.base.modes import slow_path

    before = slow_path.count
    x = leaf(undertow, "float16")
    assert slow_path.count == before + 1
    del x
    assert slow_path.count == before
