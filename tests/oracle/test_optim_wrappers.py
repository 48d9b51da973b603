"""Optimizers of wrapper subclasses: parameters without memory of their own, whose `__torch_dispatch__` sees every step."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree

OPTIONS = {
    "SGD": {}, "SGD momentum": {"momentum": 0.9, "weight_decay": 0.1}, "Adam": {}, "Adam amsgrad": {"amsgrad": True},
    "AdamW": {}, "Adamax": {}, "NAdam": {}, "RAdam": {}, "Adagrad": {}, "Adadelta": {},
    "RMSprop centered": {"centered": True}, "Rprop": {}, "ASGD": {}, "Adafactor": {}, "Adam maximize": {"maximize": True},
}  # fmt: skip


def wrapper(torch):
    """A class that holds a tensor and has it do the work."""
    tree_map = torch.utils._pytree.tree_map

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, held):
            return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)

        def __init__(self, held):
            self.held = held

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            opened = lambda value: value.held if isinstance(value, cls) else value
            result = func(*tree_map(opened, args), **tree_map(opened, kwargs or {}))
            if func._schema.is_mutable:
                return args[0]
            return tree_map(lambda value: cls(value) if isinstance(value, torch.Tensor) else value, result)

    return Wrapper


def shown(state):
    return {name: (type(value).__name__, getattr(value, "held", value)) for name, value in state.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_steps(name):
    def program(torch, log):
        Wrapper = wrapper(torch)
        held, plain = torch.randn(2, 3), torch.nn.Parameter(torch.randn(3))
        param = torch.nn.Parameter(Wrapper(held))
        optimizer = getattr(torch.optim, name.split()[0])([param, plain], **OPTIONS[name])
        for _ in range(3):
            optimizer.zero_grad()
            ((param * param).sum() + (plain**2).sum()).backward()
            log(type(param.grad).__name__, param.grad.held)
            optimizer.step()
        log(param.held is held, held, plain, shown(optimizer.state[param]))
        other = getattr(torch.optim, name.split()[0])([param, plain], **OPTIONS[name])
        other.load_state_dict(optimizer.state_dict())
        other.step()
        log(held, shown(other.state[param]))

    agree(program)
