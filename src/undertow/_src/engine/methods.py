"""A tensor's autograd methods: requires_grad, grad, grad_fn, backward, detach, and hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from undertow._src.base import hooks, tracer
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import warn
from undertow._src.engine import differentiate
from undertow._src.engine.arguments import must_be
from undertow._src.engine.metadata import note_output
from undertow._src.engine.node import Node, keep_gradient, tensor_hooks_of
from undertow._src.engine.views import base_requires_grad, refresh_view
from undertow._src.overrides import torch_function
from undertow._src.tensor.core import GradDtype, InferenceStorage, TensorCore, tensor_class, wrap
from undertow._src.types import dtypes
from undertow._src.types.dtypes import DTYPE_OF


def is_hidden(tensor: TensorCore) -> bool:
    """Whether a tensor is recorded only for a forward-mode derivative."""
    level = slow_path.duals or local.modes.pushing
    return level is not None and tensor._edge is not None and level.hides(tensor._edge[0])


def refuse_in_transform(call: str) -> None:
    """Refuse a call inside a `torch.func` transform, which manages gradients itself."""
    if local.modes.transforms:
        raise RuntimeError(
            f"You are attempting to call Tensor.{call} inside of a function being transformed by a functorch transform. "
            "Take the derivative with torch.func (grad, vjp, jacrev, jacfwd) there, or make the call outside of it."
        )


class HookMethods(TensorCore):
    """Registering hooks. These methods call `__torch_function__` themselves, which costs less than `public_method`."""

    __slots__ = ()

    @property
    def _backward_hooks(self) -> OrderedDict[int, hooks.Hook] | None:
        if self._edge is None:
            return None if self._meta is None else self._meta.hooks
        node, nr = self._edge
        return node._hooked_outputs().get(nr)

    @_backward_hooks.setter
    def _backward_hooks(self, value: OrderedDict[int, hooks.Hook] | None) -> None:
        if self._edge is None:
            self._get_meta().hooks = value
            hooks.CountedHooks.changes += 1
            return
        node, nr = self._edge
        if node._n_outputs == 1:
            node._tensor_hooks = value
        else:
            node._tensor_hooks = {**node._hooked_outputs(), nr: value}

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("Deletion of _backwards_hooks not allowed!")

    def register_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """Register hook(grad) -> Tensor or None; a result replaces the gradient that flows on.

        Fires once per backward pass, with the summed gradient, before it reaches `.grad`.

        >>> x = torch.tensor([1., 2.], requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> (x * 3).sum().backward()
        >>> x.grad
        tensor([30., 30.])
        """
        if (slow_path.count or type(self) not in torch_function.PLAIN) and torch_function.has_override((self,)):
            return torch_function.dispatch(tensor_class().register_hook, (self, hook), {})
        if self._view is not None:
            refresh_view(self)
        if not self._requires_grad or is_hidden(self):
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        edge = self._edge
        if edge is not None:
            return hooks.add(tensor_hooks_of(edge[0], edge[1]), hook)
        meta = self._get_meta()
        if meta.hooks is None:
            meta.hooks = hooks.CountedHooks()
        return hooks.add(meta.hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """Register hook(param) -> None, called after a backward pass has added to this leaf's `.grad`.

        >>> w = torch.tensor(1., requires_grad=True)
        >>> handle = w.register_post_accumulate_grad_hook(lambda w: print(w.grad))
        >>> (w * 2).backward()
        tensor(2.)
        """
        if (slow_path.count or type(self) not in torch_function.PLAIN) and torch_function.has_override((self,)):
            return torch_function.dispatch(tensor_class().register_post_accumulate_grad_hook, (self, hook), {})
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        meta = self._get_meta()
        if meta.post_hooks is None:
            meta.post_hooks = hooks.CountedHooks()
        return hooks.add(meta.post_hooks, hook)

    @property
    def _post_accumulate_grad_hooks(self) -> OrderedDict[int, hooks.Hook] | None:
        return None if self._meta is None else self._meta.post_hooks


class AutogradMethods(HookMethods):
    """Everything about gradients on a tensor."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor. May be set on leaves."""
        view = self._view
        if view is None:
            return self._requires_grad and not is_hidden(self)
        if view.origin is None:
            refresh_view(self)
        if self._requires_grad and not view.borrows and not is_hidden(self):
            return True
        return base_requires_grad(self) and not is_hidden(view.base)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError("requires_grad must be a bool")
        self._set_requires_grad(value, "floating point and complex")

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool. Set it to False instead of deleting it.")

    def _set_requires_grad(self, value: bool, kinds: str, in_place: bool = False) -> None:
        if self._edge is not None and slow_path.duals is not None and self.is_leaf:
            if value != self.requires_grad:
                slow_path.duals.set_requires_grad(self, value)
            return
        if self._edge is not None and (not value or not in_place):
            if value and local.modes.transforms and self.is_leaf:
                return  # a transform's input, which already requires a gradient there
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want a computed tensor without "
                "its history, use detach()."
            )
        if value and not DTYPE_OF[self._array.dtype].is_inexact:
            raise RuntimeError(f"only Tensors of {kinds} dtype can require gradients")
        if value and type(self._storage) is InferenceStorage and not local.modes.inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if self._edge is None:
            self._requires_grad = value
            if self._view is not None:
                self._view.borrows = False

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set requires_grad and return the tensor."""
        if not isinstance(requires_grad, bool):
            raise must_be("bool", requires_grad, "requires_grad_", "requires_grad", 1)
        refuse_in_transform("requires_grad_() (or perhaps using torch.autograd.functional.* APIs)")
        return self._with_requires_grad(requires_grad)

    def _with_requires_grad(self, requires_grad: bool) -> Any:
        """Run `requires_grad_` for internal use, where a transform may be in progress."""
        self._set_requires_grad(requires_grad, "floating point", in_place=True)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        if self._view is not None:
            refresh_view(self)
        return self._edge is None or self._edge[0]._begins or is_hidden(self)

    @property
    def grad_fn(self) -> Node | None:
        """The node that computed this tensor; None for a leaf."""
        if self._view is not None:
            refresh_view(self)
        edge = self._edge
        if edge is None or edge[0]._begins or is_hidden(self):
            return None
        return note_output(edge[0], self._array)

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` this tensor is."""
        return 0 if self._edge is None else self._edge[1]

    @property
    def grad(self) -> Any:
        """The gradient accumulated by backward; None until then."""
        meta = self._meta
        if tracer.current is not None:
            tracer.current.note_backward(self)
        if meta is not None and meta.grad is not None:
            return meta.grad
        if self._edge is not None and not (meta is not None and meta.retains) and not self.is_leaf:
            warn(
                "The .grad attribute of a Tensor that is not a leaf is being accessed. It won't be populated: backward() "
                "writes to leaves only. Call .retain_grad() on it before the backward pass to keep its gradient, or read "
                ".grad of the leaf that it was computed from."
            )
        return None

    @grad.setter
    def grad(self, value: object) -> None:
        if value is None:
            if self._meta is not None:
                self._meta.grad = None
            return
        if not isinstance(value, TensorCore):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value.is_meta != self.is_meta:
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{value.device.type}' to a tensor with device type "
                f"'{self.device.type}'. Please ensure that they are on the same device."
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        own = None if self._meta is None else self._meta.grad_dtype
        dtype = self.dtype if own is None else own.dtype
        if dtype is not None and value.dtype is not dtype:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{value.dtype.c_name}' to a tensor with grad_dtype "
                f"'{dtype.scalar_name}'. The gradient must match the tensor's grad_dtype (which is the tensor's dtype until"
                " it is set): convert the gradient, or set grad_dtype to its dtype, or to None for any."
            )
        if value.shape != self.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                f"'{list(self.shape)}'. Please ensure that they are the same size."
            )
        self._get_meta().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def _grad(self) -> Any:
        """`.grad` without the warning for tensors that have none."""
        return None if self._meta is None else self._meta.grad

    @_grad.setter
    def _grad(self, value: object) -> None:
        self.grad = value

    @_grad.deleter
    def _grad(self) -> None:
        self.grad = None

    @property
    def grad_dtype(self) -> dtypes.dtype | None:
        """The dtype of the gradients that a leaf keeps: its own until set; None keeps each gradient's dtype."""
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
        own = None if self._meta is None else self._meta.grad_dtype
        return self.dtype if own is None else own.dtype

    @grad_dtype.setter
    def grad_dtype(self, dtype: dtypes.dtype | None) -> None:
        if dtype is not None and not isinstance(dtype, dtypes.dtype):
            raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(dtype).__name__}")
        kept = self.grad
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be set on leaf tensors.")
        if dtype is not None and kept is not None and kept.dtype is not dtype:
            raise RuntimeError(
                f"Cannot set grad_dtype to '{dtype.scalar_name}' because there is already a gradient with dtype "
                f"'{kept.dtype.scalar_name}'. Clear the gradient first (.grad = None)."
            )
        meta = self._get_meta()
        if meta.grad_dtype is None or meta.grad_dtype.dtype is not dtype:
            meta.grad_dtype = GradDtype(dtype)
            hooks.CountedHooks.changes += 1  # compiled steps check their guards again

    def backward(
        self, gradient: TensorCore | None = None, retain_graph: bool | None = None, create_graph: bool = False,
        inputs: differentiate.Source | Iterable[differentiate.Source] | None = None,
    ) -> None:  # fmt: skip
        """Add the gradients of this tensor to the `.grad` of the leaves it depends on (or of `inputs` only)."""
        differentiate.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def retain_grad(self) -> None:
        """Keep this computed tensor's gradient in `.grad`."""
        leaf = self._edge is None  # PyTorch does not check whether a view has become a computed tensor since
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        refuse_in_transform("retain_grad()")
        if leaf:
            return
        if self._view is not None:
            refresh_view(self)
        meta = self._get_meta()
        if not meta.retains:
            meta.retains = True
            keep_gradient(self._edge, self)

    @property
    def retains_grad(self) -> bool:
        """Whether a computed tensor keeps its gradient."""
        return self._meta is not None and self._meta.retains

    def detach(self) -> TensorCore:
        """Return an alias outside the graph."""
        result = wrap(self._array)
        result._storage = self._get_storage()
        return result

    def detach_(self) -> TensorCore:
        """Detach this tensor itself from the graph."""
        if self._view is not None:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead: the view's gradient goes through its base, "
                "which would stay in the graph."
            )
        if local.modes.inference:
            return self  # autograd is off altogether
        own = self._backward_hooks
        self._edge = None
        self._requires_grad = False
        if own is not None:
            self._get_meta().hooks = own  # they stay with its node too
            hooks.CountedHooks.changes += 1
        return self

    @property
    def _version(self) -> int:
        storage = self._storage
        if type(storage) is InferenceStorage:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if storage is None else storage.version

    @property
    def _base(self) -> TensorCore | None:
        return self._view.base if self._is_view() else None  # type: ignore[union-attr]

    def _is_view(self) -> bool:
        return self._view is not None and type(self._storage) is not InferenceStorage

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        return type(self._storage) is InferenceStorage
