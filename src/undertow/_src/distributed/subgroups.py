"""`new_group`, and questions about the ranks of a group."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.joining import backend_name
from undertow._src.distributed.state import NON_GROUP_MEMBER, default_group, make_group, member, seconds, state


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    group_name: str | None = None,
) -> ProcessGroup | int:
    """Make a group of some ranks. All ranks call this, unless `use_local_synchronization` is set: then only members do."""
    world = default_group()
    limit = world.timeout if timeout is None else seconds(timeout)
    chosen = sorted(world.ranks if ranks is None else ranks)
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"ranks list must not contain duplicate entries, got {list(ranks or ())}")
    if len(chosen) > world.size():
        raise RuntimeError(
            f"the new group's world size should be less or equal to the world's: {len(chosen)} ranks of {world.size()}"
        )
    for rank in chosen:
        if not 0 <= rank < world.size():
            last = world.size() - 1
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {last} (world_size={last + 1})")
    name = state.groups[world] if backend is None else backend_name(backend)
    if use_local_synchronization:
        # Other ranks do not count this group, so its name can't be a number.
        made = make_group(chosen, limit, name, f"local {chosen}", group_desc or "undefined")
        state.made -= 1
    else:
        made = make_group(chosen, limit, name, group_name, group_desc or "undefined")
        world.start("new_group", str(chosen), f"ranks={chosen}", world.exchange).wait()
    return NON_GROUP_MEMBER if made is None else made


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Make disjoint groups; return the group of this process, and all groups."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    everyone = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    for rank in everyone:
        if everyone.count(rank) > 1:
            raise ValueError(f"Rank {rank} has appeared in more than one subgroup")
    own = None
    made = []
    for ranks in ranks_per_subgroup_list:
        made.append(new_group(ranks, timeout, backend, pg_options, group_desc=group_desc))
        if default_group().world.rank in ranks:
            own = made[-1]
    return own, made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Split the ranks into groups of equal size; return the group of this process, and all groups."""
    size = default_group().size()
    if group_size is None:
        raise ValueError("Must provide group_size: undertow does not count the GPUs of a machine here")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by group_size={group_size}")
    parts = [list(range(start, start + group_size)) for start in range(0, size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Return the global ranks of a group, in the order of their ranks in it."""
    found = member(group)
    if found is None:
        raise ValueError("this process is not in the group")
    return list(found.ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """Return the global rank for a rank in a group."""
    found = member(group)
    if found is None or not 0 <= group_rank < found.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return found.ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """Return the rank in a group of a global rank."""
    found = member(group)
    if found is not None and found is state.default:
        return global_rank
    if found is None or global_rank not in found.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return found.ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's number on its machine, from the launcher's LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work"
    )


def get_pg_count() -> int:
    """Return the number of this process's groups."""
    return len(state.groups)
