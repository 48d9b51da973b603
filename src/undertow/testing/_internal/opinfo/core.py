"""`DecorateInfo`: decorators for some tests of an operator. `OpInfo` and tables of operators are not included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from undertow._src.types.dtypes import dtype as Dtype


class DecorateInfo:
    """Decorators for some tests of an operator, selected by class, name, device, dtypes and a condition."""

    __slots__ = ("decorators", "cls_name", "test_name", "device_type", "dtypes", "active_if")

    def __init__(
        self, decorators: Any, cls_name: str | None = None, test_name: str | None = None, *, device_type: Any = None,
        dtypes: Iterable[Any] | None = None, active_if: Any = True,
    ) -> None:  # fmt: skip
        self.decorators = list(decorators) if isinstance(decorators, (list, tuple)) else [decorators]
        self.cls_name, self.test_name, self.device_type = cls_name, test_name, device_type
        self.dtypes, self.active_if = None if dtypes is None else list(dtypes), active_if
        for kind in self.dtypes or ():
            if not isinstance(kind, Dtype):
                raise AssertionError(f"expected a torch.dtype, got {kind!r}")

    def is_active(self, cls_name: str, test_name: str, device_type: Any, dtype: Any, param_kwargs: Any) -> bool:
        """Whether the decorators apply to a test."""
        if callable(self.active_if) and not self.active_if(param_kwargs):
            return False
        return bool(
            (callable(self.active_if) or self.active_if)
            and self.cls_name in (None, cls_name)
            and self.test_name in (None, test_name)
            and self.device_type in (None, device_type)
            and (self.dtypes is None or dtype in self.dtypes)
        )
