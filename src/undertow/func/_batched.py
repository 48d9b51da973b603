"""`BatchedTensor`: the tensor that a function gets inside `vmap`. It stands for one example and holds all of them.

It looks like a tensor without the mapped dim, and holds the whole tensor with that dim in front. It overrides every
public function (`__torch_function__`): a rule in `RULES` runs the function on whole tensors. A function without a rule
runs once per example, and the results are stacked: slower, but never wrong.

Nested vmaps nest these tensors, that of the innermost vmap outermost. A rule handles only the dim of its own vmap: the
functions that it calls dispatch to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from undertow._src.engine.methods import refuse_in_transform
from undertow._src.engine.transforms.levels import LevelInput, nodes_behind
from undertow._src.ops.join import stack
from undertow._src.tensor.core import TensorCore
from undertow._src.types.sizes import Size
from undertow._tensor import Tensor
from undertow.autograd.function import Function
from undertow.func._vmapping import MappedLevel, required_in_place
from undertow.utils import _pytree as pytree

Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}


def rule(names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a rule for functions of these names: rule(function, level, args, kwargs)."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def _refuse_item(self: Any, *args: Any) -> Any:
    _refuse_in_older_words(self, "item")
    raise RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, "
        "please try to rewrite what you're doing with other operations."
    )


def _refuse_branch(self: Any) -> Any:
    _refuse_in_older_words(self, "is_nonzero")
    raise RuntimeError(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that "
        "yet: use torch.where on both outcomes."
    )


def _refuse_in_older_words(example: Any, name: str) -> None:
    if example._level.is_legacy:
        raise RuntimeError(
            f"Batching rule not implemented for aten::{name}. We could not generate a fallback. In a backward pass with "
            "is_grads_batched a hook is called once, with all gradients as one."
        )


def _refuse_memory(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


def _refuse_backward(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "backward() called inside a functorch transform. This is not supported: use func.grad or func.vjp inside, or call "
        "backward() on the results of the transform."
    )


class BatchedTensor(Tensor):
    """One example of a vmap. `_value` has the mapped dim in front."""

    __slots__ = ("_given_at", "_level", "_value")
    __module__ = "torch"

    _value: Any
    _level: MappedLevel
    _given_at: int

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(func, args, kwargs or {})

    def _apply_function(self, made: Any, args: tuple[Any, ...]) -> Any:
        return apply_function(made, args)

    @property
    def _array(self) -> Any:
        if hasattr(self._level, "carried"):  # a gradient, in a backward pass for many at once
            return self._level.carried(self._value)
        raise RuntimeError(
            "vmap: this function reads a tensor's memory directly, which inside vmap holds all examples at once. Write it "
            "with functions of tensors instead."
        )

    # --- the properties of one example

    shape = property(lambda self: Size(self._value.shape[1:]))
    ndim = property(lambda self: self._value.ndim - 1)
    dtype = property(lambda self: self._value.dtype)
    device = property(lambda self: self._value.device)
    layout = property(lambda self: self._value.layout)
    requires_grad = property(lambda self: self._is_differentiated(), lambda self, wanted: None)
    grad_fn = property(lambda self: self._value.grad_fn if self._is_differentiated() else None)
    is_leaf = property(lambda self: self._value.is_leaf or not self._is_differentiated())
    T = property(lambda self: self.permute(*range(self.ndim)[::-1]))
    mT = property(lambda self: self.transpose(-2, -1))
    mH = property(lambda self: self.adjoint())

    @property
    def H(self) -> Any:
        if self.ndim not in (0, 2):
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor. For batches of matrices, "
                "consider using tensor.mH"
            )
        return self.adjoint() if self.ndim else self

    real = property(lambda self: self._level.wrap(self._value.real))
    imag = property(lambda self: self._level.wrap(self._value.imag))

    def _is_differentiated(self) -> bool:
        """Whether a derivative inside this vmap involves the example. Derivatives outside the vmap are not visible here."""
        whole = self._value
        while isinstance(whole, BatchedTensor):
            whole = whole._value
        if not whole.requires_grad or whole._edge is None:
            return False
        began = self._level.began
        return any(
            type(node) is LevelInput and node.level.open and node.level.number > began
            for node in nodes_behind([whole._edge[0]])
        )

    @property
    def data(self) -> Any:
        raise RuntimeError("accessing `data` under vmap transform is not allowed")

    @data.setter
    def data(self, value: Any) -> None:
        raise RuntimeError("mutating directly with `.data` under vmap transform is not allowed.")

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        count = 1
        for n in self.shape:
            count *= n
        return count

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        steps = self._value.stride()[1:]
        return steps if dim is None else steps[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return self._value.is_contiguous()

    def is_floating_point(self) -> bool:
        return self._value.is_floating_point()

    def is_complex(self) -> bool:
        return self._value.is_complex()

    def is_signed(self) -> bool:
        return self._value.is_signed()

    def element_size(self) -> int:
        return self._value.element_size()

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        inner = "\n".join("    " + line for line in repr(self._value).split("\n"))
        return f"BatchedTensor(lvl={self._level.number}, bdim=0, value=\n{inner}\n)"

    __str__ = __repr__
    item = __float__ = __int__ = __index__ = __complex__ = _refuse_item
    __bool__ = is_nonzero = _refuse_branch
    tolist = numpy = data_ptr = __array__ = storage = untyped_storage = _refuse_memory
    backward = _refuse_backward

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        refuse_in_transform("requires_grad_() (or perhaps using torch.autograd.functional.* APIs)")

    def retain_grad(self) -> None:
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        refuse_in_transform("retain_grad()")


# Functions of these names call the methods above.
_LOGICAL = frozenset(
    "size dim ndimension numel nelement stride is_contiguous is_floating_point is_complex is_signed element_size item "
    "tolist numpy is_nonzero backward __len__ __iter__ __bool__ __float__ __int__ __repr__ __format__".split()
)
_UNANSWERABLE = {
    "equal": "Batching rule not implemented for aten::equal. We could not generate a fallback.",
    "allclose": "vmap over torch.allclose isn't supported yet. It gives one answer for all examples.",
    "nonzero": "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
    "aten::nonzero.",
    "unique": "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
    "aten::_unique2.",
}


def call(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run a public function with examples among its arguments."""
    level = innermost((args, kwargs))
    args, kwargs = required_in_place(function, args, kwargs)
    name = getattr(function, "__name__", "")
    if name == "__get__":  # a property with the same value for one example and for all
        return function(args[0]._value)
    if name in _LOGICAL:
        return getattr(args[0], name)(*args[1:], **kwargs)
    if name in _UNANSWERABLE:
        raise RuntimeError(_UNANSWERABLE[name])
    found = RULES.get(name)
    if found is not None:
        result = found(function, level, args, kwargs)
        if result is not NotImplemented:
            return result
    return one_by_one(function, level, args, kwargs)


def innermost(values: Any) -> MappedLevel:
    """Return the innermost vmap that has examples among these values."""
    found = [value._level for value in pytree.tree_leaves(values) if isinstance(value, BatchedTensor)]
    return max(found, key=lambda level: level.number)


def one_by_one(function: Any, level: MappedLevel, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run a function once per example and stack the results."""
    leaves, spec = pytree.tree_flatten((list(args), kwargs))
    if level.size == 0:
        raise RuntimeError(f"vmap: {function.__name__} cannot run on an empty batch: it has no batching rule")
    writes = is_in_place(function.__name__)
    if writes and not level.holds(args[0]):
        raise cannot_write(function.__name__)
    results = []
    for index in range(level.size):
        at = [leaf._value[index] if level.holds(leaf) else leaf for leaf in leaves]
        given, named = spec.unflatten(at)
        if writes:  # into a copy, since this example may save its value for the gradient
            given[0] = given[0].clone()
        made = function(*given, **named)
        results.append(given[0] if writes else made)
    if not writes:
        return stacked(level, results)
    if results[0].shape != args[0].shape:
        raise RuntimeError(f"vmap: {function.__name__} cannot change the shape of an example in place")
    args[0]._value.copy_(stack(results))
    return args[0]


def is_in_place(name: str) -> bool:
    return (name.endswith("_") and not name.endswith("__")) or name.startswith("__i") or name == "__setitem__"


# In-place methods, by their name in PyTorch's errors about writes: those in neither group are `aten::NAME`.
_ARITHMETIC = frozenset("add_ sub_ mul_ div_ pow_ copy_".split())
_BY_NAME = frozenset("fill_ index_add_ index_put_ index_fill_ scatter_add_ scatter_reduce_".split())


def cannot_write(name: str = "copy_") -> RuntimeError:
    """Return the error for a write into a tensor that all examples share."""
    shown = name if name in _BY_NAME else f"aten::{name}"
    if name in _ARITHMETIC or name.startswith("__"):
        shown = "inplace arithmetic"
    return RuntimeError(
        f"vmap: {shown}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that"
        " has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
        "over. Write out of place, or make `self` from a mapped tensor (for example with new_zeros)."
    )


def stacked(level: MappedLevel, results: list[Any]) -> Any:
    """Stack nested results, one per example. For leaves that are not tensors, the first example's value is kept."""
    spec = pytree.tree_structure(results[0])
    rows = [pytree.tree_leaves(result) for result in results]
    columns = []
    for column in zip(*rows, strict=True):
        columns.append(level.wrap(stack(column)) if isinstance(column[0], TensorCore) else column[0])
    return spec.unflatten(columns)


# --- custom Functions


class VmapInfo(NamedTuple):
    """The first argument of a custom Function's `vmap` staticmethod."""

    batch_size: int
    randomness: str


def apply_function(made: Any, args: tuple[Any, ...]) -> Any:
    """Run a custom Function with examples among its arguments: by its `vmap`, or once per example."""
    level = innermost(args)
    own, generated = made.vmap is not Function.vmap, getattr(made, "generate_vmap_rule", False)
    if made.setup_context is Function.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, ...), "
            "it must override the setup_context staticmethod."
        )
    if generated and own:
        raise RuntimeError(
            f"You tried to vmap over {made.__name__}, but it has both generate_vmap_rule=True and its own vmap "
            "staticmethod. Remove one of the two."
        )
    if generated:
        return one_by_one(made.apply, level, args, {})
    if not own:
        raise RuntimeError(
            f"You tried to vmap over {made.__name__}, but it does not have vmap support. Give it a vmap staticmethod, or "
            "set generate_vmap_rule=True."
        )
    dims = pytree.tree_map(lambda value: value._given_at if level.holds(value) else None, args)
    whole = pytree.tree_map(
        lambda value: value._value.movedim(0, value._given_at) if level.holds(value) else value, args
    )
    returned = made.vmap(VmapInfo(level.size, level.randomness), dims, *whole)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        several = f"{len(returned)} results" if isinstance(returned, tuple) else type(returned).__name__
        raise RuntimeError(
            f"Expected the vmap staticmethod to have two returns, an output and its out_dims; got {several}"
        )
    outputs, places = returned
    found, spec = pytree.tree_flatten(outputs)
    flat = pytree._broadcast_to_and_flatten(places, spec)
    if flat is None:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. The output is "
            f"{pytree.treespec_pprint(spec)}, its out_dims {places}: give one dim per tensor, or one for all."
        )
    return spec.unflatten(
        [
            value if place is None else level.wrap(value if place == 0 else value.movedim(place, 0))
            for value, place in zip(found, flat, strict=True)
        ]
    )


MappedLevel.example_class = BatchedTensor
