"""State dicts as flat dicts, and back. A key is the path to an entry, joined with dots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from undertow._src.base.sites import warn_once
from undertow._src.tensor.core import TensorCore

Path = tuple[str | int, ...]


def flatten(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the entries of nested dicts and lists by their joined keys, and the path of each."""
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}

    def take(path: Path, value: Any) -> None:
        key = ".".join(map(str, path))
        if key in flat:
            raise ValueError(f"duplicated flatten key {key}: two entries of the state dict have this name")
        flat[key], paths[key] = value, path

    walk(state_dict, take)
    return flat, paths


def walk(state_dict: Mapping[str, Any], take: Callable[[Path, Any], None]) -> None:
    """Call a function with each entry's path and value. A list without tensors and dicts is one entry."""

    def visit(path: Path, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                visit((*path, str(key)), item)
        elif isinstance(value, list) and _has_parts(value):
            for number, item in enumerate(value):
                visit((*path, number), item)
        else:
            take(path, value)

    visit((), state_dict)


def _has_parts(values: list[Any]) -> bool:
    return any(
        isinstance(value, (Mapping, TensorCore)) or (isinstance(value, list) and _has_parts(value)) for value in values
    )


def set_entry(root: Any, path: Path, value: Any) -> None:
    """Set the entry at a path, and make the dicts and lists on the way to it."""
    at = root
    for key, following in pairwise(path):
        child = _item(at, key)
        if child is None:
            child = {} if isinstance(following, str) else []
            _set_item(at, key, child)
        at = child
    _set_item(at, path[-1], value)


def _item(at: Any, key: str | int) -> Any:
    if isinstance(at, list):
        assert isinstance(key, int)
        return at[key] if key < len(at) else None
    return at.get(key)


def _set_item(at: Any, key: str | int, value: Any) -> None:
    if isinstance(at, list):
        assert isinstance(key, int)
        at.extend([None] * (key + 1 - len(at)))
    elif key not in at and any(str(other) == key for other in at):
        warn_once(
            f"the checkpoint's entry {key!r} is set under this text: keys of dicts are text in a checkpoint, and the dict "
            "has a key that only looks the same, whose value stays. Use text as keys."
        )
    at[key] = value
