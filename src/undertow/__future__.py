"""`torch.__future__`: whether converting a module (`.double()`, `load_state_dict(assign=True)`) keeps its parameters."""

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether a conversion makes new parameters instead of changing the data of the old ones."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether a conversion makes new parameters."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Set whether parameters always stay the same objects, also when a state dict is assigned to them."""
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether parameters always stay the same objects."""
    return _swap
