"""Context managers for tests: default dtypes, temporary files, disabled garbage collection and others."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

from undertow import __future__ as future
from undertow._src.base.modes import Deterministic
from undertow._src.compat.process_settings import (
    are_deterministic_algorithms_enabled,
    is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled,
    set_warn_always,
    use_deterministic_algorithms,
)
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.tensor_types import set_default_tensor_type as _set_default_tensor_type
from undertow._src.types.dtypes import get_default_dtype
from undertow._src.types.dtypes import set_default_dtype as _set_default_dtype
from undertow.testing._utils import freeze_rng_state as freeze_rng_state


@contextlib.contextmanager
def set_default_dtype(dtype: Any) -> Iterator[None]:
    """Set the default dtype inside the block."""
    before = get_default_dtype()
    _set_default_dtype(dtype)
    try:
        yield
    finally:
        _set_default_dtype(before)


@contextlib.contextmanager
def set_default_tensor_type(tensor_type: Any) -> Iterator[None]:
    """Set the default tensor type inside the block."""
    before = get_default_dtype()
    _set_default_tensor_type(tensor_type)
    try:
        yield
    finally:
        _set_default_dtype(before)


class DeterministicGuard:
    """Switch deterministic algorithms on or off inside the block."""

    def __init__(self, deterministic: bool, *, warn_only: bool = False, fill_uninitialized_memory: bool = True) -> None:
        self.deterministic, self.warn_only = deterministic, warn_only
        self.fill_uninitialized_memory = fill_uninitialized_memory

    def __enter__(self) -> None:
        self.before = are_deterministic_algorithms_enabled(), is_deterministic_algorithms_warn_only_enabled()
        self.filled, Deterministic.fills_memory = Deterministic.fills_memory, self.fill_uninitialized_memory
        use_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)

    def __exit__(self, *exception: object) -> None:
        use_deterministic_algorithms(self.before[0], warn_only=self.before[1])
        Deterministic.fills_memory = self.filled


class SwapTensorsGuard:
    """Set the swapping of parameters inside the block; None leaves it unchanged."""

    def __init__(self, use_swap_tensors: bool | None) -> None:
        self.use_swap_tensors = use_swap_tensors

    def __enter__(self) -> None:
        self.before = future.get_swap_module_params_on_conversion()
        if self.use_swap_tensors is not None:
            future.set_swap_module_params_on_conversion(self.use_swap_tensors)

    def __exit__(self, *exception: object) -> None:
        if self.use_swap_tensors is not None:
            future.set_swap_module_params_on_conversion(self.before)


@contextlib.contextmanager
def set_warn_always_context(new_val: bool) -> Iterator[None]:
    """Set whether warn-once warnings repeat inside the block."""
    before = is_warn_always_enabled()
    set_warn_always(new_val)
    try:
        yield
    finally:
        set_warn_always(before)


class AlwaysWarnTypedStorageRemoval:
    """Make every use of a typed storage warn inside the block."""

    def __init__(self, always_warn: bool) -> None:
        if not isinstance(always_warn, bool):
            raise AssertionError(f"expected a bool, got {always_warn!r}")
        self.always_warn = always_warn

    def __enter__(self) -> None:
        self.inner = warnings.catch_warnings()
        self.inner.__enter__()
        if self.always_warn:
            warnings.filterwarnings("always", "TypedStorage is deprecated", UserWarning)

    def __exit__(self, *exception: object) -> None:
        self.inner.__exit__(None, None, None)


@contextlib.contextmanager
def TemporaryFileName(*args: Any, **kwargs: Any) -> Iterator[str]:
    """Yield the name of a file that is removed after the block."""
    if kwargs.pop("delete", False):
        raise UserWarning("only TemporaryFileName with delete=False is supported on Windows.")
    file: Any = tempfile.NamedTemporaryFile(*args, **{**kwargs, "delete": False})
    try:
        file.close()
        yield file.name
    finally:
        os.unlink(file.name)


@contextlib.contextmanager
def TemporaryDirectoryName(suffix: str | None = None) -> Iterator[str]:
    """Yield the name of a folder that is removed after the block."""
    with tempfile.TemporaryDirectory(suffix=suffix) as folder:
        yield folder


class BytesIOContext(io.BytesIO):
    """A file in memory that stays open at the end of a `with` block."""

    def __enter__(self) -> BytesIOContext:
        return self

    def __exit__(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def set_cwd(path: str) -> Iterator[None]:
    """Change the working directory inside the block."""
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def disable_gc() -> Iterator[None]:
    """Disable the cyclic garbage collector inside the block."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextlib.contextmanager
def check_leaked_tensors(limit: int = 1, matched_type: type = TensorCore) -> Iterator[None]:
    """Warn if the block leaves `limit` or more tensors in reference cycles."""
    gc.collect()
    gc.disable()
    flags = gc.get_debug()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        del gc.garbage[:]
        yield
        gc.collect()
        left = [each for each in gc.garbage if isinstance(each, matched_type)]
        if len(left) >= limit:
            shown = ", ".join(
                str(tuple(each.shape)) if isinstance(each, TensorCore) else repr(each) for each in left[:10]
            )
            warnings.warn(f"{len(left)} tensors were left in reference cycles: {shown}", stacklevel=2)
    finally:
        gc.set_debug(flags)
        del gc.garbage[:]
        gc.enable()


@contextlib.contextmanager
def _nothing(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Return a block without effect: it concerns GPU streams and memory, or TorchScript."""
    yield


CudaNonDefaultStream = CudaSyncGuard = CudaMemoryLeakCheck = _nothing
enable_profiling_mode = enable_profiling_mode_for_profiling_tests = num_profiled_runs = _nothing
