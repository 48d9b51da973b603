"""Observe registrations of hooks: every registration on either engine makes a RemovableHandle, which is patched here.

The records stay after the block, so that `why.hooks` and `why.hook` can report where a hook was registered. They keep
neither the hook nor its owner alive.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from undertow.why.objects import package_of, packages, part, places, unwrapped
from undertow.why.places import Place

# registering function -> the kind of hook, as reports show it
KINDS = {
    "register_hook": "tensor",
    "register_post_accumulate_grad_hook": "post-accumulate",
    "register_prehook": "node-pre",
    "_register_hook": "node",
    "register_forward_pre_hook": "forward-pre",
    "register_forward_hook": "forward",
    "register_full_backward_pre_hook": "full-backward-pre",
    "register_full_backward_hook": "full-backward",
    "register_backward_hook": "backward",
    "register_module_forward_pre_hook": "global forward-pre",
    "register_module_forward_hook": "global forward",
    "register_module_full_backward_pre_hook": "global full-backward-pre",
    "register_module_full_backward_hook": "global full-backward",
    "register_module_backward_hook": "global backward",
    "register_step_pre_hook": "step-pre",
    "register_step_post_hook": "step-post",
    "register_optimizer_step_pre_hook": "global step-pre",
    "register_optimizer_step_post_hook": "global step-post",
}
# Functions of the engine that turn backward hooks of modules into hooks on nodes during forward.
_WIRING = ("_set_user_hook", "setup_output_hook", "setup_input_hook", "_apply_on_tensors")

_WATCHER = os.path.join("why", "watch", "backward.py")  # registers its own hooks on the nodes of a backward pass


def place_in(identity: Any) -> Place | None:
    """Return where a hook was registered, from its id in undertow's map of hooks."""
    site = getattr(identity, "site", None)
    return None if site is None else Place(site.filename, site.lineno, site.function, (None, None, None), None)


class Listener(Protocol):
    """An object that is notified of hooks."""

    def seen(self, registration: Registration) -> None:
        """Handle a hook that is being registered; it is added to its map only after this."""

    def settle(self) -> None:
        """Prepare for a module call or a backward pass, which read the hooks in the maps."""


class Registration:
    """One observed registration of a hook."""

    __slots__ = ("_owner", "fired", "handle", "kind", "owner_type", "package", "place", "removed", "wiring")

    def __init__(self, handle: Any, frame: FrameType | None) -> None:
        self.handle = handle  # refers weakly to the map that holds the hook
        self.package = package_of(handle)
        self.fired: int | None = None  # None: calls are not counted
        self.place: Place | None = None
        self.removed: Place | None = None  # where its handle was removed
        owner: Any = None
        self.kind = "hook"
        self.wiring = False
        registrar, depth, is_helper = frame, 0, False
        finder = places()
        while frame is not None and depth < 6 and not finder.is_user(frame.f_code):
            code = frame.f_code
            called = depth == 1 and code.co_name == "_call_impl"
            if called or code.co_name in _WIRING or code.co_filename.endswith(_WATCHER):
                self.wiring = True
                break
            if code.co_name.lstrip("_").startswith("register_") and (self.kind == "hook" or is_helper):
                owner = frame.f_locals.get("self")
                self.kind = KINDS.get(code.co_name) or code.co_name.removeprefix("register_").replace("_", "-")
                is_helper = code.co_name not in KINDS  # a helper of the registering functions
            elif self.kind == "tensor" and code.co_name == "register_multi_grad_hook":
                self.kind = "multi-grad"
            frame, depth = frame.f_back, depth + 1
        if not self.wiring:
            self.place = finder.of(registrar)
        if self.kind == "tensor" and hasattr(owner, "next_functions"):
            self.kind = "node"
        self.owner_type = "" if owner is None else type(owner).__name__
        self._owner: Any = None
        try:
            self._owner = None if owner is None else weakref.ref(owner)
        except TypeError:  # PyTorch's nodes allow no weak references
            pass

    def owner(self) -> Any:
        """Return the hooked module, tensor or optimizer; None if it was freed or is not known."""
        return None if self._owner is None else self._owner()

    def hook(self) -> Any:
        """Return the function that is in the map now; None once it is removed or its owner is freed."""
        hooks = self.handle.hooks_dict_ref()
        return None if hooks is None else hooks.get(self.handle.id)

    def replace(self, hook: Any) -> None:
        """Replace the function in the map, keeping its position."""
        hooks = self.handle.hooks_dict_ref()
        if hooks is not None and self.handle.id in hooks:
            hooks[self.handle.id] = hook

    def owner_text(self) -> str:
        if self.kind.startswith("global"):
            return "every optimizer" if "step" in self.kind else "every module"
        owner = self.owner()
        if hasattr(owner, "grad_fn"):
            return tensor_text(owner)
        return self.owner_type or "a graph node"


class HookWrapper:
    """A wrapper in the place of a user's hook. It pickles as the hook itself; its deep copy wraps a copy of the hook."""

    def __init__(self, hook: Any) -> None:
        self.__wrapped__ = hook

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)  # such as __name__, which error messages show

    def __reduce__(self) -> Any:
        return unwrapped, (self.__wrapped__,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__, __wrapped__=copy.deepcopy(self.__wrapped__, memo))
        return copied


def tensor_text(tensor: Any) -> str:
    """Return a text for a tensor without a name: its shape and the node that made it."""
    made = "" if tensor.grad_fn is None else f" of {tensor.grad_fn.name().rpartition('::')[2]}"
    return f"{type(tensor).__name__}{list(tensor.shape)}{made}"


_KNOWN: dict[tuple[Any, int], Registration] = {}  # (engine, handle id) -> its registration
_MOST_KNOWN = 10_000
_listeners: list[Listener] = []
_undo: list[tuple[Any, str, Any]] = []


def seen(package: Any, handle_id: int) -> Registration | None:
    """Return the registration with this handle, if it was observed."""
    return _KNOWN.get((package, handle_id))


def all_seen(package: Any) -> list[Registration]:
    return [known for known in list(_KNOWN.values()) if known.package is package]


def listen(listener: Listener) -> None:
    """Notify a listener of every hook from now on, until `unlisten`."""
    if not _listeners:
        for package in packages():
            _install(package)
    _listeners.append(listener)


def unlisten(listener: Listener) -> None:
    _listeners.remove(listener)
    if not _listeners:
        while _undo:
            owner, name, original = _undo.pop()
            setattr(owner, name, original)


def settle() -> None:
    for listener in tuple(_listeners):
        listener.settle()


def _install(package: Any) -> None:
    _replace(part(package, "utils.hooks").RemovableHandle, "__init__", _recorded)
    _replace(part(package, "utils.hooks").RemovableHandle, "remove", _removed)
    _replace(part(package, "nn").Module, "__call__", _settled_first)
    _replace(package.Tensor, "backward", _settled_first)
    _replace(package.autograd, "backward", _settled_first)
    _replace(package.autograd, "grad", _settled_first)


def _replace(owner: Any, name: str, around: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    _undo.append((owner, name, original))
    setattr(owner, name, functools.wraps(original)(around(original)))


def _settled_first(original: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        settle()
        return original(*args, **kwargs)

    return call


def _removed(original: Any) -> Any:
    def remove(handle: Any) -> None:
        known = _KNOWN.get((package_of(handle), getattr(handle, "id", -1)))
        if known is not None and known.removed is None:
            known.removed = places().of(sys._getframe(1))
        original(handle)

    return remove


def _recorded(original: Any) -> Any:
    def __init__(handle: Any, *args: Any, **kwargs: Any) -> None:
        original(handle, *args, **kwargs)
        if not hasattr(handle, "id"):  # the handle of a multi-grad hook, which holds one handle per tensor
            return
        registration = Registration(handle, sys._getframe(1))
        if registration.wiring:
            return
        if len(_KNOWN) >= _MOST_KNOWN:
            del _KNOWN[next(iter(_KNOWN))]
        _KNOWN[registration.package, handle.id] = registration
        for listener in tuple(_listeners):
            listener.seen(registration)

    return __init__
