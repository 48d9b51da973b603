"""`ModuleTracker`: which modules are running, in the forward and in the backward pass."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Self

from undertow._src.base.modes import local
from undertow._src.base.tree import leaves
from undertow._src.engine.engine import queue_callback
from undertow._src.tensor.core import TensorCore
from undertow.autograd.graph import register_multi_grad_hook
from undertow.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Keeps the names of the running modules in `parents` inside the block, from `Global` inwards.

    `is_bw` says whether this is their backward pass: it begins with the gradients of a module's outputs and ends with
    those of its inputs.
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._known: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._has_callback = False
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is running."""
        return local.modes.backward_pass is not None

    def __enter__(self) -> Self:
        self._handles = [
            register_module_forward_pre_hook(self._fw_pre_hook),
            register_module_forward_hook(self._fw_post_hook, always_call=False),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()

    # --- names

    def _get_mod_name(self, module: Any) -> str:
        if module not in self._known:
            self._known[module] = type(module).__name__
        name = self._known[module]
        if module not in self._seen:
            for place, child in module.named_children():
                self._known[child] = f"{name}.{place}"
                self._get_mod_name(child)
            self._seen.add(module)
        return name

    # --- hooks

    def _enter_module(self, name: str, backward: bool) -> Callable[..., None]:
        def enter(*args: Any) -> None:
            if backward and not self._has_callback:
                queue_callback(self._end_of_pass)
                self._has_callback = True
            self.parents.add(name)

        return enter

    def _leave_module(self, name: str) -> Callable[..., None]:
        def leave(*args: Any) -> None:
            self.parents.discard(name)

        return leave

    def _end_of_pass(self) -> None:
        self.parents = {"Global"}
        self._has_callback = False

    def _fw_pre_hook(self, module: Any, args: Any) -> None:
        name = self._get_mod_name(module)
        self._enter_module(name, backward=False)()
        tensors = [part for part in leaves(args) if isinstance(part, TensorCore) and part.requires_grad]
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, self._leave_module(name)))

    def _fw_post_hook(self, module: Any, args: Any, output: Any) -> None:
        name = self._get_mod_name(module)
        self._leave_module(name)()
        tensors = [part for part in leaves(output) if isinstance(part, TensorCore) and part.requires_grad]
        if tensors:
            enter = self._enter_module(name, backward=True)
            self._handles.append(register_multi_grad_hook(tensors, enter, mode="any"))
