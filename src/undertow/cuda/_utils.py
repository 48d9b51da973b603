"""The number of a GPU."""

from undertow._utils import _get_device_index as _get_device_index
