"""`nn.functional`: the functions that layers are made of."""

# ruff: noqa: F401, I001

from undertow._src.base.lazy import lazy_names
from undertow._src.ops.activation import (
    celu as celu,
    celu_ as celu_,
    elu as elu,
    elu_ as elu_,
    gelu as gelu,
    glu as glu,
    hardshrink as hardshrink,
    hardsigmoid as hardsigmoid,
    hardswish as hardswish,
    hardtanh as hardtanh,
    hardtanh_ as hardtanh_,
    leaky_relu as leaky_relu,
    leaky_relu_ as leaky_relu_,
    functional_log_softmax as log_softmax,
    logsigmoid as logsigmoid,
    mish as mish,
    prelu as prelu,
    functional_relu as relu,
    relu6 as relu6,
    relu_ as relu_,
    selu as selu,
    selu_ as selu_,
    functional_sigmoid as sigmoid,
    silu as silu,
    functional_softmax as softmax,
    softmin as softmin,
    softplus as softplus,
    softshrink as softshrink,
    softsign as softsign,
    functional_tanh as tanh,
    tanhshrink as tanhshrink,
    threshold as threshold,
    threshold_ as threshold_,
)
from undertow._src.ops.attention import scaled_dot_product_attention as scaled_dot_product_attention
from undertow._src.ops.conv import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
    fold as fold,
    unfold as unfold,
)
from undertow._src.ops.distance import (
    bilinear as bilinear,
    cosine_similarity as cosine_similarity,
    pairwise_distance as pairwise_distance,
    pdist as pdist,
)
from undertow._src.ops.dropout import (
    alpha_dropout as alpha_dropout,
    dropout as dropout,
    dropout1d as dropout1d,
    dropout2d as dropout2d,
    dropout3d as dropout3d,
    feature_alpha_dropout as feature_alpha_dropout,
    gumbel_softmax as gumbel_softmax,
    rrelu as rrelu,
    rrelu_ as rrelu_,
)
from undertow._src.ops.embedding import embedding as embedding, embedding_bag as embedding_bag
from undertow._src.ops.loss import (
    binary_cross_entropy as binary_cross_entropy,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    cosine_embedding_loss as cosine_embedding_loss,
    gaussian_nll_loss as gaussian_nll_loss,
    hinge_embedding_loss as hinge_embedding_loss,
    huber_loss as huber_loss,
    kl_div as kl_div,
    l1_loss as l1_loss,
    margin_ranking_loss as margin_ranking_loss,
    mse_loss as mse_loss,
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
    poisson_nll_loss as poisson_nll_loss,
    smooth_l1_loss as smooth_l1_loss,
    soft_margin_loss as soft_margin_loss,
    triplet_margin_loss as triplet_margin_loss,
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from undertow._src.ops.loss_class import (
    cross_entropy as cross_entropy,
    ctc_loss as ctc_loss,
    multi_margin_loss as multi_margin_loss,
    multilabel_margin_loss as multilabel_margin_loss,
    nll_loss as nll_loss,
)
from undertow._src.ops.loss_linear import linear_cross_entropy as linear_cross_entropy
from undertow._src.ops.masks import one_hot as one_hot
from undertow._src.ops.matmul import linear as linear
from undertow._src.ops.multi_head import multi_head_attention_forward as multi_head_attention_forward
from undertow._src.ops.norm import (
    batch_norm as batch_norm,
    group_norm as group_norm,
    instance_norm as instance_norm,
    layer_norm as layer_norm,
    local_response_norm as local_response_norm,
    normalize as normalize,
    rms_norm as rms_norm,
)
from undertow._src.ops.pad import pad as pad
from undertow._src.ops.pool import (
    max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d as max_pool2d,
    max_pool2d_with_indices as max_pool2d_with_indices,
    max_pool3d as max_pool3d,
    max_pool3d_with_indices as max_pool3d_with_indices,
    max_unpool1d as max_unpool1d,
    max_unpool2d as max_unpool2d,
    max_unpool3d as max_unpool3d,
)
from undertow._src.ops.pool_average import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_avg_pool3d as adaptive_avg_pool3d,
    adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d as adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d as adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d,
    lp_pool3d as lp_pool3d,
)
from undertow._src.ops.pool_fractional import (
    fractional_max_pool2d as fractional_max_pool2d,
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
    fractional_max_pool3d as fractional_max_pool3d,
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
)
from undertow._src.ops.resize import (
    channel_shuffle as channel_shuffle,
    interpolate as interpolate,
    native_channel_shuffle as native_channel_shuffle,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    upsample as upsample,
    upsample_bilinear as upsample_bilinear,
    upsample_nearest as upsample_nearest,
)
from undertow._src.ops.sampling import affine_grid as affine_grid, grid_sample as grid_sample

_LAZY = {"conv_tbc": "undertow._src.ops.native", "grad": "undertow.nn:grad"}
_LAZY |= dict.fromkeys(("_pair", "_single", "_triple"), "undertow.nn.modules.utils")
_LAZY |= dict.fromkeys(
    "_canonical_mask _get_softmax_dim _in_projection _in_projection_packed _mha_shape_check _none_or_dtype "
    "_verify_batch_size".split(),
    "undertow.nn._projections",
)
_LAZY |= dict.fromkeys(
    "GRID_SAMPLE_INTERPOLATION_MODES GRID_SAMPLE_PADDING_MODES _adaptive_max_pool1d _adaptive_max_pool2d "
    "_adaptive_max_pool3d _check_key_padding_mask _expand_single_value _fractional_max_pool2d _fractional_max_pool3d "
    "_is_integer _list_or_empty _max_pool1d _max_pool2d _max_pool3d _no_grad_embedding_renorm_ _threshold "
    "_unpool_output_size _verify_spatial_size assert_int_or_pair".split(),
    "undertow.nn._functional_steps",
)
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
