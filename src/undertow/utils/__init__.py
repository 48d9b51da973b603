"""Tools around training: checkpointing, DLPack, hooks, data."""

from undertow._src.base.lazy import lazy_names
from undertow.utils import checkpoint as checkpoint
from undertow.utils import dlpack as dlpack
from undertow.utils import hooks as hooks

_PARTS = (
    "_contextlib _device _foreach_utils _mode_utils _python_dispatch _pytree benchmark collect_env data deterministic "
    "flop_counter model_zoo module_tracker weak"
).split()
_HOMES = {name: f"undertow.utils.{name}" for name in _PARTS}
_HOMES |= dict.fromkeys(("set_module", "swap_tensors"), "undertow.utils._swap")
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
