"""The process groups of this process: the default group, and the groups made later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from undertow._src.distributed.errors import NO_GROUP
from undertow._src.distributed.groups import ProcessGroup
from undertow._src.distributed.runtime import CHANNELS
from undertow._src.distributed.stores import RuntimeStore
from undertow._src.distributed.world import World

DEFAULT_TIMEOUT = default_pg_timeout = timedelta(minutes=30)
NON_GROUP_MEMBER = -100  # PyTorch's value for a group that this process is not in


class _State:
    def __init__(self) -> None:
        self.world: World | None = None
        self.default: ProcessGroup | None = None
        self.groups: dict[ProcessGroup, str] = {}  # backends
        self.made = 0
        self.channels: dict[tuple[int, ...], int] = {}


state = _State()


class _MetaGroup(type):
    """Gives `group.WORLD` its value."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return state.default

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        state.default = value


class group(metaclass=_MetaGroup):
    """Process groups by name."""


class GroupMember(metaclass=_MetaGroup):
    """Whether this process is in a group."""

    NON_GROUP_MEMBER = NON_GROUP_MEMBER


def seconds(timeout: timedelta | None) -> float:
    """Return a timeout in seconds."""
    if timeout is None:
        timeout = DEFAULT_TIMEOUT
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return timeout.total_seconds()


def default_group() -> ProcessGroup:
    """Return the default group."""
    if state.default is None:
        raise ValueError(NO_GROUP)
    return state.default


def member(group: Any) -> ProcessGroup | None:
    """Return the given group, or the default one; None if this process is not in it."""
    if group is None:
        return default_group()
    if group == NON_GROUP_MEMBER:
        return None
    if state.default is None:
        raise ValueError(NO_GROUP)
    if group not in state.groups:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    return group


_get_default_group = default_group


def _get_default_store() -> RuntimeStore:
    """Return the store of the default group."""
    return RuntimeStore(default_group().world.runtime, "default_pg")


def _rank_not_in_group(group: Any) -> bool:
    """Whether this process is not in a group."""
    return group is not None and group == NON_GROUP_MEMBER


def group_of_several(group: Any) -> ProcessGroup | None:
    """Return the group, or the default one, if it has several ranks and this process is among them."""
    if state.default is None:
        return None
    found = member(group)
    return found if found is not None and found.size() > 1 else None


def make_group(
    ranks: Sequence[int], timeout: float, backend: str, name: str | None = None, description: str = ""
) -> ProcessGroup | None:
    """Make a group of these ranks, in this order; return None if this process is not in it."""
    assert state.world is not None
    number = state.made
    state.made += 1
    if state.world.rank not in ranks:
        return None
    key = tuple(ranks)
    channel = state.channels.get(key, 0)
    state.channels[key] = channel + 1
    made = ProcessGroup(
        state.world, key, str(number) if name is None else name, timeout, channel % (CHANNELS - 1), description
    )
    state.groups[made] = backend
    return made
