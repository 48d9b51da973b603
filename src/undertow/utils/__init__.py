"""Tools around training: checkpointing, DLPack, hooks."""

from undertow.utils import checkpoint as checkpoint
from undertow.utils import dlpack as dlpack
from undertow.utils import hooks as hooks
