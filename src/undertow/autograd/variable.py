"""`Variable`, the old name of a tensor, which programs still use, also for its `_execution_engine`."""

from __future__ import annotations

from typing import Any

from undertow._src.base.lazy import late_function
from undertow._src.base.sites import warn
from undertow._src.engine.engine import queue_callback
from undertow._src.tensor import from_data
from undertow._tensor import Tensor


class ImperativeEngine:
    """The engine's handle: `queue_callback` runs a function at the end of the current backward pass."""

    queue_callback = staticmethod(queue_callback)

    run_backward = staticmethod(late_function(__name__, "undertow._src.compat.autograd_steps", "run_backward"))
    is_checkpoint_valid = staticmethod(
        late_function(__name__, "undertow._src.compat.autograd_steps", "_is_checkpoint_valid")
    )


class VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=VariableMeta):
    """Return a detached alias of a tensor; `isinstance(x, Variable)` tests for a tensor."""

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: object = None, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        if data is not None and not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile is not None:
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        tensor = from_data.tensor([]) if data is None else data.detach()
        tensor.requires_grad_(requires_grad)
        return tensor
