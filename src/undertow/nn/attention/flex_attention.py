"""Attention with scores and masks given as Python functions of positions.

    def causal(batch, head, query, key):
        return query >= key

    mask = create_block_mask(causal, B=None, H=None, Q_LEN=128, KV_LEN=128, device="cpu")
    out = flex_attention(q, k, v, block_mask=mask)

Each function is called once, with index tensors that broadcast to all scores. A block mask also says which blocks of
scores are fully masked; undertow computes those too, so results do not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from undertow._src.ops.compare import where
from undertow._src.ops.matmul import matmul
from undertow._src.ops.reduce import logsumexp
from undertow._src.ops.sort import argsort
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import full
from undertow._src.tensor.ranges import arange
from undertow._src.types import dtypes
from undertow._tensor import Tensor

if TYPE_CHECKING:
    from undertow._src.types.aliases import Device

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention", "noop_mask",
    "or_masks",
]  # fmt: skip


class AuxRequest(NamedTuple):
    """Which further results `flex_attention` should return."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The further results: log-sum-exp and maximum of each row of scores."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


MaskMod = Callable[[Any, Any, Any, Any], Any]
_DEFAULT_SPARSE_BLOCK_SIZE = 128


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Return a mask that keeps every score."""
    return batch.new_ones(size=(), dtype=dtypes.bool)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return a mask that keeps the scores that all of these masks keep."""

    def both(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_ones((), dtype=dtypes.bool)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return _checked(mask_mods, both)


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return a mask that keeps the scores that any of these masks keeps."""

    def either(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_zeros((), dtype=dtypes.bool)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return _checked(mask_mods, either)


def _checked(mask_mods: tuple[MaskMod, ...], combined: MaskMod) -> MaskMod:
    if not all(callable(mask) for mask in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")
    return combined


def _places(batch: int, heads: int, queries: int, keys: int) -> tuple[Any, Any, Any, Any]:
    """Return the index tensors of all scores, each along its own dim."""
    sizes = (batch, heads, queries, keys)
    return tuple(arange(size).view([-1 if dim == place else 1 for dim in range(4)]) for place, size in enumerate(sizes))


def create_mask(
    mod_fn: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Device = "cpu",
    **options: object,
) -> Tensor:  # fmt: skip
    """Return a function of indices as a tensor (B, H, Q_LEN, KV_LEN): the mask, or a score_mod applied to zero."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = _places(*sizes)
    if mod_fn.__code__.co_argcount == 5 if hasattr(mod_fn, "__code__") else False:
        scores = mod_fn(full(sizes, 0.0), *places)
        return where(scores == -math.inf, False, True)
    return mod_fn(*places).expand(sizes).clone()


class BlockMask:
    """A mask function, with the blocks of scores that it keeps in part and those that it keeps whole."""

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None, full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE,) * 2, mask_mod: MaskMod | None = None,
    ) -> None:  # fmt: skip
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod or noop_mask
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskMod | None = None, seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """Return a block mask from the indices of the blocks that are kept."""
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else (BLOCK_SIZE[0], BLOCK_SIZE[1])
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        return cls(seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, size, mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def to_dense(self) -> Tensor:
        """Return a tensor with 1 for every block that is kept, at least in part, and 0 for the others."""
        left = _dense_blocks(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            left = left | _dense_blocks(self.full_kv_num_blocks, self.full_kv_indices)
        return left.to(dtypes.int32)

    def numel(self) -> int:
        """Return the number of scores."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return the percentage of scores in blocks that are fully masked."""
        blocks = self.to_dense()
        computed = blocks.sum().item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - computed / self.numel())

    def to(self, device: Device) -> BlockMask:
        """Return the block mask on a device."""
        return self

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"

    __str__ = __repr__


def _dense_blocks(counts: Tensor, indices: Tensor) -> Tensor:
    blocks = indices.new_zeros(indices.shape, dtype=dtypes.bool)
    kept = arange(indices.shape[-1]) < counts.unsqueeze(-1)
    return blocks.scatter(-1, indices.to(dtypes.int64), kept)


def create_block_mask(
    mask_mod: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Device = "cpu",
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False, **options: object,
) -> BlockMask:  # fmt: skip
    """Return a block mask from a function of indices."""
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else (BLOCK_SIZE[0], BLOCK_SIZE[1])
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN)
    down, across = -(-Q_LEN // rows), -(-KV_LEN // columns)
    padded = mask.new_zeros(*mask.shape[:2], down * rows, across * columns)
    padded[..., :Q_LEN, :KV_LEN] = mask
    counts = padded.view(*mask.shape[:2], down, rows, across, columns).to(dtypes.int64).sum((-3, -1))
    whole = counts == rows * columns
    partial = (counts > 0) & ~whole
    parts = [(kind.sum(-1).to(dtypes.int32), argsort(kind.to(dtypes.int32), -1, True, stable=True).to(dtypes.int32))
             for kind in (partial, whole)]  # fmt: skip
    return BlockMask((Q_LEN, KV_LEN), *parts[0], *parts[1], BLOCK_SIZE=(rows, columns), mask_mod=mask_mod)


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None, *, return_aux: AuxRequest | None = None, **options: object,
) -> Any:  # fmt: skip
    """Compute attention with `score_mod(score, batch, head, query, key)` and a block mask.

    >>> q = k = v = torch.ones(1, 1, 2, 4)
    >>> flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j)).shape
    torch.Size([1, 1, 2, 4])
    """
    if not all(isinstance(given, TensorCore) and given.ndim == 4 for given in (query, key, value)):
        raise ValueError(
            f"Expected query, key, and value to all be 4D tensors, but got query.dim(): {query.dim()}, key.dim(): "
            f"{key.dim()} and value.dim(): {value.dim()} instead."
        )
    heads = query.shape[-3]
    if enable_gqa:
        key, value = [given.repeat_interleave(heads // given.shape[-3], -3) for given in (key, value)]
    elif heads != key.shape[-3]:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads, not {heads} and {key.shape[-3]}; "
            "enable_gqa=True lets several query heads share one."
        )
    scores = matmul(query, key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    places = _places(*scores.shape)
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if block_mask is not None:
        scores = where(block_mask.mask_mod(*places), scores, -math.inf)
    lse = logsumexp(scores, -1)
    seen = (scores != -math.inf).any(-1, keepdim=True)  # a query whose keys are all masked gets zeros
    out = matmul(where(seen, scores.softmax(-1), 0.0).to(value.dtype), value)
    if return_aux is not None:
        highest = scores.amax(-1) if return_aux.max_scores else None
        return out, AuxOutput(lse if return_aux.lse else None, highest)
    return (out, lse) if return_lse else out
