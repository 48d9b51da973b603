"""`Variable`, the old name of a tensor, still met in programs and for its `_execution_engine`."""

from __future__ import annotations

from typing import Any

from undertow import from_data
from undertow._tensor import Tensor
from undertow.autograd.engine import queue_callback


class _Engine:
    """The engine's handle: `queue_callback` runs a function at the end of the backward pass under way."""

    queue_callback = staticmethod(queue_callback)


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """Gives back the tensor it is called with; `isinstance(x, Variable)` asks for a tensor."""

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        tensor = data.detach() if isinstance(data, Tensor) else from_data.tensor([] if data is None else data)
        tensor.requires_grad_(requires_grad)
        return tensor
