"""Locations of storages: where they were saved from, and where they are loaded to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow._src.arrays.device.placement import gpus
from undertow._src.tensor.methods.convert import check_device, device_named
from undertow._src.types.devices import device
from undertow.storage import UntypedStorage

MAP_LOCATION = str | device | dict[str, str] | Callable[[UntypedStorage, str], Any] | None
Tagger = Callable[[Any], str | None]
Deserializer = Callable[[Any, str], Any]


def _cpu_tag(storage: Any) -> str | None:
    return "cpu" if storage.device.type == "cpu" else None


def _cpu_deserialize(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


class BoundStorage(UntypedStorage):
    """Bytes from a file whose tensors are created on a device, or without values on `meta`."""

    __slots__ = ("destination",)
    destination: device


def _device_deserialize(storage: Any, location: str) -> Any:
    kind = location.partition(":")[0]
    if kind not in ("xla", "meta") and not (kind == "cuda" and gpus()):
        return None
    check_device(location)
    bound = BoundStorage(storage.root)
    bound.destination = device_named(location)
    return bound


def _refuse_accelerators(storage: Any, location: str) -> Any:
    kind = location.partition(":")[0]
    if kind == "cuda":
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. Load it "
            "with map_location='cpu' to have everything on the CPU."
        )
    if kind in ("mps", "xpu", "hpu"):
        raise RuntimeError(
            f"torch.UntypedStorage(): Storage device not recognized: {kind}. undertow has no such device; load with "
            "map_location='cpu'."
        )
    return None


_packages: list[tuple[int, Tagger, Deserializer]] = [
    (10, _cpu_tag, _cpu_deserialize),
    (20, lambda storage: None, _device_deserialize),
    (1000, lambda storage: None, _refuse_accelerators),
]


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Add a kind of location: `tagger(storage)` names it, `deserializer(storage, location)` moves a storage there.

    Each returns None for locations it does not know; the lowest priority is tried first.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """Return the name of a storage's location."""
    for _, tagger, _ in _packages:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {_kind(storage)}")


def default_restore_location(storage: Any, location: str) -> Any:
    """Return the storage, moved to the location it was saved from."""
    for _, _, deserializer in _packages:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        f"don't know how to restore data location of {_kind(storage)} (tagged with {location}). Choose a "
        "location with map_location."
    )


def restorer(map_location: MAP_LOCATION) -> Callable[[Any, str], Any]:
    """Return the function that `load` applies to each storage."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        table = map_location
        return lambda storage, location: default_restore_location(storage, table.get(location, location))
    if isinstance(map_location, (str, device)):
        fixed = str(map_location)
        return lambda storage, location: default_restore_location(storage, fixed)
    function = map_location

    def restore(storage: Any, location: str) -> Any:
        result = function(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore


def _kind(storage: Any) -> str:
    return f"torch.storage.{type(storage).__name__}"
