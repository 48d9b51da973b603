"""Rules that change what a tensor is made of, not its values: casts and aliases."""

from __future__ import annotations

from undertow.rules.rule import op

# A fresh array of another (or the same) dtype. The parts of a complex number that a real one drops get no gradient.
to_copy = op("to_copy", lambda xp, self, *, dtype: xp.cast(self, dtype), holomorphic=False,
             self=lambda xp, g, self_spec: xp.astype(g, self_spec.dtype))  # fmt: skip

# The same memory and values, as a tensor of its own: what `as_subclass` returns.
alias = op("alias", lambda xp, self: xp.reshape(self, self.shape), view=True, self=lambda g: g)
