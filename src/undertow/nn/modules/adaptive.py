"""Softmax over very many classes, most of them rare: frequent classes in the head, rare ones in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.base import tracer
from undertow._src.base.sites import user_site
from undertow._src.types.aliases import Device
from undertow._src.types.dtypes import dtype
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn.modules.container import ModuleList, Sequential
from undertow.nn.modules.linear import Linear
from undertow.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of the target classes, and their loss (Grave et al., 2016).

    Classes must be numbered by frequency. `cutoffs` are the first classes of the clusters; each cluster's layer is
    `div_value` times narrower than the one before.
    """

    cutoffs: list[int]
    head: Linear
    tail: ModuleList

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
        device: Device = None, dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
            or any(int(cutoff) != cutoff for cutoff in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers that grow and stay below n_classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for nr in range(self.n_clusters):
            width = int(in_features // div_value ** (nr + 1))
            classes = self.cutoffs[nr + 1] - self.cutoffs[nr]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, device=device, dtype=dtype),
                    Linear(width, classes, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Initialize all weights again."""
        self.head.reset_parameters()
        for to_width, to_classes in self.tail:
            to_width.reset_parameters()
            to_classes.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        _refuse_in_program("F.nll_loss(layer.log_prob(input), target)")
        if target_.dim() == 1:
            if input_.shape[0] != target_.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError(
                    f"1D target tensor expects 2D input tensors, but found inputs with size {input_.size()}"
                )
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError(
                    f"0D target tensor expects 1D input tensors, but found inputs with size {input_.size()}"
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        used = 0
        output = input.new_zeros(target.size(0))
        in_head = target.new_empty(target.size(0))  # the column of the head for each target
        bounds = [0, *self.cutoffs]
        for nr in range(len(bounds) - 1):
            rows = ((target >= bounds[nr]) & (target < bounds[nr + 1])).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            if nr == 0:
                in_head.index_copy_(0, rows, target[rows])
            else:
                column = (target[rows] - bounds[nr]).unsqueeze(1)
                inside = F.log_softmax(self.tail[nr - 1](input.index_select(0, rows)), dim=1)
                in_head.index_fill_(0, rows, self.cutoffs[0] + nr - 1)
                output.index_copy_(0, rows, inside.gather(1, column).squeeze(1))
            used += rows.numel()
        if used != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, in_head.unsqueeze(1)).squeeze()
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        """Return the log probabilities of all classes, given the head's outputs."""
        result = input.new_empty((head_output.size(0), self.n_classes))
        head = F.log_softmax(head_output, dim=1)
        result[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for nr, (start, stop) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            inside = F.log_softmax(self.tail[nr](input), dim=1)
            result[:, start:stop] = inside + head[:, self.shortlist_size + nr].unsqueeze(1)
        return result

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the likeliest class of each row; a cluster is evaluated only for rows that it wins."""
        _refuse_in_program("layer.log_prob(input).argmax(1)")
        head_output = self.head(input)
        output = head_output.argmax(dim=1)
        rare = output >= self.shortlist_size
        if not rare.any():
            return output
        if rare.all():
            return self._get_full_log_prob(input, head_output).argmax(dim=1)
        output[rare] = self._get_full_log_prob(input[rare], head_output[rare]).argmax(dim=1)
        return output


def _refuse_in_program(instead: str) -> None:
    """Raise in a compiled step: which rows a cluster gets, and whether it gets a gradient, depends on values."""
    if tracer.current is not None:
        raise NeedsValue(
            f"AdaptiveLogSoftmaxWithLoss, called at {user_site() or 'an unknown line'}, looks into clusters only for the "
            f"rows that need them, which are known only when the program runs. {instead} looks into all of them."
        )
