"""Messages from one rank to another: send, recv and their asynchronous forms.

A pair of ranks has a clique for each direction, so that messages in opposite directions do not wait for each other. A
message is a block of fixed size with a description and small data; large data follow in a second program. A receiver takes
messages in the order in which they were sent, and keeps those that no request matches yet (a different tag or group).
"""

from __future__ import annotations

import marshal
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from undertow._src.distributed import recorder
from undertow._src.distributed.arguments import belonging, check_tensor, described, put
from undertow._src.distributed.collectives import bytes_of
from undertow._src.distributed.errors import DistBackendError
from undertow._src.distributed.groups import HEAD, SMALL, Array, ProcessGroup, short
from undertow._src.distributed.recorder import Call
from undertow._src.distributed.runtime import CHANNELS
from undertow._src.distributed.work import Work
from undertow._src.distributed.world import World

_CHANNEL = CHANNELS - 1


class Message(NamedTuple):
    """What arrived from a rank."""

    key: tuple[str, int]  # group and tag
    what: str
    dtype: str
    site: str
    data: Array


class _Request:
    """A waiting receive. If it takes a message from any rank, it is in several inboxes."""

    def __init__(self, key: tuple[str, int], work: Work, take: Callable[[Message, int], Any]) -> None:
        self.key, self.work, self.take = key, work, take
        self._claim = threading.Lock()

    def claim(self) -> bool:
        """Return whether the caller is the first to fulfil the request."""
        return self._claim.acquire(blocking=False)


class _Arrival(Work):
    """The next message of a rank. It has no deadline unless a request waits for it."""

    def __init__(self, inbox: Inbox, work: Work) -> None:
        super().__init__(work.call, inbox.run, work.timeout, (inbox.source,))
        self._inbox = inbox

    def is_overdue(self) -> bool:
        waiting = self._inbox.waiting()  # a request for any rank's message may have been fulfilled by another rank
        return bool(waiting) and min(work.deadline for work in waiting) < time.monotonic()


class Inbox:
    """The messages from one rank to this one."""

    def __init__(self, world: World, source: int) -> None:
        self.source = source
        self.clique, self.lane = world.lane((source, world.rank), _CHANNEL)
        self._arrived: list[Message] = []
        self._waiting: list[_Request] = []
        self._receiving = 0
        self._lock = threading.Lock()

    def post(self, request: _Request) -> None:
        """Fulfil a request with the first message that matches it, now or when it arrives."""
        with self._lock:
            for message in self._arrived:
                if message.key == request.key:
                    if request.claim():
                        self._arrived.remove(message)
                        break
                    return
            else:
                self._waiting.append(request)
                self.lane.dependents.append(request.work)
                self._receive(request.work)
                return
        self._fulfil(request, message)

    def _receive(self, work: Work) -> None:
        """Start to receive, if more requests wait than messages are being received."""
        if self._receiving < len(self._waiting):
            self._receiving += 1
            self.lane.submit(_Arrival(self, work))

    def waiting(self) -> list[Work]:
        """Return the receives that wait for a message."""
        return [request.work for request in list(self._waiting) if not request.work.is_completed()]

    def run(self) -> None:
        """Receive a message, and fulfil the first request that it matches."""
        block = self.clique.run("move", np.zeros(HEAD + SMALL, np.uint8))
        group, tag, what, dtype, site, count = marshal.loads(block[:HEAD].tobytes())
        data = block[HEAD : HEAD + count]
        if count > SMALL:
            data = self.clique.run("move", np.zeros(count, np.uint8))
        message = Message((group, tag), what, dtype, site, data)
        with self._lock:
            self._receiving -= 1
            fulfilled = None
            for request in list(self._waiting):
                if request.key == message.key:
                    self._drop(request)
                    if request.claim():
                        fulfilled = request
                        break
            else:
                self._arrived.append(message)
            if self._waiting:
                self._receive(self._waiting[0].work)
        if fulfilled is not None:
            self._fulfil(fulfilled, message)

    def _drop(self, request: _Request) -> None:
        self._waiting.remove(request)
        if request.work in self.lane.dependents:
            self.lane.dependents.remove(request.work)

    def _fulfil(self, request: _Request, message: Message) -> None:
        request.work.peers = (self.source,)
        try:
            request.work.finish(request.take(message, self.source))
        except Exception as error:
            request.work.finish(error=error)


def _inbox(world: World, source: int) -> Inbox:
    found = world.inboxes.get(source)
    if found is None:
        found = world.inboxes[source] = Inbox(world, source)
    return found


def _post(group: ProcessGroup, target: int, tag: int, call: Call, dtype: str, data: Callable[[], Array]) -> Work:
    """Start to send bytes to a rank."""
    world = group.world
    clique, lane = world.lane((world.rank, target), _CHANNEL)

    def send() -> list[Any]:
        raw = data()
        block = np.zeros(HEAD + SMALL, np.uint8)
        head = marshal.dumps((group.group_name, tag, short(call.what), dtype, short(call.site), raw.size))
        block[: len(head)] = np.frombuffer(head, np.uint8)
        if raw.size <= SMALL:
            block[HEAD : HEAD + raw.size] = raw
        clique.run("move", block)
        if raw.size > SMALL:
            clique.run("move", raw)
        return []

    return lane.submit(Work(call, send, group.timeout, (target,)))


def _call(group: ProcessGroup, op: str, detail: str, what: str) -> Call:
    return recorder.record(group.group_name, -1, op, detail, what, recorder.user_line())


# --- tensors


def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Start to send a tensor to a rank."""
    check_tensor(tensor, "tensor")
    chosen = belonging(group, "isend")
    if chosen is None:
        return None
    target = _other(chosen, dst, group_dst, "destination")
    call = _call(chosen, "isend", f"to {target}", described(tensor))
    return _post(chosen, target, tag, call, str(tensor._array.dtype), lambda: bytes_of(tensor._array))


def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Start to receive a tensor from a rank, or from any."""
    check_tensor(tensor, "tensor")
    chosen = belonging(group, "irecv")
    if chosen is None:
        return None
    anyone = src is None and group_src is None
    sources = _others(chosen) if anyone else [_other(chosen, src, group_src, "source")]
    call = _call(chosen, "irecv", "from any rank" if anyone else f"from {sources[0]}", described(tensor))

    def take(message: Message, source: int) -> list[Any]:
        if message.data.size != tensor._array.nbytes or message.dtype != str(tensor._array.dtype):
            raise DistBackendError(
                f"{call} does not fit the message of rank {source}: it sent {message.what} at {message.site}"
            )
        put(tensor, np.ascontiguousarray(message.data).view(tensor._array.dtype))
        return [tensor]

    return _receive(chosen, sources, tag, call, take)


def _receive(
    group: ProcessGroup, sources: Sequence[int], tag: int, call: Call, take: Callable[[Message, int], Any]
) -> Work:
    work = Work(call, lambda: None, group.timeout, tuple(sources))
    request = _Request((group.group_name, tag), work, take)
    for source in sources:
        if not work.is_completed():
            _inbox(group.world, source).post(request)
    return work


def _others(group: ProcessGroup) -> list[int]:
    return [rank for rank in group.ranks if rank != group.world.rank]


def _other(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str) -> int:
    """Return the global rank of the other side of a message."""
    if (rank is None) == (group_rank is None):
        raise ValueError(f"Must specify the {name} rank by its global rank or by its rank in the group, and not both")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"Group rank {group_rank} is not part of group {group}")
        rank = group.ranks[group_rank]
    assert rank is not None
    if rank == group.world.rank:
        kind = ValueError if name == "destination" else RuntimeError
        raise kind(f"Invalid {name} rank: {name} rank should not be the same as this process has, {rank}")
    if rank not in group.ranks:
        raise ValueError(f"Global rank {rank} is not part of group {group}, whose ranks are {list(group.ranks)}")
    return rank


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to a rank; wait until it receives it."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor from a rank, or from any; return the sender's rank."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """One message of `batch_isend_irecv`."""

    __module__ = "torch.distributed.distributed_c10d"

    def __init__(
        self,
        op: Any,
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be torch.distributed.isend or torch.distributed.irecv."
            )
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer

    def start(self) -> Work | None:
        """Send or receive."""
        return self.op(self.tensor, self.peer, self.group, self.tag, self.group_peer)


def batch_isend_irecv(p2p_op_list: Any) -> list[Work]:
    """Start several messages at once."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``.")
    if not p2p_op_list:
        raise IndexError("batch_isend_irecv: the list of ops is empty")
    started = [op.start() for op in p2p_op_list]
    return [work for work in started if work is not None]


# --- objects


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None,
    use_batch: bool = False,
) -> None:  # fmt: skip
    """Send a list of objects to a rank."""
    chosen = belonging(group, "send_object_list")
    if chosen is None:
        return
    target = _other(chosen, dst, group_dst, "destination")
    data = np.frombuffer(pickle.dumps(object_list), np.uint8)
    _post(chosen, target, 0, _call(chosen, "send_object_list", f"to {target}", "list"), "object", lambda: data).wait()


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None,
    use_batch: bool = False,
) -> int:  # fmt: skip
    """Receive a list of objects into a list; return the sender's rank."""
    chosen = belonging(group, "recv_object_list")
    if chosen is None:
        return -1
    anyone = src is None and group_src is None
    sources = _others(chosen) if anyone else [_other(chosen, src, group_src, "source")]
    call = _call(chosen, "recv_object_list", "", "list")

    def take(message: Message, source: int) -> None:
        if message.dtype != "object":
            raise DistBackendError(f"{call}: rank {source} sent a tensor, {message.what}, at {message.site}")
        object_list[:] = pickle.loads(message.data.tobytes())

    work = _receive(chosen, sources, 0, call, take)
    work.wait()
    return work.source_rank()
