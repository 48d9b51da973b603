"""Structured attention masks: `CausalBias`, made by `causal_upper_left` and `causal_lower_right`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from undertow._src.base.sites import warn
from undertow._src.tensor.creation import empty, ones
from undertow._src.types.aliases import Device
from undertow._src.types.dtypes import bool as boolean
from undertow._tensor import Tensor
from undertow.nn.functional import scaled_dot_product_attention

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """The corner of the score matrix that the causal triangle is aligned to."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask: each position attends to those before it. Only attention reads it as a mask."""

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant)}")
        made = empty(variant, seq_len_q, seq_len_kv).as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!")
        return made

    def _materialize(self, device: Device = None) -> Tensor:
        """Return the mask as a boolean tensor."""
        offset = self.seq_len_kv - self.seq_len_q if self.variant == CausalVariant.LOWER_RIGHT else 0
        return ones(self.seq_len_q, self.seq_len_kv, dtype=boolean, device=device).tril(diagonal=offset)

    @classmethod
    def __torch_function__(cls, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is not scaled_dot_product_attention:
            return super().__torch_function__(func, types, args, kwargs)
        return _attended(*args, **kwargs)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return repr(self._materialize())


def _attended(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, dropout_p: float = 0.0, is_causal: bool = False,
              scale: float | None = None, enable_gqa: bool = False) -> Tensor:  # fmt: skip
    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")
    mask = attn_mask._materialize(query.device)
    return scaled_dot_product_attention(query, key, value, mask, dropout_p, scale=scale, enable_gqa=enable_gqa)


def causal_upper_left(*size: int) -> CausalBias:
    """Return a mask aligned to the upper left corner: the first query attends to the first key only."""
    return _made("causal_upper_left", CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return a mask aligned to the lower right corner: the last query attends to all keys."""
    return _made("causal_lower_right", CausalVariant.LOWER_RIGHT, size)


def _made(name: str, variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return CausalBias(variant, *size)
