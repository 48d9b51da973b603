"""Tests of layers and losses: the test classes, tables of cases, and reference implementations."""

from undertow.testing._internal.common_nn.cases import *  # noqa: F403
from undertow.testing._internal.common_nn.cases import _create_basic_net as _create_basic_net
from undertow.testing._internal.common_nn.cases import _rand_tensor_non_equal as _rand_tensor_non_equal
from undertow.testing._internal.common_nn.cases import _test_module_empty_input as _test_module_empty_input
from undertow.testing._internal.common_nn.references import *  # noqa: F403
from undertow.testing._internal.common_nn.sequence_losses import *  # noqa: F403
from undertow.testing._internal.common_nn.sequence_losses import _test_bfloat16_ops as _test_bfloat16_ops
from undertow.testing._internal.common_nn.tables import *  # noqa: F403
from undertow.testing._internal.common_utils import TEST_CUDA as TEST_CUDA
from undertow.testing._internal.common_utils import TEST_WITH_ROCM as TEST_WITH_ROCM
