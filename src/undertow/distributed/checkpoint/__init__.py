"""`torch.distributed.checkpoint`: only state dicts keyed by the model's names, no checkpoint files."""

from undertow._src.base.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"state_dict": "undertow.distributed.checkpoint.state_dict"})
