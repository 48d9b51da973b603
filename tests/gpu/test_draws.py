"""Draws on a GPU against those that PyTorch made on an H200: computed on the CPU by the same formulas."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

import undertow as torch
from tests.gpu.draws import CASES, SEEDS, checksum, drawn, sample
from tests.gpu.pretend import H200, pretended_gpu
from undertow._src.arrays.device.launch import Gpu, advance_of, threads_for
from undertow._src.arrays.jax import gpu_draws, ptx

RECORDED = json.loads((Path(__file__).parent / "data" / "h200.json").read_text())["draws"]
# The GPU's logarithm, sine and exponential are approximations: the CPU's differ from them by a few units of float32, more
# for the tangent near its poles, and 16-bit floats may round differently.
NEAR = {"float16": 2e-3, "bfloat16": 1e-2, "float64": 4e-15, "cauchy_": 2e-4, "cauchy_ float64": 1e-11}


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with pretended_gpu():
        yield


def small(name: str) -> list[int]:
    return [n for n in CASES[name].sizes if n < 2**20]


@pytest.mark.parametrize("name", CASES)
def test_a_draw_is_pytorchs(name: str) -> None:
    case = CASES[name]
    for n in small(name):
        for seed in SEEDS if n == 1000 else SEEDS[1:]:
            values, offset = drawn(torch, name, seed, n)
            recorded = RECORDED[f"{name}/{n}/{seed}"]
            assert offset == recorded["offset"], (n, seed)
            if case.exact:
                assert checksum(values) == recorded["crc"], (n, seed)
            else:
                near = NEAR.get(name, NEAR.get(name.split()[-1], 5e-6))
                np.testing.assert_allclose(sample(values), recorded["sample"], near, near)


@pytest.mark.parametrize("name", ["rand float32", "randint wide", "bernoulli float32", "dropout float16"])
def test_a_draw_of_more_elements_than_threads_is_pytorchs(name: str) -> None:
    n = max(CASES[name].sizes)
    values, offset = drawn(torch, name, SEEDS[1], n)
    recorded = RECORDED[f"{name}/{n}/{SEEDS[1]}"]
    assert (offset, checksum(values)) == (recorded["offset"], recorded["crc"])


def test_the_number_of_threads_is_limited_by_the_gpu() -> None:
    gpu = Gpu(2, 1024)
    assert [threads_for(n, gpu) for n in (1, 256, 257, 2048, 10**6)] == [256, 256, 512, 2048, 2048]
    assert [advance_of(n, 4, gpu) for n in (1, 8192, 8193)] == [4, 4, 8]
    assert [advance_of(n, 2, gpu) for n in (1, 8192, 8193)] == [4, 8, 12]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_program_for_a_gpu_has_the_gpus_own_functions(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptx, "gpus", lambda: 1)
    draw = jax.jit(partial(gpu_draws.standard_normal, n=5000, dtype=np.dtype(dtype), gpu=H200))
    program = draw.trace(np.array([1, 0], np.uint64)).lower(lowering_platforms=("cuda",)).as_text()
    assert program.count("custom_call") == 1


# --- generators: what PyTorch 2.11 printed on the same machine


def test_a_state_is_the_seed_and_the_offset() -> None:
    torch.cuda.manual_seed(5)
    assert torch.cuda.get_rng_state().tolist() == [5] + [0] * 15
    first = torch.rand(3, device="cuda")
    state = torch.cuda.get_rng_state()
    assert state.tolist() == [5] + [0] * 7 + [4] + [0] * 7 and state.device.type == "cpu"
    second = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="cuda"), second) and not torch.equal(first, second)


def test_manual_seed_seeds_gpus_too() -> None:
    torch.manual_seed(-1)
    assert torch.cuda.initial_seed() == 2**64 - 1
    torch.rand(3, device="cuda")
    torch.manual_seed(3)
    assert torch.cuda.get_rng_state().tolist() == [3] + [0] * 15
    torch.cuda.manual_seed_all(4)
    assert torch.cuda.initial_seed() == 4 and torch.initial_seed() == 3
    assert torch.seed() == torch.cuda.initial_seed()


def test_the_cpus_stream_is_a_different_one() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    torch.rand(3, device="cuda")
    torch.nn.functional.dropout(torch.ones(3, device="cuda"))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert torch.cuda.get_rng_state()[8] == 8


def test_a_generator_of_a_gpu() -> None:
    generator = torch.Generator("cuda")
    assert (generator.initial_seed(), generator.get_offset()) == (67280421310721, 0)
    generator.manual_seed(7).set_offset(8)
    assert generator.get_state().tolist() == [7] + [0] * 7 + [8] + [0] * 7
    twins = generator.clone_state(), pickle.loads(pickle.dumps(generator))
    drawn = torch.rand(3, device="cuda", generator=generator)
    assert generator.get_offset() == 12
    for twin in twins:
        assert torch.equal(torch.rand(3, device="cuda", generator=twin), drawn)
    generator.set_state(torch.tensor([9] + [0] * 7, dtype=torch.uint8))
    assert (generator.initial_seed(), generator.get_offset()) == (9, 0)


def test_a_generator_refuses_what_pytorchs_refuses() -> None:
    generator = torch.Generator("cuda")
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        generator.set_offset(3)
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        generator.set_state(torch.tensor([0] * 8 + [3] + [0] * 7, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        generator.set_state(torch.zeros(5056, dtype=torch.uint8))
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        torch.cuda.set_rng_state(torch.zeros(16, dtype=torch.int8))
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        torch.cuda.manual_seed(2**64)


@pytest.mark.parametrize(
    "draw",
    [
        lambda generator: torch.rand(3, device="cuda", generator=generator),
        lambda generator: torch.empty(3, device="cuda").normal_(generator=generator),
        lambda generator: torch.randperm(3, device="cuda", generator=generator),
        lambda generator: torch.multinomial(torch.ones(3, device="cuda"), 2, generator=generator),
        lambda generator: torch.bernoulli(torch.ones(3, device="cuda"), generator=generator),
    ],
)
def test_a_generator_draws_on_its_own_device_only(draw) -> None:
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        draw(torch.Generator())
    draw(torch.Generator("cuda"))
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.rand(3, generator=torch.Generator("cuda"))


def test_nothing_is_drawn_for_nothing() -> None:
    torch.manual_seed(3)
    x = torch.ones(4, device="cuda")
    torch.rand(0, device="cuda")
    torch.empty(0, device="cuda").uniform_()
    torch.randperm(0, device="cuda")
    for p, training in ((0.0, True), (1.0, True), (0.5, False)):
        torch.nn.functional.dropout(x, p, training)
    assert torch.cuda.get_rng_state()[8] == 0


def test_fork_rng_restores_gpus() -> None:
    torch.manual_seed(3)
    before = torch.cuda.get_rng_state()
    with torch.random.fork_rng():
        torch.rand(3, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_draws_the_same_twice(reentrant: bool) -> None:
    torch.manual_seed(0)
    x = torch.ones(64, device="cuda", requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(torch.nn.functional.dropout, x, use_reentrant=reentrant)
    after = torch.cuda.get_rng_state()
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert torch.equal(torch.cuda.get_rng_state(), after)


def test_half_precision_dropout_rounds_once() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        torch.manual_seed(0)
        x = torch.linspace(-3, 3, 64).to(dtype).to("cuda").requires_grad_()
        y = torch.nn.functional.dropout(x, 0.3)
        y.sum().backward()
        kept = y.detach().cpu() != 0
        expected = x.detach().cpu().float() * np.float32(1 / np.float32(1 - 0.3)).item()
        assert torch.equal(y.detach().cpu()[kept], expected.to(dtype)[kept])
        assert type(y.grad_fn).__name__ == "NativeDropoutBackward0"
