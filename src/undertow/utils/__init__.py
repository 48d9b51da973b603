"""Tools around training: checkpointing, DLPack, hooks, data."""

from undertow.lazy import lazy_names
from undertow.utils import checkpoint as checkpoint
from undertow.utils import dlpack as dlpack
from undertow.utils import hooks as hooks

__getattr__, __dir__ = lazy_names(
    __name__, {name: f"undertow.utils.{name}" for name in ("_foreach_utils", "_pytree", "benchmark", "data", "model_zoo")}
)
