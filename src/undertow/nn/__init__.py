"""Neural network building blocks."""

from undertow._src.base.lazy import lazy_names
from undertow.nn.modules._homes import CLASSES
from undertow.nn.parameter import Buffer as Buffer
from undertow.nn.parameter import Parameter as Parameter
from undertow.nn.parameter import UninitializedBuffer as UninitializedBuffer
from undertow.nn.parameter import UninitializedParameter as UninitializedParameter

_PARTS = ("attention", "common_types", "functional", "grad", "init", "modules", "parallel", "utils")
_HOMES = CLASSES | {part: f"undertow.nn.{part}" for part in _PARTS}
_HOMES |= {"DataParallel": "undertow.nn.parallel", "factory_kwargs": "undertow.nn.factory"}
__all__ = [*_HOMES, "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "parameter"]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
