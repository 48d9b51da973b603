"""Make distributed tensors and modules: from a tensor that every rank has, or filled on each rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow import random
from undertow._src.base.modes import no_grad
from undertow._src.distributed.dtensor.dtensor import DTensor, _mesh
from undertow._src.distributed.dtensor.placements import Partial, Placement, Shard
from undertow._src.distributed.dtensor.redistribute import part_of, term_of
from undertow._src.distributed.dtensor.spec import DTensorSpec, TensorMeta, local_part, normalized
from undertow._src.distributed.functions import broadcast
from undertow._src.tensor import creation
from undertow._src.types.sizes import Size
from undertow.nn.modules.module import Module
from undertow.nn.parameter import Parameter
from undertow.storage import contiguous_strides


def distribute_tensor(
    tensor: Any,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Return a tensor distributed over a mesh. Its values are those of one rank (`src_data_rank`); None: of each rank."""
    mesh = _mesh(device_mesh)
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh or tensor.placements != normalized(placements, mesh, tensor.dim()):
            raise ValueError(
                f"the tensor lies on {tensor.device_mesh} as {tensor.placements}: use redistribute to change that"
            )
        return tensor
    for each in placements or ():
        if isinstance(each, Shard) and not -tensor.dim() <= each.dim < tensor.dim():
            raise AssertionError(f"Sharding dim {each.dim} greater than tensor ndim {tensor.dim()}")
    placed = normalized(placements, mesh, tensor.dim())
    with no_grad():
        part = tensor.detach()
        for number, each in enumerate(placed):
            if src_data_rank is not None and mesh.size(number) > 1:
                part = part.contiguous().clone()
                broadcast(part, group=mesh.get_group(number), group_src=src_data_rank)
            if isinstance(each, Shard):
                part = part_of(part, mesh, number, each.dim)
            elif isinstance(each, Partial):
                part = term_of(part, mesh, number, each)
        if part._array is tensor._array:
            part = part.clone() if src_data_rank is not None else part
    spec = DTensorSpec(mesh, placed, TensorMeta(tensor.shape, tensor.stride(), tensor.dtype))
    return DTensor(part.requires_grad_(tensor.requires_grad), spec, requires_grad=tensor.requires_grad)


def distribute_module(
    module: Module,
    device_mesh: Any = None,
    partition_fn: Callable[[str, Module, Any], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Distribute a module's parameters over a mesh, and convert its inputs and outputs."""
    mesh = _mesh(device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, param in part._parameters.items():
            if param is not None and not isinstance(param, DTensor):
                part.register_parameter(key, Parameter(distribute_tensor(param.detach(), mesh), param.requires_grad))
        for key, buffer in part._buffers.items():
            if buffer is not None and not isinstance(buffer, DTensor):
                part._buffers[key] = distribute_tensor(buffer, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda owner, inputs: input_fn(owner, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda owner, inputs, outputs: output_fn(owner, outputs, mesh))
    return module


def _filled(fill: Callable[..., Any], size: tuple[Any, ...], options: dict[str, Any]) -> DTensor:
    """Return a new tensor whose part on each rank a function makes."""
    mesh = _mesh(options.pop("device_mesh", None))
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    placed = normalized(options.pop("placements", None), mesh, len(shape))
    requires_grad = options.pop("requires_grad", False)
    options.pop("layout", None)
    if any(isinstance(each, Partial) for each in placed):
        raise RuntimeError("a new tensor can't consist of terms: its placements are Shard(dim) or Replicate()")
    part = fill(local_part(shape, mesh, placed)[0], **options)
    spec = DTensorSpec(mesh, placed, TensorMeta(Size(shape), tuple(contiguous_strides(shape)), part.dtype))
    return DTensor(part, spec, requires_grad=requires_grad)


def ones(*size: Any, **options: Any) -> DTensor:
    """Return ones. Options: `dtype`, `requires_grad`, `device_mesh`, `placements`."""
    return _filled(creation.ones, size, options)


def zeros(*size: Any, **options: Any) -> DTensor:
    """Return zeros. Options: `dtype`, `requires_grad`, `device_mesh`, `placements`."""
    return _filled(creation.zeros, size, options)


def empty(*size: Any, **options: Any) -> DTensor:
    """Return a tensor without defined values. Options: `dtype`, `requires_grad`, `device_mesh`, `placements`."""
    return _filled(creation.empty, size, options)


def full(size: Any, fill_value: Any, **options: Any) -> DTensor:
    """Return a tensor filled with one value. Options: `dtype`, `requires_grad`, `device_mesh`, `placements`."""
    return _filled(lambda shape, **rest: creation.full(shape, fill_value, **rest), (size,), options)


def rand(*size: Any, **options: Any) -> DTensor:
    """Return uniform numbers, which each rank draws for its part."""
    return _filled(random.rand, size, options)


def randn(*size: Any, **options: Any) -> DTensor:
    """Return normal numbers, which each rank draws for its part."""
    return _filled(random.randn, size, options)
