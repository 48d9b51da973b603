"""Random generators of GPUs: their seeds and their states. Without a GPU, seeding has no effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from undertow._src.random.generators import Generator, cuda_generators, seed_cuda
from undertow._src.tensor.methods.convert import device_named
from undertow.cuda._absent import refuse


def _generator(device: Any) -> Generator:
    """Return the default generator of a GPU."""
    generators = cuda_generators()
    if not generators:
        refuse()
    return generators[device if type(device) is int else device_named(device).index or 0]


def manual_seed(seed: int) -> None:
    """Seed the generator of the current GPU."""
    seed_cuda(int(seed), 0)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs."""
    seed_cuda(int(seed))


def seed() -> None:
    """Seed the generator of the current GPU with a random number."""
    for generator in cuda_generators()[:1]:
        generator.seed()


def seed_all() -> None:
    """Seed the generators of all GPUs with one random number."""
    generators = cuda_generators()
    for generator in generators:
        generator.manual_seed(generators[0].seed() if generator is generators[0] else generators[0].initial_seed())


def initial_seed() -> int:
    """Return the seed of the current GPU's generator."""
    return _generator(0).initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """Return the state of a GPU's generator, a tensor of 16 bytes on the CPU: its seed and its offset."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[Any]:
    """Return the generator states of all GPUs."""
    return [generator.get_state() for generator in cuda_generators()]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Continue a GPU's generator from a state that `get_rng_state` returned."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Set the generator states of all GPUs."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
