"""The layers with sample inputs, for tests that run over all layers."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from undertow import nn
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import bfloat16, complex64, complex128, float16, float32, float64
from undertow.nn.utils.rnn import pack_padded_sequence
from undertow.testing._creation import Maker
from undertow.testing._internal.common_device_type import _update_param_kwargs
from undertow.testing._internal.common_nn.references import *  # noqa: F403
from undertow.testing._internal.common_nn.references import loss_reference_fns as loss_reference_fns
from undertow.testing._internal.common_utils.parametrization import Case, Test, _TestParametrizer
from undertow.testing._internal.module_refusals import REFUSALS
from undertow.testing._internal.opinfo.core import DecorateInfo


class TrainEvalMode(Enum):
    """The modes of a layer that a test runs in."""

    train_only = 1
    eval_only = 2
    train_and_eval = 3


class FunctionInput:
    """The arguments of a call."""

    __slots__ = ("args", "kwargs")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


class ModuleInput:
    """The arguments of a layer's constructor and of its call; `reference_fn(layer, parameters, …)` gives the result.

    `reference_fn` is stored as a function of the layer and the arguments of the call, which are copied for it.
    """

    __slots__ = ("constructor_input", "forward_input", "desc", "reference_fn")

    def __init__(
        self, constructor_input: Any, forward_input: Any = None, desc: str = "", reference_fn: Any = None
    ) -> None:
        self.constructor_input, self.forward_input, self.desc = constructor_input, forward_input, desc
        self.reference_fn = reference_fn if reference_fn is None else functools.partial(_of_copies, reference_fn)


def _of_copies(reference_fn: Any, m: Any, *args: Any, **kwargs: Any) -> Any:
    copies, named = copy.deepcopy((args, kwargs))
    return reference_fn(m, list(m.parameters()), *copies, **named)


class ModuleErrorEnum(Enum):
    """Where a layer raises: at construction or in forward."""

    CONSTRUCTION_ERROR = 0
    FORWARD_ERROR = 1


class ErrorModuleInput:
    """Arguments that a layer refuses, and the error."""

    __slots__ = ("module_error_input", "error_on", "error_type", "error_regex")

    def __init__(
        self, module_error_input: Any, *, error_on: Any = ModuleErrorEnum.CONSTRUCTION_ERROR,
        error_type: Any = RuntimeError, error_regex: str,
    ) -> None:  # fmt: skip
        self.module_error_input, self.error_on = module_error_input, error_on
        self.error_type, self.error_regex = error_type, error_regex


def get_module_common_name(module_cls: Any) -> str:
    """Return the name of a layer's class: `nn.Linear`."""
    return MODULE_CLASS_NAMES.get(module_cls, module_cls.__name__)


class ModuleInfo:
    """The facts about a layer that tests need."""

    def __init__(
        self, module_cls: Any, *, module_inputs_func: Any, skips: Any = (), decorators: Any = None,
        dtypes: Any = (float32, float64), dtypesIfMPS: Any = (), dtypesIfHpu: Any = (), supports_gradgrad: bool = True,
        gradcheck_nondet_tol: float = 0.0, module_memformat_affects_out: bool = False, train_and_eval_differ: bool = False,
        module_error_inputs_func: Any = None, gradcheck_fast_mode: bool | None = None,
    ) -> None:  # fmt: skip
        self.module_cls, self.module_inputs_func = module_cls, module_inputs_func
        self.decorators = (*(decorators or ()), *(skips or ()))
        self.dtypes, self.dtypesIfMPS, self.dtypesIfHpu = dtypes, dtypesIfMPS, dtypesIfHpu
        self.supports_gradgrad, self.gradcheck_nondet_tol = supports_gradgrad, gradcheck_nondet_tol
        self.module_memformat_affects_out = module_memformat_affects_out
        self.train_and_eval_differ, self.module_error_inputs_func = train_and_eval_differ, module_error_inputs_func
        self.gradcheck_fast_mode = gradcheck_fast_mode
        self.is_lazy = issubclass(module_cls, nn.modules.lazy.LazyModuleMixin)

    def get_decorators(self, test_class: str, test_name: str, device: Any, dtype: Any, param_kwargs: Any) -> list[Any]:
        """Return the decorators for one test of the layer."""
        found: list[Any] = []
        for each in self.decorators:
            if not isinstance(each, DecorateInfo):
                found.append(each)
            elif each.is_active(test_class, test_name, device, dtype, param_kwargs):
                found += each.decorators
        return found

    def supported_dtypes(self, device_type: Any) -> Any:
        return self.dtypes

    @property
    def name(self) -> str:
        return get_module_common_name(self.module_cls)

    @property
    def formatted_name(self) -> str:
        return self.name.replace(".", "_")


class modules(_TestParametrizer):
    """Run a test, which takes `module_info`, `training` and `dtype`, for each layer of a list."""

    def __init__(
        self, module_info_iterable: Iterable[ModuleInfo], allowed_dtypes: Any = None,
        train_eval_mode: TrainEvalMode = TrainEvalMode.train_and_eval, skip_if_dynamo: bool = True,
    ) -> None:  # fmt: skip
        self.module_info_list = list(module_info_iterable)
        self.allowed_dtypes = None if allowed_dtypes is None else set(allowed_dtypes)
        self.train_eval_mode, self.skip_if_dynamo = train_eval_mode, skip_if_dynamo

    def _get_training_flags(self, module_info: ModuleInfo) -> list[bool]:
        """Return the modes to run in; only one for a layer that behaves the same in both."""
        wanted = self.train_eval_mode
        flags = [True] if wanted in (TrainEvalMode.train_only, TrainEvalMode.train_and_eval) else []
        flags += [False] if wanted in (TrainEvalMode.eval_only, TrainEvalMode.train_and_eval) else []
        return flags if module_info.train_and_eval_differ else flags[:1]

    def _parametrize_test(self, test: Test, generic_cls: Any, device_cls: Any) -> Iterator[Case]:
        if device_cls is None:
            raise RuntimeError(
                "The @modules decorator is only intended to be used with tests that have a device: "
                "call instantiate_device_type_tests() on their class"
            )
        for info in self.module_info_list:
            kinds = set(info.supported_dtypes(device_cls.device_type))
            kinds = kinds if self.allowed_dtypes is None else kinds & self.allowed_dtypes
            for training, dtype in itertools.product(self._get_training_flags(info), sorted(kinds, key=str)):
                name = info.formatted_name
                if info.train_and_eval_differ:
                    name += "_train_mode" if training else "_eval_mode"
                arguments: dict[str, Any] = {"module_info": info}
                _update_param_kwargs(arguments, "dtype", dtype)
                _update_param_kwargs(arguments, "training", training)
                yield (
                    test,
                    name,
                    arguments,
                    functools.partial(
                        info.get_decorators, generic_cls.__name__, test.__name__, device_cls.device_type, dtype
                    ),
                )


# --- layers and their arguments

MODULE_NAMESPACES = [nn.modules]
MODULES_TO_SKIP = {nn.Module, nn.Container, nn.NLLLoss2d, nn.MaxPool2d, nn.MaxPool3d}
MODULE_CLASS_NAMES = {getattr(nn.modules, name): f"nn.{name}" for name in nn.modules.__all__}
MODULE_CLASSES = [cls for cls in MODULE_CLASS_NAMES if cls not in MODULES_TO_SKIP]
Calls = Callable[[Maker], list[tuple[Any, ...]]]


def _sampled(calls: Calls, loss: Any = None) -> Callable[..., list[ModuleInput]]:
    """Return a `module_inputs_func` from rows: arguments of the constructor (a tuple or a dict), then of the call."""

    def inputs(
        module_info: Any, device: Any, dtype: Any, requires_grad: bool, training: bool, **kwargs: Any
    ) -> list[ModuleInput]:
        made = []
        for construction, *arguments in calls(Maker(device, dtype, requires_grad)):
            named = construction if isinstance(construction, dict) else {}
            placed = () if isinstance(construction, dict) else construction
            reference = None if loss is None else functools.partial(_by_reference, loss, named)
            made.append(
                ModuleInput(FunctionInput(*placed, **named), FunctionInput(*arguments), _words(construction), reference)
            )
        return made

    return inputs


def _refused(name: str) -> Callable[..., list[ErrorModuleInput]] | None:
    """Return a `module_error_inputs_func` for a layer with known errors; None for others."""
    rows = REFUSALS.get(name)
    if rows is None:
        return None

    def inputs(
        module_info: Any, device: Any, dtype: Any, requires_grad: bool, training: bool, **kwargs: Any
    ) -> list[ErrorModuleInput]:
        return [
            ErrorModuleInput(
                ModuleInput(FunctionInput(**construction), None if call is None else FunctionInput(*call)),
                error_on=ModuleErrorEnum.CONSTRUCTION_ERROR if call is None else ModuleErrorEnum.FORWARD_ERROR,
                error_type=error, error_regex=words,
            )
            for construction, call, error, words in rows(Maker(device, dtype, requires_grad))
        ]  # fmt: skip

    return inputs


def _by_reference(loss: Any, options: dict[str, Any], module: Any, parameters: Any, *given: Any) -> Any:
    return loss(*given, **options)


def _words(construction: Any) -> str:
    return "_".join(f"{key}_{value}" for key, value in construction.items()) if isinstance(construction, dict) else ""


def no_batch_dim_reference_fn(m: Any, p: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the result of a layer for one example, computed with a batch of one."""
    unsqueeze = kwargs.pop("unsqueeze_kwarg_tensors", True)
    batched = [each.unsqueeze(0) if isinstance(each, TensorCore) else each for each in args]
    own = ("is_criterion", "batch_first", "kwargs_to_batchify")
    options = {
        key: value.unsqueeze(0) if unsqueeze and isinstance(value, TensorCore) else value
        for key, value in kwargs.items() if key not in own
    }  # fmt: skip
    return m(*batched, **options).squeeze(0)


def make_packed_sequence(inp: Any, batch_sizes: list[int]) -> Any:
    """Return a packed batch of sequences of these lengths."""
    required = inp.requires_grad
    packed = pack_padded_sequence(inp.detach(), batch_sizes)
    packed.data.requires_grad_(required)
    return packed


def _rows() -> Iterator[tuple[str, Calls, dict[str, Any]]]:
    plain: dict[str, Any] = {}
    differ = {"train_and_eval_differ": True}
    for name in "ReLU ReLU6 Sigmoid Tanh SiLU Mish Hardswish LogSigmoid Softsign Tanhshrink SELU".split():
        yield name, lambda t: [((), t(3, 4)), ((), t())], plain
    for name, option in (("ELU", {"alpha": 2.0}), ("CELU", {"alpha": 2.0}), ("Hardshrink", {"lambd": 0.7}),
                         ("Softshrink", {"lambd": 0.7}), ("Hardtanh", {"min_val": -0.5}),
                         ("LeakyReLU", {"negative_slope": 0.5}),
                         ("Softplus", {"beta": 2}), ("GELU", {"approximate": "tanh"})):  # fmt: skip
        yield name, functools.partial(_optional, option), plain
    yield "Threshold", lambda t: [((2.0, 1.0), t(3, 4))], plain
    yield "PReLU", lambda t: [((), t(3, 4)), ((3,), t(2, 3, 4))], plain
    yield "GLU", lambda t: [((), t(3, 4)), ((1,), t(3, 6, 7))], plain
    for name in ("Softmax", "Softmin", "LogSoftmax"):
        yield name, lambda t: [((1,), t(3, 4)), ((0,), t(4))], plain
    yield "Softmax2d", lambda t: [((), t(1, 3, 4, 4))], plain
    yield "Linear", lambda t: [((10, 8), t(4, 10)), ((10, 8, False), t(4, 10)), ((3, 5), t(3))], plain
    yield "Bilinear", lambda t: [((2, 3, 4), t(5, 2), t(5, 3))], plain
    yield "Embedding", lambda t: [((4, 3), t.whole(4, 2, 3))], plain
    for dims in (1, 2, 3):
        image = (6,) * dims
        channels_last = {"module_memformat_affects_out": True}
        for kind in ("Conv", "ConvTranspose"):
            yield f"{kind}{dims}d", functools.partial(_convolved, image), channels_last
            yield f"Lazy{kind}{dims}d", functools.partial(_lazily_convolved, image), channels_last
        yield f"BatchNorm{dims}d", functools.partial(_pooled, (3,), (3, 1e-3, 0.3, False), image), differ
        yield f"InstanceNorm{dims}d", functools.partial(_pooled, (3,), (3, 1e-3, 0.3, True), image), differ
        for kind in ("MaxPool", "AvgPool"):
            yield f"{kind}{dims}d", functools.partial(_pooled, (2,), (3, 2, 1), image), plain
        for kind in ("AdaptiveMaxPool", "AdaptiveAvgPool"):
            yield f"{kind}{dims}d", functools.partial(_pooled, (3,), (1,), image), plain
        yield f"LPPool{dims}d", functools.partial(_powers, image), plain
        if dims > 1:
            yield f"FractionalMaxPool{dims}d", functools.partial(_fractions, image), plain
        for kind in ("ConstantPad", "ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"):
            yield (
                f"{kind}{dims}d",
                functools.partial(_padded, (1, 0.5) if kind == "ConstantPad" else (1,), image),
                plain,
            )
    yield "LocalResponseNorm", lambda t: [((3,), t(1, 5, 7))], plain
    yield "GroupNorm", lambda t: [((3, 6), t(4, 6, 5)), ((2, 6), t(4, 6, 2, 3))], plain
    yield "LayerNorm", lambda t: [((5,), t(4, 5)), (((5, 6), 1e-3, False), t(4, 5, 6))], plain
    yield "RMSNorm", lambda t: [((5,), t(4, 5))], plain
    for name in ("RNN", "GRU", "LSTM"):
        yield name, lambda t: [((5, 4), t(3, 2, 5)), ((5, 4, 2), t(3, 2, 5)), ((5, 4), t(3, 5))], differ
    yield "RNNCell", lambda t: [((5, 4), t(3, 5), t(3, 4)), ((5, 4), t(5))], plain
    yield "GRUCell", lambda t: [((5, 4), t(3, 5), t(3, 4)), ((5, 4), t(5))], plain
    yield "LSTMCell", lambda t: [((5, 4), t(3, 5), (t(3, 4), t(3, 4)))], plain
    attention = {"train_and_eval_differ": True, "supports_gradgrad": True}
    yield "MultiheadAttention", lambda t: [((4, 2), t(3, 2, 4), t(5, 2, 4), t(5, 2, 4))], attention
    yield "TransformerEncoderLayer", lambda t: [((4, 2, 8, 0.0), t(3, 2, 4))], attention
    yield "TransformerDecoderLayer", lambda t: [((4, 2, 8, 0.0), t(3, 2, 4), t(5, 2, 4))], plain
    one = functools.partial(nn.TransformerEncoderLayer, 4, 2, 8, 0.0)
    yield "TransformerEncoder", lambda t: [((one(), 2, None, False), t(3, 2, 4))], attention
    stacks = {"d_model": 4, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 8}
    yield "Transformer", lambda t: [({**stacks, "dropout": 0.0, "batch_first": True}, t(2, 3, 4), t(2, 5, 4))], plain


def _optional(option: dict[str, Any], t: Maker) -> list[tuple[Any, ...]]:
    return [((), t(3, 4)), (option, t(3, 2, 5))]


def _convolved(image: tuple[int, ...], t: Maker) -> list[tuple[Any, ...]]:
    return [((4, 6, 3), t(2, 4, *image)), ((4, 6, 3, 2, 1), t(2, 4, *image)), ((4, 6, 3), t(4, *image))]


def _lazily_convolved(image: tuple[int, ...], t: Maker) -> list[tuple[Any, ...]]:
    return [((6, 3), t(2, 4, *image))]


def _pooled(one: Any, other: Any, image: tuple[int, ...], t: Maker) -> list[tuple[Any, ...]]:
    return [(one, t(2, 3, *image)), (other, t(2, 3, *image))]


def _powers(image: tuple[int, ...], t: Maker) -> list[tuple[Any, ...]]:
    return [((2, 2), t(2, 3, *image, low=0.5, high=2))]


def _fractions(image: tuple[int, ...], t: Maker) -> list[tuple[Any, ...]]:
    fixed = t(2, 3, len(image), low=0, high=0.99, grad=False)
    return [({"kernel_size": 2, "output_size": 3, "_random_samples": fixed}, t(2, 3, *image))]


def _padded(construction: Any, image: tuple[int, ...], t: Maker) -> list[tuple[Any, ...]]:
    return [(construction, t(2, 3, *image))]


def _losses() -> Iterator[tuple[str, Calls]]:
    def reduced(t: Maker, *arguments: Callable[[], Any], **options: Any) -> list[tuple[Any, ...]]:
        return [({"reduction": how, **options}, *[make() for make in arguments]) for how in ("mean", "sum", "none")]

    def signs(t: Maker, *shape: int) -> Any:
        return (t(*shape, grad=False) > 0).to(t.dtype) * 2 - 1

    def shares(t: Maker) -> Any:
        return t(2, 3, low=0.1, high=0.9, grad=False)

    yield "L1Loss", lambda t: reduced(t, lambda: t(2, 3), lambda: t(2, 3))
    yield "MSELoss", lambda t: reduced(t, lambda: t(2, 3), lambda: t(2, 3))
    yield "SmoothL1Loss", lambda t: reduced(t, lambda: t(2, 3), lambda: t(2, 3))
    yield "HuberLoss", lambda t: reduced(t, lambda: t(2, 3), lambda: t(2, 3))
    yield "KLDivLoss", lambda t: reduced(t, lambda: t(2, 3, low=-3, high=-0.1), lambda: shares(t))
    yield "BCELoss", lambda t: reduced(t, lambda: t(2, 3, low=0.1, high=0.9), lambda: shares(t))
    yield "BCEWithLogitsLoss", lambda t: reduced(t, lambda: t(2, 3), lambda: shares(t))
    yield "NLLLoss", lambda t: reduced(t, lambda: t(3, 4), lambda: t.whole(4, 3))
    yield "CrossEntropyLoss", lambda t: reduced(t, lambda: t(3, 4), lambda: t.whole(4, 3))
    yield "HingeEmbeddingLoss", lambda t: reduced(t, lambda: t(2, 3), lambda: signs(t, 2, 3))
    yield "SoftMarginLoss", lambda t: reduced(t, lambda: t(2, 3), lambda: signs(t, 2, 3))
    yield "CosineEmbeddingLoss", lambda t: reduced(t, lambda: t(3, 4), lambda: t(3, 4), lambda: signs(t, 3))
    yield "MarginRankingLoss", lambda t: reduced(t, lambda: t(3), lambda: t(3), lambda: signs(t, 3))
    yield "MultiMarginLoss", lambda t: reduced(t, lambda: t(3, 4), lambda: t.whole(4, 3))
    yield "MultiLabelMarginLoss", lambda t: reduced(t, lambda: t(3), lambda: t.given([1, 2, -1]))
    yield "MultiLabelSoftMarginLoss", lambda t: reduced(t, lambda: t(2, 3), lambda: t(2, 3, low=0, high=1, grad=False))
    yield "PoissonNLLLoss", lambda t: reduced(t, lambda: t(2, 3), lambda: t(2, 3, low=0.1, high=3, grad=False))
    yield "CTCLoss", lambda t: reduced(
        t, lambda: t(6, 2, 4).log_softmax(2).detach().requires_grad_(t.requires_grad), lambda: t.whole(4, 2, 3, low=1),
        lambda: t.given([6, 6]), lambda: t.given([3, 2]))  # fmt: skip
    yield "LinearCrossEntropyLoss", lambda t: [((3, 5), t(4, 3), t.whole(5, 4))]
    yield "GaussianNLLLoss", lambda t: reduced(t, lambda: t(2, 3), lambda: t(2, 3), lambda: t(2, 3, low=0.5, high=2))


_DTYPES = {
    "ConvTranspose": (float32, float64, complex64, complex128), "CrossEntropyLoss": (float16, float32, float64),
    "GroupNorm": (bfloat16, float16, float32, float64), "LinearCrossEntropyLoss": (bfloat16, float16, float32, float64),
}  # fmt: skip


def _made() -> list[ModuleInfo]:
    found = [
        ModuleInfo(
            getattr(nn, name), module_inputs_func=_sampled(calls), module_error_inputs_func=_refused(name),
            dtypes=_DTYPES.get(name.rstrip("123d"), (float32, float64)), **options,
        )
        for name, calls, options in _rows()
    ]  # fmt: skip
    for name, calls in _losses():
        inputs = _sampled(calls, loss_reference_fns.get(name))
        smooth = name not in ("MultiMarginLoss", "MultiLabelMarginLoss", "CTCLoss")
        found.append(ModuleInfo(
            getattr(nn, name), module_inputs_func=inputs, module_error_inputs_func=_refused(name), supports_gradgrad=smooth,
            dtypes=_DTYPES.get(name, (float32, float64)),
        ))  # fmt: skip
    return sorted(found, key=lambda info: info.name)


module_db = _made()


def __getattr__(name: str) -> Any:
    """Return functions such as `module_inputs_torch_nn_Linear`."""
    if name.startswith("module_inputs_torch_nn_"):
        wanted = f"nn.{name.removeprefix('module_inputs_torch_nn_')}"
        for info in module_db:
            if info.name == wanted:
                return info.module_inputs_func
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
