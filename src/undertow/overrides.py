"""`torch.overrides`: function modes, and the tools for libraries to make their own functions overridable.

The dispatch to `__torch_function__` is in `_src/overrides/torch_function.py`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from undertow._src.base.modes import local, slow_path
from undertow._src.overrides.torch_function import (
    Public,
    by_precedence,
    call_overrides,
    disabled,
    has_override,
    make_properties_check,
    members,
    no_implementation,
    overrides,
    overriding,
)  # fmt: skip
from undertow._src.overrides.torch_function import resolve_name as resolve_name
from undertow._src.tensor.core import TensorCore, tensor_class

__all__ = [
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "resolve_name", "is_tensor_like", "is_tensor_method_or_property", "wrap_torch_function",
    "enable_reentrant_dispatch", "redispatch_function",
]  # fmt: skip

# --- modes


class TorchFunctionMode:
    """Pass every public function called in the `with` block to `__torch_function__(func, types, args, kwargs)`.

    While that method runs, the mode is off, so it may call functions freely.
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Public, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        _push_mode(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        _pop_mode()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that runs every function unchanged."""

    def __torch_function__(self, func: Public, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: Any) -> None:
    """Make a mode the innermost one."""
    make_properties_check(tensor_class())
    local.modes.function_modes.append(mode)
    slow_path.enter()


def _pop_mode() -> Any:
    """End the innermost mode."""
    if not local.modes.function_modes:
        raise RuntimeError("trying to pop from empty mode stack")
    slow_path.leave()
    return local.modes.function_modes.pop()


@contextlib.contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """Switch off the innermost mode inside the block."""
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_function_mode_stack() -> list[Any]:
    """Return the active modes, outermost first."""
    return list(local.modes.function_modes)


def _get_current_function_mode() -> Any:
    """Return the innermost mode, or None."""
    return local.modes.function_modes[-1] if local.modes.function_modes else None


def _len_torch_function_stack() -> int:
    return len(local.modes.function_modes)


class enable_reentrant_dispatch:
    """A block inside a `__torch_dispatch__` in which operators are recorded and dispatched as outside of it."""

    def __enter__(self) -> None:
        modes = local.modes
        self.before = modes.dispatch_depth, modes.grad_enabled
        modes.dispatch_depth, modes.grad_enabled = 0, True

    def __exit__(self, *exception: object) -> None:
        local.modes.dispatch_depth, local.modes.grad_enabled = self.before


# --- dispatch


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a call with these arguments may be overridden."""
    return has_override(relevant_args)


def has_torch_function_unary(argument: Any) -> bool:
    return has_override((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    return has_override(arguments)


def handle_torch_function(public_api: Public, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Dispatch a call to the modes and the classes of `relevant_args`; raise TypeError if all return NotImplemented."""
    overriders = overriding(relevant_args)
    result = call_overrides(public_api, overriders, args, kwargs)
    if result is NotImplemented:
        raise no_implementation(public_api, overriders)
    return result


def redispatch_function(func: Public, types: Any, args: Any, kwargs: Any) -> Any:
    """Run a function without overrides, as on plain tensors."""
    return disabled(func, types, args, kwargs)


def _get_overloaded_args(relevant_args: Iterable[Any], get_type_fn: Callable[[Any], type] = type) -> list[Any]:
    """Return one argument of each overriding class, and a plain tensor if there is one, in dispatch order."""
    return by_precedence([value for value in relevant_args if overrides(value) or type(value) is tensor_class()])


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Public], Public]:
    """Make a function overridable; `dispatcher` returns the arguments of a call that may override it."""

    def decorate(function: Public) -> Public:
        @functools.wraps(function)
        def dispatched(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_override(relevant):
                return handle_torch_function(dispatched, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return dispatched

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or defines `__torch_function__`."""
    return isinstance(inp, TensorCore) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Public) -> bool:
    """Whether a function passed to `__torch_function__` is a method or property of Tensor."""
    return (resolve_name(func) or "").startswith("torch.Tensor.")


def get_default_nowrap_functions() -> set[Public]:
    """Return the functions whose results `Tensor.__torch_function__` does not convert to the subclass."""
    cls = tensor_class()
    return {cls._base.__get__, cls.grad.__get__, cls._grad.__get__}


def _get_tensor_methods() -> set[Public]:
    """Return the methods of tensors that may be overridden."""
    return set(get_overridable_functions().get(tensor_class(), ()))


def get_overridable_functions() -> dict[Any, list[Public]]:
    """Return the functions that `__torch_function__` may get, by namespace."""
    found: dict[Any, list[Public]] = {}
    ignored = get_ignored_functions()
    for name, space, value in members():
        written = name.endswith(".__set__") or (name.endswith("_") and not isinstance(space, type))  # torch.abs_
        if value not in ignored and not written:
            found.setdefault(space, []).append(value)
    return found


def get_testing_overrides() -> dict[Public, Public]:
    """Return, for each overridable function, a function with the same parameters that returns −1."""

    def dummy(function: Any, of_operators: bool) -> Public:
        def minus_one(*args: Any, **kwargs: Any) -> int:
            return -1

        try:
            minus_one.__signature__ = _parameters(function, of_operators)  # type: ignore[attr-defined]
        except (TypeError, ValueError):  # some have no signature, such as methods of properties
            pass
        return minus_one

    homes = (sys.modules["undertow"], tensor_class())  # namespaces whose functions are named like operators
    return {
        value: dummy(value, space in homes) for space, values in get_overridable_functions().items() for value in values
    }


def _parameters(function: Any, of_operators: bool) -> inspect.Signature:
    """Return a function's parameters; if it has an operator, those of the operator's schema, which are exact."""
    signatures = importlib.import_module("undertow._src.overrides.dispatch.schemas") if of_operators else None
    schemas = signatures.overloads(function.__name__) if signatures else {}
    if not schemas:
        return inspect.signature(function)
    schema = next(iter(schemas.values()))
    first = "self" if function.__qualname__.startswith("Tensor.") else "input"
    made = []
    for argument in schema.arguments:
        name = first if argument.name == "self" else argument.name
        kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = argument.default_value if argument.has_default else inspect.Parameter.empty
        made.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(made)


def _disable_user_warnings(
    func: Callable[..., Any], regex: str = ".*is deprecated, please use.*", module: str = "torch"
) -> Callable[..., Any]:
    """Wrap a function to suppress deprecation warnings."""

    @functools.wraps(func)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, message=regex, module=module)
            return func(*args, **kwargs)

    return quiet


# Settings, queries of settings, and functions that create tensors: no argument could override them.
IGNORED = """
    are_deterministic_algorithms_enabled autocast_decrement_nesting autocast_increment_nesting can_cast clear_autocast_cache
    compile compiled_with_cxx11_abi cond from_dlpack from_numpy frombuffer get_autocast_cpu_dtype get_autocast_dtype
    get_autocast_gpu_dtype get_default_device get_default_dtype get_deterministic_debug_mode get_device_module
    get_float32_matmul_precision get_num_interop_threads get_num_threads get_printoptions get_rng_state initial_seed
    is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled
    is_deterministic_algorithms_warn_only_enabled is_grad_enabled is_inference_mode_enabled is_storage is_tensor
    is_vulkan_available is_warn_always_enabled load manual_seed promote_types save seed set_anomaly_enabled
    set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled
    set_autocast_gpu_dtype set_default_device set_default_dtype set_default_tensor_type set_deterministic_debug_mode
    set_float32_matmul_precision set_flush_denormal set_num_interop_threads set_num_threads set_printoptions set_rng_state
    set_vital set_warn_always to_dlpack typename use_deterministic_algorithms vmap while_loop
    arange as_tensor asarray bartlett_window blackman_window broadcast_shapes empty empty_permuted empty_strided eye full
    hamming_window hann_window kaiser_window linspace logspace normal ones rand randint randn randperm range scalar_tensor
    sparse_coo_tensor tensor tril_indices triu_indices vander zeros
    eig lstsq matrix_rank solve symeig
"""


def get_ignored_functions() -> set[Public]:
    """Return the public functions that cannot be overridden."""
    package = sys.modules["undertow"]
    found = {getattr(package, name) for name in IGNORED.split() if hasattr(package, name)}
    return found | {tensor_class().as_subclass}
