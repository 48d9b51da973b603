"""Runs a rule on tensors: bring inputs to one dtype, compute, wrap, and record a node if gradients are wanted.

`unary` and `binary` make the public function of an elementwise rule, specialised once at import: the common case (plain
tensors of one float dtype, no rare mode on) is straight-line code there. Everything else goes through `apply`, which
handles every case; the fast path is a shortcut, never a second behaviour.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow import _core, mirrors, overrides
from undertow._core import InferenceStorage, TensorCore, ndarray, wrap
from undertow.autograd.node import CONJUGATE, FIT, UPCAST, edge_of, node_class
from undertow.autograd.record import record
from undertow.autograd.saved import SavedInput, SavedOutput
from undertow.autograd.specialise import specialised_apply
from undertow.autograd.views import link_view, refresh_view
from undertow.devices import cpu
from undertow.dtypes import DTYPE_OF, SCALAR_DTYPE, combine, complex32, dtype, get_default_dtype, promote
from undertow.modes import local, special
from undertow.ops.arguments import broadcast_two, invalid_combination, must_be, type_name
from undertow.rules.refusals import refusal
from undertow.rules.rule import Rule, Spec
from undertow.sites import user_stack
from undertow.storage import check_overlap
from undertow.xp import numpy as numpy_xp
from undertow.xp.device import DeviceArray, Watch
from undertow.xp.namespaces import namespace_of
from undertow.xp.numpy_order import ordered
from undertow.xp.quiet import quietly, silently

FAST_DTYPES = frozenset({np.dtype("f4"), np.dtype("f8")})
NUMBERS = frozenset({float, int})
PYTHON_NUMBERS = frozenset({float, int, bool, complex})
HUGE = 1e38  # larger numbers may not fit into a float32, which the general path sees to
MISSING: Any = object()  # an operand that was not given

_UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "exp": np.exp,
    "sqrt": np.sqrt, "tanh": np.tanh, "reciprocal": np.reciprocal,
}  # fmt: skip

_new = object.__new__
_asarray = np.asarray

Tensor: Any = TensorCore  # the public class, once _tensor.py has made it
PLAIN = overrides.PLAIN  # classes whose instances take the fast path


def bind_tensor_class(cls: Any) -> None:
    """Called by _tensor.py: results are instances of this class from now on."""
    global Tensor
    Tensor = cls
    PLAIN.add(cls)
    overrides.QUIET.add(cls)
    _core.bind_tensor_class(cls)


# --- the public functions of elementwise rules


def unary(rule: Rule, name: str = "", doc: str = "") -> Callable[..., Any]:
    """The public function, or method, of a one-input elementwise rule."""
    forward = computing(rule)
    keeps_input, keeps_result = "self" in rule.saves, "result" in rule.saves
    simple = rule.promote is not None and rule.outputs == 1 and not (rule.hidden or rule.uses_specs or rule.statics)
    simple = simple and "f" in rule.accepts

    def function(input: Any, *, out: Any = None) -> Any:
        if type(input) in PLAIN and not special.active and out is None and simple:
            array = input._array
            if type(array) is ndarray and array.dtype in FAST_DTYPES:
                try:
                    value = silently(forward, array)
                except RuntimeError:  # another thread is computing too
                    return call(function, rule, (input,), {}, None)
                if type(value) is not ndarray:
                    value = _asarray(value)
                result = _new(Tensor)
                result._array = value
                result._storage = result._view = result._meta = None
                recorded = records and (modes := local.modes).grad_enabled
                if recorded:
                    if input._view is not None:
                        refresh_view(input)
                    recorded = input._requires_grad
                if recorded:
                    if keeps_input:
                        saved: tuple[Any, ...] = (SavedInput(input),)
                        if keeps_result:
                            saved += (SavedOutput(result),)
                    else:
                        saved = (SavedOutput(result),) if keeps_result else ()
                    node = (rule.node_class or node_class(rule))(
                        (input._edge or edge_of(input),), next(modes.sequence), saved
                    )
                    result._edge = (node, 0)
                    result._requires_grad = True
                else:
                    result._edge = None
                    result._requires_grad = False
                return result
        return call(function, rule, (input,), {}, out)

    records = rule.gradients[0] is not None or rule.joint is not None
    return name_function(function, name or rule.name, doc)


def binary(
    rule: Rule, name: str = "", doc: str = "", operator: str = "", takes: str = "number", several: bool = False,
    check: Callable[[tuple[Any, ...]], None] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The public function, or method, of a two-input elementwise rule.

    As an `operator` method it answers NotImplemented to an operand it can't take. `takes`: whether its operands are two
    "tensors", the second may be a "number", or either may ("numbers"). `several`: PyTorch has several signatures for
    it, which changes the words in which it refuses arguments. `check` sees the operands first, unless they are floats.
    """
    forward = computing(rule)
    saves = rule.saves
    records = any(gradient is not None for gradient in rule.gradients)
    simple = rule.promote is not None and not rule.uses_specs and not rule.statics and set(saves) <= set(rule.inputs)
    simple = simple and "f" in rule.accepts
    numbers = NUMBERS if takes != "tensors" else frozenset()
    two_slots = rule.slots != 1
    keeps = {  # (left wants a gradient, right wants one) -> which inputs are saved
        (left, right): tuple([
            (left and name in rule.needed[0]) or (right and name in rule.needed[1]) for name in rule.inputs
        ])
        for left in (False, True)
        for right in (False, True)
    }
    places = tuple([rule.inputs.index(name) for name in saves]) if simple else ()
    simple = simple and places in ((), (0,), (1,), (1, 0))  # as `self` and another name sort
    keeps_beside_number = keeps[True, False]
    other_first = bool(places) and places[0] == 1

    def function(input: Any, other: Any = MISSING, *, out: Any = None) -> Any:
        tensor: Any
        if type(input) in PLAIN and not special.active and out is None and simple:
            a = input._array
            if type(a) is ndarray and a.dtype in FAST_DTYPES:
                if type(other) in numbers and -HUGE < other < HUGE:
                    b, tensor = _asarray(other, a.dtype), None
                elif type(other) in PLAIN and other._array.dtype is a.dtype:
                    b, tensor = other._array, other
                else:
                    b = None
                if type(b) is ndarray:
                    try:
                        value = silently(forward, a, b)
                    except (ValueError, RuntimeError):  # shapes that do not fit, or another thread is computing too
                        return call(function, rule, (input, other), {}, None)
                    if type(value) is not ndarray:
                        value = _asarray(value)
                    elif tensor is not None and value.ndim > 1 and not a.flags.c_contiguous:
                        value = ordered(value, (a, b))
                    result = _new(Tensor)
                    result._array = value
                    result._storage = result._view = result._meta = None
                    left = right = False
                    if records and (modes := local.modes).grad_enabled:
                        if input._view is not None:
                            refresh_view(input)
                        left = input._requires_grad
                        if tensor is not None:
                            if tensor._view is not None:
                                refresh_view(tensor)
                            right = tensor._requires_grad
                    if left or right:
                        saved: tuple[Any, ...] = ()
                        if places:
                            if tensor is None:
                                keeps_self, keeps_other = keeps_beside_number
                            else:
                                keeps_self, keeps_other = keeps[left, right]
                            if other_first:
                                saved = (None if not keeps_other else b if tensor is None else SavedInput(tensor),)
                            if len(places) == 2 or not other_first:
                                saved += (SavedInput(input) if keeps_self else None,)
                        edge = (input._edge or edge_of(input)) if left else None
                        edges = (edge, (tensor._edge or edge_of(tensor)) if right else None) if two_slots else (edge,)
                        make = rule.node_class or node_class(rule)
                        if tensor is None or a.shape == b.shape:
                            node = make(edges, next(modes.sequence), saved, () if tensor is not None else (other,))
                        else:
                            specs = (Spec(a.shape, a.dtype), Spec(b.shape, b.dtype))
                            node = make(edges, next(modes.sequence), saved, (), specs, FIT)
                        result._edge = (node, 0)
                        result._requires_grad = True
                    else:
                        result._edge = None
                        result._requires_grad = False
                    return result
        if not (isinstance(input, TensorCore) and isinstance(other, TensorCore)):
            if operator and not overrides.is_operand(other):
                return NotImplemented
            check_operands(function.__name__, rule, (input, other), takes, several, "." in function.__qualname__)
        if check is not None and not overrides.wanted((input, other)):
            check((input, other))
        return call(function, rule, (input, other), {}, out)

    return name_function(function, operator or name or rule.name, doc)


def computing(rule: Rule) -> Callable[..., Any]:
    """A rule's forward on NumPy's arrays: NumPy's own function where that is all there is to it, which saves a call."""
    return ufunc_of(rule) or functools.partial(rule.forward, numpy_xp)


def ufunc_of(rule: Rule) -> Any:
    """NumPy's function that computes a rule, if it has one."""
    ufunc = _UFUNCS.get(rule.name)
    return ufunc if ufunc is not None and not rule.statics and len(rule.inputs) == ufunc.nin else None


def check_operands(
    name: str, rule: Rule, inputs: tuple[Any, ...], takes: str, several: bool = False, method: bool = False
) -> None:
    """Refuses what is neither a tensor nor a number in a place for numbers, in PyTorch's words."""
    for place, given in enumerate(inputs):
        as_number = takes == "numbers" or (takes == "number" and place > 0)
        if isinstance(given, TensorCore) or (overrides.is_operand(given) if as_number else overrides.takes_over(given)):
            continue
        if several:
            raise invalid_combination(name, [value for value in inputs[method:] if value is not MISSING])
        argument = rule.inputs[place] if place else "input"
        if given is MISSING:
            raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')
        raise must_be("Tensor", given, name, argument, place + 1 - method)


def name_function(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "undertow"  # where pickle looks for it
    function.__doc__ = doc or None
    return function


# --- the general path


def call(public: Callable[..., Any], rule: Rule, inputs: tuple[Any, ...], statics: dict[str, Any], out: Any) -> Any:
    """A public elementwise function in the general case: overrides first, then `apply`, then `out=`."""
    if overrides.wanted(inputs):
        return overrides.dispatch(public, inputs, {**statics, "out": out} if out is not None else statics)
    if len(inputs) == 1:
        check_operands(public.__name__, rule, inputs, "tensors")
    return apply_generally(rule, inputs, statics) if out is None else apply_into(out, rule, inputs, statics)


def apply_into(out: Any, rule: Rule, inputs: tuple[Any, ...], statics: dict[str, Any]) -> Any:
    """`out=` for a rule. One without gradients may have inputs that want them."""
    if rule.node_name.endswith("NotImplemented"):  # PyTorch lets these pass, and complains in the backward pass
        result = apply_generally(rule, inputs, statics)
        write_out(out, result)
        out._edge, out._requires_grad = result._edge, result._requires_grad
        return out
    if rule.promote in ("numeric", "float") and isinstance(out, TensorCore) and out._storage is not None:
        for given in inputs:
            if isinstance(given, TensorCore) and given._storage is out._storage:
                check_overlap(out._array, given._array)
    wanting = inputs if rule.joint is not None or any(rule.gradients) else ()
    return into(out, lambda: apply_generally(rule, inputs, statics), wanting, rule.name)


def into(out: Any, compute: Callable[[], Any], inputs: Sequence[Any], name: str, same_dtype: bool = False) -> Any:
    """`out=`: computes unrecorded and writes the result into a tensor, giving it the result's shape."""
    if not isinstance(out, TensorCore):
        if not isinstance(out, (bool, int, float, complex)):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type_name(out)}")
        out = wrap(out)
    modes = local.modes
    if modes.grad_enabled:
        for given in (*inputs, out):
            if isinstance(given, TensorCore) and given._requires_grad:
                raise RuntimeError(
                    f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of "
                    "the arguments requires grad."
                )
    before, modes.grad_enabled = modes.grad_enabled, False
    try:
        result = compute()
    finally:
        modes.grad_enabled = before
    write_out(out, result, same_dtype)
    return out


_C_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long int",
    "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def write_out(out: Any, result: Any, same_dtype: bool = False) -> None:
    """Writes a result into the tensor given as `out=`; `same_dtype`: an op that casts nothing on the way."""
    refuse_overlap(out._array)
    found, wanted = DTYPE_OF[result._array.dtype], DTYPE_OF[out._array.dtype]
    if same_dtype and found is not wanted:
        raise RuntimeError(
            f"Expected out tensor to have dtype {_C_NAMES.get(found.name, found.name)}, but got "
            f"{_C_NAMES.get(wanted.name, wanted.name)} instead"
        )
    if found.category > wanted.category:
        raise RuntimeError(
            f"result type {found.scalar_name} can't be cast to the desired output type {wanted.scalar_name}"
        )
    if out._array.shape != result._array.shape:
        if out._array.size:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(out._array.shape)}, which "
                f"does not match the required output shape {list(result._array.shape)}. Give an empty tensor, or one "
                "of that shape.",
                stacklevel=4,
            )
        out._array = np.empty(result._array.shape, out._array.dtype)
    quietly(np.copyto, out._array, result._array, casting="unsafe")
    bump(out)


def apply(rule: Rule, *inputs: Any, **statics: Any) -> Any:
    """Runs a rule on tensors, Python numbers and Nones; returns a tensor or a tuple of them."""
    return (rule.run or specialise(rule))(*inputs, **statics)


def specialise(rule: Rule) -> Callable[..., Any]:
    """Makes `rule.run`: straight-line code for plain tensors, `apply_generally` for all else."""
    if rule.variadic or "f" not in rule.accepts:
        rule.run = lambda *inputs, **statics: apply_generally(rule, inputs, statics)
    else:
        rule.run = specialised_apply(rule, apply_generally, {**globals(), "xp": numpy_xp})
    return rule.run


def apply_generally(rule: Rule, inputs: tuple[Any, ...], statics: dict[str, Any]) -> Any:
    """`apply` in every case."""
    settle(inputs)
    if tensor_among(statics):
        statics = with_numbers(rule, statics)
    if special.active and local.modes.autocast is not None:
        inputs = local.modes.autocast.for_rule(rule, inputs)
    if special.dispatcher is not None and special.dispatcher.takes(inputs):
        return special.dispatcher.run(rule, inputs, statics)
    arrays, chores, values = quietly(compute, rule, inputs, statics)
    shown = len(values) - len(rule.hidden)
    results = tuple([wrap(value) for value in values])
    if special.active and local.modes.inference:
        for result in results[:shown]:
            result._storage = InferenceStorage()
    record(rule, inputs, arrays, results, shown, statics, chores)
    if rule.view:
        link_view(rule, inputs[0], results[:shown], statics)
    return results[0] if rule.outputs == 1 else results[:shown]


def settle(inputs: Sequence[Any]) -> None:
    """Brings inputs to where the op runs: into the program that is being traced, or to the host for one to look at."""
    trace, away = Watch.trace, None
    for given in inputs:
        if isinstance(given, TensorCore):
            array = given._array
            if trace is not None:
                trace.adopt(given)
            elif type(array) is DeviceArray and array.device is cpu:
                given._array = array.on_host()
            elif type(array) is DeviceArray:
                away = array.device
    if away is not None:
        together(inputs, away)


def together(inputs: Sequence[Any], away: Any) -> None:
    """Refuses tensors on different devices; a number in a 0-dim tensor may come along from the CPU."""
    for given in inputs:
        if isinstance(given, TensorCore) and given.device is not away and given._array.ndim:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{away} and {given.device}! Move them with .to()."
            )


def tensor_among(statics: dict[str, Any]) -> bool:
    """Whether a tensor was given where a rule takes a number."""
    for value in statics.values():
        if isinstance(value, TensorCore):
            return True
    return False


def with_numbers(rule: Rule, statics: dict[str, Any]) -> dict[str, Any]:
    """Numbers that came as 0-dim tensors, as PyTorch takes them; the gradient of a number cannot be asked for."""
    return {
        name: number_of(value, rule.name, name) if isinstance(value, TensorCore) else value
        for name, value in statics.items()
    }


def number_of(value: Any, name: str, argument: str) -> Any:
    """The number in a 0-dim tensor."""
    if value._requires_grad or value._array.ndim:
        raise must_be("Number", value, name, argument)
    return value._array.item()


def compute(rule: Rule, inputs: Sequence[Any], statics: dict[str, Any]) -> tuple[list[Any], int, tuple[Any, ...]]:
    """A rule's operands as arrays, the chores its gradient will have, and its results as arrays."""
    arrays, chores, target = operands(rule, inputs)
    values = run_forward(rule, arrays, statics)
    if rule.outputs == 1 and not rule.hidden:
        values = (values,)
        if rule.promote in ("numeric", "float") and len(arrays) > 1 and type(values[0]) is ndarray and values[0].ndim > 1:
            if not all(array.flags.c_contiguous for array in arrays if type(array) is ndarray):
                values = (ordered(values[0], arrays if rule.name != "where" else sorted(arrays, key=_is_no_mask)),)
    if target is not None:  # computed in float32 for float16 and bfloat16
        shown = len(values) - len(rule.hidden)
        values = tuple([
            value.astype(target.numpy) if place < shown and value.dtype == target.opmath.numpy else value
            for place, value in enumerate(values)
        ])
    return arrays, chores, values


def _is_no_mask(array: Any) -> bool:
    return array.dtype.kind != "b"


def run_forward(rule: Rule, arrays: Sequence[Any], statics: dict[str, Any]) -> Any:
    """A rule's results. NumPy's complaint about shapes becomes PyTorch's."""
    try:
        return rule.forward(namespace_of(arrays), *arrays, **statics)
    except ValueError:
        if rule.promote in ("numeric", "float"):
            operands = sorted(zip(rule.inputs, arrays), key=lambda named: named[0] != rule.mask)
            shape: tuple[int, ...] = ()
            for _, array in operands:
                shape = broadcast_two(shape, () if array is None else array.shape)
        raise


def operands(rule: Rule, inputs: Sequence[Any]) -> tuple[list[Any], int, dtype | None]:
    """Raw arrays of one dtype for the rule, the chores its gradient will have, and the dtype to round results to."""
    if rule.promote is None:
        return [given._array if isinstance(given, TensorCore) else given for given in inputs], 0, None
    dimensioned = zero_dim = scalar = None
    masked = rule.inputs.index(rule.mask) if rule.mask is not None else -1
    for place, given in enumerate(inputs):
        if place == masked:
            continue
        if isinstance(given, TensorCore):
            kind = DTYPE_OF[given._array.dtype]
            if given._array.ndim:
                dimensioned = kind if dimensioned is None else promote(dimensioned, kind)
            else:
                zero_dim = kind if zero_dim is None else promote(zero_dim, kind)
        elif given is not None:
            kind = SCALAR_DTYPE[type(given)]
            scalar = kind if scalar is None else promote(scalar, kind)
    common = combine(dimensioned, zero_dim, scalar)
    if "bifc"[common.category] not in rule.accepts or common is complex32:
        raise refusal(rule.name, common)
    if rule.promote == "float" and not (common.is_floating_point or common.is_complex):
        common = get_default_dtype()
    exact = common.opmath  # what NumPy computes in; kernels of accelerators take half precision as it is
    if rule.half and exact is not common and _on_accelerator(inputs):
        exact = common
    compute = exact.numpy
    arrays: list[Any] = []
    chores, shape = 0, None
    for place, given in enumerate(inputs):
        if isinstance(given, TensorCore):
            array = given._array
            if array.dtype != compute and place != masked:
                chores |= FIT
                array = array.astype(compute)
            if shape is not None and array.shape != shape and rule.promote != "same":
                chores |= FIT
            shape = array.shape
            arrays.append(array)
        else:
            arrays.append(None if given is None else _number(given, compute))
    if common.is_complex:
        chores |= FIT if not rule.holomorphic else FIT | CONJUGATE
    if exact is common:
        return arrays, chores, None
    return arrays, chores | FIT | UPCAST, common


def _on_accelerator(inputs: Sequence[Any]) -> bool:
    return namespace_of([given._array for given in inputs if isinstance(given, TensorCore)]) is not numpy_xp


def _number(given: Any, compute: np.dtype[Any]) -> Any:
    """A Python number as an array; integers wrap around as PyTorch's do."""
    if type(given) not in PYTHON_NUMBERS and hasattr(given, "as_array"):  # an input of a program that is being traced
        return given.as_array(compute)
    try:
        return _asarray(given, compute)
    except OverflowError:
        return _asarray(given).astype(compute)


# --- writing


def refuse_overlap(array: Any) -> None:
    """Memory that shows in several places can't be written to."""
    if 0 in array.strides and overlaps(array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )


def overlaps(array: Any) -> bool:
    """Whether a stretched array shows one memory location in several places."""
    return array.size > 1 and any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True))


def bump(tensor: Any) -> None:
    """Counts a write to a tensor's memory."""
    storage = tensor._get_storage()
    if mirrors.known:
        mirrors.sync(tensor._array)
    if type(storage) is InferenceStorage:
        return
    storage.version += 1
    if special.anomaly:
        lines = storage.writes = storage.writes or []
        lines += [None] * (storage.version - 1 - len(lines))  # writes made while nobody looked
        stack = user_stack()
        lines.append(stack[-1] if stack else None)
