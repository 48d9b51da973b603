"""Collectives on Python objects, which are sent as pickles."""

from __future__ import annotations

import pickle
from typing import Any

from undertow._src.distributed import collectives
from undertow._src.distributed.arguments import belonging, place_of
from undertow._src.distributed.groups import ProcessGroup


def _everyones(group: ProcessGroup, op: str, detail: str, value: Any) -> list[bytes]:
    """Return every rank's object, pickled."""
    data = pickle.dumps(value)
    work = group.start(op, detail, type(value).__name__, lambda call: collectives.gather_bytes(group, call, data))
    work.wait()
    return work.result()


def gathered_objects(group: ProcessGroup, op: str, value: Any) -> list[Any]:
    """Return every rank's object."""
    return [pickle.loads(data) for data in _everyones(group, op, "", value)]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fill a list with the objects of all ranks, on every rank."""
    chosen = belonging(group, "all_gather_object")
    if chosen is not None:
        for number, data in enumerate(_everyones(chosen, "all_gather_object", "", obj)):
            object_list[number] = pickle.loads(data)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Fill a list with the objects of all ranks, on one rank."""
    chosen = belonging(group, "gather_object")
    if chosen is None:
        return
    root = place_of(chosen, 0 if dst is None and group_dst is None else dst, group_dst, "dst", "gather")
    at_root = chosen.rank() == root
    if at_root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not at_root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    found = _everyones(chosen, "gather_object", f"to {root}", obj)
    if at_root and object_gather_list is not None:
        for number, data in enumerate(found):
            object_gather_list[number] = pickle.loads(data)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Copy a list's objects from one rank into the lists of all others."""
    chosen = belonging(group, "broadcast_object_list")
    if chosen is None:
        return
    root = place_of(chosen, 0 if src is None and group_src is None else src, group_src, "src", "broadcast")
    at_root = chosen.rank() == root
    if not object_list:
        raise ValueError("broadcast_object_list: object_list is empty")
    found = _everyones(
        chosen, "broadcast_object_list", f"from {root}, {len(object_list)} objects", object_list if at_root else None
    )
    if not at_root:
        object_list[:] = pickle.loads(found[root])


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Give each rank one object of a list that one rank has; it becomes the first of an output list."""
    chosen = belonging(group, "scatter_object_list")
    if chosen is None:
        return
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = place_of(chosen, 0 if src is None and group_src is None else src, group_src, "src", "scatter")
    at_root = chosen.rank() == root
    parts: Any = None
    if at_root:
        if not scatter_object_input_list or len(scatter_object_input_list) != chosen.size():
            raise ValueError(f"scatter_object_list: the source rank needs a list of {chosen.size()} objects")
        parts = [pickle.dumps(part) for part in scatter_object_input_list]
    found = pickle.loads(_everyones(chosen, "scatter_object_list", f"from {root}", parts)[root])
    scatter_object_output_list[0] = pickle.loads(found[chosen.rank()])
