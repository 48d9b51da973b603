"""Reference implementations: CTC loss, layers on a batch of one, and layers in bfloat16 against float32."""

from __future__ import annotations

from typing import Any

from undertow._src.base.modes import no_grad
from undertow._src.ops.join import stack
from undertow._src.types.dtypes import bfloat16, float32
from undertow.random import randn

__all__ = ["ctcloss_reference", "single_batch_reference_fn"]


def ctcloss_reference(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean"
) -> Any:
    """Return minus the log probability of each target, summed over all alignments with blanks and repetitions.

    After a step, `ways[i]` is the log probability of being at position i of the target with blanks around each letter.
    It is reached from i, from i - 1, or from i - 2 if the blank between may be skipped.
    """
    losses, begin = [], 0
    lengths = [int(length) for length in target_lengths]
    for example, length in enumerate(lengths):
        letters = targets[example, :length] if targets.dim() > 1 else targets[begin : begin + length]
        begin += length
        wanted = [blank]
        for letter in letters.tolist():
            wanted += [int(letter), blank]
        steps = log_probs[: int(input_lengths[example]), example]
        never = steps.new_tensor(float("-inf"))
        ways = [steps[0, letter] if place < 2 else never for place, letter in enumerate(wanted)]
        for step in steps[1:]:
            ways = [
                stack([
                    ways[place], ways[place - 1] if place else never,
                    ways[place - 2] if place > 1 and wanted[place] not in (blank, wanted[place - 2]) else never,
                ]).logsumexp(0) + step[wanted[place]]
                for place in range(len(wanted))
            ]  # fmt: skip
        losses.append(-stack(ways[-2:]).logsumexp(0))
    found = stack(losses)
    if reduction == "mean":
        return (found / found.new_tensor(lengths)).mean()
    return found.sum() if reduction == "sum" else found


def single_batch_reference_fn(input: Any, parameters: Any, module: Any) -> Any:
    """Return the result of a layer for one example, computed with a batch of one."""

    def batched(value: Any) -> Any:
        return tuple(batched(each) for each in value) if isinstance(value, (list, tuple)) else value.unsqueeze(0)

    given = batched(input)
    with no_grad():
        return module(*given if isinstance(given, tuple) else (given,)).squeeze(0)


def _test_bfloat16_ops(
    test_case: Any, op: Any, device: Any, inp_dims: Any = (), prec: float = 1e-2, scale_factor: float | None = None
) -> None:
    """Check that a layer has the same results and gradients in bfloat16 as in float32, up to rounding."""
    scale = 1.0 if scale_factor is None else scale_factor
    wide = (randn(inp_dims, dtype=float32, device=device) / scale).requires_grad_()
    narrow = wide.detach().to(bfloat16).requires_grad_()
    outputs = [op(wide), op(narrow)]
    direction = randn(outputs[0].shape, dtype=float32, device=device) / scale
    outputs[0].backward(direction)
    outputs[1].backward(direction.to(bfloat16))
    test_case.assertEqual(outputs[0], outputs[1], atol=prec, rtol=prec, exact_dtype=False)
    test_case.assertEqual(wide.grad, narrow.grad, atol=prec, rtol=prec, exact_dtype=False)
