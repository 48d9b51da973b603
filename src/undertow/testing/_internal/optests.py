"""Checks of operators of a program's own; they are in `operator_checks.py`."""

from undertow._src.overrides.operator_checks import OpCheckError as OpCheckError
from undertow._src.overrides.operator_checks import opcheck as opcheck
