"""`torch.amp`: compute in half precision where that is safe, and scale gradients so that they do not underflow."""

from undertow.amp.autocast_mode import autocast as autocast
from undertow.amp.autocast_mode import custom_bwd as custom_bwd
from undertow.amp.autocast_mode import custom_fwd as custom_fwd
from undertow.amp.autocast_mode import is_autocast_available as is_autocast_available
from undertow.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available", "GradScaler"]
