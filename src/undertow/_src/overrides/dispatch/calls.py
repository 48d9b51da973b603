"""A call of a rule as a call of one of PyTorch's operators: which operator, which overload, which arguments.

Rules carry PyTorch's names for their inputs and statics, so most are bound by name: the first overload whose parameters
take all that the call has. Arguments at the end that equal their defaults are left out, as PyTorch leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._ops import OpOverload, OpOverloadPacket, namespace
from undertow._src.overrides.custom_operators import Argument, Schema
from undertow._src.overrides.dispatch import schemas
from undertow._src.rules.arrange import contiguous
from undertow._src.rules.rule import Rule
from undertow._src.tensor.core import TensorCore
from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.types.layouts import CHANNELS_LAST, contiguous_format

Values = dict[str, Any]
Call = tuple[OpOverload, tuple[Any, ...], Values]

# Rules whose operator has a different name.
NAMES = {
    "softmax": "_softmax", "log_softmax": "_log_softmax", "to_copy": "_to_copy", "unsafe_view": "_unsafe_view",
    "reshape_alias": "view", "nll_loss": "nll_loss_forward", "nll_loss2d": "nll_loss2d_forward",
    "adaptive_avg_pool2d": "_adaptive_avg_pool2d", "adaptive_avg_pool3d": "_adaptive_avg_pool3d",
    "linalg_det": "_linalg_det", "linalg_slogdet": "_linalg_slogdet", "linalg_solve_ex": "_linalg_solve_ex",
    "linalg_svd": "_linalg_svd", "linalg_eigh": "_linalg_eigh", "log_sigmoid": "log_sigmoid_forward",
    "prelu": "_prelu_kernel", "embedding_bag": "_embedding_bag", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "neg_view": "_neg_view", "conj": "_conj", "standard_gamma": "_standard_gamma",
    "sample_dirichlet": "_sample_dirichlet", "unique2": "_unique2", "pdist": "_pdist_forward", "to_device": "_to_copy",
    "cdist": "_cdist_forward", "ctc_loss": "_ctc_loss", "div_floor": "floor_divide", "logcumsumexp": "_logcumsumexp",
    "multilabel_margin_loss": "multilabel_margin_loss_forward", "DiagonalBackward0_copy": "diagonal_copy",
}  # fmt: skip

# What a rule has computed from its arguments for internal use.
OWN = frozenset(
    "flipped widths taps places axes layout values wide vector first second source to cutoff permutation distinct rank "
    "bags scale_in_mean count".split()
)
_TAKES_NUMBERS_AS_TENSORS = frozenset("add sub mul div true_divide floor_divide xlogy".split())
_NUMBERS = (bool, int, float, complex, np.number)


def _strided(values: Values) -> Values:
    """Leave out a pool's stride if it equals the kernel size."""
    return {**values, "stride": []} if values["stride"] == values["kernel_size"] else values


def _whole(values: Values) -> Values:
    """Leave out the dims of a reduction over all of them."""
    dim = values.get("dim")
    if isinstance(dim, (tuple, list)) and len(dim) == values["self"].ndim != 1 and not values.get("keepdim"):
        return {**values, "dim": None, "keepdim": None}
    return values


def _squeezed(values: Values) -> Values:
    return {"self": values["self"], "dim": 0 if values["self"].shape[0] == 1 else -1}


def _in_format(values: Values) -> Values:
    """Name the memory format of a copy whose order of axes is given."""
    axes = values.get("axes")
    if axes is None:
        return values
    found = [order for order, own in CHANNELS_LAST.items() if own == tuple(axes)]
    return {**values, "memory_format": found[0] if found else contiguous_format}


def _softmax(values: Values) -> Values:
    return {**values, "half_to_float": False}


def _upsample(values: Values) -> Values:
    rest = {name: value for name, value in values.items() if name != "scale_factors"}
    factors = values.get("scale_factors")
    letters = {1: [""], 2: ["_h", "_w"], 3: ["_d", "_h", "_w"]}[len(values["output_size"])]
    return {**rest, **{f"scales{letter}": factors[nr] for nr, letter in enumerate(letters) if factors}}


def _as_sizes(values: Values) -> Values:
    """Rename `shape`: backward operators of views call it `input_sizes`."""
    return {("input_sizes" if name == "shape" else name): value for name, value in values.items()}


def _as_grad(values: Values) -> Values:
    return {("grad_output" if name == "grad" else name): value for name, value in _as_sizes(values).items()}


def _softplus(values: Values) -> Values:
    whole = {name: int(value) for name, value in values.items() if isinstance(value, float) and value.is_integer()}
    return values | whole


_LOSSES = {"none": 0, "mean": 1, "sum": 2}

# Rules whose arguments need more than renaming.
_ADAPTED: dict[str, Callable[[Values], Values]] = {
    "softmax": _softmax,
    "log_softmax": _softmax,
    "softplus": _softplus,
    "max_pool2d_with_indices": _strided,
    "max_pool3d_with_indices": _strided,
    "avg_pool2d": _strided,
    "avg_pool3d": _strided,
    "select_backward": _as_grad,
    "slice_backward": _as_grad,
    "diagonal_backward": _as_grad,
    "unfold_backward": lambda values: {
        "grad_in": values["grad"], "input_sizes": values["shape"], "dim": values["dimension"], "size": values["size"],
        "step": values["step"],
    },
    "any": lambda values: _whole(values),
    "all": lambda values: _whole(values),
    "count_nonzero": lambda values: _whole(values),
    "aminmax": lambda values: _whole(values),
    "index": lambda values: {"self": values["self"], "indices": list(values["indices"])},
    "embedding": lambda values: {"weight": values["self"], "indices": values["indices"]} if "self" in values else values,
    "embedding_dense_backward": lambda values: (
        values if "num_weights" in values else
        {"grad_output": values["self"], "indices": values["indices"], "num_weights": values["count"], "padding_idx": -1,
         "scale_grad_by_freq": False}
    ),
    "native_batch_norm": lambda values: {
        "momentum": 0.1, **{name: value for name, value in values.items() if name not in ("result1", "result2")}
    },
    "squeeze": lambda values: _squeezed(values) if "size" in values else values,
    "clone": _in_format,
    "to_copy": _in_format,
    "nll_loss": lambda values: {**values, "weight": values.get("weight")},
    "to_device": lambda values: {"self": values["self"], "device": values["to"]},
    "norm": lambda values: {"self": values["self"], "p": values["ord"], "dim": values["dim"], "keepdim": values["keepdim"]},
    "linalg_pinv": lambda values: {"self": values["self"], "hermitian": values["hermitian"]},
    "mul": lambda values: {"self": values["self"], "other": values["factor"]} if "factor" in values else values,
    "div": lambda values: {**values, "other": 2} if "other" not in values else values,
}  # fmt: skip
for _name in "nearest1d nearest2d nearest3d linear1d bilinear2d trilinear3d bicubic2d".split():
    _ADAPTED[f"upsample_{_name}"] = _upsample


def call_of(rule: Rule, inputs: tuple[Any, ...], statics: Values, in_place: bool = False) -> Call | None:
    """Return the operator that PyTorch runs for a rule, with its arguments; None if undertow knows none."""
    fixed = len(rule.inputs) - rule.variadic
    values = dict(zip(rule.inputs, inputs[:fixed], strict=False))
    if rule.variadic:
        values[rule.inputs[-1]] = list(inputs[fixed:])
    values |= statics
    if rule is contiguous:
        values["axes"] = tuple(range(values["self"].dim()))
    adapt = _ADAPTED.get(rule.name)
    if adapt is not None:
        values = adapt(values)
    name = NAMES.get(rule.node_name) or NAMES.get(rule.name, rule.name)
    if rule.name == "pow" and not rule.statics and "exponent" not in values:
        values["exponent"] = 2
    as_scalar = name in _TAKES_NUMBERS_AS_TENSORS and rule.node_name.endswith("Backward1")
    return bind(name + "_" if in_place else name, values, as_scalar)


def named(name: str) -> OpOverload:
    """Return the operator for a rule whose arguments are not PyTorch's: they are passed as the rule has them.

    A rule without a counterpart in PyTorch is shown as `undertow.<name>.default`.
    """
    if "default" in schemas.overloads(name):
        return getattr(namespace("aten"), name).default
    return OpOverload(OpOverloadPacket("undertow", name, None), "default")


def bind(name: str, values: Values, as_scalar: bool = False) -> Call | None:
    """Return the overload that takes these values, and its arguments. `as_scalar`: a number stays a number."""
    numbers = name.rstrip("_") in _TAKES_NUMBERS_AS_TENSORS and not as_scalar
    for overload, schema in schemas.overloads(name).items():
        if numbers and overload.startswith("Scalar"):
            continue
        found = _fit(schema, values, numbers)
        if found is not None:
            return getattr(getattr(namespace("aten"), name), overload), *found
    return None


def _fit(schema: Schema, values: Values, numbers: bool) -> tuple[tuple[Any, ...], Values] | None:
    """Return the arguments for one signature, or None if it does not take these values."""
    names = {argument.name for argument in schema.arguments}
    for name, value in values.items():
        if name not in names and name not in OWN and not _is_empty(value):
            return None
    given: list[tuple[Argument, Any]] = []
    for argument in schema.arguments:
        if argument.name in values:
            value = values[argument.name]
            if value is None and argument.has_default:
                value = argument.default_value
        elif argument.has_default:
            value = argument.default_value
        elif "?" in argument.type:
            value = None
        else:
            return None
        value = _converted(argument, value)
        if not _takes(argument, value, numbers):
            return None
        given.append((argument, value))
    positional = [(argument, value) for argument, value in given if not argument.kwarg_only]
    while positional and _is_default(*positional[-1]):
        positional.pop()
    keyword = {
        argument.name: value for argument, value in given if argument.kwarg_only and not _is_default(argument, value)
    }
    return tuple([value for _, value in positional]), keyword


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, (tuple, list)) and not value)


def _kind(argument: Argument) -> str:
    return argument.base


def _converted(argument: Argument, value: Any) -> Any:
    """Return a value as PyTorch passes it: lists for tuples, torch dtypes for NumPy's, one dim for a tuple of one."""
    kind = _kind(argument)
    if isinstance(value, np.dtype):
        return DTYPE_OF[value]
    if isinstance(value, np.generic):
        return value.item()
    if kind in ("int", "SymInt") and "[" not in argument.type and isinstance(value, (tuple, list)) and len(value) == 1:
        return value[0]
    if "[" in argument.type:
        if isinstance(value, (tuple, list)):
            return list(value)
        if type(value) is int and not (argument.has_default and value == argument.default_value):
            return [value]
    if kind == "int" and argument.name == "reduction" and isinstance(value, str):
        return _LOSSES[value]
    return value


def _takes(argument: Argument, value: Any, numbers: bool) -> bool:
    kind, optional, many = _kind(argument), "?" in argument.type, "[" in argument.type
    if value is None:
        return optional
    if many:
        if kind == "Tensor":
            return isinstance(value, list) and all(part is None or isinstance(part, TensorCore) for part in value)
        return isinstance(value, (list, int))
    if kind == "Tensor":
        return isinstance(value, TensorCore) or (numbers and argument.name == "other" and isinstance(value, _NUMBERS))
    if kind in ("Scalar", "float"):
        return isinstance(value, _NUMBERS)
    if kind in ("int", "SymInt"):
        return isinstance(value, int)
    if kind == "bool":
        return isinstance(value, bool)
    return not isinstance(value, TensorCore) if kind == "str" else True


def _is_default(argument: Argument, value: Any) -> bool:
    if not argument.has_default:
        return False
    default = argument.default_value
    if isinstance(value, list) and type(default) is int:
        return all(part == default for part in value)
    if argument.base == "float" and not isinstance(value, bool) and isinstance(value, (int, float)):
        return default is not None and float(value) == float(default)
    return type(value) is type(default) and bool(value == default)
