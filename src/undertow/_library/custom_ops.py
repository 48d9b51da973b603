"""Operators made of Python functions; they are in `library.py`."""

from undertow.library import CustomOpDef as CustomOpDef
from undertow.library import custom_op as custom_op
