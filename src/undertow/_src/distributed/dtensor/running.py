"""Run an operator on distributed tensors: redistribute the operands as its rule says, and run it on each rank's part."""

from __future__ import annotations

from functools import cache
from typing import Any

from undertow._src.base.tree import leaves, map_leaves
from undertow._src.distributed.dtensor.operators import SIZES, Operation, rule_of, whole
from undertow._src.distributed.dtensor.placements import Partial, Placement, Replicate, Shard
from undertow._src.distributed.dtensor.redistribute import redistribute
from undertow._src.distributed.dtensor.spec import DTensorSpec, TensorMeta, local_part, without_partial
from undertow._src.distributed.functions import all_reduce
from undertow._src.distributed.reduce_ops import ReduceOp
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import empty_strided
from undertow._src.tensor.from_data import tensor as new_tensor


def dispatch(cls: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator, some of whose operands are distributed tensors."""
    name = func._schema.name.rpartition("::")[2]
    given = [each for each in leaves((args, kwargs)) if isinstance(each, TensorCore)]
    tensors = [each for each in given if isinstance(each, cls)]
    if name == "_local_scalar_dense":
        return func(args[0]._local_tensor)
    if any(not isinstance(each, cls) and each.dim() for each in given):
        raise RuntimeError(
            f"{func}: got mixed torch.Tensor and DTensor. Make each plain tensor a DTensor with distribute_tensor, or with "
            "DTensor.from_local if it holds this rank's part."
        )
    if any(each.device_mesh != tensors[0].device_mesh for each in tensors):
        raise NotImplementedError(f"{func}: the operands lie on different meshes, which can't be mixed in one operator")
    if kwargs.get("out") is not None:
        raise NotImplementedError(f"{func}: out= is not supported for distributed tensors")
    if name == "equal":
        return _equal(func, args, tensors[0]._spec)
    run = _Run(cls, func, args, kwargs, tensors)
    return run.in_place() if run.op.in_place else run.out_of_place()


def _equal(func: Any, operands: Any, spec: DTensorSpec) -> bool:
    """Whether two tensors are equal on all ranks. A plain one, which has no dims, is the same on each."""
    one, other = operands
    if one.shape != other.shape:
        return False
    placements = without_partial(spec.placements)
    parts = [_brought(each, placements) if hasattr(each, "_spec") else each for each in operands]
    same = new_tensor(int(func(*parts)))
    for number in range(spec.mesh.ndim):
        all_reduce(same, ReduceOp.MIN, spec.mesh.get_group(number))
    return bool(same.item())


def _brought(tensor: Any, placements: Any) -> Any:
    """Return this rank's part of a tensor under other placements."""
    spec = tensor._spec
    return redistribute(tensor._local_tensor, spec.mesh, spec.shape, spec.placements, placements, into_terms=True)


class _Run:
    """One call of an operator."""

    def __init__(self, cls: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Any]) -> None:
        self.cls, self.func, self.args, self.kwargs, self.tensors = cls, func, args, kwargs, tensors
        self.metas = cache(self._metas)
        self.op = Operation(func, args, kwargs, tensors, lambda: [tuple(each.shape) for each in leaves(self.metas())])
        self.mesh = self.op.mesh

    def _metas(self) -> Any:
        """Return the results for whole tensors, on the meta device."""

        def meta(value: Any) -> Any:
            if not isinstance(value, TensorCore):
                return value
            return empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype, device="meta")

        args, kwargs = map_leaves(meta, (self.args, self.kwargs))
        return self.func(*args, **({**kwargs, "device": "meta"} if kwargs.get("device") is not None else kwargs))

    def plan(self) -> tuple[list[tuple[Placement, ...]], list[Any]]:
        """Return the placements of the operands, and of the results: one for each dim of the mesh."""
        rule = rule_of(self.op.name)
        found = []
        for number in range(self.mesh.ndim):
            along = [each.placements[number] for each in self.tensors]
            found.append(rule(self.op, along, number))
        if rule is whole and all(each._spec.is_replicated() for each in self.tensors):
            found = [([Replicate()] * len(self.tensors), Replicate())] * self.mesh.ndim
        operands = [tuple([wanted[place] for wanted, _ in found]) for place in range(len(self.tensors))]
        return operands, [result for _, result in found]

    def local_call(self, operands: list[tuple[Placement, ...]], results: tuple[Placement, ...]) -> Any:
        """Run the operator on this rank's parts."""
        args, kwargs = self._with_parts(operands, (self.args, self.kwargs), self.tensors)
        if self.op.name == "embedding" and Shard(0) in operands[0]:
            return self._looked_up(operands[0], *args, **kwargs)
        sized = SIZES.get(self.op.name)
        if sized is not None and any(each.is_shard() for each in results):
            part = list(local_part(self.op.results[0], self.mesh, results)[0])
            if self.op.name == "new_empty_strided":
                return args[0].new_empty(part, **kwargs)
            if sized in kwargs:
                kwargs = {**kwargs, sized: part}
            else:
                args = (args[0], part, *args[2:])
        return self.func(*args, **kwargs)

    def _looked_up(self, placements: tuple[Placement, ...], rows: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
        """Look up the indices in this rank's rows of a table; others give zeros."""
        place = indices - local_part(self.tensors[0].shape, self.mesh, placements)[1][0]
        is_elsewhere = (place < 0) | (place >= rows.shape[0])
        if not rows.shape[0]:
            return rows.new_zeros((*indices.shape, rows.shape[1]))
        found = self.func(rows, place.masked_fill(is_elsewhere, 0), *args, **kwargs)
        return found.masked_fill(is_elsewhere.unsqueeze(-1), 0)

    def _with_parts(self, operands: list[tuple[Placement, ...]], tree: Any, tensors: list[Any]) -> Any:
        """Return arguments with distributed tensors replaced by this rank's parts."""
        parts = iter([_brought(each, wanted) for each, wanted in zip(tensors, operands, strict=True)])
        return map_leaves(lambda value: next(parts) if isinstance(value, self.cls) else value, tree)

    def out_of_place(self) -> Any:
        """Run the operator, and wrap its results."""
        operands, results = self.plan()
        if any(isinstance(each, list) for each in results):  # one placement for each of several results
            count = next(len(each) for each in results if isinstance(each, list))
            columns = [each if isinstance(each, list) else [each] * count for each in results]
            every = [tuple([column[place] for column in columns]) for place in range(count)]
            local = self.local_call(operands, every[0])
        else:
            local = self.local_call(operands, tuple(results))
            every = [tuple(results)] * sum(1 for _ in leaves(local))
        split = any(each.is_shard() for placements in every for each in placements)
        shown, placed = iter(leaves(self.metas())) if split else None, iter(every)

        def wrapped(value: Any) -> Any:
            if not isinstance(value, TensorCore):
                return value
            whole_one = value if shown is None else next(shown)
            meta = TensorMeta(whole_one.shape, whole_one.stride(), value.dtype)
            return self.cls._wrapped(value, DTensorSpec(self.mesh, next(placed), meta))

        if isinstance(local, (list, tuple)):
            return type(local)([wrapped(each) for each in local])
        return wrapped(local)

    def in_place(self) -> Any:
        """Run an operator that writes to its first operand."""
        target = self.tensors[0]
        operands, _ = self.plan()
        if target is not self.args[0]:
            raise RuntimeError(f"{self.func}: the result is distributed, and the tensor that it is written to is not")
        if operands[0] == target.placements:
            self.local_call(operands, target.placements)
            return target
        if any(isinstance(each, Partial) for each in target.placements):
            raise RuntimeError(
                f"{self.func}: in-place operations that require placement changes are not supported. Redistribute the "
                f"tensor, which is {target.placements}, before it."
            )
        spec = target._spec
        full = _brought(target, operands[0]).clone()
        args, kwargs = self._with_parts(operands[1:], (self.args[1:], self.kwargs), self.tensors[1:])
        self.func(full, *args, **kwargs)
        target._local_tensor.copy_(redistribute(full, spec.mesh, spec.shape, operands[0], spec.placements))
        return target
