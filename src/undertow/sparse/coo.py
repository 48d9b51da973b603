"""`SparseTensor`: a tensor that stores only some elements, each with its coordinates (the layout `sparse_coo`).

It holds a tensor of indices, one column per element, and a tensor of values. It overrides every public function
(`__torch_function__`): `sparse/functions.py` runs functions on indices and values. These are ordinary functions of the
values, so gradients flow as usual.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.base import hooks, tracer
from undertow._src.engine.apply import apply
from undertow._src.ops.index import index_add
from undertow._src.rules.convert import alias
from undertow._src.rules.rule import twin
from undertow._src.tensor.core import NOT_ARRAYS, TensorCore, wrap
from undertow._src.tensor.creation import zeros
from undertow._src.tensor.from_data import as_tensor
from undertow._src.tensor.methods.layout import host_memory
from undertow._src.tensor.printing import get_printoptions, printoptions
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import int64
from undertow._src.types.layouts import sparse_coo
from undertow._src.types.sizes import Size
from undertow._tensor import Tensor

_made_of_values = twin(alias, "SparseCooTensorWithDimsAndTensorsBackward0")

Function = Callable[..., Any]
FUNCTIONS: dict[str, Function] = {}  # filled by sparse/functions.py and dims.py


def function(names: str) -> Callable[[Function], Function]:
    """Return a decorator that registers a function for these names."""

    def register(given: Function) -> Function:
        FUNCTIONS.update(dict.fromkeys(names.split(), given))
        return given

    return register


class SparseTensor(Tensor):
    """A tensor in the layout `sparse_coo`; `torch.sparse_coo_tensor` makes one."""

    __slots__ = ("_coalesced", "_items", "_places", "_sizes")
    __module__ = "torch"

    _places: Any  # int64, sparse dims × elements
    _items: Any  # elements × dense dims
    _sizes: Size
    _coalesced: bool
    _is_strided = False

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            raise NotImplementedError("undertow does not have this property of sparse tensors")
        found = FUNCTIONS.get(name)
        if found is None and hasattr(cls, name) and name in vars(cls):
            return getattr(cls, name)(*args, **(kwargs or {}))
        if found is None:
            raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend.")
        return found(*args, **(kwargs or {}))

    @property
    def _array(self) -> Any:
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")

    shape = property(lambda self: self._sizes)
    ndim = property(lambda self: len(self._sizes))
    dtype = property(lambda self: self._items.dtype)
    device = property(lambda self: Device("cpu"))
    layout = property(lambda self: sparse_coo)
    is_sparse = property(lambda self: True)
    grad_fn = property(lambda self: self._items.grad_fn)
    is_leaf = property(lambda self: self._items.is_leaf)
    requires_grad = property(
        lambda self: self._items.requires_grad, lambda self, wanted: self._items.requires_grad_(wanted)
    )
    is_quantized = is_meta = is_cuda = is_sparse_csr = is_mkldnn = is_xpu = is_mps = property(lambda self: False)
    is_nested = is_ipu = is_xla = is_mtia = is_maia = is_vulkan = property(lambda self: False)
    is_cpu = property(lambda self: True)
    itemsize = property(lambda self: self._items.itemsize)
    _version = property(lambda self: self._items._version)
    T = property(lambda self: self.t())
    mT = property(lambda self: self.transpose(-2, -1))
    data = property(lambda self: self.detach())

    @property
    def grad(self) -> Any:
        """The gradient: that of the values, at the same indices."""
        gradient = self._items.grad
        return None if gradient is None else self._as_gradient(self._items.detach() * 0 + gradient)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            self._items.grad = None
            return
        if not isinstance(value, SparseTensor):
            raise RuntimeError(
                "attempting to assign a gradient of a different layout: the gradient of a sparse tensor must be sparse"
            )
        self._items.grad = self._seed(value)

    def _as_gradient(self, values: Any) -> Any:
        """Return a gradient of the values as a gradient of this tensor, with one element for each index."""
        alone = self._with_values(values)
        return alone if self._coalesced else _first_of_each(alone)

    def _seed(self, gradient: Any) -> Any:
        """Return a gradient of this tensor, sparse or dense, as a gradient of its values."""
        dense = gradient.to_dense() if isinstance(gradient, SparseTensor) else gradient
        if tuple(dense.shape) != tuple(self._sizes):
            raise RuntimeError(
                f"Mismatch in shape: grad_output has a shape of {dense.shape} and output has a shape of {self._sizes}."
            )
        return dense[tuple(self._places)] if self.sparse_dim() else dense[None]

    def register_hook(self, hook: Any) -> Any:
        """Register hook(grad) -> Tensor or None; the gradient is sparse, with this tensor's indices."""

        def fired(values: Any) -> Any:
            answer = hooks.fire(hook, self._as_gradient(values))
            return None if answer is None else self._seed(answer)

        return self._items.register_hook(fired)

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Run a backward pass from the values, given a gradient of this tensor."""
        if gradient is None:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        self._items.backward(self._seed(gradient), retain_graph, create_graph, inputs)

    def retain_grad(self) -> None:
        self._items.retain_grad()

    # --- properties of the tensor

    def size(self, dim: int | None = None) -> Any:
        return self._sizes if dim is None else self._sizes[dim]

    def dim(self) -> int:
        return len(self._sizes)

    ndimension = dim

    def numel(self) -> int:
        return math.prod(self._sizes)

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        return (0,) * self.ndim if dim is None else 0

    def __len__(self) -> int:
        return self._sizes[0]

    def __hash__(self) -> int:
        return id(self)

    def is_floating_point(self) -> bool:
        return self._items.is_floating_point()

    def is_complex(self) -> bool:
        return self._items.is_complex()

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return False

    def get_device(self) -> int:
        return -1

    def element_size(self) -> int:
        return self._items.element_size()

    def __iter__(self) -> Any:
        return iter([self[place] for place in range(len(self))])

    def __bool__(self) -> bool:
        return bool(self.item())

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("Cannot assign to a sparse tensor")

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def untyped_storage(self) -> Any:
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")

    def contiguous(self, memory_format: Any = None) -> Any:
        raise RuntimeError("unsupported memory format option Contiguous")

    def type(self, dtype: Any = None, non_blocking: Any = False, **options: Any) -> Any:
        if dtype is None:
            return self._items.type().replace("torch.", "torch.sparse.")
        return self.to(dtype)

    # --- indices and values

    def _nnz(self) -> int:
        """Return the number of specified elements; repeated indices count separately."""
        return self._items.shape[0]

    def _indices(self) -> Any:
        return self._places

    def _values(self) -> Any:
        return self._items

    def indices(self) -> Any:
        """Return the coordinates of the elements, one column each."""
        self._want_coalesced("indices")
        return self._places

    def values(self) -> Any:
        """Return the elements, in the order of `indices`."""
        self._want_coalesced("values")
        return self._items

    def _want_coalesced(self, what: str) -> None:
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def sparse_dim(self) -> int:
        """Return the number of sparse dims: those that have coordinates."""
        return self._places.shape[0]

    def dense_dim(self) -> int:
        """Return the number of dense dims: those of each value."""
        return self._items.ndim - 1

    def _with_values(self, values: Any) -> Any:
        """Return a tensor with these values at the same indices."""
        return make(self._places, values, self._sizes, self._coalesced)

    def is_coalesced(self) -> bool:
        """Whether the indices are unique and sorted."""
        return self._coalesced

    def _coalesced_(self, coalesced: bool) -> Any:
        self._coalesced = coalesced
        return self

    def coalesce(self) -> Any:
        """Return the same tensor with unique, sorted indices; values at equal indices are summed."""
        if self._coalesced:
            return self
        first, which = unique_places(self)
        total = zeros(first.shape[1:] + self._items.shape[1:], dtype=self.dtype)
        return make(first, index_add(total, 0, which, self._items), self._sizes, coalesced=True)

    # --- printing and conversion

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        kind = self._items.dtype
        plain = str(kind) in ("torch.float32", "torch.int64", "torch.bool")
        facts = [f"size={tuple(self._sizes)}", f"nnz={self._nnz()}"] + [f"dtype={kind}"] * (not plain)
        facts.append("layout=torch.sparse_coo")
        if self._items.grad_fn is not None:
            facts.append(f"grad_fn=<{self._items.grad_fn.name()}>")
        elif self._items.requires_grad:
            facts.append("requires_grad=True")
        parts = [_part("indices", self._places), _part("values", self._items.detach()), ", ".join(facts)]
        return "tensor(" + ",\n       ".join(parts) + ")"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self._items.sum().item()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    __array__ = numpy  # type: ignore[assignment]

    def tolist(self) -> Any:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def __deepcopy__(self, memo: Any) -> Any:
        copy = make(self._places.clone(), self._items.detach().clone(), self._sizes, self._coalesced)
        copy._items.requires_grad_(self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        return make, (self._places, self._items.detach(), self._sizes, self._coalesced)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        self._items.requires_grad_(requires_grad)
        return self


NOT_ARRAYS.add(SparseTensor)


def _part(name: str, tensor: Any) -> str:
    """Return a tensor as a part of a sparse tensor's repr, without its dtype."""
    indent = len(f"tensor({name}=")
    options = get_printoptions()
    with printoptions(**options | {"linewidth": options["linewidth"] - indent}):
        text = repr(tensor).replace(f", dtype={tensor.dtype}", "").replace(f",\n       dtype={tensor.dtype}", "")
    if not tensor.numel():
        text = f"tensor([], size={tuple(tensor.shape)})"
    return textwrap.indent(f"{name}={text}", " " * indent).lstrip()


def make(places: Any, items: Any, sizes: Any, coalesced: bool = False) -> SparseTensor:
    """Make a sparse tensor from its parts."""
    made = object.__new__(SparseTensor)
    made._places, made._items, made._sizes = places, items, Size(sizes)
    made._coalesced = coalesced or items.shape[0] < 2
    made._edge = made._storage = made._view = made._meta = None
    made._requires_grad = False
    return made


def gradient(places: Any, items: Any, sizes: Any) -> SparseTensor:
    """Make the sparse gradient of an embedding table: indices as an array, values as an array or a tensor of the graph."""
    items = items if isinstance(items, TensorCore) else wrap(items)
    return make(wrap(places), items, sizes)


def known_places(tensor: SparseTensor) -> Any:
    """Return the indices as an array. Shapes depend on them, so a compiled step guards them and retraces on a change."""
    places = tensor._places
    held = None
    if tracer.current is not None and type(places._array) is DeviceArray:
        held = tracer.current.guarded_value(places._array)
    return host_memory(places) if held is None else held


def unique_places(tensor: SparseTensor) -> tuple[Any, Any]:
    """Return the distinct indices of a tensor in order, and for each element the position of its index among them."""
    places = known_places(tensor)
    sizes = tensor._sizes[: places.shape[0]]
    flat = np.ravel_multi_index(tuple(places), tuple(sizes)) if places.size else np.zeros(places.shape[1:], np.int64)
    first, which = np.unique(flat, return_inverse=True)
    columns = np.stack(np.unravel_index(first, tuple(sizes))) if places.size else places
    return wrap(columns.astype(np.int64)), wrap(which.reshape(-1).astype(np.int64))


def _first_of_each(gradient: SparseTensor) -> SparseTensor:
    """Return a gradient with unique, sorted indices: elements at equal indices have the same gradient; keep one."""
    first, which = unique_places(gradient)
    chosen = np.zeros(first.shape[1], np.int64)
    chosen[which._array[::-1]] = np.arange(which.shape[0])[::-1]
    return make(first, gradient._items[wrap(chosen)], gradient._sizes, coalesced=True)


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: bool | None = None, is_coalesced: bool | None = None,
) -> Any:  # fmt: skip
    """Return a sparse tensor from coordinates (one column per element) and values.

    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if indices is not None and values is None and not isinstance(indices, TensorCore):
        indices, size = None, indices  # sparse_coo_tensor(size)
    if indices is None:
        kept = zeros((0,), dtype=dtype)
        made = make(zeros((len(size), 0), dtype=int64), kept, size, coalesced=True)
        return made.requires_grad_() if requires_grad else made
    places = as_tensor(indices).to(int64)
    items = as_tensor(values, dtype=dtype)
    if items.requires_grad:
        items = apply(_made_of_values, items)
    if items.ndim == 0:
        items = items.expand(places.shape[1])
    if places.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if places.shape[1] != items.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {places.shape[1]}, nnz from values: "
            f"{items.shape[0]}"
        )
    if size is None:
        found = [int(row.max()) + 1 if row.size else 0 for row in places._array]
        size = (*found, *items.shape[1:])
    elif len(size) != places.shape[0] + items.ndim - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
            f"{places.shape[0]}, dense_dim = {items.ndim - 1}"
        )
    elif check_invariants:
        _check_places(places._array, size)
    made = make(places, items.detach() if requires_grad else items, size, bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def _check_places(places: Any, size: Any) -> None:
    for dim, row in enumerate(places):
        if row.size and row.min() < 0:
            raise RuntimeError(f"found negative index {row.min()} for dim {dim}")
        if row.size and row.max() >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found index {row.max()}"
            )
