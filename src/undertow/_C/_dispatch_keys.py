"""The keys that PyTorch's dispatcher chooses an operator's code by, as names: nothing here is chosen by them.

Packages make sets of them when they are imported, for operators that they register later.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

_BACKENDS = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta".split()
_NUMBERED = """
0 Undefined 1 Dense 5 Quantized 8 Sparse 9 SparseCsr 10 NestedTensor 11 BackendSelect 13 Python
14 FuncTorchDynamicLayerBackMode 15 Functionalize 16 Conjugate 17 Negative 18 ZeroTensor 19 ADInplaceOrView
20 AutogradOther 21 AutogradFunctionality 22 AutogradNestedTensor 24 AutocastCPU 27 AutocastXPU 28 AutocastIPU
29 AutocastHPU 31 AutocastMPS 32 AutocastCUDA 33 AutocastPrivateUse1 34 FuncTorchBatched 36 FuncTorchVmapMode
39 FuncTorchGradWrapper 41 PythonTLSSnapshot 42 FuncTorchDynamicLayerFrontMode 45 PreDispatch 46 PythonDispatcher
150 Autograd 151 CompositeImplicitAutograd 152 FuncTorchBatchedDecomposition 153 CompositeImplicitAutogradNestedTensor
154 CompositeExplicitAutograd 155 CompositeExplicitAutogradNonFunctional
""".split()
_keys = {name: int(number) for number, name in zip(_NUMBERED[::2], _NUMBERED[1::2])}
for _place, _kind in enumerate(("", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "Autograd")):
    _keys |= {_kind + backend: 49 + 17 * _place + number for number, backend in enumerate(_BACKENDS)}


class _Key(IntEnum):
    def __str__(self) -> str:
        return f"DispatchKey.{self.name}"


_members: Any = sorted(_keys.items(), key=lambda key: key[1])
DispatchKey = _Key("DispatchKey", _members)  # type: ignore[call-arg, arg-type]


class DispatchKeySet:
    """Several keys. It is not changed: `add` and `remove` return another set.

    >>> from undertow._C import DispatchKey, DispatchKeySet
    >>> DispatchKeySet(DispatchKey.AutocastCUDA) | DispatchKeySet(DispatchKey.AutocastCPU)
    DispatchKeySet(AutocastCPU, AutocastCUDA)
    """

    __slots__ = ("_keys",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, key: _Key) -> None:
        self._keys = frozenset((key,))

    def has(self, key: _Key) -> bool:
        """Whether a key is among them."""
        return key in self._keys

    def add(self, key: _Key) -> DispatchKeySet:
        """Return the set with one more key."""
        return self | DispatchKeySet(key)

    def remove(self, key: _Key) -> DispatchKeySet:
        """Return the set without a key."""
        return self - DispatchKeySet(key)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return _set_of(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return _set_of(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return _set_of(self._keys - other._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in sorted(self._keys))})"


def _set_of(keys: frozenset[_Key]) -> DispatchKeySet:
    made = DispatchKeySet.__new__(DispatchKeySet)
    made._keys = keys
    return made
