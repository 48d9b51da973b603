"""A tensor as a Python object: a number, a sequence, something to print, something NumPy can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.base import tracer
from undertow._src.base.modes import is_grad_enabled, local, slow_path
from undertow._src.base.sites import warn_once
from undertow._src.engine.writes import write
from undertow._src.ops.public import public
from undertow._src.tensor import dlpack, lazy_conj, printing
from undertow._src.tensor.core import TensorCore, tensor_class, wrap
from undertow._src.tensor.methods.layout import host_memory
from undertow._src.types.devices import cpu
from undertow._src.types.dtypes import DTYPE_OF, float8_e5m2
from undertow.storage import adopt


def element(tensor: Any, function: str = "") -> Any:
    """Return the only element of a tensor as a Python number."""
    array = tensor._array
    if array.size != 1:
        if function == "item":
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        raise ValueError("only one element tensors can be converted to Python scalars")
    return array.item() if array.dtype.kind != "V" or type(array) is DeviceArray else float(array.reshape(())[()])


def _real_element(tensor: Any, c_type: str) -> Any:
    value = element(tensor)
    if not isinstance(value, complex):
        return value
    if value.imag:
        raise RuntimeError(f"value cannot be converted to type {c_type} without overflow")
    return value.real


def on_host(tensor: Any) -> Any:
    """Return a tensor's buffer as a NumPy array; a copy of it, if it is on a different device."""
    array = host_memory(tensor)
    return array.numpy() if type(array) is DeviceArray else array


def refuse_wrapper(tensor: Any, message: str) -> None:
    """Refuse a tensor whose class overrides operators: it may have no buffer."""
    if (
        slow_path.dispatcher is not None
        and slow_path.dispatcher.is_class(type(tensor))
        and not local.modes.dispatch_off
    ):
        raise RuntimeError(message)


def raw_array(tensor: Any) -> Any:
    """Return the buffer of a tensor as a NumPy array, unless gradients or the dtype forbid it."""
    refuse_wrapper(tensor, ".numpy() is not supported for tensor subclasses.")
    if tensor.requires_grad and is_grad_enabled():
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if tensor.device is not cpu:
        raise TypeError(
            f"can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )
    array = on_host(tensor)
    if lazy_conj.known:
        for put_off, bit, cure in ((tensor.is_conj, "conjugate", "conj"), (tensor.is_neg, "negative", "neg")):
            if put_off():
                raise RuntimeError(
                    f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{cure}().numpy() instead."
                )
    if array.dtype.kind == "V" or array.dtype == float8_e5m2.numpy:  # "V": a dtype of ml_dtypes
        raise TypeError(f"Got unsupported ScalarType {DTYPE_OF[array.dtype].scalar_name}")
    return array.view()


@public
def is_nonzero(input: Any) -> bool:
    """Whether the only element is not zero."""
    return input.__bool__()


class PythonMethods(TensorCore):
    """The protocols of Python and NumPy."""

    __slots__ = ()

    # --- a number

    @public
    def item(self) -> Any:
        """Return the only element, as a Python number."""
        return element(self, "item")

    @public
    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        refuse_wrapper(self, f".tolist() is not supported for tensor subclasses, got {type(self).__name__}")
        array = self._array
        return (array.astype(np.float32) if array.dtype.kind == "V" else array).tolist()

    @public
    def __bool__(self) -> bool:
        array = self._array
        if array.size != 1:
            found = "more than one value" if array.size else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {found} is ambiguous")
        return bool(array if type(array) is DeviceArray else array.reshape(())[()])

    @public
    def __int__(self) -> int:
        return int(_real_element(self, "int64_t"))

    @public
    def __float__(self) -> float:
        value = _real_element(self, "double")
        _warn_of_lost_gradient(self)
        return float(value)

    @public
    def __complex__(self) -> complex:
        value = element(self)
        _warn_of_lost_gradient(self)
        return complex(value)

    @public
    def __index__(self) -> int:
        array = self._array
        if array.size != 1 or array.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(array.reshape(())[()])

    is_nonzero = is_nonzero

    # --- a sequence

    @public
    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        if tracer.current is not None:
            return tracer.current.sizes_shown(self._array.shape[:1])[0]
        return self._array.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    @public
    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (TensorCore, bool, int, float, complex, np.generic)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((element == self).any().item())  # type: ignore[union-attr]

    @public
    def __reversed__(self) -> Any:
        return self.flip(0) if self._array.ndim else self

    @public
    def apply_(self, callable: Callable[[Any], Any]) -> Any:
        """Replace each element by the result of a Python function; slow."""
        return replace_elements(self, "apply_", callable)

    @public
    def map_(self, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
        """Replace each element by a Python function of it and a second tensor's element; slow."""
        return replace_elements(self, "map_", callable, tensor)

    # --- identity and text

    def __hash__(self) -> int:
        return id(self)

    @public
    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        cls = type(self)
        if tensor_contents is None and slow_path.dispatcher is not None and slow_path.dispatcher.is_class(cls):
            tensor_contents = "..."  # its class decides what it holds
        elif tensor_contents is None and self.is_meta:
            tensor_contents = "..."
        text = printing.tensor_repr(
            on_host(self),
            prefix=vars(cls).get("_repr_prefix", f"{cls.__name__}("),  # a subclass does not inherit it
            device=None if self.device is cpu else str(self.device),
            notes=_graph_notes(self),
            contents=tensor_contents,
        )
        return f"Parameter({text})" if "_is_param" in self.__dict__ else text

    @public
    def __format__(self, format_spec: str) -> str:
        if not self._array.ndim and type(self) is tensor_class():
            return element(self).__format__(format_spec)
        return object.__format__(self, format_spec)

    @public
    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        return sorted(names - {"__cuda_array_interface__"})

    # --- NumPy and DLPack

    # NumPy leaves operators with a tensor on the right to the tensor.
    __array_priority__ = 1000

    @public
    def numpy(self, *, force: bool = False) -> Any:
        """Return a NumPy array over the same buffer; `force` detaches first."""
        return raw_array(self.detach().cpu().resolve_conj().resolve_neg() if force else self)

    @public
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = raw_array(self)
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return the result of a NumPy function of a tensor, as a tensor."""
        array = np.asarray(array)
        return wrap(adopt(array.astype(np.uint8) if array.dtype == np.bool_ else array))

    @public
    def __dlpack__(
        self, *, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return dlpack.export(on_host(self), max_version, copy)

    @public
    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU


def replace_elements(self: Any, name: str, function: Callable[..., Any], *others: Any) -> Any:
    """Replace each element by a Python function of it and of other tensors' elements."""
    for given in others:
        if not isinstance(given, TensorCore):
            argument = "other" if name == "map_" else "x"
            raise TypeError(f"{name}(): argument '{argument}' (position 1) must be Tensor, not {type(given).__name__}")
    if any(each.requires_grad for each in (self, *others)):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    array = self._array
    for given in others:
        if given._array.dtype != array.dtype:
            raise TypeError(f"{name}: expected {self.type()} for 'other' (got {given.type()})")
        given.expand(array.shape)
    columns = [np.broadcast_to(each._array, array.shape).ravel().tolist() for each in (self, *others)]
    results = list(map(function, *columns))
    for result in results:
        if not isinstance(result, (int, float, complex, np.generic, TensorCore)):
            raise TypeError(f"must be real number, not {type(result).__name__}")
    write(self, np.array(results).astype(array.dtype).reshape(array.shape))
    return self


def _warn_of_lost_gradient(tensor: Any) -> None:
    if tensor._requires_grad:
        warn_once(
            "Converting a tensor with requires_grad=True to a scalar drops its gradient.\nSay so with "
            "tensor.detach() first."
        )


def _graph_notes(tensor: Any) -> list[str]:
    """Return what `repr` says about gradients."""
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was written to in a way that autograd forbids
        return ["grad_fn=<Invalid>"]
    notes = [f"grad_fn=<{type(node).__name__}>"] if node is not None else ["requires_grad=True"] * tensor.requires_grad
    tangent = None if slow_path.duals is None else slow_path.duals.tangent_of(tensor)
    return notes if tangent is None else [*notes, f"tangent={tangent}"]
