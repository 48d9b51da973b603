"""Classes of tensors that hold others, under this name too."""

from undertow.testing._internal.wrapper_tensors import ConstantExtraMetadataTensor as ConstantExtraMetadataTensor
from undertow.testing._internal.wrapper_tensors import CustomTensorPlainOut as CustomTensorPlainOut
