"""Log the operators that run, with a tensor class or a mode.

A line reads `$2: f32[3] = torch._ops.aten.mul.Tensor($0, $1)`: tensors are numbered in order of first use.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import traceback
from collections.abc import Iterator
from typing import Any

from undertow._src.base.tree import map_leaves
from undertow._src.overrides.torch_function import disabled
from undertow._src.types import dtypes
from undertow._tensor import Tensor
from undertow.overrides import enable_reentrant_dispatch
from undertow.utils._python_dispatch import TorchDispatchMode
from undertow.utils.weak import WeakTensorKeyDictionary

logger = logging.getLogger("LoggingTensor")
_dtype_abbrs = {
    dtypes.bfloat16: "bf16", dtypes.float64: "f64", dtypes.float32: "f32", dtypes.float16: "f16",
    dtypes.complex32: "c32", dtypes.complex64: "c64", dtypes.complex128: "c128", dtypes.int8: "i8", dtypes.int16: "i16",
    dtypes.int32: "i32", dtypes.int64: "i64", dtypes.bool: "b8", dtypes.uint8: "u8", dtypes.uint16: "u16",
    dtypes.uint32: "u32", dtypes.uint64: "u64",
}  # fmt: skip


def _log(name: str, args: Any, kwargs: dict[str, Any], out: Any) -> None:
    logger.info(name, extra={"given": args, "named": kwargs, "out": out})


class LoggingTensor(Tensor):
    """A wrapper of a tensor that logs every operator applied to it."""

    elem: Any
    context = contextlib.nullcontext

    @staticmethod
    def __new__(cls: Any, elem: Any, *args: Any, **kwargs: Any) -> Any:
        place = {"strides": elem.stride(), "storage_offset": elem.storage_offset()}
        kind = {name: getattr(elem, name) for name in ("dtype", "layout", "device")}
        recorded = kwargs.get("requires_grad", False)
        made = Tensor._make_wrapper_subclass(cls, elem.size(), requires_grad=recorded, **place, **kind)
        made.elem = elem.detach() if recorded else elem
        return made

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return super().__repr__(tensor_contents=f"{self.elem}")  # type: ignore[call-arg]

    __torch_function__ = disabled  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = map_leaves(lambda value: value.elem if isinstance(value, cls) else value, (args, kwargs or {}))
        with cls.context():
            result = func(*given[0], **given[1])
        out = map_leaves(lambda value: cls(value) if isinstance(value, Tensor) else value, result)
        _log(f"torch._ops.{func}", args, kwargs or {}, out)
        return out


class LoggingTensorReentrant(LoggingTensor):
    """A LoggingTensor whose inner operators are recorded."""

    context = enable_reentrant_dispatch  # type: ignore[assignment]


class LoggingTensorMode(TorchDispatchMode):
    """Log every operator inside the block."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        _log(f"torch._ops.{func}", args, kwargs or {}, out)
        return out


class LoggingTensorHandler(logging.Handler):
    """Appends log lines to a list, with tensors shown by their numbers."""

    def __init__(
        self, log_list: list[str], use_shortid_for_all_tensors: bool = False, with_type: bool = True,
        tracebacks_list: list[Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.log_list, self.with_type, self.tracebacks_list = log_list, with_type, tracebacks_list
        self.use_shortid_for_all_tensors = use_shortid_for_all_tensors
        self.memo: Any = WeakTensorKeyDictionary()
        self._numbers = itertools.count()

    def _shortid(self, tensor: Any) -> int:
        if tensor not in self.memo:
            self.memo[tensor] = next(self._numbers)
        return self.memo[tensor]

    def _fmt(self, value: Any, with_type: bool = False) -> str:
        if isinstance(value, Tensor if self.use_shortid_for_all_tensors else LoggingTensor):
            kind = ""
            if with_type and self.with_type:
                kind = f": {_dtype_abbrs.get(value.dtype, value.dtype)}{list(value.shape)}"
            return f"${self._shortid(value)}{kind}"
        return repr(value)

    def emit(self, record: Any) -> None:
        args = [str(_formatted(self._fmt, value)) for value in record.given]
        named = [f"{name}={_formatted(self._fmt, value)}" for name, value in record.named.items()]
        out = _formatted(lambda value: self._fmt(value, with_type=True), record.out)
        self.log_list.append(f"{out} = {record.msg}({', '.join([*args, *named])})")
        if self.tracebacks_list is not None:
            self.tracebacks_list.append(getattr(record, "traceback", None))


def _formatted(form: Any, value: Any) -> Any:
    """Apply a formatting function inside nested lists and tuples."""
    if isinstance(value, (tuple, list)):
        return type(value)([_formatted(form, part) for part in value])
    return form(value)


def log_input(name: str, var: Any) -> None:
    """Log an input tensor."""
    _log("input", (name,), {}, var)


class GatherTraceback(logging.Filter):
    """Adds the stack to each log record."""

    def __init__(self, python: bool = True, script: bool = True, cpp: bool = False) -> None:
        super().__init__()
        self.python = python

    def filter(self, record: Any) -> bool:
        record.traceback = traceback.extract_stack() if self.python else None
        return True


@contextlib.contextmanager
def capture_logs(
    is_mode: bool = False, python_tb: bool = False, script_tb: bool = False, cpp_tb: bool = False
) -> Iterator[Any]:
    """Collect the log lines of the block in a list; with tracebacks, in a pair of lists."""
    wants_tracebacks = python_tb or script_tb or cpp_tb
    log_list: list[str] = []
    tracebacks: list[Any] = []
    handler = LoggingTensorHandler(log_list, is_mode, True, tracebacks if wants_tracebacks else None)
    watcher = GatherTraceback(python_tb, script_tb, cpp_tb)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.addFilter(watcher) if wants_tracebacks else None
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield (log_list, tracebacks) if wants_tracebacks else log_list
    finally:
        logger.setLevel(level)
        logger.propagate = propagates
        logger.removeHandler(handler)
        logger.removeFilter(watcher)


@contextlib.contextmanager
def capture_logs_with_logging_tensor_mode(
    python_tb: bool = False, script_tb: bool = False, cpp_tb: bool = False
) -> Iterator[Any]:
    """Log all operators of the block."""
    with LoggingTensorMode(), capture_logs(True, python_tb, script_tb, cpp_tb) as logs:
        yield logs
