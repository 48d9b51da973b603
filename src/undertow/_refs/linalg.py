"""`torch._refs.linalg`"""

from undertow._refs.mirrors import mirror

_NAMES = """
    cross diagonal matrix_norm norm svd svdvals vecdot vector_norm
"""
__getattr__, __all__ = mirror(__name__, "undertow.linalg", _NAMES)
