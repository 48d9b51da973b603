"""`torch._refs.nn.functional`"""

from undertow._refs.mirrors import mirror

_NAMES = """
    alpha_dropout celu celu_ channel_shuffle dropout elu elu_ gelu glu group_norm hardshrink hardtanh
    hinge_embedding_loss huber_loss l1_loss layer_norm leaky_relu log_softmax margin_ranking_loss mish mse_loss
    nll_loss pairwise_distance pdist poisson_nll_loss prelu relu relu6 selu selu_ smooth_l1_loss softmax softmin
    softplus softshrink tanhshrink threshold threshold_ triplet_margin_loss
"""
__getattr__, __all__ = mirror(__name__, "undertow.nn.functional", _NAMES)
