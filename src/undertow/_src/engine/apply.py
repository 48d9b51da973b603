"""Run a rule on tensors: cast inputs to one dtype, compute, wrap, and record a node if gradients are required.

`unary` and `binary` make the public function of an elementwise rule, specialised once at import: the common case (plain
tensors of one float dtype, no rare mode on) is straight-line code there. Everything else goes through `apply`, which
handles every case; the fast path is a shortcut, never a second behaviour.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.placement import Home, HostedArray
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.numpy.order import ordered
from undertow._src.arrays.quiet import quietly, silently
from undertow._src.base import tracer
from undertow._src.base.modes import local, slow_path
from undertow._src.engine.arguments import invalid_combination, must_be
from undertow._src.engine.node import edge_of
from undertow._src.engine.operands import checks_cast_first, common_dtype, compute
from undertow._src.engine.outputs import into, refuse_dtype
from undertow._src.engine.record import pack_in_vain, pack_saved, record
from undertow._src.engine.rule_node import MATCH_INPUT, class_beside_number, node_class
from undertow._src.engine.saved import SavedInput, SavedOutput
from undertow._src.engine.specialise import specialised_apply
from undertow._src.engine.views import link_view, refresh_view, refuse_overlap_of
from undertow._src.overrides import torch_function
from undertow._src.rules.rule import Rule, Spec, bind_specialiser
from undertow._src.tensor import core
from undertow._src.tensor.core import InferenceStorage, Storage, TensorCore, View, ndarray, wrap
from undertow._src.types.devices import cpu
from undertow._src.types.dtypes import DTYPE_OF

FAST_DTYPES = frozenset({np.dtype("f4"), np.dtype("f8")})
INT64, BOOL = np.dtype(np.int64), np.dtype(np.bool_)
NUMBERS = frozenset({float, int})
HUGE = 1e38  # larger numbers may not fit into a float32, which the general path handles
MISSING: object = object()  # an omitted operand

_UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "exp": np.exp,
    "sqrt": np.sqrt, "tanh": np.tanh, "reciprocal": np.reciprocal,
}  # fmt: skip

_new = object.__new__
_asarray = np.asarray

Tensor: Any = TensorCore  # the public class, once _tensor.py has defined it
PLAIN = torch_function.PLAIN  # classes whose instances take the fast path


def bind_tensor_class(cls: type[TensorCore]) -> None:
    """Make results instances of this class from now on."""
    global Tensor
    Tensor = cls
    PLAIN.add(cls)
    torch_function.QUIET.add(cls)
    core.bind_tensor_class(cls)


# --- the public functions of elementwise rules


def unary(rule: Rule, name: str = "", doc: str = "") -> Callable[..., Any]:
    """Return the public function, or method, of a one-input elementwise rule."""
    forward = computing(rule)
    keeps_input, keeps_result = "self" in rule.saves, "result" in rule.saves
    simple = rule.promote is not None and rule.outputs == 1 and not (rule.hidden or rule.uses_specs or rule.statics)
    simple = simple and "f" in rule.accepts

    def function(input: TensorCore, *, out: object = None) -> Any:
        if type(input) in PLAIN and not slow_path.count and out is None and simple:
            array = input._array
            if type(array) is ndarray and array.dtype in FAST_DTYPES:
                try:
                    value = silently(forward, array)
                except (RuntimeError, MemoryError):  # a different thread is computing too
                    return call(function, rule, (input,), {}, None)
                if type(value) is not ndarray:
                    value = _asarray(value)
                elif value.ndim > 1 and 0 in array.strides:
                    value = ordered(value, (array,))
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
                    if saved and modes.saved_hooks:
                        pack_saved(node)
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
    check: Callable[[tuple[Any, ...]], None] | None = None, of_tensors: Rule | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return the public function, or method, of a two-input elementwise rule.

    As an `operator` method it returns NotImplemented for an operand it can't take. `takes`: "tensors" if both operands must
    be tensors, "number" if the second may be a number, "numbers" if either may. `several`: PyTorch has several signatures
    for it, which changes its error for bad arguments. `check` sees the operands first, unless they are floats.
    `of_tensors`: a separate rule for two tensors, for functions mostly called with a number.
    """
    forward = computing(rule)
    saves = rule.saves
    records = any(gradient is not None for gradient in rule.gradients)
    simple = rule.promote is not None and not rule.uses_specs and not rule.statics and set(saves) <= set(rule.inputs)
    floats = FAST_DTYPES if "f" in rule.accepts else frozenset()
    whole = frozenset([kind for kind in (INT64, BOOL) if kind.kind in rule.accepts and rule.promote == "numeric"])
    simple = simple and bool(floats or whole)
    numbers = NUMBERS if takes != "tensors" else frozenset()
    second = PLAIN if of_tensors is None else frozenset()
    two_slots = rule.slots != 1
    keeps = {  # (left requires a gradient, right requires one) -> which inputs are saved
        (left, right): tuple(
            [(left and name in rule.needed[0]) or (right and name in rule.needed[1]) for name in rule.inputs]
        )
        for left in (False, True)
        for right in (False, True)
    }
    places = tuple([rule.inputs.index(name) for name in saves]) if simple else ()
    simple = simple and places in ((), (0,), (1,), (1, 0))  # in the order in which `self` and the other name sort
    keeps_beside_number = keeps[True, False]
    other_first = bool(places) and places[0] == 1

    def function(input: TensorCore, other: Any = MISSING, *, out: object = None) -> Any:
        tensor: Any
        if type(input) in PLAIN and not slow_path.count and out is None and simple:
            a = input._array
            if type(a) is ndarray and (a.dtype in floats or (a.dtype in whole and is_whole(other, a.dtype))):
                if check is not None and a.dtype in whole:
                    check((input, other))
                if type(other) in numbers and -HUGE < other < HUGE:
                    b, tensor = _asarray(other, a.dtype), None
                elif type(other) in second and other._array.dtype is a.dtype:
                    b, tensor = other._array, other
                else:
                    b = None
                if type(b) is ndarray:
                    try:
                        value = silently(forward, a, b)
                    except (ValueError, RuntimeError, MemoryError):  # shapes do not broadcast, or a race
                        return call(function, rule, (input, other), {}, None)
                    if type(value) is not ndarray:
                        value = _asarray(value)
                    elif value.ndim > 1 and (not a.flags.c_contiguous if tensor is not None else 0 in a.strides):
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
                        if tensor is None and modes.in_formula:
                            make = class_beside_number(rule)
                        else:
                            make = rule.node_class or node_class(rule)
                        if tensor is None or a.shape == b.shape:
                            node = make(edges, next(modes.sequence), saved, () if tensor is not None else (other,))
                        else:
                            specs = (Spec(a.shape, a.dtype), Spec(b.shape, b.dtype))
                            node = make(edges, next(modes.sequence), saved, (), specs, MATCH_INPUT)
                        if saved and modes.saved_hooks:
                            pack_saved(node)
                        result._edge = (node, 0)
                        result._requires_grad = True
                    else:
                        result._edge = None
                        result._requires_grad = False
                    return result
        if not (isinstance(input, TensorCore) and isinstance(other, TensorCore)):
            if operator and not torch_function.is_operand(other):
                return NotImplemented
            check_operands(function.__name__, rule, (input, other), takes, several, "." in function.__qualname__)
        if check is not None and not torch_function.has_override((input, other)):
            check((input, other))
        chosen = of_tensors if of_tensors is not None and isinstance(other, TensorCore) else rule
        return call(function, chosen, (input, other), {}, out)

    return name_function(function, operator or name or rule.name, doc)


def is_whole(other: object, kind: np.dtype[Any]) -> bool:
    """Whether a tensor of integers or bools keeps its dtype next to this operand."""
    return type(other) in PLAIN or (type(other) is int and kind is INT64 and -(2**63) <= other < 2**63)


def computing(rule: Rule) -> Callable[..., Any]:
    """Return a rule's forward on NumPy arrays: the ufunc itself where the rule is just that, which saves a call."""
    return ufunc_of(rule) or functools.partial(rule.forward, numpy_xp)


def ufunc_of(rule: Rule) -> Any:
    """Return the ufunc that computes a rule, if there is one."""
    ufunc = _UFUNCS.get(rule.name)
    return ufunc if ufunc is not None and not rule.statics and len(rule.inputs) == ufunc.nin else None


def check_operands(
    name: str, rule: Rule, inputs: tuple[Any, ...], takes: str, several: bool = False, method: bool = False
) -> None:
    """Refuse an operand that is neither a tensor nor an acceptable number, with PyTorch's error."""
    for place, given in enumerate(inputs):
        as_number = takes == "numbers" or (takes == "number" and place > 0)
        asked = torch_function.is_operand if as_number else torch_function.overrides
        if isinstance(given, TensorCore) or asked(given):
            continue
        if several:
            raise invalid_combination(name, [value for value in inputs[method:] if value is not MISSING])
        argument = rule.inputs[place] if place else "input"
        if given is MISSING:
            raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')
        raise must_be("Tensor", given, name, argument, place + 1 - method)


def name_function(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """Give a function the name by which users and pickle find it."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "undertow"  # where pickle looks it up
    function.__doc__ = doc or None
    return function


# --- the general path


_WITHOUT_OUT = frozenset(["isnan", "isinf", "isfinite", "relu"])


def call(public: Callable[..., Any], rule: Rule, inputs: tuple[Any, ...], statics: dict[str, Any], out: object) -> Any:
    """Return a public elementwise function in the general case: overrides first, then `apply`, then `out=`."""
    if out is not None and "." in public.__qualname__:  # only functions accept it, not methods
        if len(inputs) == 1:
            raise TypeError(f"TensorBase.{public.__name__}() takes no keyword arguments")
        raise TypeError(f"{public.__name__}() got an unexpected keyword argument 'out'")
    if out is not None and rule.name in _WITHOUT_OUT:
        raise TypeError(f"{public.__name__}() got an unexpected keyword argument 'out'")
    if torch_function.has_override(inputs):
        return torch_function.dispatch(public, inputs, {**statics, "out": out} if out is not None else statics)
    if len(inputs) == 1:
        check_operands(public.__name__, rule, inputs, "tensors")
    return apply_generally(rule, inputs, statics) if out is None else apply_into(out, rule, inputs, statics)


def apply_into(out: Any, rule: Rule, inputs: tuple[Any, ...], statics: dict[str, Any]) -> Tensor:
    """Run a rule with `out=`; a rule without gradients may have inputs that require them."""
    if rule.promote in ("numeric", "float") and isinstance(out, TensorCore):
        for given in inputs:
            if isinstance(given, TensorCore):
                refuse_overlap_of(out, given)
    if isinstance(out, TensorCore) and any(given is out for given in inputs):
        compute = lambda: _refuse_growing(out, apply_generally(rule, inputs, statics))
    else:
        compute = lambda: apply_generally(rule, inputs, statics)
    wanting = inputs if rule.joint is not None or any(rule.gradients) else ()
    name = "floor_divide" if rule.name == "div_floor" else rule.name
    try:
        return into(out, compute, wanting, name, casts=rule.promote is not None)
    except NotImplementedError as error:  # the dtype of `out` is checked before a kernel is looked for
        if isinstance(out, TensorCore) and checks_cast_first(rule, error):
            refuse_dtype(name, common_dtype(rule, inputs), DTYPE_OF[out._array.dtype], casts=True)
        raise


def _refuse_growing(out: Tensor, result: Tensor) -> Tensor:
    """Refuse to resize a tensor that an elementwise function both reads and writes."""
    if out._array.shape != result._array.shape:
        raise RuntimeError(
            f"output with shape {list(out._array.shape)} doesn't match the broadcast shape {list(result._array.shape)}"
        )
    return result


def apply(rule: Rule, *inputs: Any, **statics: Any) -> Any:
    """Run a rule on tensors, Python numbers and Nones; return a tensor or a tuple of them."""
    return rule.run(*inputs, **statics)


# The names used in the code of `specialised_apply`.
_USED = {
    "DTYPE_OF": DTYPE_OF, "FAST_DTYPES": FAST_DTYPES, "MATCH_INPUT": MATCH_INPUT, "PLAIN": PLAIN, "SavedInput": SavedInput,
    "SavedOutput": SavedOutput, "Spec": Spec, "Storage": Storage, "View": View, "edge_of": edge_of, "link_view": link_view,
    "local": local, "ndarray": ndarray, "new": _new, "node_class": node_class, "ordered": ordered, "pack_saved": pack_saved,
    "refresh_view": refresh_view, "silently": silently, "slow_path": slow_path, "wrap": wrap, "xp": numpy_xp,
}  # fmt: skip


def specialise(rule: Rule) -> Callable[..., Any]:
    """Make `rule.run`: straight-line code for plain tensors, `apply_generally` for all else."""
    if rule.variadic or "f" not in rule.accepts:
        rule.run = lambda *inputs, **statics: apply_generally(rule, inputs, statics)
    else:
        rule.run = specialised_apply(rule, apply_generally, {**_USED, "Tensor": Tensor})
    return rule.run


bind_specialiser(specialise)


def apply_generally(rule: Rule, inputs: tuple[Any, ...], statics: dict[str, Any]) -> Any:
    """Run `apply` without shortcuts: every case is handled."""
    place_operands(inputs)
    if tensor_among(statics):
        statics = with_numbers(rule, statics)
    if slow_path.count and local.modes.autocast is not None:
        inputs = local.modes.autocast.for_rule(rule, inputs)
    if slow_path.dispatcher is not None and slow_path.dispatcher.takes(inputs):
        return slow_path.dispatcher.run(rule, inputs, statics)
    try:
        arrays, post_grad, values = quietly(compute, rule, inputs, statics)
    except Exception as error:
        if local.modes.saved_hooks:
            pack_in_vain(rule, inputs, error)
        raise
    shown = len(values) - len(rule.hidden)
    if slow_path.count and local.modes.home is not None:
        with Home(None):  # results stay on the device where the rule made them
            results = tuple([wrap(value) for value in values])
    else:
        results = tuple([wrap(value) for value in values])
    if slow_path.count and local.modes.inference:
        for result in results[:shown]:
            result._storage = InferenceStorage()
    record(rule, inputs, arrays, results, shown, statics, post_grad)
    if rule.view:
        link_view(rule, inputs[0], results[:shown], statics)
    return results[0] if rule.outputs == 1 else results[:shown]


def place_operands(inputs: Sequence[Any]) -> None:
    """Move inputs to where the op runs: into the traced program, or to the host. Refuse inputs on different devices."""
    if tracer.current is not None:
        tracer.current.adopt(inputs)
        return
    away = None
    for given in inputs:
        if isinstance(given, TensorCore):
            array = given._array
            if type(array) is DeviceArray and (array.device is cpu or array.buffer.host is not None):
                array = given._array = array.on_host()
            if type(array) is DeviceArray:
                away = array.device
            elif type(array) is HostedArray:
                away = array.nominal
    if away is not None:
        refuse_different_devices(inputs, away)


def refuse_different_devices(inputs: Sequence[Any], away: Any) -> None:
    """Refuse tensors on different devices; a 0-dim tensor on the CPU is allowed."""
    for given in inputs:
        if isinstance(given, TensorCore) and given.device is not away and given._array.ndim:
            raise on_different_devices(away, given.device)


def on_different_devices(one: Any, other: Any) -> RuntimeError:
    """Return the error for tensors on different devices."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two: {one} and {other}! "
        "Move them with .to()."
    )


def tensor_among(statics: dict[str, Any]) -> bool:
    """Whether a tensor was passed where a rule takes a number."""
    for value in statics.values():
        if isinstance(value, TensorCore):
            return True
    return False


def with_numbers(rule: Rule, statics: dict[str, Any]) -> dict[str, Any]:
    """Replace 0-dim tensors by numbers where a rule takes numbers, as PyTorch does; they have no gradient."""
    return {
        name: number_of(value, rule.name, name) if isinstance(value, TensorCore) else value
        for name, value in statics.items()
    }


def number_of(value: Any, name: str, argument: str) -> Any:
    """Return the number in a 0-dim tensor."""
    if value._requires_grad or value._array.ndim:
        raise must_be("Number", value, name, argument)
    return value._array.item()
