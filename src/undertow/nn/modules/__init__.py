"""The modules of torch.nn, one family per file, with PyTorch's file names."""

from undertow._src.base.lazy import lazy_names
from undertow.nn.modules._homes import CLASSES, FILES

__all__ = list(CLASSES)
__getattr__, __dir__ = lazy_names(__name__, CLASSES | FILES)
