"""`torch._library`: what `torch.library` is made of, under PyTorch's names."""

from undertow.library import triton_op as triton_op
from undertow.library import wrap_triton as wrap_triton
