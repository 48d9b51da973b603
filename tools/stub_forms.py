"""What neither Python nor PyTorch's operator table can tell of a function: results that depend on arguments, operators."""

from __future__ import annotations

# Signatures in the words of stubs. A result that an argument decides has one line for each value of it.
FUNCTIONS = {
    "arange": [
        "(end: Number, *, out: Tensor | None = None, dtype: dtype | None = None, layout: layout | None = None, "
        "device: Device = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor",
        "(start: Number, end: Number, step: Number = 1, *, out: Tensor | None = None, dtype: dtype | None = None, "
        "layout: layout | None = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False) "
        "-> Tensor",
    ],
    "asarray": [
        "(obj: Any, *, dtype: dtype | None = None, device: Device = None, copy: bool | None = None, "
        "requires_grad: bool = False) -> Tensor",
    ],
    "broadcast_shapes": ["(*shapes: int | _size) -> Size"],
    "einsum": ["(equation: str, *operands: Tensor | Sequence[Tensor], path: Sequence[int] | None = None) -> Tensor"],
    "is_tensor": ["(obj: Any) -> TypeIs[Tensor]"],
    "is_storage": ["(obj: Any, /) -> bool"],
    "nonzero": [
        "(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor",
        "(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]",
    ],
    "split": ["(tensor: Tensor, split_size_or_sections: int | _size, dim: int = 0) -> tuple[Tensor, ...]"],
    "tensordot": [
        "(a: Tensor, b: Tensor, dims: int | Tensor | Sequence[Sequence[int]] = 2, out: Tensor | None = None) -> Tensor"
    ],
    "scatter": [
        "(input: Tensor, dim: int, index: Tensor, src: Tensor | Number, *, reduce: str | None = None, "
        "out: Tensor | None = None) -> Tensor"
    ],
    "sparse_coo_tensor": [
        "(indices: Any = None, values: Any = None, size: _size | None = None, *, dtype: dtype | None = None, "
        "device: Device = None, requires_grad: bool = False, check_invariants: bool | None = None, "
        "is_coalesced: bool | None = None) -> Tensor",
    ],
    "vmap": [
        "(func: Callable[..., _R], in_dims: int | tuple[Any, ...] = 0, out_dims: int | tuple[int, ...] = 0, "
        "randomness: str = 'error', *, chunk_size: int | None = None) -> Callable[..., _R]",
    ],
    "where": [
        "(condition: Tensor) -> tuple[Tensor, ...]",
        "(condition: Tensor, input: Tensor | Number | complex, other: Tensor | Number | complex, *, "
        "out: Tensor | None = None) -> Tensor",
    ],
    "load": [
        "(f: FileLike, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, "
        "mmap: bool | None = None, **pickle_load_args: Any) -> Any",
    ],
    "nn.functional.interpolate": [
        "(input: Tensor, size: int | _size | None = None, scale_factor: float | Sequence[float] | None = None, "
        "mode: str = 'nearest', align_corners: bool | None = None, recompute_scale_factor: bool | None = None, "
        "antialias: bool = False) -> Tensor",
    ],
}

# `compile` is a function with an attribute, which only a class can say.
COMPILE = """\
class _Compile(Protocol):
    @overload
    def __call__(self, model: _F, *, {options}) -> _F: ...
    @overload
    def __call__(self, model: None = None, *, {options}) -> Callable[[_F], _F]: ...
    def explain(self, compiled: Callable[..., Any] | None = None) -> Any: ...
compile: _Compile
""".format(
    options="fullgraph: _bool = False, dynamic: _bool | dict[Any, Any] | None = None, "
    "backend: str | Callable[..., Any] = 'inductor', "
    "mode: str | None = None, options: dict[str, Any] | None = None, disable: _bool = False, fallback: str | None = None"
)

METHODS = {
    "__getitem__": ["(self, key: Any) -> Tensor"],
    "__setitem__": ["(self, key: Any, value: Any) -> None"],
    "__iter__": ["(self) -> Iterator[Tensor]"],
    "__reversed__": ["(self) -> Tensor"],
    "__new__": ["(cls, *args: Any, **kwargs: Any) -> Self"],
    "__pow__": ["(self, exponent: Tensor | Number | complex) -> Tensor"],
    "__abs__": ["(self) -> Tensor"],
    "__neg__": ["(self) -> Tensor"],
    "__pos__": ["(self) -> Tensor"],
    "__invert__": ["(self) -> Tensor"],
    "__matmul__": ["(self, other: Tensor) -> Tensor"],
    "__rmatmul__": ["(self, other: Tensor) -> Tensor"],
    "__deepcopy__": ["(self, memo: dict[int, Any]) -> Self"],
    "as_subclass": ["(self, cls: type[_T]) -> _T"],
    "backward": [
        "(self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False, "
        "inputs: Tensor | Sequence[Tensor] | None = None) -> None",
    ],
    "item": ["(self) -> Number"],
    "new": ["(self, *args: Any, **kwargs: Any) -> Tensor"],
    "nonzero": [
        "(self, *, as_tuple: Literal[False] = False) -> Tensor",
        "(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]",
    ],
    "register_hook": ["(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle"],
    "register_post_accumulate_grad_hook": ["(self, hook: Callable[[Tensor], None]) -> RemovableHandle"],
    "size": ["(self, dim: None = None) -> Size", "(self, dim: int) -> int"],
    "split": ["(self, split_size: int | _size, dim: int = 0) -> tuple[Tensor, ...]"],
    "stride": ["(self, dim: None = None) -> tuple[int, ...]", "(self, dim: int) -> int"],
    "to": [
        "(self, dtype: dtype, non_blocking: bool = False, copy: bool = False, *, "
        "memory_format: memory_format | None = None) -> Tensor",
        "(self, device: Device = None, dtype: dtype | None = None, non_blocking: bool = False, copy: bool = False, *, "
        "memory_format: memory_format | None = None) -> Tensor",
        "(self, other: Tensor, non_blocking: bool = False, copy: bool = False, *, "
        "memory_format: memory_format | None = None) -> Tensor",
    ],
    "type": [
        "(self, dtype: None = None, non_blocking: bool = False) -> str",
        "(self, dtype: str | dtype | type[Tensor], non_blocking: bool = False) -> Tensor",
    ],
    "untyped_storage": ["(self) -> UntypedStorage"],
    "view": ["(self, *size: int | _size) -> Tensor", "(self, dtype: dtype) -> Tensor"],
    "tolist": ["(self) -> Any"],
    "numpy": ["(self, *, force: bool = False) -> NDArray[Any]"],
}

_OPERATORS = """
    __add__ __and__ __div__ __eq__ __floordiv__ __ge__ __gt__ __le__ __lshift__ __lt__ __mod__ __mul__ __ne__ __or__
    __radd__ __rand__ __rdiv__ __rfloordiv__ __rlshift__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__
    __rsub__ __rtruediv__ __rxor__ __sub__ __truediv__ __xor__
"""
_IN_PLACE_OPERATORS = """
    __iadd__ __iand__ __idiv__ __ifloordiv__ __ilshift__ __imod__ __imul__ __ior__ __ipow__ __irshift__ __isub__
    __itruediv__ __ixor__
"""
METHODS["scatter"] = ["(self, dim: int, index: Tensor, src: Tensor | Number, *, reduce: str | None = None) -> Tensor"]
METHODS["scatter_"] = ["(self, dim: int, index: Tensor, src: Tensor | Number, *, reduce: str | None = None) -> Self"]
METHODS |= {name: ["(self, other: Tensor | Number | complex) -> Tensor"] for name in _OPERATORS.split()}
METHODS |= {name: ["(self, other: Tensor | Number | complex) -> Self"] for name in _IN_PLACE_OPERATORS.split()}

# What functions return, methods included, and properties are, where nothing else says it.
RESULTS = {
    "Tensor": """
        H T _base _grad _indices _values apply_ as_tensor bfloat16 bool byte cdouble cfloat char cpu cuda data double
        dsmm float frombuffer from_dlpack from_numpy get_rng_state half hsmm imag indices int long mH mT map2_ map_
        module_load new_tensor real share_memory_ short sparse_coo_tensor sparse_mask spmm tensor to_sparse
        to_sparse_coo values xpu
    """,
    "bool": "is_coalesced",
    "Tensor | None": "_base _grad grad",
    "Size": "shape",
    "dtype": "dtype",
    "device": "device",
    "dtype | None": "grad_dtype",
    "layout": "layout",
    "Node | None": "grad_fn _grad_fn",
    "tuple[Tensor, Tensor, Tensor]": "lu_unpack",
    "tuple[Tensor, Tensor]": "lobpcg",
}
RESULT_OF = {name: result for result, names in RESULTS.items() for name in names.split()}
