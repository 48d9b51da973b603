"""`torch.utils.model_zoo`: the older name of `torch.hub.load_state_dict_from_url`."""

from undertow._src.base.lazy import lazy_names
from undertow.hub import load_state_dict_from_url as load_state_dict_from_url

load_url = load_state_dict_from_url
__getattr__, __dir__ = lazy_names(__name__, {"tqdm": "undertow._src.compat.progress_bar:best"})
