"""`torch.distributed.device_mesh`: ranks arranged in dims, with a group of ranks along each dim."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.joining import get_rank, get_world_size, init_process_group, is_initialized
from undertow._src.distributed.state import default_group
from undertow._src.distributed.subgroups import get_process_group_ranks, new_group
from undertow._src.tensor.from_data import tensor as make_tensor
from undertow._src.types.dtypes import int32

__all__ = ["DeviceMesh", "init_device_mesh"]


class _Meshes(threading.local):
    """The meshes whose `with` blocks this thread is in."""

    def __init__(self) -> None:
        self.stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        """Return the innermost block's mesh."""
        if not self.stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.stack[-1]


_mesh_resources = _Meshes()


class DeviceMesh:
    """Ranks arranged in dims. All ranks of the world make it together, since it makes groups."""

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _rank: int | None = None,
    ) -> None:
        ranks = np.asarray(mesh.tolist() if hasattr(mesh, "tolist") else mesh, np.int32)
        self._fill(device_type, ranks, None if mesh_dim_names is None else tuple(mesh_dim_names), ranks.shape, None)
        self._groups: list[Any] = []
        if not is_initialized():
            init_process_group()
        if ranks.size > get_world_size():
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {get_world_size()}, but found {ranks.size} ranks!"
            )
        if _init_backend:
            self._groups = [self._group_along(dim) for dim in range(ranks.ndim)]

    def _fill(self, device_type: str, ranks: Any, names: Any, layout: tuple[int, ...], root: DeviceMesh | None) -> None:
        """Set a mesh's ranks, the names of its dims, and the mesh that it was taken from."""
        self.device_type = device_type
        self._ranks = ranks
        self.mesh_dim_names: tuple[str, ...] | None = names
        self._root = root
        self._strides = _strides(layout)
        self._flattened: dict[str, DeviceMesh] = {}

    def _group_along(self, dim: int) -> Any:
        """Make the groups along a dim; return this rank's."""
        world = default_group()
        if self._ranks.ndim == 1 and self._ranks.tolist() == list(world.ranks):
            return world
        own = None
        for line in np.moveaxis(self._ranks, dim, -1).reshape(-1, self._ranks.shape[dim]).tolist():
            made = new_group(line)
            if world.world.rank in line:
                own = made
        return own

    def _taken(self, ranks: Any, names: Any, strides: tuple[Any, ...], groups: list[Any]) -> DeviceMesh:
        """Return a mesh that is a part of this one."""
        part = object.__new__(DeviceMesh)
        part._fill(self.device_type, ranks, names, ranks.shape, self._root or self)
        part._strides, part._groups = strides, groups
        return part

    @property
    def mesh(self) -> Any:
        return make_tensor(self._ranks.tolist(), dtype=int32)

    @property
    def ndim(self) -> int:
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        return self._ranks.shape

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of ranks in the mesh, or along a dim."""
        return int(self._ranks.size) if mesh_dim is None else int(self._ranks.shape[mesh_dim])

    def get_rank(self) -> int:
        """Return this process's global rank."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return this rank's coordinate in the mesh; None if it is not in it."""
        found = np.argwhere(self._ranks == get_rank())
        return tuple(map(int, found[0])) if len(found) else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this rank's number along a dim."""
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
            )
        place = self.get_coordinate()
        if place is None:
            raise RuntimeError("this rank is not in the mesh")
        return place[self._dim(0 if mesh_dim is None else mesh_dim)]

    def _dim(self, mesh_dim: int | str) -> int:
        if isinstance(mesh_dim, int):
            return mesh_dim
        if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
            raise KeyError(f"Mesh dimension '{mesh_dim}' does not exist. Available mesh dimensions are: "
                           f"mesh_dim_names={self.mesh_dim_names}")  # fmt: skip
        return self.mesh_dim_names.index(mesh_dim)

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """Return the group of this rank along a dim."""
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                "To get the groups of all dims, use `get_all_groups()` instead.",
            )
        if not self._groups:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return self._groups[self._dim(0 if mesh_dim is None else mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """Return the groups of this rank, one for each dim."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the part of the mesh along some of its dims that this rank is in."""
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self.mesh_dim_names:
            return self
        if len(names) == 1 and names[0] in self._flattened:
            return self._flattened[names[0]]
        if any(name not in self.mesh_dim_names for name in names):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {list(self.mesh_dim_names)}."
            )
        dims = [self.mesh_dim_names.index(name) for name in names]
        if dims != sorted(dims):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order.")
        place = self.get_coordinate() or (0,) * self.ndim
        index = tuple(slice(None) if dim in dims else place[dim] for dim in range(self.ndim))
        groups = [self._groups[dim] for dim in dims] if self._groups else []
        return self._taken(self._ranks[index], names, tuple(self._strides[dim] for dim in dims), groups)

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """Return the mesh as one dim. After that, `mesh[name]` finds it by the name of the dim."""
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self.mesh_dim_names)
        if self.ndim == 1 and mesh_dim_name in (None, self.mesh_dim_names[0]):
            return self
        root = self._root or self
        if name not in root._flattened:
            flat = DeviceMesh(self.device_type, self._ranks.reshape(-1), mesh_dim_names=(name,))
            flat._root = root
            root._flattened[name] = flat
        return root._flattened[name]

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None
    ) -> DeviceMesh:
        """Return the mesh of a group, or of several groups that are its dims."""
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        ranks = get_process_group_ranks(groups[0]) if mesh is None else mesh
        made = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _init_backend=False)
        made._groups = groups
        return made

    def __enter__(self) -> DeviceMesh:
        _mesh_resources.stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _mesh_resources.stack.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.device_type, self._ranks.shape, tuple(self._ranks.reshape(-1).tolist()), self.mesh_dim_names)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape)) + ("," if self.ndim == 1 else "")
        if self.mesh_dim_names is not None:
            sizes = ", ".join(f"{name}={size}" for name, size in zip(self.mesh_dim_names, self.shape, strict=True))
        strides = ", ".join(map(str, self._strides)) + ("," if self.ndim == 1 else "")
        return f"DeviceMesh(({sizes}), '{self.device_type}', stride=({strides}))"


def _strides(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the stride of each dim in ranks; a dim with one rank has none."""
    return tuple(math.prod(shape[dim + 1 :]) if shape[dim] > 1 else () for dim in range(len(shape)))


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Arrange the first ranks of the world in dims, and make the groups along them."""
    shape = tuple(mesh_shape)
    if mesh_dim_names is not None:
        names = tuple(mesh_dim_names)
        if len(set(names)) != len(names):
            raise RuntimeError(
                f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {names}"
            )
        if len(shape) != len(names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(names)} and len(mesh_shape):{len(shape)}."
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you have a 'torch.device', pass its type.",
        )
    return DeviceMesh(device_type, np.arange(math.prod(shape)).reshape(shape), mesh_dim_names=mesh_dim_names)
