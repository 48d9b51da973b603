"""`OpInfo`: an operator, its variants, what it supports, and samples of its inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow._src.types.devices import device as Device
from undertow._src.types.layouts import sparse_coo
from undertow._tensor import Tensor
from undertow.testing._internal.common_utils import log as log
from undertow.testing._internal.common_utils.facts import OPINFO_SAMPLE_INPUT_INDEX as OPINFO_SAMPLE_INPUT_INDEX
from undertow.testing._internal.common_utils.facts import torch_to_numpy_dtype_dict as torch_to_numpy_dtype_dict
from undertow.testing._internal.common_utils.tracking import TrackedInputIter, extract_test_fn
from undertow.testing._internal.opinfo.samples import _NOTHING as _NOTHING
from undertow.testing._internal.opinfo.samples import XS as XS
from undertow.testing._internal.opinfo.samples import AliasInfo as _AliasInfo
from undertow.testing._internal.opinfo.samples import DecorateInfo as DecorateInfo
from undertow.testing._internal.opinfo.samples import ErrorInput as ErrorInput
from undertow.testing._internal.opinfo.samples import L as L
from undertow.testing._internal.opinfo.samples import M as M
from undertow.testing._internal.opinfo.samples import S as S
from undertow.testing._internal.opinfo.samples import SampleInput as SampleInput
from undertow.testing._internal.opinfo.samples import clone_sample as clone_sample

IS_FBCODE = TEST_WITH_ROCM = USE_PYTEST = False


def _getattr_qual(obj: Any, name: str, default: Any = _NOTHING) -> Any:
    """Return the attribute of a path such as `nn.functional.relu`."""
    for part in name.split("."):
        obj = getattr(obj, part, _NOTHING)
        if obj is _NOTHING:
            if default is _NOTHING:
                raise AttributeError(name)
            return default
    return obj


class AliasInfo(_AliasInfo):
    """Another name of an operator."""

    def __init__(self, alias_name: str) -> None:
        super().__init__(alias_name, _getattr_qual(import_module("undertow"), alias_name.removeprefix("torch.")))


def _on_device(device: Any) -> str:
    return device.type if isinstance(device, Device) else str(device).split(":")[0]


_OPERATORS = {  # what functions are called in Python's module `operator`
    "bitwise_not": "invert", "bitwise_left_shift": "lshift", "bitwise_right_shift": "rshift", "bitwise_and": "and_",
    "bitwise_or": "or_", "bitwise_xor": "xor", "remainder": "mod",
}  # fmt: skip


@dataclass(eq=False)
class OpInfo:
    """An operator as tests see it. The fields that say what it supports are read by tests; those of GPUs are kept."""

    name: str
    ref: Callable[..., Any] | None = None
    aliases: Any = None
    variant_test_name: str = ""
    op: Any = None
    method_variant: Any = _NOTHING
    inplace_variant: Any = _NOTHING
    operator_variant: Any = _NOTHING
    inplace_operator_variant: Any = _NOTHING
    skips: tuple[Any, ...] = ()
    decorators: Any = ()
    sample_inputs_func: Any = None
    reference_inputs_func: Any = None
    error_inputs_func: Any = None
    error_inputs_sparse_func: Any = None
    sample_inputs_sparse_coo_func: Any = None
    sample_inputs_sparse_csr_func: Any = None
    sample_inputs_sparse_csc_func: Any = None
    sample_inputs_sparse_bsr_func: Any = None
    sample_inputs_sparse_bsc_func: Any = None
    dtypes: Any = None
    dtypesIf: dict[str, Any] = field(default_factory=dict)
    dtypesIfCUDA: Any = None
    dtypesIfROCM: Any = None
    dtypesIfMPS: Any = None
    dtypesIfHpu: Any = None
    dtypesIfXPU: Any = None
    backward_dtypes: Any = None
    backward_dtypesIfCUDA: Any = None
    backward_dtypesIfROCM: Any = None
    backward_dtypesIfMPS: Any = None
    backward_dtypesIfHpu: Any = None
    supports_out: bool = True
    supports_autograd: bool = True
    supports_gradgrad: bool | None = None
    supports_fwgrad_bwgrad: bool = False
    supports_inplace_autograd: bool | None = None
    supports_forward_ad: bool = False
    supports_varargs: bool = False
    supports_cow_input_no_materialize_forward: bool = True
    supports_cow_input_no_materialize_backward: bool = True
    skip_cow_input_backward: bool = False
    allow_cow_input_materialize_forward: Any = None
    allow_cow_input_materialize_backward: Any = None
    gradcheck_wrapper: Any = lambda op, *args, **kwargs: op(*args, **kwargs)
    check_batched_grad: bool | None = None
    check_batched_gradgrad: bool | None = None
    check_batched_forward_grad: bool | None = None
    check_inplace_batched_forward_grad: bool | None = None
    gradcheck_nondet_tol: float = 0.0
    gradcheck_fast_mode: bool | None = None
    aten_name: str | None = None
    decomp_aten_name: str | None = None
    aten_backward_name: str | None = None
    assert_autodiffed: bool = False
    autodiff_nonfusible_nodes: Any = None
    autodiff_fusible_nodes: Any = None
    supports_sparse: bool | None = None
    supports_scripting: bool = True
    supports_tracing: bool = True
    supports_sparse_csr: bool | None = None
    supports_sparse_csc: bool | None = None
    supports_sparse_bsr: bool | None = None
    supports_sparse_bsc: bool | None = None
    supports_njt: bool | None = None
    promotes_int_to_float: bool = False
    test_conjugated_samples: bool = True
    test_neg_view: bool = True
    assert_jit_shape_analysis: bool = False
    supports_expanded_weight: bool = False
    is_factory_function: bool = False
    skip_correctness_check_compile_vs_eager: bool = False
    has_nondeterministic_output: bool = False

    def __post_init__(self) -> None:
        self._original_args = dict(vars(self))
        if self.dtypes is None:
            raise AssertionError(f"OpInfo for {self.name} has no dtypes!")
        self.dtypes = set(self.dtypes)
        self.backward_dtypes = set(self.backward_dtypes) if self.backward_dtypes is not None else {
            kind for kind in self.dtypes if kind.is_floating_point or kind.is_complex
        }  # fmt: skip
        self.op = self.op if self.op else _getattr_qual(import_module("undertow"), self.name)
        last = self.name.split(".")[-1]
        if self.method_variant is _NOTHING:
            found = getattr(Tensor, last, None) if "." not in self.name else None
            self.method_variant = found if callable(found) else None
        if self.inplace_variant is _NOTHING:
            self.inplace_variant = getattr(Tensor, f"{last}_", None) if "." not in self.name else None
        short = _OPERATORS.get(self.name, self.name)
        if self.operator_variant is _NOTHING:
            self.operator_variant = getattr(import_module("operator"), short, None)
        if self.inplace_operator_variant is _NOTHING:
            self.inplace_operator_variant = getattr(import_module("operator"), f"i{short.rstrip('_')}", None)
        self.decorators = (*self.decorators, *self.skips)
        self.aten_name = self.aten_name or self.name
        self.decomp_aten_name = self.decomp_aten_name or self.aten_name
        self.rename_aliases(self.aliases or ())
        for name in ("supports_gradgrad", "supports_inplace_autograd", "check_batched_grad", "check_batched_gradgrad"):
            if getattr(self, name) is None:
                setattr(self, name, self.supports_autograd)
        for name in ("check_batched_forward_grad", "check_inplace_batched_forward_grad"):
            if getattr(self, name) is None:
                setattr(self, name, self.supports_forward_ad)

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

    def _maybe_skip_or_xfail(self, rules: Any, device: Any, sample: Any, idx: int) -> Any:
        """Return the block for one sample: what the first rule says that is for it."""
        test = extract_test_fn()
        for rule in rules or ():
            if rule.op_match_fn(device, self) and rule.sample_match_fn(device, sample):
                return rule.get_context(getattr(test, "__self__", None))
        return contextlib.nullcontext()

    def _sample_callback_fn(self, use_subtests: bool, device: Any) -> Callable[[Any, int], Any]:
        """Return samples as they are, or each with a block to run its part of the test in."""
        rules = getattr(extract_test_fn(), "sample_skips_and_xfails", None)
        if not use_subtests:
            return lambda sample, number: sample
        return lambda sample, number: (sample, self._maybe_skip_or_xfail(rules, device, sample, number))

    def _tracked(self, samples: Any, description: str, options: dict[str, Any], device: Any) -> TrackedInputIter:
        return TrackedInputIter(
            iter(samples), description, item_callback=self._sample_callback_fn(options.pop("use_subtests", False), device),
            track_callback=lambda value: value, set_seed=options.pop("set_seed", True),
            restrict_to_index=OPINFO_SAMPLE_INPUT_INDEX,
        )  # fmt: skip

    def sample_inputs(self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        """Return samples to call it with, tensors on a device and in a dtype."""
        options: dict[str, Any] = {key: kwargs.pop(key) for key in ("use_subtests", "set_seed") if key in kwargs}
        conjugated = kwargs.pop("include_conjugated_inputs", False) and dtype.is_complex
        samples = self.sample_inputs_func(self, device, dtype, requires_grad, **kwargs)
        if conjugated:
            samples = [*samples, *self.conjugate_sample_inputs(device, dtype, requires_grad, **kwargs)]
        return self._tracked(samples, "sample input", options, device)

    def conjugate_sample_inputs(self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        """Return samples whose first tensor is a conjugated view."""

        def conjugate(value: Any) -> Any:
            return value.detach().conj().requires_grad_(value.requires_grad)

        samples = list(self.sample_inputs_func(self, device, dtype, requires_grad, **kwargs))
        for sample in samples:
            first = sample.input
            if isinstance(first, TensorCore):
                sample.input = conjugate(first)
            elif isinstance(first, list):
                sample.input = [conjugate(first[0]), *first[1:]]
        return TrackedInputIter(iter(samples), "conjugate sample input", restrict_to_index=OPINFO_SAMPLE_INPUT_INDEX)

    def reference_inputs(self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        """More samples, for comparing with `ref`; the usual ones where there are no others."""
        options: dict[str, Any] = {key: kwargs.pop(key) for key in ("use_subtests", "set_seed") if key in kwargs}
        function = self.reference_inputs_func or self.sample_inputs_func
        return self._tracked(function(self, device, dtype, requires_grad, **kwargs), "reference input", options, device)

    def error_inputs(self, device: Any, **kwargs: Any) -> Any:
        """Return samples that it refuses."""
        options: dict[str, Any] = {key: kwargs.pop(key) for key in ("use_subtests", "set_seed") if key in kwargs}
        errors = self.error_inputs_func(self, device, **kwargs) if self.error_inputs_func is not None else ()
        return self._tracked(errors, "error input", options, device)

    def error_inputs_sparse(self, device: Any, layout: Any, **kwargs: Any) -> Any:
        if not self.supports_sparse_layout(layout):
            import_module("unittest").TestCase().skipTest("unsupported sparse layout")
        return self.error_inputs_sparse_func(self, device, layout, **kwargs)

    def supports_sparse_layout(self, layout: Any) -> bool:
        """Whether sparse tensors of a layout can be its input."""
        return bool(self.supports_sparse) if layout is sparse_coo else False

    def sample_inputs_sparse(
        self, layout: Any, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any
    ) -> Iterator[SampleInput]:
        """Return the samples with a sparse first tensor."""
        if self.sample_inputs_sparse_coo_func is not None:
            yield from self.sample_inputs_sparse_coo_func(self, device, dtype, requires_grad, **kwargs)
            return
        for sample in self.sample_inputs(device, dtype, requires_grad, **kwargs):
            if isinstance(sample.input, TensorCore) and sample.input.dim():
                sample.input = sample.input.detach().to_sparse().requires_grad_(requires_grad)
                yield sample

    def sample_inputs_sparse_coo(self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        return self.sample_inputs_sparse(sparse_coo, device, dtype, requires_grad, **kwargs)

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
