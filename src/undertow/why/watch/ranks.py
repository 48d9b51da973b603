"""Record a rank's communication with others: collectives, DistributedDataParallel, batches, checksums of parameters."""

from __future__ import annotations

import functools
import importlib
import inspect
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place
from undertow.why.ranks.journal import Journal, line_of
from undertow.why.trace import CollectiveRecord, ParallelForward, ParallelRecord
from undertow.why.watch.patches import Patches

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher

_COLLECTIVES = (
    "all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_reduce all_reduce_coalesced all_to_all "
    "all_to_all_single barrier broadcast broadcast_object_list gather gather_object monitored_barrier new_group reduce "
    "reduce_scatter reduce_scatter_tensor scatter scatter_object_list"
).split()
_MESSAGES = "send recv isend irecv batch_isend_irecv".split()
# The argument whose size all ranks must agree on.
_SIZED = {
    "all_reduce": "tensor", "broadcast": "tensor", "reduce": "tensor", "all_gather": "tensor", "gather": "tensor",
    "scatter": "tensor", "all_gather_into_tensor": "input_tensor", "reduce_scatter": "output",
    "reduce_scatter_tensor": "output",
}  # fmt: skip
_MUST_AGREE = ("src", "dst", "group_src", "group_dst", "op")
BEFORE_STEP, AFTER_STEP = "before this step", "after this step"
_LISTED = 2000  # entries of checksums in a journal


class Ranks:
    """Records collectives and DistributedDataParallel, for this run's causes and for the comparison of ranks."""

    def __init__(self, watcher: Watcher, journal: Journal | None) -> None:
        self.watcher, self.trace, self.journal = watcher, watcher.trace, journal
        self.depth = 0
        self.numbers: dict[str, int] = {}  # of each group: the number of its collectives so far
        self.groups: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.works: dict[int, tuple[Any, dict[str, Any]]] = {}  # collectives that have not ended, by their handles
        self.wrapped: dict[int, tuple[Any, ParallelRecord]] = {}
        self.by_hand: dict[int, Any] = {}  # parameters whose gradients the program reduces itself
        self.batches: dict[int, tuple[Any, int]] = {}
        self.batch = 0  # the number of batches that the last DataLoader gave
        self.looks = 0
        self.seen_writes = 0

    def install(self, patches: Patches) -> None:
        torch = self.watcher.engine.torch
        package = torch.__name__
        data = importlib.import_module(f"{package}.utils.data.dataloader")
        if self.journal is not None:
            patches.wrap(data._BaseDataLoaderIter, "__next__", self._next_batch)
        if not torch.distributed.is_available():
            return
        c10d = importlib.import_module(f"{package}.distributed.distributed_c10d")
        for name in (*_COLLECTIVES, *_MESSAGES):
            if hasattr(c10d, name):
                around = functools.partial(self._collective, name)
                patches.wrap(c10d, name, around)
                patches.put(torch.distributed, name, getattr(c10d, name))
        if self.journal is not None:
            patches.wrap(c10d.Work, "wait", self._waits)
        parallel = importlib.import_module(f"{package}.nn.parallel.distributed").DistributedDataParallel
        patches.wrap(parallel, "__init__", self._made)
        patches.wrap(parallel, "forward", self._forward)
        patches.wrap(parallel, "no_sync", self._no_sync)

    def end(self) -> None:
        """At the end of the run, record what fully_shard has sharded, and the last values of parameters."""
        for module, record in self.watcher.modules.alive():
            record.sharded = any(cls.__name__ == "FSDPModule" for cls in type(module).__mro__)
            if record.sharded:
                self._sharded(module)
        if self.wrapped or self.by_hand:
            with self.watcher.unrecorded:
                self.look("at the end", None)

    def _sharded(self, module: Any) -> None:
        """Record the shards that are a module's parameters now."""
        for part in module.modules():
            known = self.watcher.modules.see(part, None)
            for name, parameter in part._parameters.items():
                shard = self.watcher.tensors.find(parameter)
                if shard is not None:
                    known.parameters[name], shard.module = shard.id, known.id

    def names(self) -> dict[str, list[str]]:
        """Return the names of the parameters whose checksums are in the journal."""
        found = {f"ddp{record.id}": list(record.parameters) for _, record in self.wrapped.values()}
        found["by hand"] = [self.trace.name(number) for number in self.by_hand]
        return found

    # --- collectives

    def _collective(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.depth or not self.watcher.in_thread:
                return original(*args, **kwargs)
            entry: dict[str, Any] = {}
            record = CollectiveRecord(self.trace.tick(), name, None, ())
            with self.watcher.unrecorded:
                record.place = self.watcher.here()
                given = signature.bind(*args, **kwargs).arguments
                tensors = self.watcher.engine.tensors_in(given)
                record.tensors = tuple([self.watcher.see(tensor, record.place).id for tensor in tensors])
                self.trace.collectives.append(record)
                self._is_by_hand(name, record)
                entry = self._entry(name, given, record.place)
            with self._under_way(record, entry):
                result = original(*args, **kwargs)
            with self.watcher.unrecorded:
                if name == "new_group" and self.journal is not None:
                    self._named(result)
                elif hasattr(result, "wait"):
                    self.works[id(result)] = result, entry
            return result

        return call

    def _entry(self, name: str, given: dict[str, Any], place: Place | None) -> dict[str, Any]:
        """Return a collective as an entry of the journal."""
        if self.journal is None:
            return {}
        c10d = self.watcher.engine.torch.distributed
        group = given.get("group") if name != "new_group" else None
        ranks = c10d.get_process_group_ranks(group) if c10d.is_initialized() and c10d.get_rank(group) >= 0 else []
        sized = given.get(_SIZED.get(name, "tensor"))
        what = ""
        if isinstance(sized, self.watcher.engine.Tensor):
            what = f"{self.watcher.engine.kind_of(sized)[0]}{list(sized.shape)}"
        entry: dict[str, Any] = {"op": name, "what": what, "ranks": ranks, "at": line_of(place), "batch": self.batch}
        if name in _MESSAGES:
            peers = [given.get("dst"), given.get("src"), given.get("group_dst"), given.get("group_src")]
            entry |= {"peers": [peer for peer in peers if isinstance(peer, int)], "group": "messages"}
            entry["number"] = self._number("messages")
            return entry
        agree = {key: str(given[key]) for key in _MUST_AGREE if given.get(key) is not None}
        if name in _SIZED and isinstance(sized, self.watcher.engine.Tensor):
            agree |= {"dtype": self.watcher.engine.kind_of(sized)[0], "size": str(sized.numel())}
        if name == "new_group":
            agree["ranks"] = str(given.get("ranks"))
        if "op" not in agree and "reduce" in name:
            agree["op"] = str(c10d.ReduceOp.SUM)
        key = str(ranks) if group is None else self.groups.get(group, str(ranks))
        return entry | {"agree": agree, "group": key, "number": self._number(key)}

    def _number(self, key: str) -> int:
        number = self.numbers[key] = self.numbers.get(key, -1) + 1
        return number

    def _named(self, group: Any) -> None:
        """Give a new group a name that is the same on all its ranks."""
        c10d = self.watcher.engine.torch.distributed
        try:
            ranks = str(c10d.get_process_group_ranks(group))
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):  # this rank is not in it
            return
        made = self._number(f"groups {ranks}")
        self.groups[group] = f"{ranks} group {made + 1}"

    @contextmanager
    def _under_way(self, record: CollectiveRecord | None, entry: dict[str, Any]) -> Iterator[None]:
        """Write to the journal that a call begins, and how it ends."""
        journal = self.journal if entry else None
        which = {key: entry[key] for key in ("group", "number", "op")} if journal is not None else {}
        if journal is not None:
            journal.add("begin", **entry)
        self.depth += not entry.get("soft")
        try:
            yield
        except BaseException as error:
            if record is not None:
                record.error = f"{type(error).__name__}: {error}"
            if journal is not None:
                journal.add("fail", **which, error=f"{type(error).__name__}: {error}", lost=is_lost(error))
            raise
        finally:
            self.depth -= not entry.get("soft")
            if record is not None:
                record.end = self.trace.tick()
        if journal is not None:
            journal.add("end of call", **which)

    def _waits(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            _, entry = self.works.pop(id(work), (None, {}))
            if self.depth or not entry:
                return original(work, *args, **kwargs)
            with self.watcher.unrecorded:
                entry = {**entry, "at": line_of(self.watcher.here()) or entry["at"], "waits": True}
            with self._under_way(None, entry):
                return original(work, *args, **kwargs)

        return wait

    def _is_by_hand(self, name: str, record: CollectiveRecord) -> None:
        """Record the parameters whose gradients a program reduces itself."""
        if not name.startswith(("all_reduce", "reduce")):
            return
        owners = {}
        for number in record.tensors:
            memory = self.trace.tensors[number].memory
            owner = self.trace.tensors[number].gradient_of
            owners[number] = self.trace.tensors[memory].gradient_of if owner is None else owner
        missing = {owner for owner in owners.values() if owner is not None} - self.by_hand.keys()
        for value, known in self.watcher.tensors.alive() if missing else ():
            if known.id in missing:
                self.by_hand[known.id] = value

    # --- DistributedDataParallel

    def _made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __init__(wrapper: Any, module: Any, *args: Any, **kwargs: Any) -> None:
            if not self.watcher.watching:
                return original(wrapper, module, *args, **kwargs)
            self.depth += 1
            try:
                with self.watcher.silent:
                    original(wrapper, module, *args, **kwargs)
            finally:
                self.depth -= 1
            with self.watcher.unrecorded:
                self._wrapped(wrapper, module)
            return None

        return __init__

    def _wrapped(self, wrapper: Any, module: Any) -> None:
        watcher, place = self.watcher, self.watcher.here()
        ignored = set(getattr(wrapper, "parameters_to_ignore", ()))
        record = ParallelRecord(
            id=len(self.trace.parallel), time=self.trace.tick(), place=place,
            module=watcher.modules.see(wrapper, place).id, inner=watcher.modules.see(module, place).id,
            parameters={
                name: watcher.see(parameter, place).id for name, parameter in module.named_parameters()
                if parameter.requires_grad and name not in ignored
            },
            finds_unused=bool(wrapper.find_unused_parameters), static=bool(getattr(wrapper, "static_graph", False)),
        )  # fmt: skip
        self.trace.parallel.append(record)
        self.wrapped[id(wrapper)] = wrapper, record
        self.look("when the model is wrapped", place)

    def _forward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def forward(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
            known = self.wrapped.get(id(wrapper))
            if known is None or not self.watcher.in_thread:
                return original(wrapper, *args, **kwargs)
            _, record = known
            entry: dict[str, Any] = {}
            with self.watcher.unrecorded:
                place = self.watcher.here()
                synced = bool(wrapper.require_backward_grad_sync)
                block = record.blocks[-1][2] if record.blocks and not synced else None
                grad_mode = self.watcher.engine.is_grad_enabled()
                record.forwards.append(ParallelForward(self.trace.tick(), place, grad_mode, synced, block))
                self.look("before this forward", place)
                if self.journal is not None:
                    entry = self._pass(record, "forward", place)
            with self._under_way(None, entry):
                return original(wrapper, *args, **kwargs)

        return forward

    def _pass(self, record: ParallelRecord, half: str, place: Place | None) -> dict[str, Any]:
        torch = self.watcher.engine.torch
        key = f"ddp{record.id} {half}"
        wrapper = next(one for one, known in self.wrapped.values() if known is record)
        return {
            "op": f"{half} of DistributedDataParallel", "what": "", "at": line_of(place), "batch": self.batch,
            "ranks": torch.distributed.get_process_group_ranks(wrapper.process_group), "group": key,
            "number": self._number(key), "soft": True,
        }  # fmt: skip

    @contextmanager
    def backward(self, leaves: list[int], place: Place | None) -> Iterator[None]:
        """Write a backward pass to the journal, if it reaches parameters of a DistributedDataParallel."""
        reached = [
            record for _, record in self.wrapped.values() if not set(leaves).isdisjoint(record.parameters.values())
        ]
        if self.journal is None or not reached:
            yield
            return
        with self._under_way(None, self._pass(reached[0], "backward", place)):
            yield

    def _no_sync(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def no_sync(wrapper: Any) -> Any:
            known = self.wrapped.get(id(wrapper))
            block = original(wrapper)
            return block if known is None or not self.watcher.in_thread else self._block(block, known[1])

        return no_sync

    @contextmanager
    def _block(self, block: Any, record: ParallelRecord) -> Iterator[None]:
        place, begin = self.watcher.here(), self.trace.tick()
        number = len(record.blocks)
        record.blocks.append((begin, -1, place))
        try:
            with block:
                yield
        finally:
            record.blocks[number] = (begin, self.trace.tick(), place)

    # --- batches

    def _next_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:
            _, given = self.batches.get(id(iterator), (None, 0))
            try:
                batch = original(iterator)
            except StopIteration:
                if self.journal is not None and self.watcher.in_thread:
                    self.journal.add("loader", batches=given, at=line_of(self.watcher.here()))
                raise
            self.batch = given + 1
            self.batches[id(iterator)] = iterator, self.batch
            return batch

        return __next__

    # --- values

    def look(self, when: str, place: Place | None) -> None:
        """Write checksums of the parameters that should be equal on all ranks, and of their gradients before a step."""
        if self.journal is None or self.looks >= _LISTED:
            return
        written = self._written()
        shared = {f"ddp{record.id}": self._parameters(wrapper, record) for wrapper, record in self.wrapped.values()}
        if self.by_hand:
            shared["by hand"] = list(self.by_hand.items())
        for key, parameters in shared.items():
            self.looks += 1
            entry: dict[str, Any] = {"of": key, "when": when, "at": line_of(place)}
            entry["values"] = [self._checksum(parameter) for _, parameter in parameters]
            if when == BEFORE_STEP:
                grads = [parameter.grad for _, parameter in parameters]
                entry["gradients"] = [self._checksum(grad) for grad in grads]
                found = {index: self.watcher.tensors.find(grad) for index, grad in enumerate(grads)}
                lines = {index: written.get(known.memory) for index, known in found.items() if known is not None}
                entry["gradients written"] = {index: line for index, line in lines.items() if line is not None}
            memories = {self.trace.tensors[number].memory: index for index, (number, _) in enumerate(parameters)}
            entry["written"] = {memories[memory]: line for memory, line in written.items() if memory in memories}
            self.journal.add("values", **entry)

    def _parameters(self, wrapper: Any, record: ParallelRecord) -> list[tuple[int, Any]]:
        now = dict(wrapper.module.named_parameters())
        return [(number, now[name]) for name, number in record.parameters.items() if name in now]

    def _checksum(self, tensor: Any) -> int | None:
        if tensor is None:
            return None
        torch = self.watcher.engine.torch
        try:
            flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            return zlib.crc32(flat.numpy())
        except (RuntimeError, TypeError, NotImplementedError):  # sparse, sharded
            return None

    def _written(self) -> dict[int, Any]:
        """Return the memories written since the last checksums, each with its last writer's line and name."""
        writes, self.seen_writes = self.trace.writes[self.seen_writes :], len(self.trace.writes)
        return {self.trace.tensors[write.tensor].memory: [write.name, line_of(write.place)] for write in writes}


def is_lost(error: BaseException) -> bool:
    """Whether an error is about another rank that is gone, absent or in a different collective."""
    text = str(error).lower()
    other = getattr(error, "lost_peer", False) or getattr(error, "details", ())
    return bool(other) or any(word in text for word in _LOST)


_LOST = ("connection closed", "connection reset", "gloo", "timed out", "broken pipe", "timeout")
