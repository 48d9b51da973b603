"""Settings of chained datasets: their order, shards and seeds."""

from __future__ import annotations

from typing import Any

from undertow.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_settings"]


def _links(datapipe: Any) -> list[Any]:
    """Return the pipes of a chain, the last one first."""
    found: list[Any] = []
    todo = [datapipe]
    while todo:
        link = todo.pop()
        if isinstance(link, (IterDataPipe, MapDataPipe)) and not any(link is other for other in found):
            found.append(link)
            todo.extend(vars(link).values())
    return found


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Set whether the shuffling pipes of a chain shuffle."""
    if shuffle is not None:
        for link in _links(datapipe):
            if callable(vars(type(link)).get("set_shuffle")):
                link.set_shuffle(shuffle)
    return datapipe


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> Any:
    """Set which samples the sharding pipes of a chain keep."""
    for link in _links(datapipe):
        if callable(vars(type(link)).get("apply_sharding")):
            link.apply_sharding(num_of_instances, instance_id)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Seed every pipe of a chain that draws random numbers."""
    for link in _links(datapipe):
        if callable(vars(type(link)).get("set_seed")):
            link.set_seed(rng.initial_seed())
    return datapipe
