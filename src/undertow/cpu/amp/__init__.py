"""`torch.cpu.amp`: deprecated names of `torch.amp` for the CPU, all deprecated."""

from undertow.cpu.amp.autocast_mode import autocast as autocast
from undertow.cpu.amp.grad_scaler import GradScaler as GradScaler
