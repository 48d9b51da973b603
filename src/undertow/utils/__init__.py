"""Tools around training: checkpointing, DLPack, hooks, data."""

from undertow.lazy import lazy_names
from undertow.utils import checkpoint as checkpoint
from undertow.utils import dlpack as dlpack
from undertow.utils import hooks as hooks

_PARTS = (
    "_contextlib _foreach_utils _mode_utils _python_dispatch _pytree benchmark collect_env data deterministic flop_counter "
    "model_zoo weak"
).split()
__getattr__, __dir__ = lazy_names(__name__, {name: f"undertow.utils.{name}" for name in _PARTS})
