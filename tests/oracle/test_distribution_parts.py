"""Constraints and transforms of torch.distributions: their classes, and those made of others."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch as real_torch

from tests.oracle.distribution_programs import MODULES, make, signature
from tests.oracle.harness import agree
from tests.oracle.programs import attempt


@pytest.fixture(autouse=True)
def checked() -> None:
    """Parts of real torch that other tests load turn these checks off for the whole process."""
    real_torch.distributions.Distribution.set_default_validate_args(True)


def test_constraints_are_of_the_classes_of_pytorch() -> None:
    """Packages ask for them: isinstance(constraint, constraints.interval)."""

    def program(torch: Any, log: Any) -> None:
        C = torch.distributions.constraints
        kinds = {}
        for name in sorted(n for n in vars(MODULES.constraints) if n not in ("dependent", "dependent_property")):
            value = getattr(C, name, None)
            kind = value if isinstance(value, type) else type(value)
            if issubclass(kind, C.Constraint):
                kinds[name] = kind
        for name, kind in kinds.items():
            log(name, kind.__name__, [other for other in kinds if issubclass(kind, kinds[other])])
            log(signature(kind))

    agree(program)


SIDE_BY_SIDE = """
C.cat([C.positive, C.real], 0, [1, 2]) | T(1, 2, 3); T(-1, 2, 3); T(1, float('nan'), 3)
C.cat([C.positive, C.unit_interval], -1) | T(1, 0.5); T(1, 2, 0.5, 3).view(2, 2)
C.cat([C.simplex, C.real_vector], 0, [2, 1]) | torch.full((3, 2), 0.5)
C.stack([C.positive, C.real]) | T(1, 2); T(-1, 2); T(1, 2, 3)
C.stack([C.positive, C.nonnegative_integer], dim=-1) | T(1, 2, 1, 0.5).view(2, 2)
C.stack([C.simplex, C.real_vector], 0) | torch.full((2, 2), 0.5)
C.independent(C.interval(T(0, 1), 2.0), 1) | T(0.5, 1.5); T(0.5, 0.5)
C.MixtureSameFamilyConstraint(C.interval(T(0, 1), 2.0)) | T(0.5); T(1.5); T(1.5, 3)
C.dependent(is_discrete=True, event_dim=1) | T(1)
Uniform.support | T(1)
Uniform(T(0, 1), 2.0).support | T(0.5); T(0.5, 1.5)
""".strip().splitlines()


@pytest.mark.parametrize("line", SIDE_BY_SIDE)
def test_constraints_made_of_others(line: str) -> None:
    text, _, values = line.partition(" | ")

    def program(torch: Any, log: Any) -> None:
        constraint = make(torch, text.replace("C.", "D.constraints."))
        log(type(constraint).__name__, torch.distributions.constraints.is_dependent(constraint))
        for name in ("event_dim", "is_discrete"):
            attempt(log, name, lambda: getattr(constraint, name))
        for value in values.split("; "):
            attempt(log, value, lambda: constraint.check(make(torch, value)))
        for registry in (torch.distributions.biject_to, torch.distributions.transform_to):
            attempt(log, "registry", lambda: repr(registry(constraint)))
            attempt(log, "numbers", lambda: registry(constraint)(torch.zeros(3, 2)))

    agree(program)


CACHED = [text for text in """
ExpTransform(); AffineTransform(1.0, 2.0, 1); AffineTransform(T(1, 2), T(3, 4)); PowerTransform(T(2)); TanhTransform()
SigmoidTransform(); SoftplusTransform(); AbsTransform(); CorrCholeskyTransform(); SoftmaxTransform()
LowerCholeskyTransform(); StickBreakingTransform(); PositiveDefiniteTransform(); ReshapeTransform((2,), (2, 1))
IndependentTransform(ExpTransform(), 1); AffineTransform(1.0, T(3, 4))
CatTransform([ExpTransform(), TanhTransform()], 0, [1, 1]); StackTransform([ExpTransform(), TanhTransform()], dim=-1)
ComposeTransform([ExpTransform(), TanhTransform()]); CumulativeDistributionTransform(Normal(0.0, 1.0)); ExpTransform().inv
""".replace("\n", "; ").split("; ") if text]  # fmt: skip


@pytest.mark.parametrize("text", CACHED)
def test_transforms_with_a_cache(text: str) -> None:
    def program(torch: Any, log: Any) -> None:
        plain, cached = make(torch, text), make(torch, text).with_cache()
        log(type(cached).__name__, repr(cached), cached._cache_size, cached.with_cache() is cached)
        log(type(cached.with_cache(0)).__name__, cached == plain, plain == cached, plain != cached)
        log([plain == make(torch, other) for other in CACHED])
        x = torch.eye(2) * 0.5 + 0.25
        y = cached(x)
        attempt(log, "same", lambda: (cached(x) is y, cached.inv(y) is x, plain(x) is y))
        log(type(pickle.loads(pickle.dumps(cached))).__name__, type(copy.deepcopy(cached).inv).__name__)
        attempt(log, "hash", lambda: hash(plain) and None)
        kind: Any = type(plain)
        attempt(log, "shapes", lambda: (plain.forward_shape((3, 2)), plain.inverse_shape((3, 2, 2))))

        class Mine(kind):
            def __init__(self) -> None:
                self.__dict__.update(vars(make(torch, text)))

        if "inv" not in text:
            attempt(log, "subclass", lambda: type(Mine().with_cache()).__name__)
            log(repr(Mine()), Mine() == plain, plain == Mine())

    agree(program)
