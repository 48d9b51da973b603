"""`torch.utils.model_zoo`: the older name of `torch.hub.load_state_dict_from_url`."""

from undertow.hub import load_state_dict_from_url as load_state_dict_from_url

load_url = load_state_dict_from_url
