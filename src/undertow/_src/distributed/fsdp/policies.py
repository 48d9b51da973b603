"""Policies of a fully sharded module: its precision, and the device of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of gathered parameters, inputs, outputs, and of reductions of gradients."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Keep shards on the device of the module."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Keep shards on the CPU."""

    pin_memory: bool = True
