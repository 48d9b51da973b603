"""nn.Module: a tree of parameters and submodules that can be called, hooked, moved, saved and loaded."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from undertow._src.base.hooks import CountedHooks
from undertow._src.base.sites import warn
from undertow._src.tensor.methods.convert import _parse_to as parse_to
from undertow._src.tensor.methods.convert import device_named
from undertow._src.tensor.tensor_types import typename
from undertow._src.types.aliases import Device
from undertow._src.types.dtypes import dtype
from undertow._tensor import Tensor
from undertow.nn.modules import _hook_registry as _registry
from undertow.nn.modules import _module_tree as _tree
from undertow.nn.modules._backward_hook import BackwardHook as BackwardHook
from undertow.nn.modules._hook_registry import ModuleHooks
from undertow.nn.modules._module_text import ModuleText
from undertow.nn.modules._module_tree import ModuleTree, registered
from undertow.nn.modules._parameters_ready import attach as attach_parameters_ready
from undertow.nn.modules._state_dict import EXTRA_STATE_KEY_SUFFIX, StateDict
from undertow.nn.modules._state_dict import _IncompatibleKeys as _IncompatibleKeys
from undertow.nn.modules._state_dict import _WrappedHook as _WrappedHook
from undertow.nn.parameter import Buffer, Parameter

# Tools look for these here, as in PyTorch.
register_module_forward_pre_hook = _registry.register_module_forward_pre_hook
register_module_forward_hook = _registry.register_module_forward_hook
register_module_full_backward_pre_hook = _registry.register_module_full_backward_pre_hook
register_module_full_backward_hook = _registry.register_module_full_backward_hook
register_module_backward_hook = _registry.register_module_backward_hook
register_module_parameter_registration_hook = _tree.register_module_parameter_registration_hook
register_module_buffer_registration_hook = _tree.register_module_buffer_registration_hook
register_module_module_registration_hook = _tree.register_module_module_registration_hook
_global_forward_pre_hooks = _registry._global_forward_pre_hooks
_global_forward_hooks = _registry._global_forward_hooks
_global_forward_hooks_always_called = _registry._global_forward_hooks_always_called
_global_forward_hooks_with_kwargs = _registry._global_forward_hooks_with_kwargs
_global_backward_pre_hooks = _registry._global_backward_pre_hooks
_global_backward_hooks = _registry._global_backward_hooks
_global_parameter_registration_hooks = _tree._global_parameter_registration_hooks
_global_buffer_registration_hooks = _tree._global_buffer_registration_hooks
_global_module_registration_hooks = _tree._global_module_registration_hooks
_has_any_global_hook = _registry.has_any_global_hook
_EXTRA_STATE_KEY_SUFFIX = EXTRA_STATE_KEY_SUFFIX

_HOOK_MAPS = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


P = ParamSpec("P")
R = TypeVar("R", covariant=True)
ModuleT = TypeVar("ModuleT", bound="Module")


class HasForward(Protocol[P, R]):
    """An object whose call runs `forward`."""

    @property
    def forward(self) -> Callable[P, R]: ...


_PACKAGE = __name__.removesuffix("module")


def _evaluate_annotations(kind: type) -> None:
    """Replace the text of a class's annotations by types, as programs read them where its imports are unknown."""
    kind.__annotations__ = inspect.get_annotations(kind, eval_str=True)


class Module(ModuleHooks, StateDict, ModuleTree, ModuleText):
    """Base of all neural network modules.

    >>> class Twice(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = torch.nn.Parameter(torch.tensor(2.))
    ...     def forward(self, x):
    ...         return x * self.scale
    >>> Twice()(torch.ones(2))
    tensor([2., 2.], grad_fn=<MulBackward0>)
    """

    T_destination = TypeVar("T_destination", bound=dict[str, Any])
    dump_patches: bool = False
    call_super_init: bool = False
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if getattr(cls, "__module__", "").startswith(_PACKAGE):  # a class made by `exec` may have none
            _evaluate_annotations(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        put = super().__setattr__  # bypasses Module.__setattr__, which needs these
        put("training", True)
        put("_parameters", {})
        put("_buffers", {})
        put("_non_persistent_buffers_set", set())
        for name in _HOOK_MAPS:
            if name == "_forward_hooks":
                put("_is_full_backward_hook", None)  # where PyTorch has it: programs list the attributes
            put(name, CountedHooks())
        put("_modules", {})
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    if TYPE_CHECKING:  # a subclass's forward may have any signature, and a call has the same one
        forward: Callable[..., Any]

        def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Compute the module's output; every subclass overrides this."""
            raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

        __call__ = ModuleHooks._call_impl

    def compile(self, *args: object, **kwargs: object) -> None:
        """Do nothing: undertow compiles whole training steps (`undertow.compile`), not single modules."""

    # --- attributes

    def __setattr__(self, name: str, value: object) -> None:
        held = self.__dict__
        params = held.get("_parameters")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
            return
        modules = held.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, keep="_modules")
            modules[name] = registered(_global_module_registration_hooks, self, name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = registered(_global_module_registration_hooks, self, name, value)
            return
        buffers = held.get("_buffers")
        if isinstance(value, Buffer) or (buffers is not None and name in buffers):
            self._set_buffer(name, value)
            return
        super().__setattr__(name, value)

    def _set_buffer(self, name: str, value: object) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        self.register_buffer(name, value, persistent)

    def _forget(self, name: str, keep: str) -> None:
        """Remove the name from the other kinds of members; within the same kind it keeps its position."""
        self.__dict__.pop(name, None)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep:
                getattr(self, kind).pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind in held and name in held[kind]:
                return held[kind][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for held in (self._parameters, self._buffers, self._modules):
            if name in held:
                del held[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        # Not listed by dir(): programs list the registrars of a module and expect PyTorch's.
        names.discard("register_parameters_ready_hook")
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOK_MAPS:  # modules pickled by older versions lack some
            self.__dict__.setdefault(name, CountedHooks())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)
        ready = self.__dict__.get("_parameters_ready_hooks", OrderedDict())
        for identity, hook in list(ready.items()):
            attach_parameters_ready(ready, self, hook, identity)  # the copies of the parameters came without it

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    # --- dtype and device

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move or cast all parameters and buffers, in place: to a device, a floating dtype, or those of a tensor."""
        given = parse_to(args, kwargs)
        wanted, order = given.get("dtype"), given.get("memory_format")
        if given.get("device") is not None:
            device_named(given["device"])  # refuse an unknown device even where there is nothing to move
        if wanted is not None and not (wanted.is_floating_point or wanted.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={wanted}"
            )
        if wanted is not None and wanted.is_complex:
            warn(
                "Complex modules are a new feature under active development whose parts "
                "do not all compute with complex parameters and buffers."
            )

        def convert(tensor: Tensor) -> Tensor:
            kind = wanted if tensor.is_floating_point() or tensor.is_complex() else None
            options = {"memory_format": order} if order is not None and tensor.dim() in (4, 5) else {}
            return tensor.to(given.get("device"), kind, **options)

        return self._apply(convert)

    def float(self) -> Self:
        """Cast floating parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Cast floating parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Cast floating parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Cast floating parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def type(self, dst_type: dtype | str) -> Self:
        """Cast all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self) -> Self:
        """Move everything to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Device = None) -> Self:
        """Move everything to the GPU."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device: Device = None) -> Self:
        """Move everything to an XPU."""
        return self._apply(lambda t: t.xpu(device))

    def ipu(self, device: Device = None) -> Self:
        """Move everything to an IPU."""
        return self._apply(lambda t: t.to("ipu" if device is None else device))

    def mtia(self, device: Device = None) -> Self:
        """Move everything to an MTIA device."""
        return self._apply(lambda t: t.to("mtia" if device is None else device))

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Move everything to a device without copying values."""
        return self._apply(lambda t: t.new_empty(t.shape, device=device), recurse=recurse)

    def share_memory(self) -> Self:
        """Move everything to shared memory."""
        return self._apply(lambda t: t.share_memory_())


_evaluate_annotations(Module)


def _addindent(s_: str, numSpaces: int) -> str:
    """Indent all lines but the first; tools that print modules use it."""
    return s_.replace("\n", "\n" + " " * numSpaces)


_forward_unimplemented = Module.forward  # PyTorch's name
