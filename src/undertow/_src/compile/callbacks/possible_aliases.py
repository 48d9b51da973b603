"""Results of hooks that share memory with other tensors in some calls only, depending on values.

`if g.norm() > 1: return g / 2` returns new memory in some calls, and leaves the gradient as it is in others. If nothing
else holds the memory of `g`, there is no difference. Otherwise a write to one changes the other, in some calls: a
program can't do that. A hook that was traced path by path then has to run on the host, where each call has the tensors
of eager mode, and so do hooks that keep that memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from undertow._src.arrays.device.memory import Buffer
from undertow._src.compile.callbacks.kept_memory import Memory, has_aliases
from undertow._src.compile.callbacks.tensor_mirrors import HostMirror
from undertow._src.compile.tracing.current_trace import running_trace

if TYPE_CHECKING:
    from undertow._src.compile.callbacks.host_calls import HostCall, OrderedCallback
    from undertow._src.compile.callbacks.host_mirrors import HostMirrors


class _Chosen(NamedTuple):
    """The result of a hook that was traced path by path, and the tensor that it is on some paths."""

    hook: Any
    result: ref[Buffer]
    among: list[ref[Buffer]]


class _Returned(NamedTuple):
    """The result of a hook on the host, and the mirror of the hook's argument."""

    call: OrderedCallback
    result: ref[Buffer]
    given: HostMirror
    buffer: ref[Buffer]  # of its arguments
    memories: tuple[Memory, Memory]  # of its arguments, and of the result


class PossibleAliases:
    """The results of a trace's hooks that may share memory with the hooks' arguments."""

    def __init__(self, mirrors: HostMirrors) -> None:
        self._mirrors = mirrors
        self._chosen: list[_Chosen] = []
        self._returned: list[_Returned] = []
        # Hooks in the program that keep something, by the buffers that they have seen.
        self.keepers: WeakKeyDictionary[Buffer, list[Any]] = WeakKeyDictionary()

    def is_kept(self, buffer: Buffer) -> bool:
        """Return whether a buffer is from outside, or hooks that keep something, or calls on the host, have seen it."""
        if buffer not in running_trace().memory.made:
            return True
        return buffer in self.keepers or self._mirrors.stand_on(buffer)

    def choose(self, hook: Any, results: Sequence[Any], among: Sequence[Buffer]) -> None:
        """Record the result of a hook that was traced path by path: new tensors, instead of those that it chooses among."""
        self._chosen += [_Chosen(hook, ref(each._array.buffer), [*map(ref, among)]) for each in results]

    def give_back(self, call: OrderedCallback, given: Sequence[Any], results: Sequence[Any]) -> None:
        """Record the result of a hook on the host for its argument tensors."""
        for one, result in zip(given, results):
            mirror, buffer = self._mirrors.mirror_of(one), one._array.buffer
            memories = mirror.memory, self._mirrors.mirror_of(result).memory
            self._returned.append(_Returned(call, ref(result._array.buffer), mirror, ref(buffer), memories))

    def note_gradient(self, taken: Buffer) -> None:
        """Record that a leaf's gradient takes a buffer over."""
        for returned in self._returned:
            if returned.result() is taken and type(returned.given) is not HostMirror:
                returned.call.may_return_given = False  # that is from outside, and held: eager mode would copy it

    def note_write(self, buffer: Buffer) -> Any:
        """Record a write to a buffer. Return a hook that has to run on the host because of it, if there is one."""
        for chosen in self._chosen:
            alive = [each() for each in chosen.among]
            if chosen.result() is buffer and any(each is not None for each in alive):
                return chosen.hook
            if chosen.result() is not None and any(each is buffer for each in alive):
                return chosen.hook
        for returned in self._returned:
            if returned.result() is buffer or (returned.result() is not None and returned.buffer() is buffer):
                returned.call.may_return_given = returned.call.may_return_given and not self._is_held(returned.given)
        return None

    def _is_held(self, mirror: HostMirror) -> bool:
        """Return whether the traced step holds a tensor that a hook on the host got, or an alias of it."""
        if type(mirror) is not HostMirror:
            return True  # it is from outside
        tensor = mirror.kept
        if tensor is None:  # the trace has ended
            return False
        own = self._mirrors.references_to(tensor) + 2  # `tensor`, and the argument of `getrefcount`
        return getrefcount(tensor) > own or has_aliases(tensor, [each.kept for each in self._mirrors.tensors])

    def hooks_for_host(self, outputs: Sequence[Buffer], calls: Sequence[HostCall]) -> Iterator[Any]:
        """Yield traced hooks that have to run on the host, due to what the program leaves or calls on the host see."""
        left, shown = {*map(id, outputs)}, _memories_in(calls)
        for chosen in self._chosen:
            alive = [each() for each in chosen.among]
            if any(each is not None and (id(each) in left or self.is_kept(each)) for each in alive):
                yield chosen.hook
        for returned in self._returned:
            buffer = returned.buffer()
            lasts = id(returned.memories[1]) in shown or id(returned.result()) in left
            if lasts and buffer is not None and id(buffer) in left and type(returned.given) is HostMirror:
                yield from self.keepers.get(buffer, ())
                returned.call.may_return_given = False  # the step itself keeps it

    def waits(self, outputs: Sequence[Buffer], calls: Sequence[HostCall], later: Sequence[HostCall]) -> HostCall | None:
        """Return a call whose result a later call, after the program, may see: that one has to be inside, too."""
        left, shown, shown_later = {*map(id, outputs)}, _memories_in(calls), _memories_in(later)
        for returned in self._returned:
            lasts = id(returned.memories[1]) in shown or id(returned.result()) in left
            if lasts and id(returned.memories[0]) in shown_later:
                return returned.call
        return None


def _memories_in(calls: Sequence[HostCall]) -> set[int]:
    """Return the ids of the memories that calls see."""
    return {id(state.mirror.memory) for call in calls for state in call.view.states.values()}
