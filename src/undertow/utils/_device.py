"""`torch.utils._device`: a default device as a mode, like `with torch.device(...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.types import devices
from undertow.overrides import TorchFunctionMode

CURRENT_DEVICE: Any = None


class DeviceContext(TorchFunctionMode):
    """Creates new tensors on this device inside the block, unless they specify one."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self.device = devices.device(device)

    def __enter__(self) -> Any:
        self.device.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> Any:
        self.device.__exit__(*exc)
        return super().__exit__(*exc)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def set_device(device: Any) -> Callable[[Any], Any]:
    """Make a function run with a default device."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        def on_device(*args: Any, **kwargs: Any) -> Any:
            with devices.device(device):
                return function(*args, **kwargs)

        return on_device

    return decorated
