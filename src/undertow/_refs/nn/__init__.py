"""`torch._refs.nn`"""

__all__: list[str] = []
