"""The modules of torch.nn, each family in a file of PyTorch's name."""

from typing import TYPE_CHECKING

from undertow._src.base.lazy import lazy_names
from undertow.nn.modules._homes import CLASSES, FILES

__all__ = list(CLASSES)
__getattr__, __dir__ = lazy_names(__name__, CLASSES | FILES)

if TYPE_CHECKING:  # what the names are; at run time a file is imported when one of its names is first used
    from undertow.nn.modules.activation import *  # noqa: F403
    from undertow.nn.modules.adaptive import *  # noqa: F403
    from undertow.nn.modules.attention import *  # noqa: F403
    from undertow.nn.modules.batchnorm import *  # noqa: F403
    from undertow.nn.modules.channelshuffle import *  # noqa: F403
    from undertow.nn.modules.container import *  # noqa: F403
    from undertow.nn.modules.conv import *  # noqa: F403
    from undertow.nn.modules.distance import *  # noqa: F403
    from undertow.nn.modules.dropout import *  # noqa: F403
    from undertow.nn.modules.flatten import *  # noqa: F403
    from undertow.nn.modules.fold import *  # noqa: F403
    from undertow.nn.modules.instancenorm import *  # noqa: F403
    from undertow.nn.modules.linear import *  # noqa: F403
    from undertow.nn.modules.linear_cross_entropy import *  # noqa: F403
    from undertow.nn.modules.linear_cross_entropy_options import *  # noqa: F403
    from undertow.nn.modules.loss import *  # noqa: F403
    from undertow.nn.modules.module import *  # noqa: F403
    from undertow.nn.modules.normalization import *  # noqa: F403
    from undertow.nn.modules.padding import *  # noqa: F403
    from undertow.nn.modules.pixelshuffle import *  # noqa: F403
    from undertow.nn.modules.pooling import *  # noqa: F403
    from undertow.nn.modules.rnn import *  # noqa: F403
    from undertow.nn.modules.sparse import *  # noqa: F403
    from undertow.nn.modules.transformer import *  # noqa: F403
    from undertow.nn.modules.upsampling import *  # noqa: F403
