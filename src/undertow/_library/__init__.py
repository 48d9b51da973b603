"""`torch._library`: helpers of `torch.library`, under PyTorch's names."""

from undertow.library import triton_op as triton_op
from undertow.library import wrap_triton as wrap_triton
