"""The strides of results whose operands lie in memory in different orders."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracle.harness import agree


def steps(tensor):
    """The strides that matter: those of dims with several elements."""
    return [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


OPERANDS = {
    "rows": lambda torch: torch.arange(12.0).reshape(3, 4),
    "columns": lambda torch: torch.arange(12.0).reshape(4, 3).t(),
    "spaced": lambda torch: torch.arange(48.0).reshape(6, 8)[::2, ::2],
    "one row": lambda torch: torch.arange(4.0),
    "stretched": lambda torch: torch.arange(3.0).reshape(3, 1).expand(3, 4),
    "doubles": lambda torch: torch.arange(12.0).double().reshape(4, 3).t(),
    "column": lambda torch: torch.ones(3, 1),
    "double rows": lambda torch: torch.arange(12.0).double().reshape(3, 4),
    "repeated row": lambda torch: torch.arange(4.0).expand(3, 4),
}

FUNCTIONS = {
    "add": lambda torch, a, b: a + b,
    "maximum": lambda torch, a, b: torch.maximum(a, b),
    "greater": lambda torch, a, b: a > b,
    "where": lambda torch, a, b: torch.where(a > 5, a, b),
    "addcmul": lambda torch, a, b: torch.addcmul(a, b, b),
    "lerp": lambda torch, a, b: torch.lerp(a, b.to(a.dtype), 0.5),
    "loss": lambda torch, a, b: torch.nn.functional.mse_loss(a + b * 0, b + a * 0, reduction="none"),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_two_operands(function):
    def program(torch):
        return [
            (one, two, steps(result), result)
            for one in OPERANDS
            for two in OPERANDS
            for result in [FUNCTIONS[function](torch, OPERANDS[one](torch), OPERANDS[two](torch))]
        ]

    agree(program)


def test_images():
    def program(torch):
        rows = torch.arange(24.0).reshape(1, 2, 3, 4)
        last = rows.contiguous(memory_format=torch.channels_last)
        turned = rows.permute(3, 0, 2, 1)
        results = [
            rows + last,
            last + rows,
            last * 2,
            last + last[:, :1],
            turned + turned.contiguous(),
            last.sort(1)[0],
        ]
        return [(steps(result), result) for result in results]

    agree(program)


def test_random_orders():
    def program(torch):
        draw = np.random.RandomState(0)
        found = []
        for _ in range(60):
            shape = tuple(int(n) for n in draw.randint(1, 4, size=draw.randint(2, 5)))
            operands = []
            for _ in range(draw.randint(2, 4)):
                dims = [int(dim) for dim in draw.permutation(len(shape))]
                sizes = [1 if draw.rand() < 0.2 else shape[dim] for dim in dims]
                operands.append(torch.ones(sizes).permute(*[int(dim) for dim in np.argsort(dims)]))
            result = operands[0] + operands[1] if len(operands) == 2 else torch.addcmul(*operands)
            found.append((steps(result), tuple(result.shape), [operand.stride() for operand in operands]))
        return found

    agree(program)


def test_sorted_columns():
    def program(torch):
        values, places = OPERANDS["columns"](torch).sort(0, descending=True)
        return values, places, values.stride(), places.stride()

    agree(program)


STRETCHED = {
    "rows": lambda torch: torch.linspace(0.1, 0.9, 3).expand(4, 3),
    "columns": lambda torch: torch.linspace(0.1, 0.9, 4)[:, None].expand(4, 3),
    "between": lambda torch: torch.linspace(0.1, 0.9, 6).reshape(2, 1, 3).expand(2, 4, 3),
    "between, turned": lambda torch: torch.linspace(0.1, 0.9, 6).reshape(2, 1, 3).expand(2, 4, 3).permute(2, 0, 1),
    "around": lambda torch: torch.linspace(0.1, 0.9, 8).reshape(2, 1, 4, 1).expand(2, 3, 4, 2).permute(3, 1, 0, 2),
    "steps of one and of none": lambda torch: torch.linspace(0.1, 0.9, 16).as_strided((2, 3, 2), (1, 0, 3)),
    "one number": lambda torch: torch.tensor(0.5).expand(2, 3),
    "doubles": lambda torch: torch.linspace(0.1, 0.9, 3).double().expand(4, 3),
    "halves": lambda torch: torch.linspace(0.1, 0.9, 6).half().reshape(2, 1, 3).expand(2, 4, 3).permute(2, 0, 1),
}

NAMES = (
    "sigmoid tanh exp abs neg erf digamma lgamma relu sqrt square sign logit isnan expm1 nan_to_num i0 clone".split()
)
ACTIVATIONS = "gelu silu mish softplus elu selu hardswish leaky_relu hardtanh softsign dropout alpha_dropout".split()
EXPRESSIONS = {
    "plus one": lambda torch, x: x + 1,
    "one minus": lambda torch, x: 1 - x,
    "over": lambda torch, x: 1 / x,
    "squared": lambda torch, x: x**2,
    "remainder": lambda torch, x: x % 0.3,
    "clamp": lambda torch, x: x.clamp(0.2, 0.5),
    "greater": lambda torch, x: x > 0.5,
    "to": lambda torch, x: x.to(torch.complex64),
    "copied": lambda torch, x: x.to(x.dtype, copy=True),
    "whole": lambda torch, x: (x * 10).int().sin(),
    "roll": lambda torch, x: x.roll(1, 0),
    "roll of columns": lambda torch, x: x.transpose(0, -1).contiguous().transpose(0, -1).roll((1, 1), (0, 1)),
    "flip": lambda torch, x: x.flip(0),
    "index_fill": lambda torch, x: x.index_fill(0, torch.tensor([0]), 1.0),
}


@pytest.mark.parametrize("names", [NAMES, ACTIVATIONS, list(EXPRESSIONS)], ids=["functions", "layers", "expressions"])
def test_one_operand_that_repeats(names):
    def run(torch, name, x):
        if name in EXPRESSIONS:
            return EXPRESSIONS[name](torch, x)
        return getattr(torch if name in NAMES else torch.nn.functional, name)(x)

    def program(torch):
        return [
            (place, name, steps(result), result)
            for place, make in STRETCHED.items()
            for name in names
            if place != "halves" or name not in ("logit", "i0", "alpha_dropout")
            for result in [run(torch, name, make(torch))]
        ]

    agree(program)
