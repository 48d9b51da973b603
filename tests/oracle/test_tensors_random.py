"""Random tensors: the same numbers as PyTorch in every memory layout, and the same state afterwards."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.oracle.harness import Log, agree
from tests.oracle.snippets import agree_snippet, refuse_snippet

LAYOUTS = {
    "contiguous": "torch.empty(5, 7)",
    "transposed": "torch.empty(7, 5).t()",
    "permuted": "torch.empty(3, 2, 5).permute(2, 0, 1)",
    "strided": "torch.empty(6, 9)[::2, 1::2]",
    "turned and strided": "torch.empty(4, 9, 3).transpose(0, 2)[:, ::3]",
    "channels last": "torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)",
    "few": "torch.empty(3, 2).t()",
    "one": "torch.empty(())",
    "none": "torch.empty(0, 3)",
    "double": "torch.empty(4, 6, dtype=torch.float64).t()",
    "half": "torch.empty(4, 6, dtype=torch.float16).t()",
    "bfloat": "torch.empty(4, 6, dtype=torch.bfloat16)",
}

DRAWS = [
    "y.uniform_()",
    "y.uniform_(-2, 3)",
    "y.normal_()",
    "y.normal_(1.5, 0.5)",
    "y.random_()",
    "y.random_(9)",
    "y.random_(-4, 6)",
    "y.bernoulli_()",
    "y.bernoulli_(0.25)",
    "y.exponential_(2.0)",
    "y.geometric_(0.3)",
    "y.cauchy_(1.0, 2.0)",
    "y.log_normal_()",
    "y.zero_().bernoulli_(torch.full_like(y, 0.3))",
    "torch.rand_like(y)",
    "torch.randn_like(y)",
    "torch.randint_like(y, 7)",
    "torch.randint_like(y, -3, 7)",
    "torch.bernoulli(y.fill_(0.4))",
    "y.fill_(0.4).bernoulli()",
    "torch.poisson(y.fill_(3.5))",
    "torch.normal(y.fill_(2.0), 1.5)",
    "torch.normal(0.5, y.fill_(2.0))",
    "torch.normal(y.fill_(2.0), y)",
]


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout: str, draw: str) -> None:
    agree_snippet(f"y = {LAYOUTS[layout]}; r = {draw}; (r, torch.get_rng_state().sum(), torch.rand(3))", rtol=0, atol=0)


@pytest.mark.parametrize("options", [
    {"devices": [0]}, {"devices": [0], "device_type": "xpu"}, {"devices": [], "device_type": "nope"},
    {"devices": [0], "enabled": False}, {"devices": [], "device_type": "mps"},
])  # fmt: skip
def test_fork_rng_asks_for_the_generators_of_devices(options: dict[str, Any]) -> None:
    def program(torch: ModuleType) -> None:
        with torch.random.fork_rng(**options):
            pass

    agree(program)


def test_fork_rng_goes_by_what_the_module_of_a_device_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(torch: ModuleType, log: Log) -> None:
        monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: f"state of {device}")
        monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: log("set", state, device))
        with torch.random.fork_rng(devices=[0, 1]):
            log("inside")

    agree(program)


@pytest.mark.parametrize(
    "text",
    [
        "torch.multinomial(torch.arange(1.0, 9.0), 3)",
        "torch.multinomial(torch.arange(1.0, 13.0).reshape(3, 4), 2)",
        "torch.multinomial(torch.arange(1.0, 13.0).reshape(4, 3).t(), 2)",
        "torch.multinomial(torch.arange(1.0, 13.0).reshape(4, 3).t(), 6, replacement=True)",
        "torch.multinomial(torch.arange(1.0, 9.0), 1)",
        "x.add(1).multinomial(2)",
        "torch.rand(2, 3, out=torch.empty(3, 2).t())",
        "torch.randn(4, 5, out=torch.empty(5, 4).t())",
        "torch.randint(3, (2, 4), out=torch.empty(4, 2, dtype=torch.int64).t())",
        "torch.rand(3, generator=torch.Generator().manual_seed(7))",
        "torch.randperm(9, generator=torch.Generator().manual_seed(7))",
        "torch.binomial(torch.full((5,), 9.0), torch.full((5,), 0.4))",
        "torch.rand(3, dtype=torch.complex64), torch.randn(20, dtype=torch.complex128)",
    ],
)
def test_draw(text: str) -> None:
    agree_snippet(f"({text}, torch.rand(2))", rtol=0, atol=0)


@pytest.mark.parametrize(
    "draw",
    "uniform_() normal_() random_() random_(3) random_(1,3) exponential_() geometric_(0.5) cauchy_() log_normal_() "
    "bernoulli_() bernoulli_(torch.ones(3,4))".split(),
)
def test_redrawing_cuts_the_gradient(draw: str) -> None:
    agree_snippet(f"y = g * 2; y.{draw}; y.sum().backward(); (y, g.grad)")


@pytest.mark.parametrize(
    "draw",
    [
        "torch.bernoulli(g / 12)",
        "torch.poisson(g)",
        "torch.normal(g, 1.0)",
        "torch.normal(0.0, g)",
        "torch.normal(g, g + 1)",
    ],
)
def test_a_draw_has_a_gradient_of_zero(draw: str) -> None:
    agree_snippet(f"y = {draw}; y.sum().backward(); (y, g.grad)")


def test_state_travels() -> None:
    def program(torch: ModuleType, log: Log) -> Any:
        torch.manual_seed(5)
        torch.randn(3)  # leaves half a pair behind
        state = torch.get_rng_state()
        first = torch.rand(4), torch.randn(3)
        torch.set_rng_state(state)
        second = torch.rand(4), torch.randn(3)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            log("inside", torch.rand(2))
        log("after", torch.rand(2), torch.initial_seed())
        with torch.random.fork_rng(enabled=False):
            torch.rand(1)
        generator = torch.Generator()
        log(generator.initial_seed(), str(generator.device), torch.rand(2, generator=generator))
        twin = generator.clone_state()
        log(torch.rand(2, generator=twin), torch.rand(2, generator=generator))
        return first, second, state.sum(), torch.rand(2)

    agree(program)


@pytest.mark.parametrize(
    "text",
    [
        "torch.set_rng_state(torch.zeros(3))",
        "torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))",
        "torch.set_rng_state(5)",
        "torch.Generator().manual_seed('a')",
        "torch.manual_seed(2**64)",
        "torch.rand(2, generator=3)",
        "x.uniform_(2, 1)",
        "x.normal_(0, -1)",
        "x.exponential_(0)",
        "x.geometric_(1)",
        "x.random_(5, 5)",
        "x.random_(0.5)",
        "x.bernoulli_(2.0)",
        "i.uniform_()",
        "i.exponential_()",
        "g.uniform_()",
        "torch.normal(x, -1.0)",
        "torch.normal(x, -x - 1)",
        "torch.poisson(torch.tensor([-1.0]))",
        "torch.multinomial(torch.ones(2, 3, 4), 1)",
        "torch.multinomial(i, 1)",
        "torch.randint(0, 300, (2,), dtype=torch.uint8)",
        "torch.rand(1).expand(3).uniform_()",
    ],
)
def test_refused(text: str) -> None:
    refuse_snippet(text, words=7)
