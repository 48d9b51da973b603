"""The names that most tests written for PyTorch import: `TestCase`, decorators and constants.

They are defined in the files of this package, by topic, and exported here.
"""

from undertow.testing._creation import make_tensor as make_tensor
from undertow.testing._internal.common_dtype import get_all_dtypes as get_all_dtypes
from undertow.testing._internal.common_utils import facts as _facts
from undertow.testing._internal.common_utils.blocks import *  # noqa: F403
from undertow.testing._internal.common_utils.cases import *  # noqa: F403
from undertow.testing._internal.common_utils.facts import *  # noqa: F403
from undertow.testing._internal.common_utils.gradients import *  # noqa: F403
from undertow.testing._internal.common_utils.gradients import (
    _assertGradAndGradgradChecks as _assertGradAndGradgradChecks,
)
from undertow.testing._internal.common_utils.helpers import *  # noqa: F403
from undertow.testing._internal.common_utils.helpers import _device_spec_from_test_call as _device_spec_from_test_call
from undertow.testing._internal.common_utils.helpers import _test_function as _test_function
from undertow.testing._internal.common_utils.marks import *  # noqa: F403
from undertow.testing._internal.common_utils.matrices import *  # noqa: F403
from undertow.testing._internal.common_utils.pairs import *  # noqa: F403
from undertow.testing._internal.common_utils.pairs import (
    _unwrap_dtensor_for_comparison as _unwrap_dtensor_for_comparison,
)
from undertow.testing._internal.common_utils.parametrization import *  # noqa: F403
from undertow.testing._internal.common_utils.parametrization import _TestParametrizer as _TestParametrizer
from undertow.testing._internal.common_utils.running import *  # noqa: F403
from undertow.testing._internal.common_utils.running import _cpu_sleep as _cpu_sleep
from undertow.testing._internal.common_utils.sparse_samples import *  # noqa: F403
from undertow.testing._internal.common_utils.sparse_samples import (
    _generate_indices_prefer_all_rows as _generate_indices_prefer_all_rows,
)
from undertow.testing._internal.common_utils.tracking import *  # noqa: F403

_check_module_exists, _dsl_checker, _is_fbcode_default, _is_cpu_device_type, _is_privateuse1_backend_available = (
    _facts._check_module_exists, _facts._dsl_checker, _facts._is_fbcode_default, _facts._is_cpu_device_type,
    _facts._is_privateuse1_backend_available,
)  # fmt: skip
