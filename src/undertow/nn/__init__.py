"""Neural network building blocks."""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:  # what the names above are; at run time a file is imported when one of its names is first used
    from undertow.nn import functional as functional
    from undertow.nn import init as init
    from undertow.nn import modules as modules
    from undertow.nn import parallel as parallel
    from undertow.nn import parameter as parameter
    from undertow.nn import utils as utils
    from undertow.nn.factory import factory_kwargs as factory_kwargs
    from undertow.nn.modules import *  # noqa: F403
    from undertow.nn.parallel import DataParallel as DataParallel
