"""`torch.testing._internal.opinfo.core`: everything about operators for tests."""

from undertow.testing._internal.common_device_type.marks import tol as tol
from undertow.testing._internal.common_device_type.marks import toleranceOverride as toleranceOverride
from undertow.testing._internal.opinfo.elementwise import *  # noqa: F403
from undertow.testing._internal.opinfo.elementwise import (
    _filter_unary_elementwise_tensor as _filter_unary_elementwise_tensor,
)
from undertow.testing._internal.opinfo.elementwise import (
    _make_unary_elementwise_tensor as _make_unary_elementwise_tensor,
)
from undertow.testing._internal.opinfo.elementwise import _replace_values_in_tensor as _replace_values_in_tensor
from undertow.testing._internal.opinfo.info import *  # noqa: F403
from undertow.testing._internal.opinfo.info import _NOTHING as _NOTHING
from undertow.testing._internal.opinfo.info import _getattr_qual as _getattr_qual
from undertow.testing._internal.opinfo.kinds import *  # noqa: F403
from undertow.testing._internal.opinfo.kinds import _generate_reduction_inputs as _generate_reduction_inputs
from undertow.testing._internal.opinfo.kinds import _generate_reduction_kwargs as _generate_reduction_kwargs
from undertow.testing._internal.opinfo.rules import *  # noqa: F403
