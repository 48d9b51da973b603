"""Layers with the signatures of PyTorch's compiled code (`torch._C._nn`, `torch.ops.aten`): every option is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from undertow._src.engine.arguments import as_ints, check_tensor
from undertow._src.ops.resize import resized
from undertow.nn import functional as F

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

# --- other sizes

_ALIGNED = {("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3), ("lanczos", 2)}


def _upsampler(name: str, mode: str, rank: int, antialias: bool = False) -> Callable[..., Tensor]:
    """Return an upsampling function: (input, output_size, align_corners if it has any, scales of all or of each dim)."""
    aligned = (mode, rank) in _ALIGNED

    def upsample(input: Tensor, output_size: _size | None, *options: Any, **named: Any) -> Tensor:
        check_tensor(input, name)
        if input.dim() != rank + 2:
            raise RuntimeError(
                f"It is expected input_size equals to {rank + 2}, but got size {input.dim()} in {name}()"
            )
        align, left = False, list(options)
        if aligned:
            align = left.pop(0) if left else named.pop("align_corners")
        left += named.values()
        scales: Sequence[float | None] | None = (
            left[0] if len(left) == 1 and isinstance(left[0], (list, tuple)) else left
        )
        if output_size is None:
            factors = [scale for scale in scales or () if scale is not None]
            corners = align if aligned else None
            return F.interpolate(input, None, factors, mode, corners, antialias=antialias)
        output = as_ints(output_size, name, "output_size")
        if len(output) != rank:
            raise RuntimeError(f"It is expected output_size equals to {rank}, but got size {len(output)}")
        if not scales or None in scales:
            scales = None
        return resized(input, output, scales, mode, align, antialias)

    upsample.__name__ = upsample.__qualname__ = name
    return upsample


upsample_nearest1d, upsample_nearest2d, upsample_nearest3d = (
    _upsampler(f"upsample_nearest{rank}d", "nearest", rank) for rank in (1, 2, 3)
)
_upsample_nearest_exact1d, _upsample_nearest_exact2d, _upsample_nearest_exact3d = (
    _upsampler(f"_upsample_nearest_exact{rank}d", "nearest-exact", rank) for rank in (1, 2, 3)
)
upsample_linear1d = _upsampler("upsample_linear1d", "linear", 1)
upsample_bilinear2d = _upsampler("upsample_bilinear2d", "bilinear", 2)
upsample_bicubic2d = _upsampler("upsample_bicubic2d", "bicubic", 2)
upsample_trilinear3d = _upsampler("upsample_trilinear3d", "trilinear", 3)
_upsample_bilinear2d_aa = _upsampler("_upsample_bilinear2d_aa", "bilinear", 2, antialias=True)
_upsample_bicubic2d_aa = _upsampler("_upsample_bicubic2d_aa", "bicubic", 2, antialias=True)

# --- padding


def _padder(name: str, mode: str) -> Callable[[Tensor, _size], Tensor]:
    def padded(self: Tensor, padding: _size) -> Tensor:
        return F.pad(self, padding, mode)

    padded.__name__ = padded.__qualname__ = name
    return padded


reflection_pad1d, reflection_pad2d, reflection_pad3d = (
    _padder(f"reflection_pad{rank}d", "reflect") for rank in (1, 2, 3)
)
replication_pad1d, replication_pad2d, replication_pad3d = (
    _padder(f"replication_pad{rank}d", "replicate") for rank in (1, 2, 3)
)

# --- windows


def im2col(self: Tensor, kernel_size: _size, dilation: _size, padding: _size, stride: _size) -> Tensor:
    """Return the windows of images as columns."""
    return F.unfold(self, kernel_size, dilation, padding, stride)


def col2im(
    self: Tensor, output_size: _size, kernel_size: _size, dilation: _size, padding: _size, stride: _size
) -> Tensor:
    """Return images made of the sums of columns."""
    return F.fold(self, output_size, kernel_size, dilation, padding, stride)


def fractional_max_pool2d(self: Tensor, kernel_size: _size, output_size: _size, random_samples: Tensor) -> Any:
    """Return maxima over windows that `random_samples` places, and where they stand."""
    return F.fractional_max_pool2d(self, kernel_size, output_size, None, True, random_samples)


def fractional_max_pool3d(self: Tensor, kernel_size: _size, output_size: _size, random_samples: Tensor) -> Any:
    """Return maxima over windows that `random_samples` places, and where they stand."""
    return F.fractional_max_pool3d(self, kernel_size, output_size, None, True, random_samples)


_adaptive_avg_pool2d, _adaptive_avg_pool3d = F.adaptive_avg_pool2d, F.adaptive_avg_pool3d

# --- activations in place


def _in_place(name: str) -> Callable[[Tensor], Tensor]:
    function = getattr(F, name)

    def written(self: Tensor) -> Tensor:
        return function(self, inplace=True)

    written.__name__ = written.__qualname__ = name + "_"
    return written


hardsigmoid_, hardswish_, mish_, relu6_, silu_ = map(_in_place, ["hardsigmoid", "hardswish", "mish", "relu6", "silu"])


def gelu_(self: Tensor, *, approximate: str = "none") -> Tensor:
    """Write gelu(self) into self."""
    return self.copy_(F.gelu(self, approximate=approximate))
