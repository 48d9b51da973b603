"""PyTorch's CPU random numbers without PyTorch: the same bits for the same seed, and the same state afterwards."""

from undertow.random_stream.engine import DEFAULT_SEED as DEFAULT_SEED
from undertow.random_stream.engine import STATE_BYTES as STATE_BYTES
from undertow.random_stream.stream import Stream as Stream
