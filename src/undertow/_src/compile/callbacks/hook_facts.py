"""Facts about a hook before it runs: the owner of its code, its closure and arguments, and what its result replaces."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import replace
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from undertow._src.base.hooks import RemovableHandle
from undertow._src.base.modes import local
from undertow._src.base.tree import leaves
from undertow._src.compile.callbacks.registrations import code_of
from undertow._src.compile.effects import Called, Effect, Effects, Exactly, Kind, Read, TupleOf, analyse, purity
from undertow._src.compile.effects.objects import entries_of, instance_dict
from undertow._src.compile.guards.places import ABSENT, PLAIN, Place, Stores, contents_of, held_at, place_at
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.splitting.host_statements import AsItIs
from undertow._src.compile.tracing.arguments import hooks_on_node
from undertow._src.compile.tracing.results import objects_in
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import device
from undertow._src.types.dtypes import dtype
from undertow.nn.modules import _hook_registry
from undertow.nn.modules.module import Module
from undertow.optim.lr_scheduler import LRScheduler
from undertow.optim.optimizer import Optimizer

_OF_ANY_MODULE = frozenset(vars(Module()))


def is_own(hook: Any) -> bool:
    """Return whether a hook is undertow's own; one that `why` watches is the user's."""
    code = _written_as(hook)
    return code is not None and purity.origin_of(code) == "own" and not is_watched(hook)


def is_watched(hook: Any) -> bool:
    """Return whether a hook is wrapped by `why`."""
    code = _written_as(hook)
    return code is not None and purity.own_module(code.__code__.co_filename).startswith("why.")


def _written_as(hook: Any) -> FunctionType | None:
    """Return the function that a hook wraps or calls; None if it is unknown, or a module's."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    if isinstance(hook, Module) or isinstance(getattr(hook, "__self__", None), Module):
        return None  # which may have parts of the user
    if "__wrapped__" in instance_dict(hook):
        return _written_as(hook.__wrapped__)  # as by `@no_grad()`
    for code in (hook.__func__ if isinstance(hook, MethodType) else hook, type(hook).__call__):
        if isinstance(code, FunctionType):
            inner = vars(code).get("__wrapped__")
            return code if inner is None else _written_as(inner)
    return None


def captured_by(hook: Any) -> list[Any]:
    """Return a hook's closure and defaults; a variable from outside of the step is shown with its value when the
    hook fires.
    """
    if isinstance(hook, functools.partial):
        return [*hook.args, *hook.keywords.values(), *captured_by(hook.func)]
    function = hook.__func__ if isinstance(hook, MethodType) else hook
    if not isinstance(function, FunctionType):
        return []
    given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return given + [contents_of(cell) for cell in function.__closure__ or ()]


def kind_of(arg: Any) -> Kind:
    """Return the kind of an argument, for the analysis of a hook."""
    if isinstance(arg, (Module, Optimizer)):
        return Exactly(arg)
    if isinstance(arg, TensorCore):
        return "tensor"
    if arg is None:
        return "none"
    if isinstance(arg, (tuple, list)) and all(each is None or isinstance(each, TensorCore) for each in arg):
        return "tensors"
    if isinstance(arg, dict) and all(isinstance(each, (TensorCore, *PLAIN)) for each in arg.values()):
        return "tensors"  # keyword arguments
    if isinstance(arg, tuple):
        return TupleOf(tuple(map(kind_of, arg)))
    return "plain" if isinstance(arg, (SymbolicScalar, *PLAIN, dtype, device)) else "other"


def kind_of_variable(value: Any) -> Kind:
    """Return the kind of a variable that a statement uses, for its analysis."""
    return Exactly(value.value) if type(value) is AsItIs else kind_of(value)


def exact_kind_of(value: Any) -> Kind:
    """Return the kind of a variable, with the object itself where it is not a tensor or a number."""
    kind = kind_of_variable(value)
    return kind if kind in ("tensor", "none", "plain") or isinstance(kind, Exactly) else Exactly(value)


def effects_of(hook: Any, args: tuple[Any, ...], is_new: Callable[[Any], bool]) -> Effects:
    """Return the effects of calling a hook. Those on arguments that the step has made are marked as `given`, because
    the step goes on with these."""
    effects = analyse(hook, *kinds_of(args))
    unknown = [
        each for each in effects.effects if each.target is None and (each.kind != "call" or each.field == "unknown")
    ]
    objects = [each for each in leaves(args) if kind_of(each) == "other"] if unknown else []
    if not objects:
        return effects
    exactly = analyse(hook, [_exactly(arg) for arg in args])
    made = objects_in([each for each in objects if is_new(each)], ())
    marked = [replace(each, field="given") if id(each.target) in made else each for each in exactly.effects]
    return replace(effects, effects=tuple(marked))


def kinds_of(args: tuple[Any, ...]) -> tuple[list[Kind], dict[str, Kind]]:
    """Return the kinds of a hook's arguments."""
    return [kind_of(arg) for arg in args], {}


def _exactly(arg: Any) -> Kind:
    kind = kind_of(arg)
    return (
        TupleOf(tuple(map(_exactly, arg))) if isinstance(kind, TupleOf) else Exactly(arg) if kind == "other" else kind
    )


def acts_on_own(effect: Effect) -> bool:
    """Return whether an effect must be traced: it is on undertow's objects or modes, or on objects that the step has made.

    Handles that remove hooks, and schedulers, are handled elsewhere.
    """
    target = effect.target
    if isinstance(target, (RemovableHandle, LRScheduler)):
        return False
    if effect.field in ("own", "given"):
        return True
    if isinstance(target, (Module, Optimizer)):
        kind: Any = type(target)
        return effect.attribute is None or effect.attribute in _names_in_own_code(kind)
    return False


def hooks_alike(state: Reached, call: Called) -> Iterator[Called]:
    """Yield hooks of the same code on other leaves and modules of a step, with their arguments."""
    hook, args, kwargs = call
    code, first = code_of(hook), args[0] if args else None
    if isinstance(first, Exactly) and isinstance(first.value, Module):
        for module in state.modules:
            for name, own in (*vars(module).items(), *vars(_hook_registry).items()):  # on this one, and on all modules
                for other in own.values() if "hooks" in name and isinstance(own, OrderedDict) else ():
                    if code_of(other) is code:
                        yield other, [Exactly(module), *args[1:]], kwargs
        return
    for tensor in state.tensors:
        meta = tensor._meta
        for other in () if meta is None else (*(meta.hooks or {}).values(), *(meta.post_hooks or {}).values()):
            if code_of(other) is code:
                yield other, args, kwargs


def hooks_on_leaves(tensors: list[Any]) -> list[Any]:
    """Return all hooks that are on leaves now."""
    metas = [tensor._meta for tensor in tensors if tensor._meta is not None]
    return [([*(meta.hooks or {}).items()], [*(meta.post_hooks or {}).items()], hooks_on_node(meta)) for meta in metas]


@functools.lru_cache(maxsize=256)
def _names_in_own_code(kind: Any) -> frozenset[str]:
    """Return the names that the methods of an undertow class, and of its bases, use."""
    parents = [
        parent for parent in kind.__mro__ if purity.origin_of(parent) == "own" and not issubclass(Module, parent)
    ]
    methods = [each for parent in parents for each in vars(parent).values() if isinstance(each, FunctionType)]
    return frozenset(_OF_ANY_MODULE).union(*[method.__code__.co_names for method in methods])


def changed_argument(hook: Any, args: tuple[Any, ...]) -> int | None:
    """Return the index of the argument that a hook's result replaces; see `hooks.POINTS`."""
    if len(args) == 3 and isinstance(args[0], Module) and hook in args[0]._forward_pre_hooks.values():
        return None  # arguments and keyword arguments, together
    if len(args) == 1 and not isinstance(args[0], (Module, Optimizer)):
        return 0
    if args and isinstance(args[0], Module):
        return 1 if len(args) == 2 or local.modes.backward_pass is not None else len(args) - 1
    return 0 if args and isinstance(args[0], tuple) else None


def takes_no_answer(args: tuple[Any, ...]) -> bool:
    """Return whether a hook of this kind must return None: one on a leaf after its gradient, which gets the leaf itself."""
    return len(args) == 1 and isinstance(args[0], TensorCore) and args[0]._meta is not None and args[0]._edge is None


def unchanged_by_stores(
    stored: Iterable[tuple[MutableMapping[Any, Any], Effect]], before: Stores, is_covered: Callable[[Any, Any], bool]
) -> Iterator[Read]:
    """Yield places that traced hooks stored into without a change: with a different value there, it would be one."""
    first: dict[Place, dict[Any, Any]] = {}
    for holder, held in before:
        first.setdefault(place_at(holder, None), held)
    for holder, effect in stored:
        held, now = first.get(place_at(holder, None), {}), entries_of(holder)
        keys = [effect.attribute] if effect.attribute is not None else [*effect.entries] or [*held]
        for key in keys:
            value = held.get(key, ABSENT)
            if now.get(key, ABSENT) is value and not is_covered(holder, key):
                yield Read(f"{key}", partial(held_at, holder, key), value)
        if not (effect.attribute or effect.entries) and [*now] == [*held] and not is_covered(holder, None):
            yield Read("the keys of a dict", partial(_keys_of, holder), tuple(held))


def _keys_of(holder: MutableMapping[Any, Any]) -> tuple[Any, ...]:
    return tuple(entries_of(holder))
