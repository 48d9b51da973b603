"""Samples of an operator's inputs, and marks for tests of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from undertow._src.tensor.core import TensorCore
from undertow._src.types import dtypes as d
from undertow._src.types.dtypes import dtype as Dtype
from undertow.testing._internal.common_utils import noncontiguous_like
from undertow.testing._internal.common_utils.facts import torch_to_numpy_dtype_dict

L, M, S, XS = 20, 10, 5, 3
_NOTHING = object()  # says that no value was given, where None is one


class DecorateInfo:
    """Decorators for some of the tests of an operator: by class, name, device and dtypes, and while a condition holds."""

    __slots__ = ("decorators", "cls_name", "test_name", "device_type", "dtypes", "active_if")

    def __init__(
        self, decorators: Any, cls_name: str | None = None, test_name: str | None = None, *, device_type: Any = None,
        dtypes: Iterable[Any] | None = None, active_if: Any = True,
    ) -> None:  # fmt: skip
        self.decorators = list(decorators) if isinstance(decorators, (list, tuple)) else [decorators]
        self.cls_name, self.test_name, self.device_type = cls_name, test_name, device_type
        self.dtypes, self.active_if = None if dtypes is None else list(dtypes), active_if
        for kind in self.dtypes or ():
            if not isinstance(kind, Dtype):
                raise AssertionError(f"expected a torch.dtype, got {kind!r}")

    def is_active(self, cls_name: str, test_name: str, device_type: Any, dtype: Any, param_kwargs: Any) -> bool:
        """Whether it is for this test."""
        if callable(self.active_if) and not self.active_if(param_kwargs):
            return False
        return bool(
            (callable(self.active_if) or self.active_if)
            and self.cls_name in (None, cls_name)
            and self.test_name in (None, test_name)
            and self.device_type in (None, device_type)
            and (self.dtypes is None or dtype in self.dtypes)
        )


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

    def __init__(self, alias_name: str, alias: Any) -> None:
        self.name, self.op = alias_name, alias
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
