"""Tests that take a device, a dtype or an operator: `instantiate_device_type_tests`, and decorators for them."""

from undertow.testing._internal.common_device_type.bases import *  # noqa: F403
from undertow.testing._internal.common_device_type.bases import _TORCH_TEST_DEVICES as _TORCH_TEST_DEVICES
from undertow.testing._internal.common_device_type.bases import _dtype_test_suffix as _dtype_test_suffix
from undertow.testing._internal.common_device_type.bases import _update_param_kwargs as _update_param_kwargs
from undertow.testing._internal.common_device_type.marks import *  # noqa: F403
from undertow.testing._internal.common_device_type.marks import _has_sufficient_memory as _has_sufficient_memory
from undertow.testing._internal.common_device_type.ops import *  # noqa: F403
from undertow.testing._internal.common_device_type.ops import _serialize_sample as _serialize_sample
from undertow.testing._internal.common_utils import TestCase as TestCase
from undertow.testing._internal.common_utils import _TestParametrizer as _TestParametrizer
from undertow.testing._internal.common_utils import compose_parametrize_fns as compose_parametrize_fns

IS_FLEX_ATTENTION_CPU_PLATFORM_SUPPORTED = True
IS_FLEX_ATTENTION_CUDA_PLATFORM_SUPPORTED = IS_FLEX_ATTENTION_MPS_PLATFORM_SUPPORTED = False
IS_FLEX_ATTENTION_XPU_PLATFORM_SUPPORTED = False
flex_attention_supported_platform = lambda test: test


def has_cusolver() -> bool:
    return False


has_hipsolver = has_cusolver
