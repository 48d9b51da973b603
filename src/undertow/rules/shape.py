"""Shape rules: views and rearrangements. Their gradients need shapes only."""

from __future__ import annotations

from undertow.rules.rule import op

view = op("view", lambda xp, self, *, size: xp.reshape(self, size), view=True,
          self=lambda xp, g, self_spec: xp.reshape(g, self_spec.shape))  # fmt: skip

expand = op("expand", lambda xp, self, *, size: xp.broadcast_to(self, size), view=True,
            self=lambda xp, g, self_spec: xp.sum_to_shape(g, self_spec.shape))  # fmt: skip

permute = op("permute", lambda xp, self, *, dims: xp.transpose(self, dims), view=True,
             self=lambda xp, g, dims: xp.transpose(g, inverse_permutation(dims)))  # fmt: skip

clone = op("clone", lambda xp, self: xp.copy(self), self=lambda g: g)


def inverse_permutation(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))
