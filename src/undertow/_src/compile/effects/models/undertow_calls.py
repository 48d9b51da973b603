"""Calls of undertow: its functions, modules and custom autograd functions, and the user's code that they call."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.callbacks import (
    call_back,
    call_overrides,
    is_callback,
    is_users,
    wrapped_user_functions,
)
from undertow._src.compile.effects.models.items import with_contents
from undertow._src.compile.effects.models.numpy_functions import arrays_in
from undertow._src.compile.effects.objects import MISSING, descendants, in_class, instance_dict
from undertow._src.compile.effects.purity import is_tensor
from undertow._src.compile.effects.special_methods import AS_NUMBER, LOOP, TORCH, TRUTH
from undertow._src.compile.effects.values import (
    MADE,
    NONE,
    ONE,
    OWN,
    PLAIN,
    TENSOR,
    TENSORS,
    CallArguments,
    Concrete,
    Fresh,
    Value,
)
from undertow.autograd import Function
from undertow.nn import Module

# Modules of undertow whose functions always return tensors.
_TENSOR_MODULES = ("ops.", "engine.apply", "tensor.creation", "tensor.ranges", "tensor.from_data",
                   "tensor.factory_arguments", "tensor.methods.", "tensor.tensor_types", "tensor.windows", "random",
                   "linalg", "fft", "special", "nn.functional")  # fmt: skip


def call_own(analysis: Analysis, atom: Concrete, function: FunctionType, arguments: CallArguments, node: Any) -> Value:
    """Return the result of a Python function of undertow. Its body is not analyzed; its effects follow from its name."""
    name, module = function.__name__, purity.own_module(function.__code__.co_filename)
    owner = next(iter(arguments.at(0)), None)
    target = owner.value if isinstance(owner, Concrete) else None
    is_method = isinstance(target, Module) and in_class(type(target), name) is function
    callbacks = arguments.rest() if is_method else arguments
    inner = wrapped_user_functions(function)
    if inner:
        if "_optimizer" in vars(function):  # a scheduler wraps the step of its optimizer
            optimizer = Concrete(function._optimizer(), atom.name.rpartition(".")[0])  # type: ignore[attr-defined]
            arguments = arguments.after(frozenset([optimizer]))
        result = analysis.call(inner, arguments, node)
        return result if "__wrapped__" in vars(function) else result | ONE[OWN]  # a mode returns the function's result
    # A function may be shown under the package's name, as a scheduler's wrapper of a step is.
    shown = function.__module__ if "." in function.__module__ else module
    if purity.own_effect(name, shown) and not (isinstance(owner, Fresh) and issubclass(owner.kind or int, Module)):
        called = f"{owner.name}.{name}" if isinstance(owner, Concrete) else atom.name
        is_schedule = "lr" in module.rpartition(".")[2]
        if name in ("train", "eval"):
            analysis.heap.write_any("training")
        elif target is not None:
            analysis.heap.write(target, None, ONE[PLAIN])
        kind: Any = "call" if target is None else "update" if is_schedule else "store"
        analysis.log.effect(kind, f"calls `{called}`", node, target, field=purity.own_field(shown, name))
        if not name.startswith("register_"):  # which may call its arguments, but not now
            call_back(analysis, callbacks, node)
        return ONE[NONE] if is_schedule and name == "step" else ONE[OWN]
    if isinstance(owner, Concrete) and name in purity.OWN_CHANGES and target is not None and not is_tensor(target):
        analysis.log.effect("update", f"calls `{owner.name}.{name}`", node, target, field="own")
        analysis.heap.write(target, None, arguments.rest().all() | ONE[PLAIN])
        return ONE[OWN]
    analysis.log.contents(arguments.all(), deep=3)
    analysis.log.held(with_contents(analysis, arguments.all()))
    analysis.protocols(arguments.rest().all(), node, names=(*TORCH, *LOOP, *AS_NUMBER, *TRUTH))
    if isinstance(target, type) and issubclass(target, Function) and name == "apply":
        return _apply_function(analysis, target, arguments.rest(), node)
    if isinstance(owner, Concrete) and isinstance(target, Module):
        found = _module_method(analysis, owner, name, arguments.rest(), node)
        if found is not None:
            return found
    elif owner is not None:
        call_overrides(analysis, owner, "own", node)
    call_back(analysis, callbacks, node, ONE[OWN] if (module, name) == ("futures", "then") else None)  # with the future
    computes = module.startswith(_TENSOR_MODULES)
    only_reads = (computes and not name.endswith("_")) or purity.own_reading(name)
    if not only_reads or {"out", "inplace"} & arguments.keywords.keys():
        analysis.log.tensor_write()
    if purity.draws(name):
        analysis.log.random_draw()
    if name in purity.SHARING:
        return ONE[MADE] | arrays_in(arguments.all())
    return ONE[MADE] if computes else ONE[OWN]


def _apply_function(analysis: Analysis, kind: Any, arguments: CallArguments, node: Any) -> Value:
    """Apply a custom autograd function: its forward runs now, its backward later in the step."""
    context = analysis.heap.fresh(node, None, ONE[PLAIN] | arguments.all())
    methods = {name: in_class(kind, name) for name in ("forward", "backward", "setup_context", "vjp", "jvp", "vmap")}
    methods = {name: getattr(method, "__func__", method) for name, method in methods.items()}
    methods = {
        name: method for name, method in methods.items() if isinstance(method, FunctionType) and is_users(method)
    }
    result = ONE[MADE]
    for name, method in methods.items():
        if name == "forward":
            inner = arguments if "setup_context" in methods else arguments.after(context)
            result |= analysis.call_atom(Concrete(method, name), inner, node) - {NONE}
        else:
            given = ONE[TENSORS] | arguments.all() if name == "setup_context" else frozenset([TENSOR, NONE])
            analysis.call_atom(Concrete(method, name), CallArguments([context], more=given), node)
    return result


def _module_method(analysis: Analysis, owner: Concrete, name: str, arguments: CallArguments, node: Any) -> Value | None:
    """Return the result of a method of undertow for a module; None if that is not known."""
    heap = analysis.heap
    if name in ("__call__", "_call_impl", "_wrapped_call_impl"):
        return call_module(analysis, owner, arguments, node)
    if name == "forward":
        return _call_parts(analysis, owner.value, node)
    if name in ("parameters", "buffers"):
        return heap.fresh(node, list, ONE[TENSOR])
    if name in ("named_parameters", "named_buffers"):
        return heap.pairs(node, ONE[PLAIN], ONE[TENSOR])
    below = descendants(owner.value)
    modules: Value = frozenset(Concrete(each, f"a {type(each).__name__} of {owner.name}") for each in below)
    if name in ("modules", "children"):
        return heap.fresh(node, list, modules)
    if name in ("named_modules", "named_children", "items"):
        return heap.pairs(node, ONE[PLAIN], modules)
    if name in ("get_submodule", "__getitem__", "values", "__iter__", "pop"):
        return heap.fresh(node, list, modules) | modules
    if name == "apply":
        call_back(analysis, arguments, node, modules)
        return frozenset([owner])
    return None


def call_module(analysis: Analysis, atom: Concrete, arguments: CallArguments, node: Any) -> Value:
    """Call a module, without hooks: its forward, or the forwards of submodules that undertow's own forward calls."""
    module = atom.value
    forward = instance_dict(module).get("forward", MISSING)
    if forward is not MISSING:
        return analysis.call_atom(Concrete(forward, f"{atom.name}.forward"), arguments, node)
    forward = in_class(type(module), "forward")
    if _is_not_own(forward):
        return analysis.call_atom(Concrete(forward, f"{atom.name}.forward"), arguments.after(frozenset([atom])), node)
    analysis.log.contents(arguments.all(), deep=3)
    call_back(analysis, arguments, node)
    return _call_parts(analysis, module, node)


def _is_not_own(forward: Any) -> bool:
    """Return whether a module's forward is a user's, possibly wrapped by undertow (`@no_grad()`)."""
    return isinstance(forward, FunctionType) and (purity.origin_of(forward) != "own" or is_users(forward))


def _call_parts(analysis: Analysis, module: Module, node: Any) -> Value:
    """Call the user's code in and below a module of undertow: forwards, and functions in attributes."""
    analysis.log.tensor_write()  # running statistics
    for part in descendants(module):
        tensors = CallArguments([], more=frozenset([TENSOR, NONE]))
        if part is not module:
            forward = in_class(type(part), "forward")
            replaced = instance_dict(part).get("forward")
            if replaced is not None or _is_not_own(forward):
                call_module(analysis, Concrete(part, f"a {type(part).__name__}"), tensors, node)
        for name, value in instance_dict(part).items():
            if callable(value) and not isinstance(value, Module) and is_callback(Concrete(value, name)):
                analysis.call_atom(Concrete(value, name), tensors, node)
    return ONE[MADE]
