"""Saving a module's state as a flat dict and loading it, with the hooks around both."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from undertow.__future__ import get_swap_module_params_on_conversion
from undertow._src.base import hooks
from undertow._src.base.modes import no_grad
from undertow._src.base.sites import warn
from undertow._src.tensor.core import TensorCore
from undertow.nn.parameter import Parameter, is_lazy
from undertow.utils._swap import swap_tensors

EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class _WrappedHook:
    """A registered load pre-hook; it may take the module too, to which it holds a weak reference."""

    def __init__(self, hook: hooks.Hook, module: StateDict | None = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        self.module = None if module is None else weakref.ref(module)

    def __call__(self, *args: object) -> None:
        if self.module is None:
            return hooks.fire(self.hook, *args)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return hooks.fire(self.hook, module, *args)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": None if self.module is None else self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["hook"], state["module"])  # type: ignore[misc]


class StateDict:
    """The part of a module that saves and loads its state."""

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, hooks.Hook]
    _state_dict_pre_hooks: OrderedDict[int, hooks.Hook]
    _load_state_dict_pre_hooks: OrderedDict[int, hooks.Hook]
    _load_state_dict_post_hooks: OrderedDict[int, hooks.Hook]

    # --- hooks

    def register_state_dict_pre_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """hook(module, prefix, keep_vars), before the module's state is collected."""
        return hooks.add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata) -> None; may change state_dict in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return hooks.add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """Register a state dict hook under the older name; the hook's result, if any, replaces the dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook and by register_state_dict_post_hook"
            )
        return hooks.add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: hooks.Hook, with_module: bool = False) -> hooks.RemovableHandle:
        return hooks.add(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """hook(module, incompatible_keys) -> None; may change the lists of keys in place."""
        return hooks.add(self._load_state_dict_post_hooks, hook)

    # --- out

    def get_extra_state(self) -> Any:
        """Return the state of a subclass beyond its tensors."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please define it together with "
            "set_extra_state()."
        )

    def set_extra_state(self, state: object) -> None:
        """Restore what get_extra_state returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please define it together with "
            "get_extra_state()."
        )

    def _has_extra_state(self, which: str) -> bool:
        return getattr(type(self), which, getattr(StateDict, which)) is not getattr(StateDict, which)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._has_extra_state("get_extra_state"):
            destination[prefix + EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: object, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return all parameters and persistent buffers by their full names (detached unless keep_vars)."""
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Give destination, prefix and "
                "keep_vars by their names.",
                FutureWarning,
            )
            given: tuple[Any, ...] = (*args, *(destination, prefix, keep_vars)[len(args) :])
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hooks.fire(hook, self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in tuple(self._state_dict_hooks.values()):
            answer = hooks.fire(hook, self, destination, prefix, local_metadata)
            if answer is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = answer
        return destination

    # --- in

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load this module's own tensors; record what is missing, unexpected or wrong."""
        self._upgrade_own_entries(state_dict, prefix, local_metadata.get("version"), error_msgs)
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hooks.fire(
                hook, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
            )  # fmt: skip
        persistent = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        own = {k: v for k, v in (*self._parameters.items(), *persistent.items()) if v is not None}
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        for name, param in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            error = _load_one(self, name, key, param, state_dict[key], assign)
            if error is not None:
                error_msgs.append(error)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + EXTRA_STATE_KEY_SUFFIX:
                    first = key[len(prefix) :].split(".", 1)
                    if len(first) > 1:
                        if first[0] not in self._modules:
                            unexpected_keys.append(key)
                    elif first[0] not in own:
                        unexpected_keys.append(key)

    def _upgrade_own_entries(
        self, state_dict: dict[str, Any], prefix: str, version: int | None, error_msgs: list[str]
    ) -> None:
        """Convert this module's part of an older checkpoint to the current version, in place."""

    def _load_extra_state(
        self, state_dict: dict[str, Any], prefix: str, strict: bool, missing_keys: list[str], unexpected_keys: list[str]
    ) -> None:
        key = prefix + EXTRA_STATE_KEY_SUFFIX
        if self._has_extra_state("set_extra_state"):
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy a state into this module, or use its tensors with assign; return the missing and unexpected keys."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]

        _load_tree(self, state, "", metadata, assign, missing, unexpected, errors)
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(missing, unexpected)


def _load_tree(
    module: StateDict, part: dict[str, Any], prefix: str, metadata: Any, assign: bool, missing: list[str],
    unexpected: list[str], errors: list[str],
) -> None:  # fmt: skip
    """Load a module and those inside it. (Not a closure that calls itself: that would leave a reference cycle.)"""
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(part, prefix, local_metadata, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = prefix + name + "."
            inside = {k: v for k, v in part.items() if k.startswith(inner)}
            _load_tree(child, inside, inner, metadata, assign, missing, unexpected, errors)
    report = _IncompatibleKeys(missing, unexpected)
    for hook in tuple(module._load_state_dict_post_hooks.values()):
        if hooks.fire(hook, module, report) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                "anything: they change incompatible_keys itself."
            )


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def _load_one(module: StateDict, name: str, key: str, param: Any, given: Any, assign: bool) -> str | None:
    """Load one tensor; return what is wrong with it, if anything."""
    if not isinstance(given, TensorCore):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object there, '
            f"not {type(given)}"
        )
    given_any: Any = given
    lazy = is_lazy(param)
    if not lazy and param.dim() == 0 and given_any.dim() == 1 and given_any.shape[0] == 1:
        given_any = given_any[0]  # 0-dim tensors were saved with one dim in old checkpoints
    if not lazy and given_any.shape != param.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {given_any.shape} from checkpoint, but "
            f"the model's is of {param.shape}."
        )
    if param.is_meta and not given_any.is_meta and not assign:
        warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to one on the device `meta` does nothing: it "
            "has no memory to copy into. Pass assign=True to put the checkpoint's tensors into the module."
        )
    swap = get_swap_module_params_on_conversion()
    try:
        with no_grad():
            if swap and not lazy:
                loaded = param.module_load(given_any, assign=assign)
                if loaded is param or loaded is given_any:
                    raise RuntimeError(
                        f"module_load returned one of self or other, please .detach() the result for {key}"
                    )
                if isinstance(param, Parameter) and not isinstance(loaded, Parameter):
                    loaded = Parameter(loaded, param.requires_grad)
                swap_tensors(param, loaded.requires_grad_(param.requires_grad))
            elif not assign:
                if lazy and not is_lazy(given_any):
                    param.materialize(given_any.shape)
                param.copy_(given_any)
            elif isinstance(param, Parameter):
                taken = given_any if isinstance(given_any, Parameter) else Parameter(given_any, param.requires_grad)
                taken.requires_grad_(param.requires_grad)
                setattr(module, name, taken)
            else:
                setattr(module, name, given_any)
    except Exception as error:
        return (
            f'While {"swapping" if swap else "copying"} the parameter named "{key}", whose dimensions in the model are '
            f"{param.size()}, from a tensor of {given_any.size()}, this was raised: {error.args}."
        )
    return None
