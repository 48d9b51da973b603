"""Buckets: gradients that are reduced together, in one flat tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow._src.ops.join import cat
from undertow._src.tensor.creation import zeros

SMALL = 1 << 20  # bytes of the first bucket: small, so that it is full early


def assign_buckets(
    params: Sequence[Any], sparse: Sequence[bool], limits: Sequence[int], order: Sequence[int] | None = None
) -> list[list[int]]:
    """Return the parameters of each bucket: they have one dtype and device, and a bucket is full at its limit of bytes.

    The buckets of each dtype take the limits in order, and the last limit from there on. `order`: the parameters as their
    gradients arrived; the buckets are in that order, too. Without it they are in the order of the parameters.
    """
    done: list[list[int]] = []
    open_buckets: dict[Any, list[int]] = {}
    used: dict[Any, int] = {}
    for index in range(len(params)) if order is None else order:
        param = params[index]
        if sparse[index]:
            done.append([index])
            continue
        key = (param.dtype, param.device)
        members = open_buckets.setdefault(key, [])
        members.append(index)
        size = sum([params[each].numel() for each in members]) * param.element_size()
        limit = used.setdefault(key, 0)
        if size >= limits[limit]:
            done.append(members)
            open_buckets[key] = []
            used[key] = min(limit + 1, len(limits) - 1)
    done += [members for members in reversed(open_buckets.values()) if members]  # the dtype met last comes first
    return sorted(done, key=min) if order is None else done


class Bucket:
    """The parameters that are reduced together, and their gradients in one flat tensor."""

    def __init__(self, indices: Sequence[int], params: Sequence[Any], is_sparse: bool) -> None:
        self.indices = list(indices)
        self.params = [params[index] for index in indices]
        self.is_sparse = is_sparse
        self.sizes = [param.numel() for param in self.params]
        self.offsets = [sum(self.sizes[:place]) for place in range(len(self.sizes))]
        first = self.params[0]
        self.flat: Any = None if is_sparse else zeros(sum(self.sizes), dtype=first.dtype, device=first.device)
        self.views = [] if is_sparse else self.views_of(self.flat)
        self.pending = len(self.indices)
        self.is_recorded = False  # whether a gradient with a graph was written to it
        self.future: Any = None  # of the reduced flat tensor

    def views_of(self, flat: Any) -> list[Any]:
        """Return the parts of a flat tensor in the shapes of the parameters."""
        return [self._view(flat, place) for place in range(len(self.params))]

    def _view(self, flat: Any, place: int) -> Any:
        param, offset = self.params[place], self.offsets[place]
        if param.is_contiguous() or not _is_dense(param):
            return flat[offset : offset + self.sizes[place]].view(param.shape)
        return flat.as_strided(param.shape, param.stride(), offset)


def _is_dense(param: Any) -> bool:
    """Whether a parameter's elements fill its memory, in any order of its dimensions."""
    expected = 1
    for stride, size in sorted(zip(param.stride(), param.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


class GradBucket:
    """The argument of a communication hook: a bucket with this rank's gradients, as one flat tensor and one by one."""

    __module__ = "torch.distributed"

    def __init__(self, bucket: Bucket, index: int, count: int, flat: Any) -> None:
        self._bucket, self._index, self._count, self._flat = bucket, index, count, flat

    def index(self) -> int:
        """Return the bucket's number; buckets are reduced in this order."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last bucket of the backward pass."""
        return self._index == self._count - 1

    def buffer(self) -> Any:
        """Return the gradients as one flat tensor."""
        return self._flat

    def set_buffer(self, buffer: Any) -> None:
        """Replace the flat tensor."""
        self._flat = buffer

    def gradients(self) -> list[Any]:
        """Return each parameter's gradient, a view of the flat tensor."""
        return [self._flat] if self._bucket.is_sparse else self._bucket.views_of(self._flat)

    def parameters(self) -> list[Any]:
        """Return the parameters whose gradients are in the bucket."""
        return list(self._bucket.params)


def by_dtype(tensors: Sequence[Any]) -> list[list[Any]]:
    """Return tensors in groups of the same dtype and device."""
    groups: dict[Any, list[Any]] = {}
    for tensor in tensors:
        groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return list(groups.values())


def flattened(tensors: Sequence[Any]) -> Any:
    """Return tensors as one flat tensor."""
    return cat([tensor.detach().reshape(-1) for tensor in tensors])
