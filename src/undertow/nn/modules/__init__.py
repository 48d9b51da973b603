"""The modules of torch.nn, each family in a file of PyTorch's name."""

from typing import TYPE_CHECKING

from undertow.lazy import lazy_names
from undertow.nn.modules._homes import CLASSES, FILES

__all__ = list(CLASSES)
__getattr__, __dir__ = lazy_names(__name__, CLASSES | FILES)

if TYPE_CHECKING:  # what the names above are; at run time a file is imported when one of its names is first used
    from undertow.nn.modules.activation import (
        CELU as CELU,
    )
    from undertow.nn.modules.activation import (
        ELU as ELU,
    )
    from undertow.nn.modules.activation import (
        GELU as GELU,
    )
    from undertow.nn.modules.activation import (
        GLU as GLU,
    )
    from undertow.nn.modules.activation import (
        SELU as SELU,
    )
    from undertow.nn.modules.activation import (
        Hardshrink as Hardshrink,
    )
    from undertow.nn.modules.activation import (
        Hardsigmoid as Hardsigmoid,
    )
    from undertow.nn.modules.activation import (
        Hardswish as Hardswish,
    )
    from undertow.nn.modules.activation import (
        Hardtanh as Hardtanh,
    )
    from undertow.nn.modules.activation import (
        LeakyReLU as LeakyReLU,
    )
    from undertow.nn.modules.activation import (
        LogSigmoid as LogSigmoid,
    )
    from undertow.nn.modules.activation import (
        LogSoftmax as LogSoftmax,
    )
    from undertow.nn.modules.activation import (
        Mish as Mish,
    )
    from undertow.nn.modules.activation import (
        PReLU as PReLU,
    )
    from undertow.nn.modules.activation import (
        ReLU as ReLU,
    )
    from undertow.nn.modules.activation import (
        ReLU6 as ReLU6,
    )
    from undertow.nn.modules.activation import (
        RReLU as RReLU,
    )
    from undertow.nn.modules.activation import (
        Sigmoid as Sigmoid,
    )
    from undertow.nn.modules.activation import (
        SiLU as SiLU,
    )
    from undertow.nn.modules.activation import (
        Softmax as Softmax,
    )
    from undertow.nn.modules.activation import (
        Softmax2d as Softmax2d,
    )
    from undertow.nn.modules.activation import (
        Softmin as Softmin,
    )
    from undertow.nn.modules.activation import (
        Softplus as Softplus,
    )
    from undertow.nn.modules.activation import (
        Softshrink as Softshrink,
    )
    from undertow.nn.modules.activation import (
        Softsign as Softsign,
    )
    from undertow.nn.modules.activation import (
        Tanh as Tanh,
    )
    from undertow.nn.modules.activation import (
        Tanhshrink as Tanhshrink,
    )
    from undertow.nn.modules.activation import (
        Threshold as Threshold,
    )
    from undertow.nn.modules.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
    from undertow.nn.modules.attention import MultiheadAttention as MultiheadAttention
    from undertow.nn.modules.batchnorm import (
        BatchNorm1d as BatchNorm1d,
    )
    from undertow.nn.modules.batchnorm import (
        BatchNorm2d as BatchNorm2d,
    )
    from undertow.nn.modules.batchnorm import (
        BatchNorm3d as BatchNorm3d,
    )
    from undertow.nn.modules.batchnorm import (
        LazyBatchNorm1d as LazyBatchNorm1d,
    )
    from undertow.nn.modules.batchnorm import (
        LazyBatchNorm2d as LazyBatchNorm2d,
    )
    from undertow.nn.modules.batchnorm import (
        LazyBatchNorm3d as LazyBatchNorm3d,
    )
    from undertow.nn.modules.batchnorm import (
        SyncBatchNorm as SyncBatchNorm,
    )
    from undertow.nn.modules.channelshuffle import ChannelShuffle as ChannelShuffle
    from undertow.nn.modules.container import (
        Container as Container,
    )
    from undertow.nn.modules.container import (
        ModuleDict as ModuleDict,
    )
    from undertow.nn.modules.container import (
        ModuleList as ModuleList,
    )
    from undertow.nn.modules.container import (
        ParameterDict as ParameterDict,
    )
    from undertow.nn.modules.container import (
        ParameterList as ParameterList,
    )
    from undertow.nn.modules.container import (
        Sequential as Sequential,
    )
    from undertow.nn.modules.conv import (
        Conv1d as Conv1d,
    )
    from undertow.nn.modules.conv import (
        Conv2d as Conv2d,
    )
    from undertow.nn.modules.conv import (
        Conv3d as Conv3d,
    )
    from undertow.nn.modules.conv import (
        ConvTranspose1d as ConvTranspose1d,
    )
    from undertow.nn.modules.conv import (
        ConvTranspose2d as ConvTranspose2d,
    )
    from undertow.nn.modules.conv import (
        ConvTranspose3d as ConvTranspose3d,
    )
    from undertow.nn.modules.conv import (
        LazyConv1d as LazyConv1d,
    )
    from undertow.nn.modules.conv import (
        LazyConv2d as LazyConv2d,
    )
    from undertow.nn.modules.conv import (
        LazyConv3d as LazyConv3d,
    )
    from undertow.nn.modules.conv import (
        LazyConvTranspose1d as LazyConvTranspose1d,
    )
    from undertow.nn.modules.conv import (
        LazyConvTranspose2d as LazyConvTranspose2d,
    )
    from undertow.nn.modules.conv import (
        LazyConvTranspose3d as LazyConvTranspose3d,
    )
    from undertow.nn.modules.distance import (
        CosineSimilarity as CosineSimilarity,
    )
    from undertow.nn.modules.distance import (
        PairwiseDistance as PairwiseDistance,
    )
    from undertow.nn.modules.dropout import (
        AlphaDropout as AlphaDropout,
    )
    from undertow.nn.modules.dropout import (
        Dropout as Dropout,
    )
    from undertow.nn.modules.dropout import (
        Dropout1d as Dropout1d,
    )
    from undertow.nn.modules.dropout import (
        Dropout2d as Dropout2d,
    )
    from undertow.nn.modules.dropout import (
        Dropout3d as Dropout3d,
    )
    from undertow.nn.modules.dropout import (
        FeatureAlphaDropout as FeatureAlphaDropout,
    )
    from undertow.nn.modules.flatten import Flatten as Flatten
    from undertow.nn.modules.flatten import Unflatten as Unflatten
    from undertow.nn.modules.fold import Fold as Fold
    from undertow.nn.modules.fold import Unfold as Unfold
    from undertow.nn.modules.instancenorm import (
        InstanceNorm1d as InstanceNorm1d,
    )
    from undertow.nn.modules.instancenorm import (
        InstanceNorm2d as InstanceNorm2d,
    )
    from undertow.nn.modules.instancenorm import (
        InstanceNorm3d as InstanceNorm3d,
    )
    from undertow.nn.modules.instancenorm import (
        LazyInstanceNorm1d as LazyInstanceNorm1d,
    )
    from undertow.nn.modules.instancenorm import (
        LazyInstanceNorm2d as LazyInstanceNorm2d,
    )
    from undertow.nn.modules.instancenorm import (
        LazyInstanceNorm3d as LazyInstanceNorm3d,
    )
    from undertow.nn.modules.linear import (
        Bilinear as Bilinear,
    )
    from undertow.nn.modules.linear import (
        Identity as Identity,
    )
    from undertow.nn.modules.linear import (
        LazyLinear as LazyLinear,
    )
    from undertow.nn.modules.linear import (
        Linear as Linear,
    )
    from undertow.nn.modules.linear_cross_entropy import LinearCrossEntropyLoss as LinearCrossEntropyLoss
    from undertow.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions as LinearCrossEntropyOptions
    from undertow.nn.modules.loss import (
        BCELoss as BCELoss,
    )
    from undertow.nn.modules.loss import (
        BCEWithLogitsLoss as BCEWithLogitsLoss,
    )
    from undertow.nn.modules.loss import (
        CosineEmbeddingLoss as CosineEmbeddingLoss,
    )
    from undertow.nn.modules.loss import (
        CrossEntropyLoss as CrossEntropyLoss,
    )
    from undertow.nn.modules.loss import (
        CTCLoss as CTCLoss,
    )
    from undertow.nn.modules.loss import (
        GaussianNLLLoss as GaussianNLLLoss,
    )
    from undertow.nn.modules.loss import (
        HingeEmbeddingLoss as HingeEmbeddingLoss,
    )
    from undertow.nn.modules.loss import (
        HuberLoss as HuberLoss,
    )
    from undertow.nn.modules.loss import (
        KLDivLoss as KLDivLoss,
    )
    from undertow.nn.modules.loss import (
        L1Loss as L1Loss,
    )
    from undertow.nn.modules.loss import (
        MarginRankingLoss as MarginRankingLoss,
    )
    from undertow.nn.modules.loss import (
        MSELoss as MSELoss,
    )
    from undertow.nn.modules.loss import (
        MultiLabelMarginLoss as MultiLabelMarginLoss,
    )
    from undertow.nn.modules.loss import (
        MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss,
    )
    from undertow.nn.modules.loss import (
        MultiMarginLoss as MultiMarginLoss,
    )
    from undertow.nn.modules.loss import (
        NLLLoss as NLLLoss,
    )
    from undertow.nn.modules.loss import (
        NLLLoss2d as NLLLoss2d,
    )
    from undertow.nn.modules.loss import (
        PoissonNLLLoss as PoissonNLLLoss,
    )
    from undertow.nn.modules.loss import (
        SmoothL1Loss as SmoothL1Loss,
    )
    from undertow.nn.modules.loss import (
        SoftMarginLoss as SoftMarginLoss,
    )
    from undertow.nn.modules.loss import (
        TripletMarginLoss as TripletMarginLoss,
    )
    from undertow.nn.modules.loss import (
        TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss,
    )
    from undertow.nn.modules.module import Module as Module
    from undertow.nn.modules.normalization import (
        CrossMapLRN2d as CrossMapLRN2d,
    )
    from undertow.nn.modules.normalization import (
        GroupNorm as GroupNorm,
    )
    from undertow.nn.modules.normalization import (
        LayerNorm as LayerNorm,
    )
    from undertow.nn.modules.normalization import (
        LocalResponseNorm as LocalResponseNorm,
    )
    from undertow.nn.modules.normalization import (
        RMSNorm as RMSNorm,
    )
    from undertow.nn.modules.padding import (
        CircularPad1d as CircularPad1d,
    )
    from undertow.nn.modules.padding import (
        CircularPad2d as CircularPad2d,
    )
    from undertow.nn.modules.padding import (
        CircularPad3d as CircularPad3d,
    )
    from undertow.nn.modules.padding import (
        ConstantPad1d as ConstantPad1d,
    )
    from undertow.nn.modules.padding import (
        ConstantPad2d as ConstantPad2d,
    )
    from undertow.nn.modules.padding import (
        ConstantPad3d as ConstantPad3d,
    )
    from undertow.nn.modules.padding import (
        ReflectionPad1d as ReflectionPad1d,
    )
    from undertow.nn.modules.padding import (
        ReflectionPad2d as ReflectionPad2d,
    )
    from undertow.nn.modules.padding import (
        ReflectionPad3d as ReflectionPad3d,
    )
    from undertow.nn.modules.padding import (
        ReplicationPad1d as ReplicationPad1d,
    )
    from undertow.nn.modules.padding import (
        ReplicationPad2d as ReplicationPad2d,
    )
    from undertow.nn.modules.padding import (
        ReplicationPad3d as ReplicationPad3d,
    )
    from undertow.nn.modules.padding import (
        ZeroPad1d as ZeroPad1d,
    )
    from undertow.nn.modules.padding import (
        ZeroPad2d as ZeroPad2d,
    )
    from undertow.nn.modules.padding import (
        ZeroPad3d as ZeroPad3d,
    )
    from undertow.nn.modules.pixelshuffle import PixelShuffle as PixelShuffle
    from undertow.nn.modules.pixelshuffle import PixelUnshuffle as PixelUnshuffle
    from undertow.nn.modules.pooling import (
        AdaptiveAvgPool1d as AdaptiveAvgPool1d,
    )
    from undertow.nn.modules.pooling import (
        AdaptiveAvgPool2d as AdaptiveAvgPool2d,
    )
    from undertow.nn.modules.pooling import (
        AdaptiveAvgPool3d as AdaptiveAvgPool3d,
    )
    from undertow.nn.modules.pooling import (
        AdaptiveMaxPool1d as AdaptiveMaxPool1d,
    )
    from undertow.nn.modules.pooling import (
        AdaptiveMaxPool2d as AdaptiveMaxPool2d,
    )
    from undertow.nn.modules.pooling import (
        AdaptiveMaxPool3d as AdaptiveMaxPool3d,
    )
    from undertow.nn.modules.pooling import (
        AvgPool1d as AvgPool1d,
    )
    from undertow.nn.modules.pooling import (
        AvgPool2d as AvgPool2d,
    )
    from undertow.nn.modules.pooling import (
        AvgPool3d as AvgPool3d,
    )
    from undertow.nn.modules.pooling import (
        FractionalMaxPool2d as FractionalMaxPool2d,
    )
    from undertow.nn.modules.pooling import (
        FractionalMaxPool3d as FractionalMaxPool3d,
    )
    from undertow.nn.modules.pooling import (
        LPPool1d as LPPool1d,
    )
    from undertow.nn.modules.pooling import (
        LPPool2d as LPPool2d,
    )
    from undertow.nn.modules.pooling import (
        LPPool3d as LPPool3d,
    )
    from undertow.nn.modules.pooling import (
        MaxPool1d as MaxPool1d,
    )
    from undertow.nn.modules.pooling import (
        MaxPool2d as MaxPool2d,
    )
    from undertow.nn.modules.pooling import (
        MaxPool3d as MaxPool3d,
    )
    from undertow.nn.modules.pooling import (
        MaxUnpool1d as MaxUnpool1d,
    )
    from undertow.nn.modules.pooling import (
        MaxUnpool2d as MaxUnpool2d,
    )
    from undertow.nn.modules.pooling import (
        MaxUnpool3d as MaxUnpool3d,
    )
    from undertow.nn.modules.rnn import (
        GRU as GRU,
    )
    from undertow.nn.modules.rnn import (
        LSTM as LSTM,
    )
    from undertow.nn.modules.rnn import (
        RNN as RNN,
    )
    from undertow.nn.modules.rnn import (
        GRUCell as GRUCell,
    )
    from undertow.nn.modules.rnn import (
        LSTMCell as LSTMCell,
    )
    from undertow.nn.modules.rnn import (
        RNNBase as RNNBase,
    )
    from undertow.nn.modules.rnn import (
        RNNCell as RNNCell,
    )
    from undertow.nn.modules.rnn import (
        RNNCellBase as RNNCellBase,
    )
    from undertow.nn.modules.sparse import Embedding as Embedding
    from undertow.nn.modules.sparse import EmbeddingBag as EmbeddingBag
    from undertow.nn.modules.transformer import (
        Transformer as Transformer,
    )
    from undertow.nn.modules.transformer import (
        TransformerDecoder as TransformerDecoder,
    )
    from undertow.nn.modules.transformer import (
        TransformerDecoderLayer as TransformerDecoderLayer,
    )
    from undertow.nn.modules.transformer import (
        TransformerEncoder as TransformerEncoder,
    )
    from undertow.nn.modules.transformer import (
        TransformerEncoderLayer as TransformerEncoderLayer,
    )
    from undertow.nn.modules.upsampling import (
        Upsample as Upsample,
    )
    from undertow.nn.modules.upsampling import (
        UpsamplingBilinear2d as UpsamplingBilinear2d,
    )
    from undertow.nn.modules.upsampling import (
        UpsamplingNearest2d as UpsamplingNearest2d,
    )
