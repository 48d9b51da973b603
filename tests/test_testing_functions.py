"""Custom functions as operators (torch.testing._internal): their gradients and their rules of vmap are right."""

from __future__ import annotations

from typing import Any

import pytest

import undertow as torch
from tests.operator_tables.custom_functions import ForwardHasDefaultArgs, autograd_function_db
from undertow.utils._pytree import tree_leaves

BY_NAME = {info.name.removesuffix("AutogradFunction"): info for info in autograd_function_db}


@pytest.mark.parametrize("name", BY_NAME)
def test_gradients_and_maps(name: str) -> None:
    info = BY_NAME[name]
    for sample in info.sample_inputs("cpu", torch.float64, requires_grad=True):
        if name not in (
            "ScaleGradGenVmap",
            "ZeroGradientsGenVmap",
        ):  # whose gradients are not those of what they compute
            arguments = (sample.input, *sample.args)
            assert torch.autograd.gradcheck(info.op, arguments, check_forward_ad=info.supports_forward_ad)
        single = info.op(sample.input.detach(), *sample.args)
        if name == "NumpyCubeNotComposable":
            with pytest.raises(RuntimeError, match="does not have vmap support"):
                torch.vmap(info.op)(torch.stack([sample.input.detach()] * 2))
            continue

        def op(x: Any, info: Any = info, args: Any = sample.args) -> Any:
            return info.op(x, *args)

        several = torch.vmap(op)(torch.stack([sample.input.detach()] * 2))
        for one, many in zip(tree_leaves(single), tree_leaves(several), strict=True):
            assert torch.allclose(many[1], one)


def test_vmap_sees_arguments_that_were_left_out_or_named() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert torch.equal(torch.vmap(ForwardHasDefaultArgs.apply)(x), x[:, 2])
    assert torch.equal(torch.vmap(lambda row: ForwardHasDefaultArgs.apply(row, idx=1))(x), x[:, 1])
