"""`torch._refs.special`"""

from undertow._refs.mirrors import mirror

_NAMES = """
    bessel_j0 bessel_j1 entr erfcx expit i0e i1 i1e log_ndtr log_softmax logit multigammaln ndtr ndtri softmax
    spherical_bessel_j0 xlog1py zeta
"""
__getattr__, __all__ = mirror(__name__, "undertow.special", _NAMES)
