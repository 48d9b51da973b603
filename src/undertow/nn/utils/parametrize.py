"""Parametrizations: a tensor of a module is computed, each time it is read, from other tensors that are trained.

`register_parametrization(linear, "weight", Symmetric())` moves the weight to
`linear.parametrizations.weight.original` and makes `linear.weight` a property that calls `Symmetric` on it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn

from undertow._src.base.modes import no_grad
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.nn.modules.container import ModuleDict, ModuleList
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter

if TYPE_CHECKING:
    from undertow.nn.modules.module import ModuleT

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

_cache_enabled = 0
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute every parametrized tensor only once inside the block."""
    global _cache, _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _register_parameter_or_buffer(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _maybe_set(destination: Tensor, source: Any) -> None:
    """Give a tensor the memory of another; it stays the same object, for the optimizers that hold it."""
    destination.data = source.data


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order, and the tensors they start from.

    One tensor is held as `original`, several as `original0`, `original1`…
    """

    original: Any

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = {"dtype": original.dtype, "shape": original.shape}
        new = self._starting_values(original)
        self.is_tensor = isinstance(new, TensorCore)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._hold_one(original, new)
        else:
            self._hold_several(original, new)
        if not unsafe:
            _check_kept(before, self(), "unparametrized", "parametrized", "unless `unsafe` flag is enabled.")

    def _starting_values(self, original: object) -> Any:
        """Return the original after the parametrizations' right inverses, last one first."""
        new = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, TensorCore) and not isinstance(new, Sequence):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(new).__name__}"
            )
        return new

    def _hold_one(self, original: Tensor, new: Tensor) -> None:
        if original.dtype != new.dtype:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
            )
        with no_grad():
            _maybe_set(original, new)
        _register_parameter_or_buffer(self, "original", original)

    def _hold_several(self, original: Tensor, new: Sequence[Any]) -> None:
        for place, part in enumerate(new):
            if not isinstance(part, TensorCore):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors; "
                    f"element {place} of what it returned is {type(part).__name__}."
                )
            held: Any = part
            if isinstance(original, Parameter):
                held = Parameter(held, original.requires_grad)
            held.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{place}", held)

    def right_inverse(self, value: object) -> None:
        """Set the originals so that the parametrized tensor becomes this value."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, TensorCore):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                given: Any = value
                if given.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {given.dtype} while `original` has dtype "
                        f"{self.original.dtype}"
                    )
                _maybe_set(self.original, given)
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                    f"length {len(value)}."
                )
            for place, part in enumerate(value):
                original = getattr(self, f"original{place}")
                if not isinstance(part, TensorCore):
                    raise ValueError(
                        f"`right_inverse` must return a sequence of tensors. Got element {place} of type "
                        f"{type(part).__name__}"
                    )
                if original.dtype != part.dtype:
                    raise ValueError(
                        f"Tensor {place} returned by `right_inverse` has dtype {part.dtype} "
                        f"while `original{place}` has dtype {original.dtype}"
                    )
                _maybe_set(original, part)

    def forward(self) -> Any:
        first, *rest = self
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*[getattr(self, f"original{place}") for place in range(self.ntensors)])
        for module in rest:
            value = module(value)
        return value


def _check_kept(before: dict[str, Any], after: object, name_before: str, name_after: str, ending: str) -> None:
    """Check that a parametrization returns a tensor of the same dtype and shape."""
    if not isinstance(after, TensorCore):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what, one in before.items():
        other = getattr(after, what)
        if one != other:
            separator = " " if name_before == "unparametrized" else "."
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, {ending}\n"
                f"{name_before}{separator}{what}: {one}\n{name_after}{separator}{what}: {other}"
            )


# --- a new class for each parametrized module


def _inject_new_class(module: Module) -> None:
    """Give the module its own class, because properties belong to classes."""
    cls = type(module)

    def copy_deeply(self: Module, memo: dict[int, Any]) -> Module:
        if id(self) in memo:
            return memo[id(self)]
        replica = memo[id(self)] = self.__new__(type(self))
        replica.__dict__ = deepcopy(self.__dict__, memo)
        names = copyreg._slotnames(type(self))  # type: ignore[attr-defined]
        for name in names:
            if hasattr(self, name):
                setattr(replica, name, deepcopy(getattr(self, name), memo))
        return replica

    def refuse_pickling(self: object) -> NoReturn:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). Save that, and load it into "
            "a module parametrized in the same way."
        )

    body: dict[str, Any] = {"__getstate__": refuse_pickling, "__module__": __name__}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = copy_deeply
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module: Module, tensor_name: str) -> None:
    """Make `module.tensor_name` compute the tensor, and assigning to it go through `right_inverse`."""
    if hasattr(module, tensor_name):
        raise AssertionError(f"module already has an attribute named '{tensor_name}'")

    def read(self: Any) -> Any:
        if not _cache_enabled:
            return self.parametrizations[tensor_name]()
        key = (id(self), tensor_name)
        if key not in _cache:
            _cache[key] = self.parametrizations[tensor_name]()
        return _cache[key]

    def write(self: Any, value: Any) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(read, write))


def register_parametrization(
    module: ModuleT, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> ModuleT:
    """Compute `module.tensor_name` by a parametrization from now on; several are applied one after the other.

    A parametrization is a module: `forward` computes the tensor, and an optional `right_inverse` maps a value back to
    an input of forward. Unless `unsafe`, shape and dtype must not change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_addition(module, tensor_name, parametrization)
        listed = module.parametrizations[tensor_name]
        listed.append(parametrization)
        listed.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        listed = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = listed
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def _check_addition(module: Module, tensor_name: str, parametrization: Module) -> None:
    """Check that a further parametrization keeps shape and dtype, both ways."""
    before = getattr(module, tensor_name)
    after = parametrization(before)
    name = f"module.{tensor_name}"
    kept = {"dtype": before.dtype, "shape": before.shape}
    _check_kept(kept, after, name, f"parametrization({name})", "unless the `unsafe` flag is enabled.")
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, TensorCore):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what, one in kept.items():
        other = getattr(back, what)
        if one != other:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as {name}, unless the "
                f"`unsafe` flag is enabled.\n{name}.{what}: {one}\nreturned {what}: {other}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, of any tensor or of a given one."""
    parametrizations = getattr(module, "parametrizations", None)
    if parametrizations is None or not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: ModuleT, tensor_name: str, leave_parametrized: bool = True) -> ModuleT:
    """Make the tensor a plain one again, with its parametrized value or with the original's."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
            _maybe_set(original, value)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is computed from a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """Return a module's class, or the one it had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: ModuleT, to_module: ModuleT, tensor_name: str | None = None
) -> ModuleT:
    """Parametrize a module like a given one, with the same originals."""
    if not is_parametrized(from_module):
        return to_module
    if tensor_name is not None and tensor_name not in from_module.parametrizations:
        raise AssertionError(f"tensor_name '{tensor_name}' is not parametrized in from_module")
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        listed = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in listed:
            register_parametrization(to_module, name, parametrization)
        given = to_module.parametrizations[name]
        if hasattr(listed, "original"):
            given.original = listed.original
        else:
            place = 0
            while hasattr(listed, f"original{place}"):
                setattr(given, f"original{place}", getattr(listed, f"original{place}"))
                place += 1
    return to_module
