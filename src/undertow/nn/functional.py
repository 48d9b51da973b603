"""`nn.functional`: the functions that layers are made of."""

# ruff: noqa: F401

from undertow.ops.activation import (
    celu as celu,
)
from undertow.ops.activation import (
    celu_ as celu_,
)
from undertow.ops.activation import (
    elu as elu,
)
from undertow.ops.activation import (
    elu_ as elu_,
)
from undertow.ops.activation import (
    functional_log_softmax as log_softmax,
)
from undertow.ops.activation import (
    functional_relu as relu,
)
from undertow.ops.activation import (
    functional_sigmoid as sigmoid,
)
from undertow.ops.activation import (
    functional_softmax as softmax,
)
from undertow.ops.activation import (
    functional_tanh as tanh,
)
from undertow.ops.activation import (
    gelu as gelu,
)
from undertow.ops.activation import (
    glu as glu,
)
from undertow.ops.activation import (
    hardshrink as hardshrink,
)
from undertow.ops.activation import (
    hardsigmoid as hardsigmoid,
)
from undertow.ops.activation import (
    hardswish as hardswish,
)
from undertow.ops.activation import (
    hardtanh as hardtanh,
)
from undertow.ops.activation import (
    hardtanh_ as hardtanh_,
)
from undertow.ops.activation import (
    leaky_relu as leaky_relu,
)
from undertow.ops.activation import (
    leaky_relu_ as leaky_relu_,
)
from undertow.ops.activation import (
    logsigmoid as logsigmoid,
)
from undertow.ops.activation import (
    mish as mish,
)
from undertow.ops.activation import (
    prelu as prelu,
)
from undertow.ops.activation import (
    relu6 as relu6,
)
from undertow.ops.activation import (
    relu_ as relu_,
)
from undertow.ops.activation import (
    selu as selu,
)
from undertow.ops.activation import (
    selu_ as selu_,
)
from undertow.ops.activation import (
    silu as silu,
)
from undertow.ops.activation import (
    softmin as softmin,
)
from undertow.ops.activation import (
    softplus as softplus,
)
from undertow.ops.activation import (
    softshrink as softshrink,
)
from undertow.ops.activation import (
    softsign as softsign,
)
from undertow.ops.activation import (
    tanhshrink as tanhshrink,
)
from undertow.ops.activation import (
    threshold as threshold,
)
from undertow.ops.activation import (
    threshold_ as threshold_,
)
from undertow.ops.attention import scaled_dot_product_attention as scaled_dot_product_attention
from undertow.ops.conv import (
    conv1d as conv1d,
)
from undertow.ops.conv import (
    conv2d as conv2d,
)
from undertow.ops.conv import (
    conv3d as conv3d,
)
from undertow.ops.conv import (
    conv_transpose1d as conv_transpose1d,
)
from undertow.ops.conv import (
    conv_transpose2d as conv_transpose2d,
)
from undertow.ops.conv import (
    conv_transpose3d as conv_transpose3d,
)
from undertow.ops.conv import (
    fold as fold,
)
from undertow.ops.conv import (
    unfold as unfold,
)
from undertow.ops.distance import (
    bilinear as bilinear,
)
from undertow.ops.distance import (
    cosine_similarity as cosine_similarity,
)
from undertow.ops.distance import (
    pairwise_distance as pairwise_distance,
)
from undertow.ops.distance import (
    pdist as pdist,
)
from undertow.ops.dropout import (
    alpha_dropout as alpha_dropout,
)
from undertow.ops.dropout import (
    dropout as dropout,
)
from undertow.ops.dropout import (
    dropout1d as dropout1d,
)
from undertow.ops.dropout import (
    dropout2d as dropout2d,
)
from undertow.ops.dropout import (
    dropout3d as dropout3d,
)
from undertow.ops.dropout import (
    feature_alpha_dropout as feature_alpha_dropout,
)
from undertow.ops.dropout import (
    gumbel_softmax as gumbel_softmax,
)
from undertow.ops.dropout import (
    rrelu as rrelu,
)
from undertow.ops.dropout import (
    rrelu_ as rrelu_,
)
from undertow.ops.embedding import embedding as embedding
from undertow.ops.embedding import embedding_bag as embedding_bag
from undertow.ops.index import one_hot as one_hot
from undertow.ops.loss import (
    binary_cross_entropy as binary_cross_entropy,
)
from undertow.ops.loss import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
)
from undertow.ops.loss import (
    cosine_embedding_loss as cosine_embedding_loss,
)
from undertow.ops.loss import (
    gaussian_nll_loss as gaussian_nll_loss,
)
from undertow.ops.loss import (
    hinge_embedding_loss as hinge_embedding_loss,
)
from undertow.ops.loss import (
    huber_loss as huber_loss,
)
from undertow.ops.loss import (
    kl_div as kl_div,
)
from undertow.ops.loss import (
    l1_loss as l1_loss,
)
from undertow.ops.loss import (
    margin_ranking_loss as margin_ranking_loss,
)
from undertow.ops.loss import (
    mse_loss as mse_loss,
)
from undertow.ops.loss import (
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
)
from undertow.ops.loss import (
    poisson_nll_loss as poisson_nll_loss,
)
from undertow.ops.loss import (
    smooth_l1_loss as smooth_l1_loss,
)
from undertow.ops.loss import (
    soft_margin_loss as soft_margin_loss,
)
from undertow.ops.loss import (
    triplet_margin_loss as triplet_margin_loss,
)
from undertow.ops.loss import (
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from undertow.ops.loss_class import (
    cross_entropy as cross_entropy,
)
from undertow.ops.loss_class import (
    ctc_loss as ctc_loss,
)
from undertow.ops.loss_class import (
    multi_margin_loss as multi_margin_loss,
)
from undertow.ops.loss_class import (
    multilabel_margin_loss as multilabel_margin_loss,
)
from undertow.ops.loss_class import (
    nll_loss as nll_loss,
)
from undertow.ops.matmul import linear as linear
from undertow.ops.multi_head import multi_head_attention_forward as multi_head_attention_forward
from undertow.ops.norm import (
    batch_norm as batch_norm,
)
from undertow.ops.norm import (
    group_norm as group_norm,
)
from undertow.ops.norm import (
    instance_norm as instance_norm,
)
from undertow.ops.norm import (
    layer_norm as layer_norm,
)
from undertow.ops.norm import (
    local_response_norm as local_response_norm,
)
from undertow.ops.norm import (
    normalize as normalize,
)
from undertow.ops.norm import (
    rms_norm as rms_norm,
)
from undertow.ops.pad import pad as pad
from undertow.ops.pool import (
    max_pool1d as max_pool1d,
)
from undertow.ops.pool import (
    max_pool1d_with_indices as max_pool1d_with_indices,
)
from undertow.ops.pool import (
    max_pool2d as max_pool2d,
)
from undertow.ops.pool import (
    max_pool2d_with_indices as max_pool2d_with_indices,
)
from undertow.ops.pool import (
    max_pool3d as max_pool3d,
)
from undertow.ops.pool import (
    max_pool3d_with_indices as max_pool3d_with_indices,
)
from undertow.ops.pool import (
    max_unpool1d as max_unpool1d,
)
from undertow.ops.pool import (
    max_unpool2d as max_unpool2d,
)
from undertow.ops.pool import (
    max_unpool3d as max_unpool3d,
)
from undertow.ops.pool_average import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
)
from undertow.ops.pool_average import (
    adaptive_avg_pool2d as adaptive_avg_pool2d,
)
from undertow.ops.pool_average import (
    adaptive_avg_pool3d as adaptive_avg_pool3d,
)
from undertow.ops.pool_average import (
    adaptive_max_pool1d as adaptive_max_pool1d,
)
from undertow.ops.pool_average import (
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
)
from undertow.ops.pool_average import (
    adaptive_max_pool2d as adaptive_max_pool2d,
)
from undertow.ops.pool_average import (
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
)
from undertow.ops.pool_average import (
    adaptive_max_pool3d as adaptive_max_pool3d,
)
from undertow.ops.pool_average import (
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
)
from undertow.ops.pool_average import (
    avg_pool1d as avg_pool1d,
)
from undertow.ops.pool_average import (
    avg_pool2d as avg_pool2d,
)
from undertow.ops.pool_average import (
    avg_pool3d as avg_pool3d,
)
from undertow.ops.pool_average import (
    lp_pool1d as lp_pool1d,
)
from undertow.ops.pool_average import (
    lp_pool2d as lp_pool2d,
)
from undertow.ops.pool_average import (
    lp_pool3d as lp_pool3d,
)
from undertow.ops.pool_fractional import (
    fractional_max_pool2d as fractional_max_pool2d,
)
from undertow.ops.pool_fractional import (
    fractional_max_pool3d as fractional_max_pool3d,
)
from undertow.ops.resize import (
    channel_shuffle as channel_shuffle,
)
from undertow.ops.resize import (
    interpolate as interpolate,
)
from undertow.ops.resize import (
    native_channel_shuffle as native_channel_shuffle,
)
from undertow.ops.resize import (
    pixel_shuffle as pixel_shuffle,
)
from undertow.ops.resize import (
    pixel_unshuffle as pixel_unshuffle,
)
from undertow.ops.resize import (
    upsample as upsample,
)
from undertow.ops.resize import (
    upsample_bilinear as upsample_bilinear,
)
from undertow.ops.resize import (
    upsample_nearest as upsample_nearest,
)
from undertow.ops.sampling import affine_grid as affine_grid
from undertow.ops.sampling import grid_sample as grid_sample
