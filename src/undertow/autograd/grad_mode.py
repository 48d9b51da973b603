"""`torch.autograd.grad_mode`: the grad modes, by the module that PyTorch keeps them in."""

from undertow.modes import enable_grad as enable_grad
from undertow.modes import inference_mode as inference_mode
from undertow.modes import no_grad as no_grad
from undertow.modes import set_grad_enabled as set_grad_enabled
