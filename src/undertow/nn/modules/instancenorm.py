"""Instance normalization over one, two and three dimensions, and its lazy variants."""

from __future__ import annotations

from typing import Any

from undertow._src.base.sites import warn
from undertow._src.types.aliases import Device
from undertow._src.types.dtypes import dtype
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]  # fmt: skip


class _InstanceNorm(_NormBase):
    """Normalizes each channel of each sample by itself."""

    _dimensions = 0

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Device = None, dtype: dtype | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        unbatched = self._get_no_batch_dim()
        if input.dim() not in (unbatched, unbatched + 1):
            raise ValueError(f"expected {unbatched}D or {unbatched + 1}D input (got {input.dim()}D input)")

    def _get_no_batch_dim(self) -> int:
        return self._dimensions + 1

    def _handle_no_batch_input(self, input: Tensor) -> Tensor:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, 0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip

    def _upgrade_own_entries(
        self, state_dict: dict[str, Any], prefix: str, version: int | None, error_msgs: list[str]
    ) -> None:
        if version is None and not self.track_running_stats:
            # Before version 0.4 of PyTorch these layers kept running statistics by default.
            found = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if found:
                names = " and ".join(f'"{key}"' for key in found)
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {type(self).__name__} with "
                    "track_running_stats=False. A checkpoint from before version 0.4.0, when they were kept by default, "
                    "has such keys: remove them from it, or build the layer with track_running_stats=True if it shall "
                    "use them."
                )
                for key in found:
                    state_dict.pop(key)
        super()._upgrade_own_entries(state_dict, prefix, version, error_msgs)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        batched = input.dim() > self._get_no_batch_dim()
        self._check_channels(input, int(batched))
        return self._apply_instance_norm(input) if batched else self._handle_no_batch_input(input)

    def _check_channels(self, input: Tensor, dim: int) -> None:
        found = input.size(dim)
        if found == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: {found}."
            )
        warn(
            f"input's size at dim={dim} does not match num_features. Leave that out to silence this warning: "
            "it is a number which is not used because affine=False."
        )


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of (batch, channels, length)."""

    _dimensions = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of (batch, channels, height, width)."""

    _dimensions = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of (batch, channels, depth, height, width)."""

    _dimensions = 3


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that takes its num_features from the first input."""

    cls_to_become = InstanceNorm1d
    _dimensions = 1


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that takes its num_features from the first input."""

    cls_to_become = InstanceNorm2d
    _dimensions = 2


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that takes its num_features from the first input."""

    cls_to_become = InstanceNorm3d
    _dimensions = 3
