"""`torch._refs._conversions`: tensors in another dtype."""

from undertow._refs.mirrors import mirror

_NAMES = """
    bfloat16 bool byte cdouble cfloat char double float half int long short
"""
__getattr__, __all__ = mirror(__name__, "", _NAMES)
