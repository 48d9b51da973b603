"""The few names of `torch._inductor` that programs use. undertow compiles through XLA and has no code generator."""

from undertow._inductor import config as config
from undertow._src.base.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"test_case": "undertow._inductor.test_case"})
