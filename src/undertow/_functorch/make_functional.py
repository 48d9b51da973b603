"""Modules as functions of their parameters: functorch's older way, before `torch.func.functional_call`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from undertow._src.ops.join import stack
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter
from undertow.nn.utils._functional_call import _reparametrize_module
from undertow.nn.utils._named_member_accessor import NamedMemberAccessor

Tensors = tuple[Any, ...]
Names = tuple[str, ...]


def raise_parameter_tying_error() -> NoReturn:
    raise RuntimeError(
        "make_functional(module): we don't yet support models that do parameter tying (also sometimes known as weight "
        "sharing). Use torch.func.functional_call, which does."
    )


Named = Mapping[str, Any] | Iterable[tuple[str, Any]]


def create_names_map(named_params: Named, tied_named_params: Named) -> dict[str, list[str]]:
    """For the name of each tensor all names under which a module has it."""
    once, every = dict(named_params), dict(tied_named_params)
    return {name: [other for other, tied in every.items() if tied is tensor] for name, tensor in once.items()}


def _extract(members: Callable[..., Iterable[tuple[str, Any]]]) -> tuple[Tensors, Names, dict[str, list[str]]]:
    every = tuple(members(remove_duplicate=False))
    first: dict[int, tuple[str, Any]] = {}
    for name, tensor in every:
        first.setdefault(id(tensor), (name, tensor))
    once = dict(first.values())
    return tuple(once.values()), tuple(once), create_names_map(once, every)


def extract_weights(mod: Module) -> tuple[Tensors, Names, dict[str, list[str]]]:
    """Return a module's parameters, each once; their names; and all names of each."""
    return _extract(mod.named_parameters)


def extract_buffers(mod: Module) -> tuple[Tensors, Names, dict[str, list[str]]]:
    """Return the same of its buffers."""
    return _extract(mod.named_buffers)


def load_weights(mod: Module, names: Sequence[str], params: Sequence[Any], as_params: bool = False) -> None:
    """Put tensors into a module under these names."""
    NamedMemberAccessor(mod).set_tensors(names, [Parameter(each) for each in params] if as_params else list(params))


def load_buffers(mod: Module, names: Sequence[str], buffers: Sequence[Any], as_params: bool = False) -> None:
    """Return the same for buffers."""
    NamedMemberAccessor(mod).set_tensors(names, list(buffers))


def load_state(
    model: Module, weights: Sequence[Any], weight_names: Sequence[str], buffers: Sequence[Any] = (),
    buffer_names: Sequence[str] = (),
) -> Module:  # fmt: skip
    """Both at once; the model is returned."""
    load_weights(model, weight_names, weights)
    load_buffers(model, buffer_names, buffers)
    return model


class _Stateless(Module):
    """A copy of a module that runs with whatever tensors it is given."""

    def __init__(self, stateless_model: Module, names_map: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.all_names_map = names_map

    def _run(self, tensors: Sequence[Any], args: Any, kwargs: Any) -> Any:
        held = {
            name: tensor
            for names, tensor in zip(self.all_names_map.values(), tensors, strict=False)
            for name in names
        }  # fmt: skip
        with _reparametrize_module(self.stateless_model, held):
            return self.stateless_model(*args, **kwargs)


class FunctionalModule(_Stateless):
    """`fmodel(params, *args)`: a module as a function of its parameters."""

    def __init__(self, stateless_model: Module, param_names: Names, names_map: dict[str, list[str]]) -> None:
        super().__init__(stateless_model, names_map)
        self.param_names, self.names_map = param_names, names_map

    @staticmethod
    def _create_from(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, Tensors]:
        inside = copy.deepcopy(model)
        params, names, names_map = extract_weights(inside)
        _stop_tracking(params if disable_autograd_tracking else ())
        return FunctionalModule(inside, names, names_map), params

    def forward(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return self._run(params, args, kwargs)


class FunctionalModuleWithBuffers(_Stateless):
    """`fmodel(params, buffers, *args)`: a module as a function of its parameters and buffers."""

    def __init__(
        self, stateless_model: Module, param_names: Names, buffer_names: Names, param_names_map: dict[str, list[str]],
        buffer_names_map: dict[str, list[str]],
    ) -> None:  # fmt: skip
        super().__init__(stateless_model, {**param_names_map, **buffer_names_map})
        self.param_names, self.buffer_names = param_names, buffer_names

    @staticmethod
    def _create_from(
        model: Module, disable_autograd_tracking: bool = False
    ) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
        inside = copy.deepcopy(model)
        params, names, names_map = extract_weights(inside)
        buffers, buffer_names, buffer_names_map = extract_buffers(inside)
        _stop_tracking(params if disable_autograd_tracking else ())
        return FunctionalModuleWithBuffers(inside, names, buffer_names, names_map, buffer_names_map), params, buffers

    def forward(self, params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return self._run((*params, *buffers), args, kwargs)


def _stop_tracking(params: Iterable[Any]) -> None:
    for param in params:
        param.requires_grad_(False)


def _refuse_buffers(model: Module, name: str, other: str) -> None:
    if any(True for _ in model.buffers()):
        raise RuntimeError(f"{name}(model): `model` has buffers. Please use {other}(model) instead.")


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, Tensors]:
    """Return a function of a model's parameters, and copies of these."""
    _refuse_buffers(model, "make_functional", "make_functional_with_buffers")
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return a function of a model's parameters and buffers, and copies of both."""
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def make_functional_deprecated_v1(model: Module) -> tuple[Tensors, Callable[..., Any], Names]:
    """Return the oldest form: `fun(weights, (data,))`."""
    _refuse_buffers(model, "make_functional_deprecated_v1", "make_functional_with_buffers_deprecated_v1")
    function, params = FunctionalModule._create_from(model)
    return params, lambda weights, data: function(weights, *data), function.param_names


def make_functional_with_buffers_deprecated_v1(
    model: Module,
) -> tuple[Tensors, Tensors, Callable[..., Any], Names, Names]:
    """Return the same: `fun(weights, buffers, (data,))`."""
    function, params, buffers = FunctionalModuleWithBuffers._create_from(model)
    return (
        params, buffers, lambda weights, held, data: function(weights, held, *data), function.param_names,
        function.buffer_names,
    )  # fmt: skip


# --- several models at once


def transpose_stack(tuple_of_tuple_of_tensors: tuple[Tensors, ...]) -> Tensors:
    """Return the tensors of several models, each stacked with its likes."""
    return tuple([stack(likes).detach() for likes in zip(*tuple_of_tuple_of_tensors, strict=True)])


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return a function of the state of one of several models, and the state of all of them, stacked, for `vmap`."""
    if len(models) == 0:
        raise RuntimeError(f"combine_state_for_ensemble: Expected at least one model, got {len(models)}.")
    if not (all(model.training for model in models) or all(not model.training for model in models)):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, params, buffers = zip(*[make_functional_with_buffers(model) for model in models], strict=True)
    return functions[0], transpose_stack(params), transpose_stack(buffers)


def functional_init(
    model_class: type[Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable[..., tuple[Tensors, Callable[..., Any], Names]]:
    """Return a function that makes a model, or several with stacked weights, as `make_functional_deprecated_v1` does."""

    def made(*args: Any, **kwargs: Any) -> tuple[Tensors, Callable[..., Any], Names]:
        results = _several(make_functional_deprecated_v1, model_class, ensemble_shape, device, args, kwargs)
        if not ensemble_shape:
            return results[0]
        return transpose_stack(tuple([weights for weights, _, _ in results])), *results[0][1:]

    return made


def functional_init_with_buffers(
    model_class: type[Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable[..., tuple[Any, ...]]:
    """Return the same for models with buffers."""

    def made(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        results = _several(
            make_functional_with_buffers_deprecated_v1, model_class, ensemble_shape, device, args, kwargs
        )
        if not ensemble_shape:
            return results[0]
        stacked = [transpose_stack(tuple([result[place] for result in results])) for place in (0, 1)]
        return (*stacked, *results[0][2:])

    return made


def _several(make: Any, model_class: Any, shape: tuple[int, ...], device: Any, args: Any, kwargs: Any) -> list[Any]:
    if len(shape) >= 2:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    if shape and shape[0] <= 0:
        raise ValueError(f"num_models {shape[0]} should be > 0")
    return [make(model_class(*args, **kwargs).to(device)) for _ in range(shape[0] if shape else 1)]
