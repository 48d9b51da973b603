"""Random draws as recorded operations: a draw does not depend on the input, so its gradient is zero."""

from __future__ import annotations

from undertow._src.rules.rule import Rule, op


def _draw(name: str, node: str | None = None) -> Rule:
    return op(name, lambda xp, self, *, values: xp.constant(values), node=node, self=lambda xp, g: xp.zeros_like(g))


uniform, exponential, geometric = _draw("uniform"), _draw("exponential"), _draw("geometric")
log_normal, cauchy, poisson = _draw("log_normal"), _draw("cauchy"), _draw("poisson")
random_between, random_below, random_any = (_draw("random", f"RandomBackward{nr}") for nr in range(3))
bernoulli, bernoulli_each, bernoulli_one = (_draw("bernoulli", f"BernoulliBackward{nr}") for nr in range(3))
normal, normal_mean, normal_std = (_draw("normal", f"NormalBackward{nr}") for nr in range(3))

normal_both = op("normal", lambda xp, mean, std, *, values: xp.constant(values), node="NormalBackward3",
                 mean=lambda xp, g, mean_spec: xp.zeros(mean_spec.shape, mean_spec.dtype),
                 std=lambda xp, g, std_spec: xp.zeros(std_spec.shape, std_spec.dtype))  # fmt: skip

binomial = op("binomial", lambda xp, count, prob, *, values: xp.constant(values), node="NotImplemented",
              count=lambda xp, g: xp.zeros_like(g), prob=lambda xp, g: xp.zeros_like(g))  # fmt: skip
