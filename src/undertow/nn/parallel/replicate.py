"""Copies of a module, one per device."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from undertow._src.types.aliases import Device
from undertow.nn.modules.module import Module

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Return copies of a module, one per device. Gradients reach the module's parameters, unless detached."""
    return [_copied(network, device, detach, {}) for device in devices]


def _copied(module: Module, device: Device, detach: bool, known: dict[int, Any]) -> Module:
    if id(module) in known:
        return known[id(module)]
    replica = known[id(module)] = copy.copy(module)
    tensors = {}
    for name, param in module._parameters.items():
        if param is not None:
            made = param.to(device).clone()
            tensors[name] = known.setdefault(id(param), made.detach() if detach else made)
    replica._parameters = {name: None for name, param in module._parameters.items() if param is None}
    replica._buffers = {
        name: None if each is None else each.to(device).clone() for name, each in module._buffers.items()
    }
    replica._modules = {
        name: None if child is None else _copied(child, device, detach, known)
        for name, child in module._modules.items()
    }
    for name, tensor in tensors.items():  # plain attributes: a copy is not a parameter
        object.__setattr__(replica, name, tensor)
    replica._former_parameters = tensors
    replica._is_replica = True
    return replica
