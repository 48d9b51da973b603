"""The one hook machinery: ordered maps of callables, the handle that removes one, and the line that calls user code.

`POINTS` is the table of all points at which PyTorch, and so undertow, calls hooks of the user. Docs are generated from
it, and tests go through it: each row has a registrar, a fire site and an order test.
"""

from __future__ import annotations

import copy
import functools
import itertools
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from undertow._src.base import tracer
from undertow._src.base.sites import PACKAGE, Site, outside, warn

Hook = Callable[..., Any]
HookMap = OrderedDict  # id -> callable; a real mutable mapping, because tools edit these in place

_ids = itertools.count()
_reference = weakref.ref
_frame = sys._getframe
_USER = 3  # frames above a handle's: `add` and a registrar lie between it and the user's line

noted: list[Any] | None = None  # while a step is compiled: the handles made meanwhile, and the hooks of saved tensors


class CountedHooks(OrderedDict[int, Any]):
    """A map of hooks. One counter counts the changes of all such maps, so one number tells whether any changed."""

    __slots__ = ()
    changes = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedDict, (), None, None, iter(self.items())

    def __deepcopy__(self, memo: dict[int, Any]) -> CountedHooks:
        copied = memo[id(self)] = type(self)()
        for identity, hook in self.items():
            copied[identity] = copy.deepcopy(hook, memo)
        return copied


def _counted(name: str) -> Callable[..., Any]:
    change = getattr(OrderedDict, name)

    @functools.wraps(change)
    def counted(self: CountedHooks, *args: Any, **kwargs: Any) -> Any:
        result = change(self, *args, **kwargs)
        CountedHooks.changes += 1  # after the change, so that a thread that sees the new number also sees the change
        return result

    return counted


CountedHooks.__name__ = CountedHooks.__qualname__ = "OrderedDict"  # as PyTorch's maps print
for _name in (
    "__setitem__",
    "__delitem__",
    "__ior__",
    "clear",
    "move_to_end",
    "pop",
    "popitem",
    "setdefault",
    "update",
):
    setattr(CountedHooks, _name, _counted(_name))


class HookId(int):
    """The key of a hook in its map. It knows the line that registered the hook."""

    code: CodeType
    at: int  # the instruction; its line is looked up on demand

    @property
    def site(self) -> Site | None:
        """Where the hook was registered."""
        if not hasattr(self, "code"):
            return None
        for start, end, line in self.code.co_lines():
            if start <= self.at < end and line is not None:
                return Site(self.code.co_filename, line, self.code.co_name)
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)  # code objects can't be pickled

    def __deepcopy__(self, memo: Any) -> HookId:
        return self


class RemovableHandle:
    """Removes a hook: by `remove()`, or on leaving a `with` block. It does not keep the hooked object alive."""

    __module__ = "undertow.utils.hooks"  # where PyTorch has it
    id: int
    hooks_dict_ref: weakref.ref[Any]
    extra_dict_ref: tuple[Any, ...] = ()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = _reference(hooks_dict)
        identity = self.id = HookId(next(_ids))
        try:
            frame = _frame(_USER)
        except ValueError:  # constructed directly, not by a registrar
            frame = _frame(1)
        if frame.f_code.co_filename.startswith(PACKAGE):
            frame = outside(frame) or frame
        identity.code, identity.at = frame.f_code, frame.f_lasti
        if noted is not None:
            noted.append(self)
        if extra_dict is not None:
            maps = extra_dict if isinstance(extra_dict, list) else (extra_dict,)
            self.extra_dict_ref = tuple([weakref.ref(each) for each in maps])

    def remove(self) -> None:
        """Remove the hook and everything recorded with it; a second call does nothing."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()

    def __getstate__(self) -> tuple[Any, ...]:
        extra = tuple(ref() for ref in self.extra_dict_ref)
        return (self.hooks_dict_ref(), self.id, extra)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, extra = state
        # If the map is gone, an empty one takes its place: removing from it is harmless.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if d is None else d) for d in extra)
        global _ids
        _ids = itertools.count(max(self.id + 1, next(_ids)))


def add(hooks: HookMap[int, Hook], hook: Hook, *, prepend: bool = False) -> RemovableHandle:
    """Put a hook at the end (or front) of a map and return its handle."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def defined(hook: Hook) -> str:
    """Return the sentence that names a hook and its line in messages; empty for a hook not written in Python."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    shown = getattr(hook, "__wrapped__", hook)  # the original of a wrapper
    function = getattr(shown, "__func__", shown if hasattr(shown, "__code__") else type(shown).__call__)
    code = getattr(function, "__code__", None)
    name = getattr(shown, "__name__", type(shown).__name__)
    return "" if code is None else f" The hook is {name}, at {code.co_filename}:{code.co_firstlineno}."


def fire(hook: Hook, /, *args: Any, decided: bool = False) -> Any:
    """Call a user's hook. This function has the only line of undertow that does.

    A user's hook is a callable that was registered at one of `POINTS`, put into a map of hooks by hand, or queued for the
    end of a backward pass. While a step is traced, the tracer takes over: it calls the hook with `decided=True`, or leaves
    that to the program. Wrappers around hooks (those of `why`) and calls on the host pass `decided=True`, too.
    """
    if tracer.hooks is None or decided:
        return hook(*args)
    return tracer.hooks.call_hook(hook, args)


def thread(hooks: HookMap[int, Hook], value: Any, check: Callable[[Hook, Any, Any], Any]) -> Any:
    """Pass a value through hooks in order; a result other than None replaces it, once `check` has accepted it.

    The list is read before the first hook runs, so hooks may add and remove hooks freely.
    """
    for hook in tuple(hooks.values()):
        result = fire(hook, value)
        if result is not None:
            value = check(hook, value, result)
    return value


class Point(NamedTuple):
    """A registration point: its registrar, the hook's arguments, the effect of its result, when the list is read.

    `everywhere` registers the same kind of hook for all modules or optimizers. Those hooks fire before an object's own;
    after a step, they fire after them.
    """

    name: str
    registrar: str
    arguments: str
    result: str
    read: str
    everywhere: str = ""


_ALL_MODULES = "nn.modules.module.register_module_"
_LOADING = "state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs"

POINTS = (
    Point("tensor.grad", "Tensor.register_hook", "grad", "replaces the gradient that flows on", "live"),
    Point("tensor.post_accumulate", "Tensor.register_post_accumulate_grad_hook", "tensor", "must be None", "live"),
    Point("node.pre", "Node.register_prehook", "grad_outputs", "replaces the node's incoming gradients", "live"),
    Point("node.post", "Node.register_hook", "grad_inputs, grad_outputs", "replaces the node's results", "live"),
    Point("multi_grad.all", "autograd.graph.register_multi_grad_hook", "grads", "ignored", "live"),
    Point("multi_grad.any", "autograd.graph.register_multi_grad_hook", "grad", "ignored", "live"),
    Point("saved.pack", "autograd.graph.saved_tensors_hooks", "tensor", "is stored in the tensor's place", "forward"),
    Point("saved.unpack", "autograd.graph.saved_tensors_hooks", "packed", "is used as the saved tensor", "forward"),
    Point("module.forward_pre", "nn.Module.register_forward_pre_hook", "module, args[, kwargs]",
          "replaces the arguments", "live", _ALL_MODULES + "forward_pre_hook"),
    Point("module.forward", "nn.Module.register_forward_hook", "module, args[, kwargs], output",
          "replaces the output", "live", _ALL_MODULES + "forward_hook"),
    Point("module.backward_pre", "nn.Module.register_full_backward_pre_hook", "module, grad_output",
          "replaces grad_output", "forward", _ALL_MODULES + "full_backward_pre_hook"),
    Point("module.backward", "nn.Module.register_full_backward_hook", "module, grad_input, grad_output",
          "replaces grad_input", "forward", _ALL_MODULES + "full_backward_hook"),
    Point("module.backward_old", "nn.Module.register_backward_hook", "module, grad_input, grad_output",
          "replaces the last node's results", "forward", _ALL_MODULES + "backward_hook"),
    Point("module.parameters_ready", "nn.Module.register_parameters_ready_hook", "module", "ignored", "live"),
    Point("module.parameter_registration", _ALL_MODULES + "parameter_registration_hook", "module, name, param",
          "replaces the parameter", "live"),
    Point("module.buffer_registration", _ALL_MODULES + "buffer_registration_hook", "module, name, buffer",
          "replaces the buffer", "live"),
    Point("module.module_registration", _ALL_MODULES + "module_registration_hook", "module, name, submodule",
          "replaces the submodule", "live"),
    Point("module.state_dict_pre", "nn.Module.register_state_dict_pre_hook", "module, prefix, keep_vars",
          "ignored", "live"),
    Point("module.state_dict", "nn.Module.register_state_dict_post_hook", "module, state_dict, prefix, local_metadata",
          "must be None", "live"),
    Point("module.load_state_dict_pre", "nn.Module.register_load_state_dict_pre_hook", "module, " + _LOADING,
          "ignored", "live"),
    Point("module.load_state_dict", "nn.Module.register_load_state_dict_post_hook", "module, incompatible_keys",
          "must be None", "live"),
    Point("optimizer.step_pre", "optim.Optimizer.register_step_pre_hook", "optimizer, args, kwargs",
          "replaces (args, kwargs)", "live", "optim.optimizer.register_optimizer_step_pre_hook"),
    Point("optimizer.step", "optim.Optimizer.register_step_post_hook", "optimizer, args, kwargs",
          "ignored", "live", "optim.optimizer.register_optimizer_step_post_hook"),
    Point("optimizer.state_dict_pre", "optim.Optimizer.register_state_dict_pre_hook", "optimizer", "ignored", "live"),
    Point("optimizer.state_dict", "optim.Optimizer.register_state_dict_post_hook", "optimizer, state_dict",
          "replaces the state dict", "live"),
    Point("optimizer.load_state_dict_pre", "optim.Optimizer.register_load_state_dict_pre_hook", "optimizer, state_dict",
          "replaces the state dict", "live"),
    Point("optimizer.load_state_dict", "optim.Optimizer.register_load_state_dict_post_hook", "optimizer",
          "ignored", "live"),
)  # fmt: skip


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of the hooks on a tensor that a pickle would drop."""
    for hook in (tensor._backward_hooks or {}).values():
        if not getattr(hook, "__torch_unserializable__", False):
            warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If it need not be, mark it with "
                "@torch.utils.hooks.unserializable_hook."
            )
