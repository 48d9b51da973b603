"""undertow: PyTorch's autograd engine and hook system in Python. `import undertow as torch`."""

from undertow import autograd as autograd
from undertow.creation import ones as ones
from undertow.dtypes import float32 as float32
from undertow.dtypes import float64 as float64
from undertow.from_data import from_numpy as from_numpy
from undertow.from_data import tensor as tensor
from undertow.modes import enable_grad as enable_grad
from undertow.modes import inference_mode as inference_mode
from undertow.modes import no_grad as no_grad
from undertow.modes import set_grad_enabled as set_grad_enabled
from undertow.ops.elementwise import exp as exp
from undertow._tensor import Tensor as Tensor

__version__ = "0.1.0"
