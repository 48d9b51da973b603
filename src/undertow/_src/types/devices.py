"""`device`: where a tensor lives, and the device that new tensors get."""

from __future__ import annotations

import threading
from typing import Any, Self

from undertow._src.base.torch_named import TorchNamed

_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
    "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
_MISSING: Any = object()


class device(metaclass=TorchNamed):
    """A device type and, where it matters, an index: `device("cpu")`, `device("cuda", 1)`, `device("cuda:1")`.

    There is one instance per (type, index), so equality is identity. In a `with` block it is the default device.
    """

    __slots__ = ("index", "type")
    __module__ = "torch"
    type: str
    index: int | None

    def __new__(cls, type: Any = _MISSING, index: Any = None, *, device: Any = _MISSING) -> Self:
        given = device if type is _MISSING else type
        if index is None:
            if given.__class__ is cls:
                return given
            if isinstance(given, str):
                return cls._interned(*_parse(given))
            if given.__class__ is int:
                raise RuntimeError(
                    "Device index must not be negative"
                    if given < 0
                    else "Cannot access accelerator device when none is available."
                )
            got = "" if given is _MISSING else given.__class__.__name__
            raise TypeError(
                f"device() received an invalid combination of arguments - got ({got}), but expected one of:\n"
                " * (torch.device device)\n * (str type, int index = -1)\n"
            )
        if not isinstance(given, str):
            raise TypeError(f"device(): argument 'type' (position 1) must be str, not {_type_name(given)}")
        if isinstance(index, (bool, float, str)) or not hasattr(index, "__index__"):
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {_type_name(index)}")
        kind, parsed_index = _parse(given)
        if parsed_index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {given}")
        index = index.__index__()
        if index < 0:
            raise RuntimeError("Device index must not be negative")
        return cls._interned(kind, index)

    @classmethod
    def _interned(cls, type: str, index: int | None) -> Self:
        if (type, index) not in _INTERNED:
            new = object.__new__(cls)
            object.__setattr__(new, "type", type)
            object.__setattr__(new, "index", index)
            _INTERNED.setdefault((type, index), new)  # so that two threads agree on one instance
        interned: Self = _INTERNED[type, index]
        return interned

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self) -> Self:
        _defaults.stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _defaults.stack.pop()


def _rebuild(*arguments: Any) -> device:
    return device(*arguments)


_INTERNED: dict[tuple[str, int | None], Any] = {}


def _type_name(value: Any) -> str:
    return "torch.device" if isinstance(value, device) else type(value).__name__


def _parse(text: str) -> tuple[str, int | None]:
    """`"cuda:1"` as `("cuda", 1)`."""
    if not text:
        raise RuntimeError("Device string must not be empty")
    kind, colon, digits = text.partition(":")
    well_formed = kind.isascii() and kind.replace("_", "a").isalpha()
    if colon:
        well_formed = well_formed and digits.isascii() and digits.isdigit() and (digits[0] != "0" or digits == "0")
    if not well_formed:
        raise RuntimeError(f"Invalid device string: '{text}'")
    if kind not in _TYPES:
        raise RuntimeError(f"Expected one of {', '.join(_TYPES)} device type at start of device string: {kind}")
    return kind, int(digits) if colon else None


# --- the default device, one per thread as in PyTorch


class _Defaults(threading.local):
    def __init__(self) -> None:
        self.stack = [cpu]  # the first is what set_default_device sets, the rest are `with` blocks


cpu = device("cpu")
meta = device("meta")
_make = device  # named as set_default_device's argument
_defaults = _Defaults()


def get_default_device() -> device:
    """Return the default device of new tensors in this thread, `cpu` unless set otherwise."""
    return _defaults.stack[-1]


def set_default_device(device: Any) -> None:
    """Make `device` the default in this thread; None resets it to the CPU."""
    _defaults.stack[0] = cpu if device is None else _make(device)
