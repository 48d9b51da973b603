"""The optimizers with sample options, for tests that run over all optimizers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from undertow import optim
from undertow._src.base.modes import no_grad
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.from_data import tensor
from undertow._src.types.dtypes import float32
from undertow.nn import Parameter
from undertow.optim.lr_scheduler import ConstantLR as ConstantLR
from undertow.optim.lr_scheduler import ExponentialLR as ExponentialLR
from undertow.optim.lr_scheduler import LinearLR as LinearLR
from undertow.optim.lr_scheduler import PolynomialLR as PolynomialLR
from undertow.optim.lr_scheduler import ReduceLROnPlateau as ReduceLROnPlateau
from undertow.optim.lr_scheduler import StepLR as StepLR
from undertow.random import randn
from undertow.testing._internal.common_device_type import _update_param_kwargs
from undertow.testing._internal.common_utils.parametrization import Case, Test, _TestParametrizer
from undertow.testing._internal.opinfo.core import DecorateInfo

Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, ASGD, LBFGS, Muon, NAdam, Optimizer, RAdam, RMSprop, Rprop, SGD = (
    optim.Adadelta, optim.Adafactor, optim.Adagrad, optim.Adam, optim.AdamW, optim.Adamax, optim.ASGD, optim.LBFGS,
    optim.Muon, optim.NAdam, optim.Optimizer, optim.RAdam, optim.RMSprop, optim.Rprop, optim.SGD,
)  # fmt: skip
SparseAdam = optim.SparseAdam
CUDA_CONFIG_GPUS = ["cuda", "xpu"]


class OptimizerInput:
    """The parameters (None: the test supplies them) and options of an optimizer, with a description."""

    __slots__ = ("params", "kwargs", "desc")

    def __init__(self, params: Any, kwargs: dict[str, Any], desc: str = "") -> None:
        self.params, self.kwargs, self.desc = params, kwargs, desc

    def __repr__(self) -> str:
        return f"params={self.params}, kwargs={self.kwargs}, desc={self.desc}"


class OptimizerErrorEnum(Enum):
    """Where an optimizer raises: at construction or in a step."""

    CONSTRUCTION_ERROR = 0
    STEP_ERROR = 1


class ErrorOptimizerInput:
    """Arguments that an optimizer refuses, and the error."""

    __slots__ = ("optimizer_error_input", "error_on", "error_type", "error_regex")

    def __init__(
        self, optimizer_error_input: Any, *, error_on: Any = OptimizerErrorEnum.CONSTRUCTION_ERROR,
        error_type: Any = RuntimeError, error_regex: str = "",
    ) -> None:  # fmt: skip
        self.optimizer_error_input, self.error_on = optimizer_error_input, error_on
        self.error_type, self.error_regex = error_type, error_regex


class OptimizerInfo:
    """The facts about an optimizer that tests need."""

    def __init__(
        self, optim_cls: Any, *, optim_inputs_func: Any,
        scheduler_inputs: Any = ([lambda opt: StepLR(opt, gamma=0.9, step_size=10), lambda opt: ReduceLROnPlateau(opt)],),
        supported_impls: tuple[str, ...] = ("foreach", "differentiable"),
        not_og_supported_flags: tuple[str, ...] = ("foreach", "differentiable", "maximize", "capturable"),
        supports_sparse: bool = False, has_capturable_arg: bool = False, only_supports_sparse_grads: bool = False,
        metadata_for_sparse: Any = ({}, []), supports_complex: bool = True, step_requires_closure: bool = False,
        supports_param_groups: bool = True, supports_multiple_devices: bool = True, skips: Any = (), decorators: Any = None,
        optim_error_inputs_func: Any = None, supports_fused_on: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.optim_cls, self.optim_inputs_func, self.scheduler_inputs = optim_cls, optim_inputs_func, scheduler_inputs
        self.supported_impls, self.not_og_supported_flags = supported_impls, not_og_supported_flags
        self.supports_sparse, self.has_capturable_arg = supports_sparse, has_capturable_arg
        self.only_supports_sparse_grads, self.metadata_for_sparse = only_supports_sparse_grads, metadata_for_sparse
        self.supports_complex, self.step_requires_closure = supports_complex, step_requires_closure
        self.supports_param_groups, self.supports_multiple_devices = supports_param_groups, supports_multiple_devices
        self.decorators = (*(decorators or ()), *(skips or ()))
        self.optim_error_inputs_func, self.supports_fused_on = optim_error_inputs_func, supports_fused_on

    @property
    def name(self) -> str:
        return self.optim_cls.__name__

    formatted_name = name

    def get_decorators(self, test_class: str, test_name: str, device: Any, dtype: Any, param_kwargs: Any) -> list[Any]:
        """Return the decorators for one test of the optimizer."""
        found: list[Any] = []
        for each in self.decorators:
            if not isinstance(each, DecorateInfo):
                found.append(each)
            elif each.is_active(test_class, test_name, device, dtype, param_kwargs):
                found += each.decorators
        return found


class optims(_TestParametrizer):
    """Run a test, which takes `optim_info` and `dtype`, for each optimizer of a list."""

    def __init__(self, optim_info_iterable: Iterable[OptimizerInfo], dtypes: Any = None) -> None:
        self.optim_info_list = list(optim_info_iterable)
        self.dtypes = dtypes if dtypes is not None else [float32]

    def _parametrize_test(self, test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
        if device_cls is None:
            raise RuntimeError(
                "The @optims decorator is only intended to be used with tests that have a device: "
                "call instantiate_device_type_tests() on their class"
            )
        for info, dtype in itertools.product(self.optim_info_list, self.dtypes):
            arguments: dict[str, Any] = {"optim_info": info}
            _update_param_kwargs(arguments, "dtype", dtype)
            yield (
                test,
                info.name,
                arguments,
                functools.partial(
                    info.get_decorators, generic_cls.__name__, test.__name__, device_cls.device_type, dtype
                ),
            )


# --- sample options, with descriptions

_DECAY = {"weight_decay": 0.1}
_COMMON: list[tuple[str, dict[str, Any]]] = [
    ("default", {}), ("non-default lr", {"lr": 0.01}), ("nonzero weight_decay", _DECAY),
    ("maximize", {**_DECAY, "maximize": True}),
]  # fmt: skip
_OPTIONS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "adadelta": [*_COMMON, ("rho", {**_DECAY, "rho": 0.95})],
    "adafactor": [*_COMMON, ("d", {"d": 1.5}), ("eps", {"eps": (None, 1e-3)})],
    "adagrad": [*_COMMON, ("initial_accumulator_value", {**_DECAY, "initial_accumulator_value": 0.1}),
                ("lr_decay", {"lr": 0.1, "lr_decay": 0.5, **_DECAY})],
    "adam": [*_COMMON, ("amsgrad", {**_DECAY, "amsgrad": True})],
    "adamax": _COMMON,
    "adamw": [*_COMMON, ("amsgrad", {**_DECAY, "amsgrad": True})],
    "asgd": [*_COMMON, ("non-default lambd", {"lambd": 0.1}), ("t0", {"t0": 100})],
    "lbfgs": [("default", {}), ("non-default lr", {"lr": 0.01}), ("tolerance_grad", {"tolerance_grad": 1e-6}),
              ("strong_wolfe", {"line_search_fn": "strong_wolfe"})],
    "muon": [("default", {}), ("non-default lr", {"lr": 0.01}), ("nonzero weight_decay", {"weight_decay": 0.2}),
             ("no nesterov", {"nesterov": False}), ("match_rms_adamw", {"adjust_lr_fn": "match_rms_adamw"})],
    "nadam": [*_COMMON, ("momentum_decay", {"momentum_decay": 6e-3}),
              ("decoupled_weight_decay", {**_DECAY, "decoupled_weight_decay": True})],
    "radam": [*_COMMON, ("non-default eps", {"eps": 1e-6}),
              ("decoupled_weight_decay", {**_DECAY, "decoupled_weight_decay": True})],
    "rmsprop": [*_COMMON, ("centered", {**_DECAY, "centered": True}),
                ("momentum", {**_DECAY, "centered": True, "momentum": 0.1})],
    "rprop": [("default", {}), ("non-default lr", {"lr": 2e-4}), ("non-default etas", {"etas": (0.5, 1.5)}),
              ("non-default step_sizes", {"step_sizes": (2e-6, 100)}), ("maximize", {"maximize": True})],
    "sgd": [*_COMMON, ("momentum", {"momentum": 0.9}), ("dampening", {"momentum": 0.9, "dampening": 0.5}),
            ("nesterov", {"momentum": 0.9, "nesterov": True, **_DECAY})],
    "sparseadam": [("default", {}), ("non-default lr", {"lr": 0.01}), ("maximize", {"maximize": True})],
}  # fmt: skip


def _inputs(name: str) -> Callable[..., list[OptimizerInput]]:
    def inputs(device: Any = None, dtype: Any = None) -> list[OptimizerInput]:
        made = [OptimizerInput(None, dict(options), desc) for desc, options in _OPTIONS[name]]
        if name in ("sgd", "lbfgs"):
            made.append(OptimizerInput(None, {"lr": tensor(0.001)}, "tensor lr"))
        return made

    return inputs


def get_error_inputs_for_all_optims(device: Any, dtype: Any) -> list[ErrorOptimizerInput]:
    """Return the errors that all optimizers have in common."""
    if str(device).split(":")[0] != "cpu":
        return []
    one = Parameter(randn(1, device=device, dtype=dtype))
    return [
        ErrorOptimizerInput(
            OptimizerInput(one, {}, "invalid param type"), error_type=TypeError,
            error_regex="params argument given to the optimizer should be an iterable of Tensors or dicts",
        ),
        ErrorOptimizerInput(
            OptimizerInput([one, one], {}, "a param group cannot have duplicate parameters"), error_type=UserWarning,
            error_regex=".*a parameter group with duplicate parameters.*",
        ),
        ErrorOptimizerInput(
            OptimizerInput([{"params": one}, {"params": one}], {}, "duplicate parameters"), error_type=ValueError,
            error_regex="some parameters appear in more than one parameter group",
        ),
    ]  # fmt: skip


# the errors of each optimizer: options, and the beginning of the message
_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "adadelta": ({"lr": 1e-2, "rho": 1.1}, "Invalid rho value: 1.1"),
    "adafactor": ({"lr": -1.0}, "Learning rate should be >= 0 but is: -1.0"),
    "adagrad": ({"lr": 1e-2, "lr_decay": -0.5}, "Invalid lr_decay value: -0.5"),
    "adam": ({"lr": 1e-2, "betas": (1.0, 0.0)}, "Invalid beta parameter at index 0: 1.0"),
    "adamax": ({"lr": 1e-2, "betas": (0.0, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
    "adamw": ({"lr": 1e-2, "weight_decay": -1}, "Invalid weight_decay value: -1"),
    "asgd": ({"lr": 1e-2, "weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
    "muon": ({"lr": -1.0}, "Learning rate should be >= 0 but is: -1.0"),
    "nadam": ({"lr": 1e-2, "momentum_decay": -0.2}, "Invalid momentum_decay value: -0.2"),
    "radam": ({"lr": 1e-2, "weight_decay": -1}, "Invalid weight_decay value: -1"),
    "rmsprop": ({"lr": 1e-2, "momentum": -1.0}, "Invalid momentum value: -1.0"),
    "rprop": ({"lr": 1e-2, "etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
    "sgd": ({"lr": 1e-2, "momentum": -0.5}, "Invalid momentum value: -0.5"),
    "sparseadam": ({"lr": 1e-2, "betas": (1.0, 0.0)}, "Invalid beta parameter at index 0: 1.0"),
}


def _errors(name: str) -> Callable[..., list[ErrorOptimizerInput]]:
    def errors(device: Any, dtype: Any) -> list[ErrorOptimizerInput]:
        found = get_error_inputs_for_all_optims(device, dtype) if name != "muon" else []
        if name in _REFUSED:
            options, message = _REFUSED[name]
            params = [Parameter(randn(2, 3, device=device, dtype=dtype))]
            wrong = OptimizerInput(params, dict(options), message)
            found.append(ErrorOptimizerInput(wrong, error_type=ValueError, error_regex=message))
        return found

    return errors


def _info(cls: Any, **options: Any) -> OptimizerInfo:
    name = cls.__name__.lower()
    return OptimizerInfo(cls, optim_inputs_func=_inputs(name), optim_error_inputs_func=_errors(name), **options)


_FUSED = ("foreach", "differentiable", "fused")
_SLOW = {"supported_impls": (), "not_og_supported_flags": ()}
optim_db = [
    _info(optim.Adadelta, has_capturable_arg=True),
    _info(optim.Adafactor, supported_impls=("foreach",), not_og_supported_flags=("foreach",), supports_complex=False),
    _info(optim.Adagrad, supported_impls=_FUSED, supports_sparse=True, supports_fused_on=("cpu",),
          metadata_for_sparse=({"lr": 0.1, "weight_decay": 0, "lr_decay": 0}, [])),
    _info(optim.Adam, supported_impls=_FUSED, has_capturable_arg=True, supports_fused_on=("cpu",)),
    _info(optim.Adamax, has_capturable_arg=True),
    _info(optim.AdamW, supported_impls=_FUSED, has_capturable_arg=True, supports_fused_on=("cpu",)),
    _info(optim.ASGD, has_capturable_arg=True),
    _info(optim.LBFGS, supported_impls=(), step_requires_closure=True, supports_param_groups=False,
          supports_multiple_devices=False),
    _info(optim.Muon, supports_complex=False, **_SLOW),
    _info(optim.NAdam, has_capturable_arg=True), _info(optim.RAdam, has_capturable_arg=True),
    _info(optim.RMSprop, has_capturable_arg=True), _info(optim.Rprop, has_capturable_arg=True),
    _info(optim.SGD, supported_impls=_FUSED, supports_sparse=True, supports_fused_on=("cpu",),
          metadata_for_sparse=({"lr": 4.8e-3, "maximize": False, "momentum": 0, "nesterov": False, "weight_decay": 0}, [])),
    _info(optim.SparseAdam, supported_impls=(), only_supports_sparse_grads=True, supports_complex=False,
          metadata_for_sparse=({"lr": 4e-2}, [])),
]  # fmt: skip
for _each in optim_db:
    globals()[f"optim_inputs_func_{_each.name.lower()}"] = _each.optim_inputs_func
    globals()[f"optim_error_inputs_func_{_each.name.lower()}"] = _each.optim_error_inputs_func


def _get_device_type(device: Any) -> str:
    return str(device).split(":")[0]


def _get_optim_inputs_including_global_cliquey_kwargs(
    device: Any, dtype: Any, optim_info: OptimizerInfo, skip: Any = ()
) -> list[OptimizerInput]:
    """Return an optimizer's options, each also with every implementation flag it supports, one at a time."""
    ways = [
        way for way in optim_info.supported_impls if way not in skip and way in ("foreach", "differentiable", "fused")
    ]
    found = []
    for each in optim_info.optim_inputs_func(device=device):
        if not ways:
            found.append(each)
            continue
        plain = dict.fromkeys(ways, False)
        found.append(OptimizerInput(each.params, {**each.kwargs, **plain}, each.desc))
        for way in ways:
            if way == "foreach" and isinstance(each.kwargs.get("lr"), TensorCore):
                continue
            found.append(OptimizerInput(each.params, {**each.kwargs, **plain, way: True}, f"{each.desc} & {way}"))
    return found


class TensorTracker:
    """A queue of tensors to compare others with, in order."""

    def __init__(self, assert_eq_kwargs: dict[str, Any] | None = None) -> None:
        self.assert_eq_kwargs, self.tensors = assert_eq_kwargs or {}, list[Any]()

    def add(self, tensor: Any) -> None:
        """Append a copy of a tensor."""
        self.tensors.append(tensor.clone().detach())

    def pop_check_set(self, tensor_to_set: Any, testcase: Any, override_assert_eq_kwargs: Any = None) -> None:
        """Remove the first stored tensor, check that a tensor equals it, and set the tensor to its values."""
        testcase.assertGreater(len(self.tensors), 0, "no tensors to pop")
        first = self.tensors.pop(0)
        testcase.assertTrue(isinstance(first, TensorCore), f"{type(first)=}")
        testcase.assertEqual(tensor_to_set, first, **(override_assert_eq_kwargs or self.assert_eq_kwargs))
        with no_grad():
            tensor_to_set.copy_(first)

    def all_popped(self) -> bool:
        return len(self.tensors) == 0
