"""How a fully sharded module computes: precision and where parameters are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of gathered parameters and of the module's inputs, of reductions of gradients, and of outputs."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Keep shards where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Keep shards on the CPU, where undertow's ranks have them in any case."""

    pin_memory: bool = True
