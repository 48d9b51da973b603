"""`parallelize_module`: apply styles of tensor parallelism to the parts of a module that a plan names."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

from undertow._src.base.sites import warn
from undertow._src.distributed.state import default_group
from undertow.distributed.device_mesh import DeviceMesh, init_device_mesh
from undertow.distributed.tensor.parallel.style import ParallelStyle
from undertow.nn.modules.module import Module

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Apply a style to a module, or those of a plan to the parts that it names; `*` in a name stands for any characters."""
    mesh = init_device_mesh("cpu", (default_group().size(),)) if device_mesh is None else device_mesh
    if mesh.ndim != 1:
        raise ValueError(
            f"tensor parallelism needs a mesh of one dim, not {mesh.ndim}: pass a part, such as mesh['tp']"
        )
    if parallelize_plan is None:
        warn("No parallelize_plan is provided: the module is not parallelized.")
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        if path == "":
            parallelize_module(module, mesh, style, src_data_rank=src_data_rank)
        elif not (found := _parts(module, path.split("."))):
            warn(f"parallelize_plan names {path}, which the module does not have.")
        else:
            for part in found:
                parallelize_module(part, mesh, style, src_data_rank=src_data_rank)
    return module


def _parts(module: Any, path: list[str]) -> list[Any]:
    """Return the inner modules at a path, whose parts may be patterns."""
    found = [module]
    for pattern in path:
        found = [child for each in found for name, child in each.named_children() if fnmatch(name, pattern)]
    return found
