"""What a test needs to know about an operator (`OpInfo`), and samples of its inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np

from undertow._src.tensor.core import TensorCore
from undertow._src.types import dtypes as d
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import dtype as Dtype
from undertow._tensor import Tensor
from undertow.testing._internal.common_utils import noncontiguous_like
from undertow.testing._internal.common_utils.facts import OPINFO_SAMPLE_INPUT_INDEX, torch_to_numpy_dtype_dict
from undertow.testing._internal.common_utils.tracking import TrackedInputIter
from undertow.testing._internal.opinfo.core import DecorateInfo

L, M, S, XS = 20, 10, 5, 3
_NOTHING = object()  # says that no value was given, where None is one


def _getattr_qual(obj: Any, name: str, default: Any = _NOTHING) -> Any:
    """Return the attribute of a path such as `nn.functional.relu`."""
    for part in name.split("."):
        obj = getattr(obj, part, _NOTHING)
        if obj is _NOTHING:
            if default is _NOTHING:
                raise AttributeError(name)
            return default
    return obj


class SampleInput:
    """Arguments to call an operator with: the first, the others, and those by name."""

    __slots__ = ("input", "args", "kwargs", "output_process_fn_grad", "broadcasts_input", "name")

    def __init__(
        self, input: Any, *var_args: Any, args: Any = None, kwargs: Any = None, output_process_fn_grad: Any = None,
        broadcasts_input: bool | None = None, name: str | None = None, **var_kwargs: Any,
    ) -> None:  # fmt: skip
        if (args is not None or kwargs is not None) and (var_args or var_kwargs):
            raise AssertionError("give the arguments by args= and kwargs=, or as they are, not both")
        self.input = input
        self.args = tuple(args) if args is not None else var_args
        self.kwargs = dict(kwargs) if kwargs is not None else var_kwargs
        self.output_process_fn_grad = output_process_fn_grad or (lambda output: output)
        self.broadcasts_input, self.name = bool(broadcasts_input), name or ""

    def with_metadata(
        self, *, output_process_fn_grad: Any = None, broadcasts_input: bool | None = None, name: str | None = None
    ) -> SampleInput:
        """Itself, with what else is known of it."""
        self.output_process_fn_grad = output_process_fn_grad or self.output_process_fn_grad
        self.broadcasts_input = self.broadcasts_input if broadcasts_input is None else broadcasts_input
        self.name = name or self.name
        return self

    def _repr_helper(self, formatter: Callable[[Any], Any]) -> str:
        parts = [f"{name}={formatter(getattr(self, name))}" for name in ("input", "args", "kwargs")]
        parts += [f"broadcasts_input={self.broadcasts_input}", f"name={self.name!r}"]
        return f"SampleInput({', '.join(parts)})"

    def __repr__(self) -> str:
        return self._repr_helper(lambda value: value)

    def summary(self) -> str:
        """Itself in words, with shapes in place of numbers."""
        return self._repr_helper(lambda value: _map(_in_words, value))

    def transform(self, f: Callable[[Any], Any]) -> SampleInput:
        """Return the sample with a function applied to its tensors and dtypes."""

        def change(value: Any) -> Any:
            return f(value) if isinstance(value, (TensorCore, Dtype)) else value

        return SampleInput(
            _map(change, self.input), args=_map(change, self.args), kwargs=_map(change, self.kwargs),
            output_process_fn_grad=self.output_process_fn_grad, broadcasts_input=self.broadcasts_input,
            name=f"{self.name}_transformed",
        )  # fmt: skip

    def numpy(self) -> SampleInput:
        """Return the sample with NumPy's arrays and dtypes."""

        def convert(value: Any) -> Any:
            if isinstance(value, Dtype):
                return torch_to_numpy_dtype_dict[value]
            value = value.detach()
            value = value.float() if value.dtype is d.bfloat16 else value
            return np.array(value.resolve_conj().resolve_neg().numpy())

        return self.transform(convert)

    def noncontiguous(self) -> SampleInput:
        """Return the sample with tensors that do not lie in one piece."""
        return self.transform(lambda value: noncontiguous_like(value) if isinstance(value, TensorCore) else value)


def _map(f: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _map(f, each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_map(f, each) for each in value])
    return f(value)


def _in_words(value: Any) -> Any:
    if isinstance(value, TensorCore):
        words = f"Tensor[size={tuple(value.shape)}, device={str(value.device)!r}, dtype={value.dtype}"
        return Words(words + (", contiguous=False]" if not value.is_contiguous() else "]"))
    return value


class Words(str):
    """Words that a repr shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


class ErrorInput:
    """A sample that an operator refuses, and how."""

    __slots__ = ("sample_input", "error_type", "error_regex")

    def __init__(self, sample_input: Any, *, error_type: Any = RuntimeError, error_regex: str) -> None:
        self.sample_input, self.error_type, self.error_regex = sample_input, error_type, error_regex


class AliasInfo:
    """Another name of an operator."""

    def __init__(self, alias_name: str) -> None:
        self.name, self.op = alias_name, _getattr_qual(import_module("undertow"), alias_name.removeprefix("torch."))
        self.method_variant = getattr(TensorCore, alias_name, None)
        self.inplace_variant = getattr(TensorCore, f"{alias_name}_", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)


def clone_sample(sample: SampleInput, **kwargs: Any) -> SampleInput:
    """Return a copy of a sample, detached from the graph."""

    def copy(value: Any) -> Any:
        if not isinstance(value, TensorCore):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return SampleInput(
        copy(sample.input), args=_map(copy, sample.args), kwargs=_map(copy, kwargs or sample.kwargs),
        output_process_fn_grad=sample.output_process_fn_grad, broadcasts_input=sample.broadcasts_input, name=sample.name,
    )  # fmt: skip


def _on_device(device: Any) -> str:
    return device.type if isinstance(device, Device) else str(device).split(":")[0]


_OPERATORS = {  # what functions are called in Python's module `operator`
    "bitwise_not": "invert", "bitwise_left_shift": "lshift", "bitwise_right_shift": "rshift", "bitwise_and": "and_",
    "bitwise_or": "or_", "bitwise_xor": "xor", "remainder": "mod",
}  # fmt: skip


# What tests ask of an operator, by what holds unless its row says otherwise.
_TRUE = (
    "supports_out supports_autograd supports_scripting supports_tracing test_conjugated_samples test_neg_view "
    "supports_cow_input_no_materialize_forward supports_cow_input_no_materialize_backward"
)
_FALSE = (
    "supports_fwgrad_bwgrad supports_forward_ad supports_varargs skip_cow_input_backward assert_autodiffed "
    "promotes_int_to_float assert_jit_shape_analysis supports_expanded_weight is_factory_function "
    "skip_correctness_check_compile_vs_eager has_nondeterministic_output supports_sparse"
)
_NONE = (
    "ref reference_inputs_func error_inputs_func error_inputs_sparse_func supports_njt aten_backward_name "
    "gradcheck_fast_mode autodiff_nonfusible_nodes autodiff_fusible_nodes allow_cow_input_materialize_forward "
    "allow_cow_input_materialize_backward supports_sparse_csr supports_sparse_csc supports_sparse_bsr supports_sparse_bsc "
    "dtypesIf dtypesIfCUDA dtypesIfROCM dtypesIfMPS dtypesIfHpu dtypesIfXPU backward_dtypesIfCUDA backward_dtypesIfROCM "
    "backward_dtypesIfMPS backward_dtypesIfHpu sample_inputs_sparse_coo_func sample_inputs_sparse_csr_func "
    "sample_inputs_sparse_csc_func sample_inputs_sparse_bsr_func sample_inputs_sparse_bsc_func"
)
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(_TRUE.split(), True), **dict.fromkeys(_FALSE.split(), False), **dict.fromkeys(_NONE.split()),
    "variant_test_name": "", "gradcheck_nondet_tol": 0.0,
    "gradcheck_wrapper": lambda op, *args, **kwargs: op(*args, **kwargs),
}  # fmt: skip
# These are as another is.
_FOLLOWING = {
    "supports_gradgrad": "supports_autograd", "supports_inplace_autograd": "supports_autograd",
    "check_batched_grad": "supports_autograd", "check_batched_gradgrad": "supports_autograd",
    "check_batched_forward_grad": "supports_forward_ad", "check_inplace_batched_forward_grad": "supports_forward_ad",
    "aten_name": "name", "decomp_aten_name": "aten_name",
}  # fmt: skip


class OpInfo:
    """An operator as tests see it: its variants, its samples, and what it supports, as its row says."""

    name: str
    variant_test_name: str
    aten_name: str
    dtypes: set[Dtype]
    supports_autograd: bool
    sample_inputs_func: Any
    reference_inputs_func: Any
    error_inputs_func: Any

    def __init__(
        self, name: str, *, dtypes: Iterable[Any] | None = None, op: Any = None, backward_dtypes: Any = None,
        aliases: Iterable[str] | None = None, sample_inputs_func: Any = None, decorators: Any = (), skips: Any = (),
        method_variant: Any = _NOTHING, inplace_variant: Any = _NOTHING, operator_variant: Any = _NOTHING,
        inplace_operator_variant: Any = _NOTHING, **facts: Any,
    ) -> None:  # fmt: skip
        if dtypes is None:
            raise AssertionError(f"OpInfo for {name} has no dtypes!")
        unknown = facts.keys() - _DEFAULTS.keys() - _FOLLOWING.keys()
        if unknown:
            raise TypeError(f"OpInfo() got an unexpected keyword argument {min(unknown)!r}")
        vars(self).update(_DEFAULTS | facts, name=name, dtypes=set(dtypes), sample_inputs_func=sample_inputs_func)
        for fact, followed in _FOLLOWING.items():
            setattr(self, fact, getattr(self, followed) if facts.get(fact) is None else facts[fact])
        inexact = {kind for kind in self.dtypes if kind.is_floating_point or kind.is_complex}
        self.backward_dtypes = inexact if backward_dtypes is None else set(backward_dtypes)
        self.op = op or _getattr_qual(import_module("undertow"), name)
        self.decorators = (*decorators, *skips)
        self.rename_aliases(aliases or ())
        short = _OPERATORS.get(name, name)

        def variant(given: Any, home: Any, named: str) -> Any:
            found = getattr(home, named, None) if given is _NOTHING else given
            return found if callable(found) else None

        self.method_variant = variant(method_variant, Tensor, name)
        self.inplace_variant = variant(inplace_variant, Tensor, f"{name}_")
        self.operator_variant = variant(operator_variant, operator, short)
        self.inplace_operator_variant = variant(inplace_operator_variant, operator, f"i{short.rstrip('_')}")

    def rename_aliases(self, names: Iterable[str]) -> None:
        """Give it other names."""
        self.aliases = tuple(AliasInfo(name) for name in names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.full_name})"

    # --- variants

    def get_op(self) -> Any:
        return self.op

    def get_method(self) -> Any:
        return self.method_variant

    def get_inplace(self) -> Any:
        return self.inplace_variant

    def get_operator(self) -> Any:
        return self.operator_variant

    def get_inplace_operator(self) -> Any:
        return self.inplace_operator_variant

    @property
    def full_name(self) -> str:
        """Its name, with that of the variant."""
        return f"{self.name}.{self.variant_test_name}" if self.variant_test_name else self.name

    @property
    def formatted_name(self) -> str:
        """The same as part of a test's name."""
        variant = f"_{self.variant_test_name.replace('.', '_')}" if self.variant_test_name else ""
        return f"{self.name.replace('.', '_')}{variant}"

    # --- samples

    def _tracked(
        self, function: Callable[..., Iterable[Any]] | None, what: str, *args: Any, set_seed: bool = True, **kwargs: Any
    ) -> TrackedInputIter:
        samples = function(self, *args, **kwargs) if function is not None else ()
        return TrackedInputIter(iter(samples), what, set_seed=set_seed, restrict_to_index=OPINFO_SAMPLE_INPUT_INDEX)

    def sample_inputs(self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        """Return samples to call it with, tensors on a device and in a dtype."""
        return self._tracked(self.sample_inputs_func, "sample input", device, dtype, requires_grad, **kwargs)

    def reference_inputs(self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        """Return more samples, for comparing with `ref`; the usual ones where there are no others."""
        function = self.reference_inputs_func or self.sample_inputs_func
        return self._tracked(function, "reference input", device, dtype, requires_grad, **kwargs)

    def error_inputs(self, device: Any, **kwargs: Any) -> Any:
        """Return samples that it refuses."""
        return self._tracked(self.error_inputs_func, "error input", device, **kwargs)

    # --- what it supports

    def get_decorators(self, test_class: str, test_name: str, device: Any, dtype: Any, param_kwargs: Any) -> list[Any]:
        """Return the decorators for one test of it."""
        found: list[Any] = []
        for decorator in self.decorators:
            if not isinstance(decorator, DecorateInfo):
                found.append(decorator)
            elif decorator.is_active(test_class, test_name, _on_device(device), dtype, param_kwargs):
                found += decorator.decorators
        return found

    def supported_dtypes(self, device_type: Any) -> set[Any]:
        """Return the dtypes that it takes; it raises, for others."""
        return set(self.dtypes) if _on_device(device_type) == "cpu" else set()

    def supported_backward_dtypes(self, device_type: Any) -> set[Any]:
        """Return the dtypes whose gradient it has."""
        if not self.supports_autograd or _on_device(device_type) != "cpu":
            return set()
        return set(self.backward_dtypes)

    def supports_dtype(self, dtype: Any, device_type: Any) -> bool:
        return dtype in self.supported_dtypes(device_type)
