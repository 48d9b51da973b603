"""Modules that hold others: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import TYPE_CHECKING, Any, SupportsIndex

from undertow._src.base.sites import warn
from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.nn.modules._module_text import indent
from undertow.nn.modules.module import Module
from undertow.nn.modules.module import _addindent as _addindent
from undertow.nn.parameter import Parameter


def _place(index: SupportsIndex, length: int) -> int:
    """Return a list index as a non-negative one, after a bounds check."""
    place = operator.index(index)
    if not -length <= place < length:
        raise IndexError(f"index {place} is out of range")
    return place % length


class Container(Module):
    """A module with the given children (deprecated: any Module can do this)."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warn(
            "`nn.Container` is deprecated. All of its functionality is now in `nn.Module`: derive from that instead.",
            FutureWarning,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Module):
    """Passes its input through its modules, one after the other."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        alone = args[0] if len(args) == 1 else None
        children = alone if isinstance(alone, OrderedDict) else {str(place): each for place, each in enumerate(args)}
        for name, module in children.items():
            self.add_module(name, module)

    def _name_at(self, index: SupportsIndex) -> str:
        length = len(self)
        place = operator.index(index)
        if not -length <= place < length:
            raise IndexError(f"index {place} is out of range")
        return list(self._modules)[place % length]

    def _renumber(self, modules: Iterable[Any]) -> None:
        self._modules = {str(place): module for place, module in enumerate(modules)}

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __add__(self, other: object) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: object) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        self._check_times(times)
        return Sequential(*[module for _ in range(times) for module in self])

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        self._check_times(times)
        return self.extend([module for _ in range(times - 1) for module in list(self)])

    def _check_times(self, times: int) -> None:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")

    def pop(self, key: SupportsIndex | slice) -> Module:
        """Remove and return the module at an index."""
        module = self[key]
        del self[key]
        return module

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Insert a module before an index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        length = len(self._modules)
        if not -length <= index <= length:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index + length if index < 0 else index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Any]) -> Sequential:
        """Add modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    if TYPE_CHECKING:

        def forward(self, input: Any) -> Tensor: ...

    else:  # PyTorch's has no annotations, which `fx` would show

        def forward(self, input):
            for module in self:
                input = module(input)
            return input

    forward.__annotations__.clear()  # fx writes annotations into the code of a trace, and PyTorch's forward has none here


class ModuleList(Module):
    """A list whose modules belong to the module that holds it."""

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(_place(index, len(self)))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(_place(index, len(self))), module)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        places = range(len(self))[index] if isinstance(index, slice) else [_place(index, len(self))]
        kept = [module for place, module in enumerate(self) if place not in places]
        self._modules = {str(place): module for place, module in enumerate(kept)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __iadd__(self, modules: Iterable[Any]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before an index."""
        modules = list(self)
        modules.insert(index, module)
        self._modules = {}
        self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: SupportsIndex | slice) -> Module:
        """Remove and return the module at an index."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Any]) -> ModuleList:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def _shown_modules(self) -> list[Any]:
        return list(self)

    def _text_around(self, texts: list[str]) -> str:
        """Like a module's, with runs of equal entries folded: (0-2): 3 x Linear(...)."""
        if not texts:
            return self._get_name() + "()"
        runs: list[list[Any]] = []
        for place, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1][1] = place
            else:
                runs.append([place, place, text])
        lines = [
            f"({first}): {indent(text)}" if first == last else f"({first}-{last}): {last - first + 1} x {indent(text)}"
            for first, last, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict whose modules belong to the module that holds it."""

    def __init__(self, modules: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove everything."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return a module."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> KeysView[str]:
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules, from a mapping or from pairs."""
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


def _pairs(given: object, kind: str) -> list[tuple[str, Any]]:
    if not isinstance(given, Iterable):
        shown = kind.replace("Parameter", "Parameters")
        raise TypeError(
            f"{shown}.update should be called with an iterable of key/value pairs, but got {type(given).__name__}"
        )
    if isinstance(given, (Mapping, ModuleDict, ParameterDict)):
        return list(given.items())
    pairs = []
    for place, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{kind} update sequence element #{place} should be Iterable; is{type(pair).__name__}")
        parts = tuple(pair)
        if len(parts) != 2:
            raise ValueError(f"{kind} update sequence element #{place} has length {len(parts)}; 2 is required")
        pairs.append(parts)
    return pairs


def _as_held(value: object) -> Any:
    """Return a tensor as a parameter, and anything else as it is."""
    return Parameter(value) if isinstance(value, TensorCore) and not isinstance(value, Parameter) else value


def _described(name: object, value: object, type_of: Callable[[Any], Any]) -> str:
    if not isinstance(value, TensorCore):
        return f"  ({name}): Object of type: {type(value).__name__}"
    tensor: Any = value
    size = "x".join(str(n) for n in tensor.size())
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({name}): {kind} containing: [{type_of(tensor)} of size {size}]"


class ParameterList(Module):
    """A list whose parameters belong to the module that holds it."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([self[place] for place in range(len(self))[index]])
        return getattr(self, str(_place(index, len(self))))

    def __setitem__(self, index: int, value: object) -> None:
        setattr(self, str(_place(index, len(self))), _as_held(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[place] for place in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end; a tensor becomes a parameter."""
        self._size += 1
        setattr(self, str(self._size - 1), _as_held(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end."""
        if isinstance(values, TensorCore) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_described(place, value, lambda t: t.dtype) for place, value in enumerate(self))

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict whose parameters belong to the module that holds it."""

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, self._attribute(key), _as_held(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def _attribute(self, key: object) -> str:
        if not isinstance(key, str):
            raise TypeError(
                f"Index given to ParameterDict cannot be used as a key: it must be a string, "
                f"not '{type(key).__name__}', because keys name the parameters."
            )
        return key

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return a new dict that holds the same parameters."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key: str, default: object = None) -> Any:
        """Return the value of a key, set to default first if it is not there."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove everything."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Tensor:
        """Remove and return a value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """Return a new dict with these keys and one value."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        return iter([(key, self[key]) for key in self._keys])

    def values(self) -> Iterator[Any]:
        return iter([self[key] for key in self._keys])

    def update(self, parameters: Any) -> None:
        """Add or replace values, from a mapping or from pairs; a mapping without an order of its own goes by its keys."""
        pairs = _pairs(parameters, "ParameterDict")
        ordered = isinstance(parameters, (OrderedDict, ParameterDict)) or not isinstance(parameters, Mapping)
        for key, value in pairs if ordered else sorted(pairs, key=lambda pair: pair[0]):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_described(key, value, lambda t: t.type()) for key, value in self.items())

    def __call__(self, input: Tensor) -> None:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self
