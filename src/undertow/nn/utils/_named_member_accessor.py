"""Get, set and swap tensors and submodules of a module by their dotted names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._tensor import Tensor
    from undertow.nn.modules.module import Module

_MISSING = object()


def _check(name: str, kind: str, value: object) -> None:
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if kind == "tensor" and not isinstance(value, TensorCore) and value is not None and value is not _MISSING:
        raise TypeError(f"{value} is not an instance of torch.Tensor")


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Set a parameter, buffer or attribute of a module, whichever has this name."""
    _check(name, "tensor", tensor)
    held = next((place for place in (module._parameters, module._buffers) if name in place), module.__dict__)
    held[name] = tensor


def swap_tensor(module: Module, name: str, tensor: Tensor, allow_missing: bool = False) -> Tensor:
    """Set a tensor like `set_tensor` and return the previous one."""
    _check(name, "tensor", tensor)
    held = next((place for place in (module._parameters, module._buffers) if name in place), None)
    if held is None:
        if name not in module.__dict__ and not allow_missing:
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        held = module.__dict__
    before = held.get(name, _MISSING)
    if tensor is _MISSING:
        held.pop(name, None)
    else:
        held[name] = tensor
    return before


def swap_submodule(module: Module, name: str, submodule: object) -> Module:
    """Replace a submodule and return the previous one."""
    _check(name, "submodule", submodule)
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before, module._modules[name] = module._modules[name], submodule
    return before


class NamedMemberAccessor:
    """The members of a module by their dotted names; submodules are looked up once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._found: dict[str, Any] = {"": module}

    def get_submodule(self, name: str) -> Module:
        """Return the submodule of this name."""
        if name not in self._found:
            prefix, _, last = name.rpartition(".")
            parent = self.get_submodule(prefix)
            if last not in parent._modules:
                raise AttributeError(f"{type(parent).__name__} has no attribute `{last}`")
            self._found[name] = parent._modules[last]
        return self._found[name]

    def swap_submodule(self, path: str, value: object) -> Module:
        """Replace a submodule and return the previous one."""
        prefix, _, last = path.rpartition(".")
        self._found.pop(path, None)
        return swap_submodule(self.get_submodule(prefix), last, value)

    def get_tensor(self, name: str) -> Any:
        """Return the tensor of this name."""
        prefix, _, last = name.rpartition(".")
        parent = self.get_submodule(prefix)
        found = getattr(parent, last, _MISSING)
        if found is _MISSING:
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if not isinstance(found, TensorCore) and found is not None:
            raise TypeError(f"{found} is not an instance of torch.Tensor")
        return found

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Set the tensor of this name."""
        prefix, _, last = name.rpartition(".")
        set_tensor(self.get_submodule(prefix), last, value)

    def del_tensor(self, name: str) -> None:
        """Delete the tensor of this name."""
        prefix, _, last = name.rpartition(".")
        delattr(self.get_submodule(prefix), last)

    def swap_tensor(self, name: str, value: Tensor, allow_missing: bool = False) -> Tensor:
        """Replace a tensor and return the previous one."""
        prefix, _, last = name.rpartition(".")
        return swap_tensor(self.get_submodule(prefix), last, value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        self.set_tensors(named_tensors, named_tensors.values())

    def del_tensors(self, names: Iterable[str]) -> None:
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        return [self.swap_tensor(name, value, allow_missing) for name, value in zip(names, values, strict=True)]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Any], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Swap many tensors; undo it all if one is missing. Return the previous tensors and the missing names."""
        before: dict[str, Any] = {}
        missing: list[str] = []
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing=True)
                if before[name] is _MISSING:
                    missing.append(name)
        finally:
            if missing and not allow_missing:
                for name, value in before.items():
                    self.swap_tensor(name, value, allow_missing=True)
        if missing and not allow_missing:
            raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return which names of tensors are missing among these, and which are unknown."""
        given = set(keys)
        known = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(known - given), sorted(given - known)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
