"""`torch.masked`: reductions and normalizations of the elements that a mask keeps."""

from undertow._src.base.lazy import lazy_names

_NAMES = (
    "_canonical_dim _combine_input_and_mask _input_mask _output_mask _reduction_identity _where amax amin argmax argmin "
    "cumprod cumsum log_softmax logaddexp logsumexp mean median norm normalize prod softmax softmin std sum var"
)
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(_NAMES.split(), "undertow.masked._ops"))
