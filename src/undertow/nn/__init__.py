"""Neural network building blocks."""

from undertow.nn import functional as functional
from undertow.nn.parameter import Buffer as Buffer
from undertow.nn.parameter import Parameter as Parameter
from undertow.nn.parameter import UninitializedBuffer as UninitializedBuffer
from undertow.nn.parameter import UninitializedParameter as UninitializedParameter
