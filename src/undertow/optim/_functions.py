"""Optimizers as functions of lists: `adam(params, grads, exp_avgs, …, lr=…)`, generated from the classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.base.modes import local, set_grad_enabled
from undertow._src.engine.outputs import bump
from undertow._src.engine.writes import check_writable, guards
from undertow._src.tensor.core import TensorCore
from undertow.optim._arithmetic import blocks_for, on_tensors
from undertow.optim._per_parameter import Group, PerParameter
from undertow.optim._state import has_own_dispatch

# Options that the functions take separately and the classes in pairs.
_PAIRED = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}


# Options that are None unless they are given; the others are False.
_UNSET = ("foreach", "fused", "grad_scale", "found_inf")


def functions_of(
    cls: type[PerParameter], name: str, lists: str, positional: str, keywords: str, gradients: str = "grads",
    **fixed: Any,
) -> tuple[Callable[..., None], Callable[..., None]]:  # fmt: skip
    """Return an optimizer's function, and its single-tensor variant, which takes all options by keyword.

    `lists` names the lists of state, each with the name that its items have in an optimizer's state: "exp_avgs=exp_avg";
    `positional` the options that may follow them by position, `keywords` those that must be given by name.
    """
    names, items = zip(*[pair.split("=") for pair in lists.split()], strict=True)
    followers = positional.split()

    def run(given: dict[str, Any]) -> None:
        params, grads = given.pop("params"), given.pop(gradients if gradients in given else "grads")
        states = [given.pop(key) for key in names]
        step(cls, params, grads, dict(zip(items, states, strict=True)), {**fixed, **given})

    defaults = [f"{option}={None if option in _UNSET else False}" for option in followers]
    scales = [option for option in followers if option in ("grad_scale", "found_inf")]
    named = [*keywords.split(), *[option for option in followers if option not in _UNSET]]
    doc = f"One step of {cls.__name__} on lists of parameters, gradients and state ({', '.join(names)})."
    return (
        _written(name, ["params", gradients, *names, *defaults, "*", *keywords.split()], run, cls.__module__, doc),
        _written(f"_single_tensor_{name}", ["params", "grads", *names, *scales, "*", *named], run, cls.__module__, doc),
    )


def _written(name: str, arguments: list[str], run: Callable[..., None], module: str, doc: str) -> Callable[..., None]:
    """Return a function with this signature, so that Python itself checks the arguments."""
    scope = {"run": run, "__name__": module}
    exec(f"def {name}({', '.join(arguments)}):\n    run(locals())", scope)
    made: Any = scope[name]
    made.__doc__ = doc
    return made


def group_of(cls: type[PerParameter], options: dict[str, Any]) -> Group:
    """Return the options of a call as an optimizer's group has them."""
    group = {**cls._later_options, **options}
    for pair, names in _PAIRED.items():
        if names[0] in group:
            group[pair] = tuple(group.pop(name) for name in names)
    return group


def step(
    cls: type[PerParameter], params: Sequence[Any], grads: Sequence[Any], lists: dict[str, list[Any]], options: Group
) -> None:
    """Make one step; a buffer that is None in its list is created and put there."""
    infinite = options.pop("found_inf", None)
    if infinite is not None and float(infinite):
        return
    scale = options.pop("grad_scale", None)
    grads = grads if scale is None else [grad / scale for grad in grads]
    if not all(isinstance(count, TensorCore) for count in lists.get("step", ())):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    group = group_of(cls, options)
    optimizer: Any = object.__new__(cls)  # its state is in the caller's lists
    for place, (param, grad) in enumerate(zip(params, grads, strict=True)):
        state = {name: items[place] for name, items in lists.items() if place < len(items) and items[place] is not None}
        optimizer.state = {param: state}
        if grad._is_strided:
            age, buffers = optimizer._prepare(group, param)
            _apply(optimizer, group, age, param, grad, buffers)
        else:
            optimizer._step_sparse(group, param, grad)
        for name, items in lists.items():
            if place < len(items) and items[place] is None:
                items[place] = state.get(name)


def _apply(optimizer: Any, group: Group, age: Any, param: Any, grad: Any, buffers: Any) -> None:
    x = None if has_own_dispatch(param, grad) else blocks_for(param._array)
    if x is None or group.get("differentiable"):
        steps = on_tensors(param, grad, bool(group.get("differentiable")))
        with set_grad_enabled(bool(group.get("differentiable"))):
            steps.run(optimizer._rule(steps, group, age), [param, grad, *buffers])
        return
    check_writable(param, local.modes.grad_enabled and param._requires_grad)
    for guard in guards:
        guard.before_write(param)
    x.run(optimizer._rule(x, group, age), [param._array, grad._array, *[buffer._array for buffer in buffers]])
    bump(param)
