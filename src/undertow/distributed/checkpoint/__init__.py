"""`torch.distributed.checkpoint`: state dicts by the names of the model; its files are not here."""

from undertow._src.base.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"state_dict": "undertow.distributed.checkpoint.state_dict"})
