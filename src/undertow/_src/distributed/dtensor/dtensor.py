"""`DTensor`: a tensor whose parts, or terms of a sum, are on the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.base.modes import local as thread
from undertow._src.distributed.dtensor.placements import Partial, Placement, Replicate, Shard
from undertow._src.distributed.dtensor.redistribute import redistribute
from undertow._src.distributed.dtensor.running import dispatch
from undertow._src.distributed.dtensor.spec import DTensorSpec, TensorMeta, normalized, without_partial
from undertow._src.overrides.torch_function import disabled
from undertow._src.types.sizes import Size
from undertow._tensor import Tensor
from undertow.autograd.function import Function


class DTensor(Tensor):
    """A tensor whose parts, or terms of a sum, are on the ranks of a mesh. Operators on it run on every rank's part.

    Make one with `distribute_tensor`, `DTensor.from_local` or the functions of `torch.distributed.tensor`.
    """

    __module__ = "torch.distributed.tensor"
    _local_tensor: Any
    _spec: DTensorSpec

    @staticmethod
    def __new__(cls: Any, local_tensor: Any, spec: DTensorSpec, *, requires_grad: bool) -> DTensor:
        meta = spec.tensor_meta
        made = Tensor._make_wrapper_subclass(
            cls, meta.shape, strides=meta.stride, dtype=local_tensor.dtype, device=local_tensor.device,
            layout=local_tensor.layout, requires_grad=requires_grad,
        )  # fmt: skip
        made._local_tensor, made._spec = local_tensor, spec
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    __torch_function__ = disabled  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(DTensor, func, args, kwargs or {})

    @classmethod
    def _wrapped(cls, part: Any, spec: DTensorSpec) -> DTensor:
        return cls(part, spec, requires_grad=False)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return (
            f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, "
            f"placements={self._spec.placements})"
        )

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return repr(self)

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner_tensors: Any, flatten_spec: Any, outer_size: Any, outer_stride: Any) -> DTensor:
        spec, requires_grad = flatten_spec
        return DTensor(inner_tensors["_local_tensor"], spec, requires_grad=requires_grad)

    def __reduce_ex__(self, protocol: Any) -> Any:
        spec = self._spec
        state = self._local_tensor, spec.mesh, spec.placements, tuple(spec.shape), spec.stride, self.requires_grad
        return _rebuilt, state

    @property
    def device_mesh(self) -> Any:
        """The mesh of ranks that hold the tensor."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The placement along each dim of the mesh."""
        return self._spec.placements

    @staticmethod
    def from_local(
        local_tensor: Any,
        device_mesh: Any = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """Return the tensor that consists of all ranks' parts or terms. Gradients flow back to this rank's part."""
        if (shape is not None and stride is None) or (shape is None and stride is not None):
            raise RuntimeError(
                "Found shape:{shape}, stride:{stride}. Please pass both shape and stride at the same time."
            )
        mesh = _mesh(device_mesh)
        placed = normalized(placements, mesh, local_tensor.dim())
        grads = None if grad_placements is None else normalized(grad_placements, mesh, local_tensor.dim())
        return _FromTorchTensor.apply(local_tensor, mesh, placed, shape, stride, grads)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Any:
        """Return this rank's part or term. Its gradient is a part of the tensor's gradient."""
        if not thread.modes.grad_enabled:
            return self._local_tensor
        grads = None if grad_placements is None else normalized(grad_placements, self.device_mesh, self.dim())
        return _ToTorchTensor.apply(self, grads)

    def redistribute(
        self,
        device_mesh: Any = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """Return the same tensor under other placements."""
        mesh = self.device_mesh if device_mesh is None else device_mesh
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        if mesh != self.device_mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        placed = normalized(placements, mesh, self.dim())
        for before, after in zip(self.placements, placed, strict=True):
            if isinstance(after, Partial) and before != after:
                raise RuntimeError(
                    f"Can not redistribute from {before} to {after}, redistributing to Partial is for internal use only!"
                )
        return Redistribute.apply(self, placed, forward_dtype, backward_dtype)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Any:
        """Return the whole tensor, on every rank."""
        whole = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        grads = None if grad_placements is None else normalized(grad_placements, self.device_mesh, self.dim())
        return _ToTorchTensor.apply(whole, grads) if thread.modes.grad_enabled else whole._local_tensor


def _mesh(mesh: Any) -> Any:
    if mesh is None:
        raise RuntimeError("no device_mesh was given: make one with init_device_mesh")
    if mesh.get_coordinate() is None:
        raise RuntimeError("this rank is not in the mesh: only its ranks can make a tensor on it")
    return mesh


def _rebuilt(local: Any, mesh: Any, placements: Any, shape: Any, stride: Any, requires_grad: bool) -> DTensor:
    spec = DTensorSpec(mesh, placements, TensorMeta(Size(shape), stride, local.dtype))
    return DTensor(local, spec, requires_grad=requires_grad)


def _meta_of(local: Any, mesh: Any, placements: Sequence[Placement], shape: Any, stride: Any) -> TensorMeta:
    """Return the metadata of the whole tensor, if every rank's part is as large as this one."""
    if shape is not None:
        return TensorMeta(Size(shape), tuple(stride), local.dtype)
    sizes, steps = list(local.shape), list(local.stride())
    for number, each in enumerate(placements):
        if isinstance(each, Shard):
            count = mesh.size(number)
            sizes[each.dim] *= count
            for dim, step in enumerate(steps):
                if dim != each.dim and step >= local.stride(each.dim):
                    steps[dim] *= count
    return TensorMeta(Size(sizes), tuple(steps), local.dtype)


class _FromTorchTensor(Function):
    @staticmethod
    def forward(ctx: Any, local: Any, mesh: Any, placements: Any, shape: Any, stride: Any, grads: Any) -> Any:
        ctx.mesh, ctx.placements = mesh, without_partial(placements) if grads is None else grads
        spec = DTensorSpec(mesh, placements, _meta_of(local, mesh, placements, shape, stride))
        return DTensor(local.view_as(local), spec, requires_grad=False)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if gradient.placements != ctx.placements:
            gradient = Redistribute.apply(gradient, ctx.placements, None, None)
        return gradient.to_local(), None, None, None, None, None


class _ToTorchTensor(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, grads: Any) -> Any:
        ctx.spec, ctx.placements = tensor._spec, without_partial(tensor.placements) if grads is None else grads
        part = tensor._local_tensor
        return part.view_as(part)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        spec = ctx.spec
        shape, stride = tuple(spec.shape), spec.stride
        return DTensor.from_local(gradient.contiguous(), spec.mesh, ctx.placements, shape=shape, stride=stride), None


class Redistribute(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, placements: Any, forward_dtype: Any, backward_dtype: Any) -> Any:
        spec = tensor._spec
        ctx.placements, ctx.dtypes = spec.placements, (tensor.dtype, backward_dtype)
        part = tensor._local_tensor if forward_dtype is None else tensor._local_tensor.to(forward_dtype)
        moved = redistribute(part, spec.mesh, spec.shape, spec.placements, placements)
        meta = TensorMeta(spec.shape, spec.stride, moved.dtype)
        moved = moved.view_as(moved) if moved is tensor._local_tensor else moved
        return DTensor(moved, DTensorSpec(spec.mesh, placements, meta), requires_grad=False)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        own, dtype = ctx.dtypes
        if dtype is not None:
            gradient = gradient.to(dtype)
        wanted = tuple(
            [
                Replicate() if isinstance(before, Partial) and not isinstance(now, Partial) else before
                for before, now in zip(ctx.placements, gradient.placements, strict=True)
            ]
        )
        if wanted != gradient.placements:
            gradient = Redistribute.apply(gradient, wanted, None, None)
        return gradient.to(own), None, None, None
