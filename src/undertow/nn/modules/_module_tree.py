"""A module as a tree: registering, traversing and converting parameters, buffers and submodules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from undertow.__future__ import get_overwrite_module_params_on_conversion, get_swap_module_params_on_conversion
from undertow._src.base import hooks
from undertow._src.base.modes import no_grad
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.tensor_types import typename
from undertow.nn.parameter import Parameter
from undertow.utils._swap import swap_tensors

if TYPE_CHECKING:
    from undertow._tensor import Tensor
    from undertow.nn.modules.module import Module

_global_module_registration_hooks: OrderedDict[int, hooks.Hook] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, hooks.Hook] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, hooks.Hook] = OrderedDict()


def register_module_buffer_registration_hook(hook: hooks.Hook) -> hooks.RemovableHandle:
    """hook(module, name, buffer) -> None or a replacement, when any module registers a buffer."""
    return hooks.add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: hooks.Hook) -> hooks.RemovableHandle:
    """hook(module, name, submodule) -> None or a replacement, when any module registers a submodule."""
    return hooks.add(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: hooks.Hook) -> hooks.RemovableHandle:
    """hook(module, name, param) -> None or a replacement, when any module registers a parameter."""
    return hooks.add(_global_parameter_registration_hooks, hook)


def registered(listed: OrderedDict[int, hooks.Hook], module: ModuleTree, name: str, value: object) -> Any:
    """Return a value after the registration hooks have seen or replaced it."""
    for hook in tuple(listed.values()):
        answer = hooks.fire(hook, module, name, value)
        if answer is not None:
            value = answer
    return value


class ModuleTree:
    """The part of a module that holds parameters, buffers and submodules."""

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    # --- registering

    def _check_name(self, kind: str, name: object, held: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in held:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not a parameter; a persistent one is part of the state dict."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, TensorCore):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Parameters are leaves: compute "
                f"'{name}' in forward() from the parameters that it depends on, or register detach() of it."
            )
        self._parameters[name] = registered(_global_parameter_registration_hooks, self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule."""
        if module is not None and not isinstance(module, ModuleTree):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = registered(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Call `add_module` (an alias)."""
        self.add_module(name, module)

    # --- finding

    def get_submodule(self, target: str) -> Module:
        """Return the submodule with this dotted name."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, ModuleTree):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Set the submodule with this dotted name; with `strict`, only if there is one already."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, ModuleTree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), ModuleTree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with this dotted name."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        found = getattr(module, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer with this dotted name."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    # --- walking

    def _named_members(
        self, get_members: Callable[[Any], Any], prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (path + "." if path else "") + name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield all parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters with their dotted names."""
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield all buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield all buffers with their dotted names."""
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all below it with their dotted names, parents first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self  # type: ignore[misc]  # a Module: this class is a part of it
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    # --- changing all

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call fn on every submodule, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)  # type: ignore[arg-type]
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Apply fn to every parameter's data and gradient and to every buffer.

        Parameters stay the same objects, unless they move to or from meta or torch.__future__ is set otherwise.
        """
        swap = get_swap_module_params_on_conversion()
        overwrite = get_overwrite_module_params_on_conversion()
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            grad = param.grad
            with no_grad():
                changed = fn(param)
                changed_grad = None if grad is None else fn(grad)
            if swap or hasattr(type(changed), "__tensor_flatten__"):
                self._swap(name, param, changed, grad, changed_grad)
                continue
            if overwrite or changed.is_meta != param.is_meta:
                self._parameters[name] = param = Parameter(changed, param.requires_grad)
            else:
                param.data = changed
            if changed_grad is not None and not overwrite and changed_grad.is_meta == grad.is_meta:
                param.grad = None  # a gradient of another dtype than its parameter's is refused
                grad.data = changed_grad
                param.grad = grad
            elif changed_grad is not None:
                param.grad = None
                param.grad = changed_grad.requires_grad_(grad.requires_grad) if changed_grad.is_leaf else changed_grad
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _swap(
        self, name: str, param: Tensor, changed: Tensor, grad: Tensor | None, changed_grad: Tensor | None
    ) -> None:
        """Swap a parameter and its gradient with their replacements; both stay the same objects."""
        param.grad = None
        try:
            swap_tensors(param, Parameter(changed, param.requires_grad))
            if grad is not None and changed_grad is not None:
                swap_tensors(grad, changed_grad.requires_grad_(grad.requires_grad))
        except Exception as error:
            raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{name}") from error
        param.grad = grad

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set requires_grad of all parameters."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()
