"""`torch._functorch.batch_norm_replacement`: batch norms that keep no running averages."""

from undertow.func._modules import batch_norm_without_running_stats as batch_norm_without_running_stats
from undertow.func._modules import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
