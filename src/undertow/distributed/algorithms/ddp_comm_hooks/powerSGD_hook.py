"""PowerSGD: gradients sent as products of two thin matrices (https://arxiv.org/abs/1905.13727).

A gradient M of n rows and m columns is approximated by P Qᵀ with r columns each: P = M Q, made orthogonal, then
Q = Mᵀ P. Both are averaged over the ranks. The error of the approximation is added to the next gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from undertow._src.distributed.buckets import GradBucket, flattened
from undertow._src.distributed.comm_hooks import allreduce_hook
from undertow._src.distributed.functions import all_reduce
from undertow._src.distributed.state import default_group
from undertow._src.ops.join import cat
from undertow._src.types.dtypes import bfloat16, float16
from undertow._tensor import Tensor
from undertow.futures import Future
from undertow.linalg import qr
from undertow.random import fork_rng, manual_seed, randn

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

_SEEDS = 1_000_000_000
_GRAM_SCHMIDT = 2  # columns up to which Gram-Schmidt is used instead of a QR decomposition


class PowerSGDState:
    """The settings of PowerSGD, and its state between iterations."""

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled: DDP rebuilds its "
                "buckets after the first iteration, and what is kept belongs to a bucket."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, Tensor] = {}  # by the number of a bucket
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.p_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float, int, int]:
        """Return the compression ratio, the number of values, and the number of values that were sent."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0), before, after


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Return a bucket's mean gradients; large enough matrices are approximated, one by one."""

    def mean(flat: Tensor) -> None:
        matrices: list[Any] = []
        rest: list[Any] = []
        for gradient in bucket.gradients():
            matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() else gradient.view(1, 1)
            (matrices if _is_worth_it(state, matrix) else rest).append(matrix)
        matrices.sort(key=_by_shape(matrices))
        sent = sum(matrix.numel() for matrix in rest)
        if rest:
            together = _mean(state, flattened(rest))
            for matrix, part in zip(rest, together.split([matrix.numel() for matrix in rest]), strict=True):
                matrix.copy_(part.view(matrix.shape))
        if matrices:
            sent += _approximate(state, bucket.index(), matrices)
        state.total_numel_before_compression += flat.numel()
        state.total_numel_after_compression += sent

    return _with_feedback(state, bucket, mean)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Return a bucket's mean gradients, approximated as one square matrix."""

    def mean(flat: Tensor) -> None:
        count = flat.numel()
        side = math.ceil(math.sqrt(count))
        square = cat([flat, flat.new_zeros(side * side - count)]).view(side, side)
        _approximate(state, bucket.index(), [square])
        flat.copy_(square.view(-1)[:count])

    return _with_feedback(state, bucket, mean)


def _with_feedback(state: PowerSGDState, bucket: GradBucket, mean: Callable[[Tensor], None]) -> Future[Tensor]:
    """Add the error of the last approximation, and return the means by `mean`; before PowerSGD begins, exact means."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    flat, index = bucket.buffer(), bucket.index()
    if state.use_error_feedback:
        if index in state.error_dict:
            flat.add_(state.error_dict[index])
        exact = flat.clone()
    mean(flat)
    if state.use_error_feedback:
        state.error_dict[index] = exact - flat
    if not state.warm_start:
        state.q_memory_dict.clear()
    state.maybe_increase_iter(bucket)
    done: Future[Tensor] = Future()
    done.set_result(flat)
    return done


def _approximate(state: PowerSGDState, index: int, matrices: list[Tensor]) -> int:
    """Replace matrices by their approximate means; return how many values were sent."""
    epsilon = state.orthogonalization_epsilon
    qs = state.q_memory_dict.get(index)
    if qs is None:
        with fork_rng(devices=[]):
            manual_seed(int(state.rng.randint(_SEEDS)))
            qs = [
                randn(matrix.shape[1], min(*matrix.shape, state.matrix_approximation_rank), dtype=matrix.dtype)
                for matrix in matrices
            ]
    qs = [_orthogonal(q, epsilon) for q in qs]
    ps = _together(state, [matrix @ q for matrix, q in zip(matrices, qs, strict=True)], is_mean=False)
    ps = [_orthogonal(p, epsilon) for p in ps]
    qs = _together(state, [matrix.t() @ p for matrix, p in zip(matrices, ps, strict=True)], is_mean=True)
    for matrix, p, q in zip(matrices, ps, qs, strict=True):
        matrix.copy_(p @ q.t())
    state.p_memory_dict[index], state.q_memory_dict[index] = ps, qs
    return sum(part.numel() for part in (*ps, *qs))


def _is_worth_it(state: PowerSGDState, matrix: Tensor) -> bool:
    rows, columns = matrix.shape
    rank = min(rows, columns, state.matrix_approximation_rank)
    return (rows + columns) * rank * state.min_compression_rate < rows * columns


def _by_shape(matrices: list[Tensor]) -> Callable[[Tensor], int]:
    """Return a sort key that groups matrices by shape, in the order in which the shapes first appear."""
    order: dict[Any, int] = {}
    for matrix in matrices:
        order.setdefault(matrix.shape, len(order))
    return lambda matrix: order[matrix.shape]


def _mean(state: PowerSGDState, flat: Tensor, is_mean: bool = True) -> Tensor:
    group = state.process_group if state.process_group is not None else default_group()
    all_reduce(flat, group=group)
    return flat.div_(group.size()) if is_mean else flat


def _together(state: PowerSGDState, parts: list[Tensor], is_mean: bool) -> list[Tensor]:
    """Return the sums or means of tensors over the ranks, from one collective."""
    flat = _mean(state, flattened(parts), is_mean)
    pieces = flat.split([part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]


def _orthogonal(matrix: Tensor, epsilon: float) -> Tensor:
    """Return a matrix with orthonormal columns that span the columns of the given one."""
    if matrix.shape[1] > _GRAM_SCHMIDT and matrix.dtype not in (float16, bfloat16):
        return qr(matrix)[0]
    columns: list[Tensor] = []
    for column in matrix.t():
        for earlier in columns:
            column = column - (earlier * column).sum() * earlier
        columns.append(column / (column.norm() + epsilon))
    return cat([column.view(-1, 1) for column in columns], 1)
