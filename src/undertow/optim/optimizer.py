"""Optimizer, the base class: parameter groups, state per parameter, checkpoints and hooks."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from typing import Any, TypeAlias

from undertow._src.base import hooks
from undertow._src.base.hooks import RemovableHandle
from undertow._src.base.sites import warn
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import float32
from undertow._tensor import Tensor
from undertow.optim import _helpers
from undertow.optim._helpers import *  # noqa: F403  optimizers written for PyTorch import these from here

# Tensors, (name, tensor) pairs, or dicts that describe groups.
ParamsT: TypeAlias = "Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]"
StateDict: TypeAlias = dict[str, Any]
Hooks = OrderedDict[int, hooks.Hook]

# Hooks on every optimizer's step. Tools edit these in place.
_global_optimizer_pre_hooks: Hooks = hooks.CountedHooks()
_global_optimizer_post_hooks: Hooks = hooks.CountedHooks()

_HOOK_MAPS = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip


class _RequiredParameter:
    """Marks in `defaults` an option that every parameter group must specify."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: hooks.Hook) -> RemovableHandle:
    """hook(optimizer, args, kwargs) -> None or (args, kwargs), before the step of every optimizer."""
    return hooks.add(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: hooks.Hook) -> RemovableHandle:
    """hook(optimizer, args, kwargs) -> None, after the step of every optimizer."""
    return hooks.add(_global_optimizer_post_hooks, hook)


class Optimizer:
    """Base of all optimizers: a subclass defines the default options of a parameter group and `step`."""

    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        for name in _HOOK_MAPS:
            setattr(self, name, hooks.CountedHooks())
        self._patch_step_function()
        if isinstance(params, TensorCore):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, not "
                + _typename(params)
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOK_MAPS:
            self.__dict__.setdefault(name, hooks.CountedHooks())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for number, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {number}"] if number else [f"Parameter Group {number}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # --- the step and its hooks

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters from their gradients; `closure`, if given, recomputes the loss first."""
        raise NotImplementedError

    def _patch_step_function(self) -> None:
        """Make this optimizer's class fire step hooks; done per object, because the class's step may be replaced."""
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        cls: Any = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a step to fire the hooks: global ones, then its own before; its own, then global ones after.

        Hooks fire once for a step: when a subclass's step calls `super().step()`, only the outermost one fires.
        """

        @functools.wraps(func)
        def step(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            held = self.__dict__
            outer = held.get("_stepping")
            if outer is not None and outer is not step:
                return func(*args, **kwargs)
            held["_stepping"] = step
            try:
                for listed in (_global_optimizer_pre_hooks, self._optimizer_step_pre_hooks):
                    for hook in tuple(listed.values()) if listed else ():
                        result = hooks.fire(hook, self, args, kwargs)
                        if result is not None:
                            args, kwargs = _new_arguments(self, func, result)
                answer = func(*args, **kwargs)
                for listed in (self._optimizer_step_post_hooks, _global_optimizer_post_hooks):
                    for hook in tuple(listed.values()) if listed else ():
                        hooks.fire(hook, self, args, kwargs)
                return answer
            finally:
                if outer is None:
                    held.pop("_stepping", None)
                else:
                    held["_stepping"] = outer

        step.hooked = True  # type: ignore[attr-defined]
        return step

    def _optimizer_step_code(self) -> None:
        """Do nothing: a name for profilers."""

    def _accelerator_graph_capture_health_check(self) -> None:
        """Do nothing: steps written for PyTorch call it, but there is no graph capture here."""

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check
    _group_tensors_by_device_and_dtype = staticmethod(_helpers._group_tensors_by_device_and_dtype)

    def register_step_pre_hook(self, hook: hooks.Hook) -> RemovableHandle:
        """hook(optimizer, args, kwargs) -> None or (args, kwargs), before this optimizer's step.

        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
        >>> handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("about to step"))
        >>> optimizer.step()
        about to step
        """
        return hooks.add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: hooks.Hook) -> RemovableHandle:
        """hook(optimizer, args, kwargs) -> None, after this optimizer's step."""
        return hooks.add(self._optimizer_step_post_hooks, hook)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or fill them with zeros if set_to_none=False."""
        for group in self.param_groups:
            for param in group["params"]:
                meta = param._meta
                if meta is None or meta.grad is None:
                    continue
                if set_to_none:
                    meta.grad = None
                    continue
                grad = meta.grad
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    # --- parameter groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group; options that it does not specify take the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections: a set gives them in a different order "
                "in each run. Give a list."
            )
        listed = [given] if isinstance(given, TensorCore) else list(given)
        param_group["params"] = listed
        names = [entry[0] for entry in listed if isinstance(entry, tuple)]
        if names:
            param_group["params"] = [entry[1] if isinstance(entry, tuple) else entry for entry in listed]
            param_group["param_names"] = names
            if len(names) != len(listed):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        params = param_group["params"]
        for param in params:
            self._check_param(param)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(params) != len({id(param) for param in params}):
            warn(
                "optimizer contains a parameter group with duplicate parameters; each is updated as often as it is listed. "
                "List it once: it may become an error."
            )
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            kind = "with names" if "param_names" in param_group else "without names"
            raise ValueError(
                f"all optimizer param groups should be with/without names. One {kind} does not go with those here"
            )
        seen = {id(param) for group in self.param_groups for param in group["params"]}
        if any(id(param) in seen for param in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _check_param(self, param: Any) -> None:
        if not isinstance(param, TensorCore):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_typename(param)}")
        tensor: Any = param
        if not self.defaults.get("differentiable") and not (tensor.is_leaf or tensor.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    # --- checkpoints

    def register_state_dict_pre_hook(self, hook: hooks.Hook, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer) -> None, before state_dict collects the state."""
        return hooks.add(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: hooks.Hook, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer, state_dict) -> None or the dict to return instead."""
        return hooks.add(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: hooks.Hook, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer, state_dict) -> None or the dict to load instead. The dict is a shallow copy of the given one."""
        return hooks.add(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: hooks.Hook, prepend: bool = False) -> RemovableHandle:
        """hook(optimizer) -> None, after a state was loaded."""
        return hooks.add(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)

    def state_dict(self) -> StateDict:
        """Return the state and the groups' options, with parameters replaced by their indices."""
        for hook in tuple(self._optimizer_state_dict_pre_hooks.values()):
            hooks.fire(hook, self)
        number_of: dict[int, int] = {}
        groups, count = [], 0
        for group in self.param_groups:
            listed = enumerate(group["params"], count)
            number_of |= {id(param): number for number, param in listed if id(param) not in number_of}
            count += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [number_of[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {number_of[id(key)] if isinstance(key, TensorCore) else key: value for key, value in self.state.items()}
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in tuple(self._optimizer_state_dict_post_hooks.values()):
            answer = hooks.fire(hook, self, result)
            if answer is not None:
                result = answer
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load a state: the groups' options, and the buffers cast to the parameters' dtypes."""
        state_dict = state_dict.copy()
        for hook in tuple(self._optimizer_load_state_dict_pre_hooks.values()):
            answer = hooks.fire(hook, self, state_dict)
            if answer is not None:
                state_dict = answer
        saved = deepcopy(state_dict["param_groups"])
        groups = self.param_groups
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(group["params"]) != len(given["params"]) for group, given in zip(groups, saved)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of this one's")
        param_of = {
            number: param
            for group, given in zip(groups, saved)
            for number, param in zip(given["params"], group["params"])
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in param_of:
                state[param_of[key]] = self._fit(value, param_of[key], key, state_dict["param_groups"])
            else:
                state[key] = value
        for group, given in zip(groups, saved):
            given["params"] = group["params"]
            if "param_names" in group:
                given.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in tuple(self._optimizer_load_state_dict_post_hooks.values()):
            hooks.fire(hook, self)

    def _fit(self, value: Any, param: Any, number: Any, groups: list[dict[str, Any]], key: Hashable = None) -> Any:
        """Return a loaded value with its tensors, also those in dicts and lists, cast to match the parameter."""
        if isinstance(value, TensorCore):
            return self._process_value_according_to_param_policy(param, value, number, groups, key)
        if isinstance(value, dict):
            return {name: self._fit(part, param, number, groups, name) for name, part in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            return type(value)(self._fit(part, param, number, groups) for part in value)  # type: ignore[call-arg]
        return value

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Any, value: Any, param_id: Any, param_groups: list[dict[str, Any]], key: Hashable = None
    ) -> Any:
        """Cast a buffer to its parameter's dtype and device; step counts stay on the CPU if not capturable or fused."""
        if key == "step":
            group = next((group for group in param_groups if param_id in group["params"]), {})
            if group.get("capturable", False) or group.get("fused", False):
                return value.to(dtype=float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)


def _new_arguments(optimizer: Optimizer, func: Callable[..., Any], result: Any) -> tuple[Any, Any]:
    if isinstance(result, tuple) and len(result) == 2:
        return result
    name = f"<function {type(optimizer).__qualname__}.step at {id(func):#x}>"
    raise RuntimeError(
        f"{name} must return None or a tuple of (new_args, new_kwargs), but got {result}. "
        "That is what one of its step pre-hooks returned."
    )


def _typename(value: Any) -> str:
    """Return PyTorch's name of a value's type: `torch.FloatTensor`, `str`, `package.module.Class`."""
    if isinstance(value, TensorCore):
        return value.type()
    cls = type(value)
    prefix = "" if cls.__module__ in ("builtins", "__builtin__", None) else cls.__module__ + "."
    return prefix + cls.__qualname__
