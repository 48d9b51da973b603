"""Reparameterised draws: gamma and Dirichlet, differentiated at a fixed quantile."""

from __future__ import annotations

from undertow._src.rules.elementwise import NOT_IMPLEMENTED, not_differentiated
from undertow._src.rules.rule import op

standard_gamma = op("standard_gamma", lambda xp, self, *, values: xp.constant(values),
                    self=lambda xp, g, self, result: g * xp.standard_gamma_grad(self, result))  # fmt: skip

standard_gamma_grad = op("standard_gamma_grad", lambda xp, self, output: xp.standard_gamma_grad(self, output),
                         promote="same", accepts="f", node=NOT_IMPLEMENTED,
                         self=not_differentiated("_standard_gamma_grad"),
                         output=not_differentiated("_standard_gamma_grad"))  # fmt: skip

sample_dirichlet = op("sample_dirichlet", lambda xp, self, *, values: xp.constant(values), node="_DirichletBackward",
                      self=lambda xp, g, self, result: xp.dirichlet_grad(
                          result, self, xp.sum(self, axis=-1, keepdims=True))
                      * (g - xp.sum(result * g, axis=-1, keepdims=True)))  # fmt: skip

dirichlet_grad = op("dirichlet_grad", lambda xp, x, alpha, total: xp.dirichlet_grad(x, alpha, total),
                    promote="numeric", accepts="f", node=NOT_IMPLEMENTED,
                    x=not_differentiated("_dirichlet_grad"), alpha=not_differentiated("_dirichlet_grad"),
                    total=not_differentiated("_dirichlet_grad"))  # fmt: skip
