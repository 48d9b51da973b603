"""Tests that take a device, a dtype or an operator: `instantiate_device_type_tests` and what decorates them."""

from enum import Enum as Enum
from typing import ParamSpec, TypeVar

from undertow.testing._internal.common_cuda import TEST_CUSPARSE_GENERIC as TEST_CUSPARSE_GENERIC
from undertow.testing._internal.common_cuda import TEST_HIPSPARSE_GENERIC as TEST_HIPSPARSE_GENERIC
from undertow.testing._internal.common_cuda import _get_torch_cuda_version as _get_torch_cuda_version
from undertow.testing._internal.common_cuda import _get_torch_hipblaslt_version as _get_torch_hipblaslt_version
from undertow.testing._internal.common_cuda import _get_torch_rocm_version as _get_torch_rocm_version
from undertow.testing._internal.common_device_type.bases import *  # noqa: F403
from undertow.testing._internal.common_device_type.bases import _TORCH_TEST_DEVICES as _TORCH_TEST_DEVICES
from undertow.testing._internal.common_device_type.bases import _dtype_test_suffix as _dtype_test_suffix
from undertow.testing._internal.common_device_type.bases import _update_param_kwargs as _update_param_kwargs
from undertow.testing._internal.common_device_type.marks import *  # noqa: F403
from undertow.testing._internal.common_device_type.marks import _has_sufficient_memory as _has_sufficient_memory
from undertow.testing._internal.common_device_type.ops import *  # noqa: F403
from undertow.testing._internal.common_device_type.ops import _serialize_sample as _serialize_sample
from undertow.testing._internal.common_dtype import get_all_dtypes as get_all_dtypes
from undertow.testing._internal.common_utils import IS_FBCODE as IS_FBCODE
from undertow.testing._internal.common_utils import IS_MACOS as IS_MACOS
from undertow.testing._internal.common_utils import IS_REMOTE_GPU as IS_REMOTE_GPU
from undertow.testing._internal.common_utils import IS_S390X as IS_S390X
from undertow.testing._internal.common_utils import IS_SANDCASTLE as IS_SANDCASTLE
from undertow.testing._internal.common_utils import IS_WINDOWS as IS_WINDOWS
from undertow.testing._internal.common_utils import PRINT_REPRO_ON_FAILURE as PRINT_REPRO_ON_FAILURE
from undertow.testing._internal.common_utils import TEST_HPU as TEST_HPU
from undertow.testing._internal.common_utils import TEST_MKL as TEST_MKL
from undertow.testing._internal.common_utils import TEST_MPS as TEST_MPS
from undertow.testing._internal.common_utils import TEST_WITH_ASAN as TEST_WITH_ASAN
from undertow.testing._internal.common_utils import TEST_WITH_MIOPEN_SUGGEST_NHWC as TEST_WITH_MIOPEN_SUGGEST_NHWC
from undertow.testing._internal.common_utils import TEST_WITH_MTIA as TEST_WITH_MTIA
from undertow.testing._internal.common_utils import TEST_WITH_ROCM as TEST_WITH_ROCM
from undertow.testing._internal.common_utils import TEST_WITH_TORCHINDUCTOR as TEST_WITH_TORCHINDUCTOR
from undertow.testing._internal.common_utils import TEST_WITH_TSAN as TEST_WITH_TSAN
from undertow.testing._internal.common_utils import TEST_WITH_UBSAN as TEST_WITH_UBSAN
from undertow.testing._internal.common_utils import TEST_XPU as TEST_XPU
from undertow.testing._internal.common_utils import TestCase as TestCase
from undertow.testing._internal.common_utils import (
    _is_privateuse1_backend_available as _is_privateuse1_backend_available,
)
from undertow.testing._internal.common_utils import _TestParametrizer as _TestParametrizer
from undertow.testing._internal.common_utils import clear_tracked_input as clear_tracked_input
from undertow.testing._internal.common_utils import compose_parametrize_fns as compose_parametrize_fns
from undertow.testing._internal.common_utils import dtype_name as dtype_name
from undertow.testing._internal.common_utils import get_tracked_input as get_tracked_input
from undertow.testing._internal.common_utils import log as log
from undertow.testing._internal.common_utils import skipIfTorchDynamo as skipIfTorchDynamo

_P, _T = ParamSpec("_P"), TypeVar("_T")
IS_FLEX_ATTENTION_CPU_PLATFORM_SUPPORTED = True
IS_FLEX_ATTENTION_CUDA_PLATFORM_SUPPORTED = IS_FLEX_ATTENTION_MPS_PLATFORM_SUPPORTED = False
IS_FLEX_ATTENTION_XPU_PLATFORM_SUPPORTED = False
flex_attention_supported_platform = lambda test: test
psutil = None


def has_cusolver() -> bool:
    return False


has_hipsolver = has_cusolver
