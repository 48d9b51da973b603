"""Faults of PyTorch's module hooks that undertow does not copy: each program fails or misleads there, and works here."""

from __future__ import annotations

from typing import Any

import pytest
import torch as real_torch

import undertow


def removes_itself_from_state_dict_hooks(torch: Any) -> list[str]:
    log: list[str] = []
    module = torch.nn.Linear(1, 1)

    def once(*_: Any) -> None:
        log.append("once")
        handle.remove()

    handle = module.register_state_dict_pre_hook(once)
    module.register_state_dict_pre_hook(lambda *_: log.append("other"))
    module.state_dict()
    return log


def removes_itself_from_load_hooks(torch: Any) -> list[str]:
    log: list[str] = []
    module = torch.nn.Linear(1, 1)

    def once(*_: Any) -> None:
        log.append("once")
        handle.remove()

    handle = module.register_load_state_dict_post_hook(once)
    module.register_load_state_dict_post_hook(lambda *_: log.append("other"))
    module.load_state_dict(module.state_dict())
    return log


def removes_itself_while_an_error_is_under_way(torch: Any) -> list[str]:
    log: list[str] = []

    class Fails(torch.nn.Module):
        def forward(self) -> None:
            raise ValueError("the user's own")

    module = Fails()

    def once(*_: Any) -> None:
        log.append("once")
        handle.remove()

    handle = module.register_forward_hook(once, always_call=True)
    module.register_forward_hook(lambda *_: log.append("other"), always_call=True)
    try:
        module()
    except ValueError:
        log.append("the user's own")
    return log


def leaves_a_flag_behind(torch: Any) -> list[str]:
    space = torch.nn.modules.module
    before = len(space._global_forward_hooks_with_kwargs)
    space.register_module_forward_hook(lambda *_: None, with_kwargs=True).remove()
    after = len(space._global_forward_hooks_with_kwargs)
    while len(space._global_forward_hooks_with_kwargs) > before:
        space._global_forward_hooks_with_kwargs.popitem()
    return ["clean"] if before == after else ["a flag is left"]


@pytest.mark.parametrize(
    ("program", "right"),
    [
        (removes_itself_from_state_dict_hooks, ["once", "other"]),
        (removes_itself_from_load_hooks, ["once", "other"]),
        (removes_itself_while_an_error_is_under_way, ["once", "other", "the user's own"]),
        (leaves_a_flag_behind, ["clean"]),
    ],
)
def test_fault(program: Any, right: list[str]) -> None:
    assert program(undertow) == right
    try:
        torchs = program(real_torch)
    except RuntimeError as error:
        torchs = [str(error)]
    assert torchs != right, "PyTorch has mended this: take it off the list of faults"
