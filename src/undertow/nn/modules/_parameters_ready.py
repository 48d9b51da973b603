"""A hook that fires once a backward pass has computed the gradients of all of a module's parameters. Not in PyTorch.

A post-accumulate hook on each parameter counts down. The count is set when the first gradient of a pass arrives: the
number of parameters that this pass will reach. Others (frozen or unused) are not waited for.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from undertow._src.base import hooks
from undertow._src.base.modes import local
from undertow._tensor import Tensor

if TYPE_CHECKING:
    from undertow._src.engine.engine import BackwardPass


class ParametersReady:
    """One registered hook, with a counter for each running backward pass."""

    def __init__(self, module: Any, hook: hooks.Hook) -> None:
        self.module = ref(module)
        self.hook = hook
        self.parameters = [ref(parameter) for parameter in module.parameters()]
        self.left: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # by pass: the number of gradients still to come
        self.lock = Lock()

    def __call__(self, parameter: Tensor) -> None:
        """Record that a parameter's gradient is in `.grad`."""
        task = local.modes.backward_pass
        with self.lock:
            left = self.left.get(task)
            left = self.left[task] = (self._awaited(task) if left is None else left) - 1
        module = self.module()
        if left == 0 and module is not None:
            hooks.fire(self.hook, module)

    def _awaited(self, task: BackwardPass) -> int:
        """Return how many of the parameters this pass reaches."""
        count = 0
        for parameter in self.parameters:
            tensor = parameter()
            meta = None if tensor is None else tensor._meta
            node = None if meta is None or meta.accumulator is None else meta.accumulator()
            if node is not None and task.reaches(node) and (task.executed is None or node in task.executed):
                count += 1
        return count


def attach(ready: OrderedDict[int, Any], module: Any, hook: hooks.Hook, identity: int | None = None) -> Any:
    """Register a hook on a module's parameters; its handle removes it from all of them."""
    counter = ParametersReady(module, hook)
    maps = []
    for parameter in module.parameters():
        meta = parameter._get_meta()
        if meta.post_hooks is None:
            meta.post_hooks = hooks.CountedHooks()
        maps.append(meta.post_hooks)
    handle = hooks.RemovableHandle(ready, extra_dict=maps)
    if identity is not None:
        handle.id = identity
    ready[handle.id] = hook
    for post_hooks in maps:
        post_hooks[handle.id] = counter
    return handle
