"""Classes of tensors that hold others, under this name too."""

from undertow.testing._internal.wrapper_tensors import WrapperSubclass as WrapperSubclass
