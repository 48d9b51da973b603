"""A step as one XLA program, called in the step's place.

A call hands over the inputs, puts the outputs where the trace left them, and runs the hooks that were kept for the host.

NOTE later. XLA may still be at work when a call returns, on the CPU too, where large programs have threads of their own:
what is left are arrays to come, and who looks at one waits for it. So the memory of NumPy's arrays, which anybody may write
to after the call, is copied before.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import jax
import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import Buffer
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.compile.callbacks.host_calls import HostCall
from undertow._src.compile.callbacks.kept_memory import part_of, parts_of
from undertow._src.compile.callbacks.replay import Interrupted, Replay
from undertow._src.compile.errors import CompileError
from undertow._src.compile.guards.argument_guard import ArgumentGuard
from undertow._src.compile.guards.guard import Guard, failure
from undertow._src.compile.guards.input_checks import InputValueGuard
from undertow._src.compile.guards.places import ABSENT, put, put_back
from undertow._src.compile.guards.scalar_guard import AnswerGuard
from undertow._src.compile.lowering.assembling import Assembled
from undertow._src.compile.lowering.donation import ALONE, a_copy
from undertow._src.compile.plan import Plan
from undertow._src.compile.splitting.host_statements import Statement
from undertow._src.compile.tracing.arguments import view_again
from undertow._src.compile.tracing.decisions import Answer, Mispredicted
from undertow._src.compile.tracing.results import Rebuilt
from undertow._src.compile.tracing.symbolic_scalars import SymbolicScalar
from undertow._src.compile.tracing.trace import draw_again
from undertow._src.compile.tracing.traced import Call
from undertow._src.random.generators import alive
from undertow._src.tensor.core import InferenceStorage, Storage, TensorCore, wrap
from undertow._tensor import Tensor


class Program(Assembled):
    """One compiled variant of a step."""

    turn = used = 0  # when it was made, among all, and used, in calls

    def __init__(self, call: Call, plan: Plan) -> None:
        super().__init__(call, plan)
        self.answer_guard = AnswerGuard(self.scalar_guards, self.options, self.schedules)
        self.result_alone = self._is_alone(self.result)
        self.guards = self._guards()
        self._checks = [guard.hold for guard in self.guards]
        if self.schedules.made:
            self.run = functools.partial(self.schedules.around, self.run)  # type: ignore[method-assign]

    def guards_hold(self, arguments: list[Any]) -> bool:
        """Return whether everything the program depends on is as it was when it was made."""
        for holds in self._checks:
            if not holds(arguments):
                return False
        return True

    def admits(self, arguments: list[Any]) -> bool:
        """Whether labels, indices and the like pass the checks that eager code makes of them."""
        try:
            for check in self.checks:
                check.run(arguments)
        except Exception:
            self.schedules.rewind()
            return False
        return True

    def guard_failure(self, arguments: list[Any]) -> str:
        """Return why the program does not fit any more, in words."""
        return failure(self.guards[:-1], arguments) or self.guards[-1].reason()

    def _guards(self) -> list[Guard]:
        """Return all that the program depends on, the most likely reasons to compile again first."""
        renewed, held = self.given.renewed, self.held
        return [
            *([renewed] if renewed.places else ()),
            ArgumentGuard(self.given),
            *self.state_guards,
            self.options,
            self.alias_guard,
            *(self.hook_code or ()),
            *([self.facts] if self.facts.names else ()),
            *([self.gradient_alias_guard] if self.uses_gradients else ()),
            *([self.reads] if self.reads else ()),
            *([InputValueGuard(held)] if held else ()),
            self.answer_guard,  # at the end: a call goes on with the numbers that it has seen
        ]

    def run_from(self, answers: Sequence[Answer], arguments: list[Any]) -> Any:
        """One step, given answers to its first decisions about values. Raises Mispredicted if it makes others."""
        self.decisions.trusted = len(answers)
        return self.run(arguments)

    def replay(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the step as it is written, after a call on the host has raised."""
        for stream, state in self.stream_states:
            stream.set_state(state)
        try:
            return Replay(self.host_calls, self.code).run(function, args, kwargs)
        finally:
            for holder, order in self.orders:
                put_back(holder, {key: holder[key] for key in order if key in holder} | holder)
            self._begin_host_calls()

    def _begin_host_calls(self) -> None:
        for call in self.host_calls:
            call.begin()

    def run(self, arguments: list[Any]) -> Any:
        """One step. Raise Interrupted if a call on the host raises and `replay` can find out what eager mode leaves."""
        if not self.host_calls:
            return self._call(arguments)
        self._begin_host_calls()
        self.stream_states = [(stream, stream.get_state()) for stream in self.streams]
        added = [(holder, key) for holder, key in self.early if key not in holder]
        try:
            for holder, key in added:  # the order of entries is that in which eager code adds them
                holder[key] = None
            return self._call(arguments)
        except Exception as error:
            self._end()
            self.orders = [(holder, [*holder]) for holder, _ in added]
            for holder, key in added:
                del holder[key]
            calls = self.host_calls
            if (
                isinstance(error, CompileError)
                or not any(call.error is error for call in calls)
                or any(map(_wrote, calls))
            ):
                self._begin_host_calls()
                raise
            raise Interrupted from None

    def _call(self, arguments: list[Any]) -> Any:
        values = []
        for tensor, held, buffer in self.donated:
            if tensor._array is not held:
                self._bring(tensor, held, buffer)
            if buffer.host is not None:
                values.append(buffer.host)
            else:
                values.append(buffer.value if getrefcount(buffer.value) <= ALONE else a_copy(buffer.value))
        if self.pack is not None:
            for tensor, held, buffer in self.packed:
                if tensor._array is not held:
                    self._bring(tensor, held, buffer)
            values.append(self.pack.gathered())
        for donor in self.donors:
            values += donor.donate()
        for tensor, held, buffer in self.state_inputs:
            if tensor._array is not held:
                self._bring(tensor, held, buffer)
            values.append(buffer.value if buffer.host is None else buffer.host.copy())
        for tensor, held, buffer in self.only_written:
            if tensor._array is not held:
                self._bring(tensor, held, buffer)
        if self.uses_gradients:
            arguments = self.given.and_gradients(arguments)
        for place in self.argument_inputs:
            array = arguments[place]._array
            values.append(array.value if type(array) is DeviceArray else array.copy())
        streams = [(generator.stream, generator.stream.get_state()) for generator in alive] if self.decided_at else ()
        if self.draws:
            drawn = draw_again(self.draws)
            values += [drawn[place] if part is None else drawn[place][part] for place, part in self.draw_inputs]
        if self.uses_numbers:
            values.append(self._numbers())
        if self.mirrors.tensors:
            self.mirrors.begin(self.given.and_gradients(arguments[: self.given.count]))
        for call in self.begins:
            call.run()
        started = time.perf_counter()
        results = self.jitted(*values)
        if self.begins:
            jax.block_until_ready(results)  # the time that it takes is what is measured
        if self.has_inside:
            jax.block_until_ready(results)
            jax.effects_barrier()
            if self.raised:
                raise self.raised.pop()
        if self.compile_seconds is None:
            self.compile_seconds = time.perf_counter() - started
        if self.decided_at:
            try:
                self.decisions.check([results[place] for place in self.decided_at])
            except Mispredicted:
                for stream, state in streams:
                    stream.set_state(state)
                self._end()
                raise
        result = self._finish(results, arguments)
        if self.returned is not None:
            result = self.returned.of(result)
        self._end()
        return result

    def _end(self) -> None:
        """After a call."""
        for buffer in self.lent:
            buffer.host = None
        self.lent.clear()
        self.mirrors.end()

    def _numbers(self) -> Any:
        """Return the optimizers' numbers as one array, made anew when one has changed; those that stay lie on the
        device.
        """
        numbers = self.answer_guard.numbers()
        if numbers != self.last_numbers:
            self.last_numbers, self.number_array = numbers, np.array(numbers, np.float64)
        elif type(self.number_array) is np.ndarray:
            self.number_array = jax.device_put(self.number_array, self.jax_device)
        if self.gives_numbers:
            self.last_numbers = None  # until `_finish` knows the next ones
        return self.number_array

    def _bring(self, tensor: Any, held: DeviceArray, buffer: Buffer) -> None:
        """Return a memory that was looked at on the host: back into the program, if nobody else holds it there."""
        array = tensor._array
        if type(array) is DeviceArray or buffer.host is None or not np.may_share_memory(array, buffer.host):
            _leave_to_aliases(held)
        if held._parent is not None:  # a part of the memory, which the host may have now
            if type(array) is DeviceArray or buffer.host is None or not np.may_share_memory(array, buffer.host):
                tensor._array = held
                held.write(array.value if type(array) is DeviceArray else array)
            return
        if type(array) is DeviceArray:  # another memory was put in its place
            buffer.value, buffer.host = array.value, None
            buffer.writes += 1
            tensor._array = held
            return
        if getrefcount(tensor._array) <= ALONE + 1 + (buffer.host is array) and _owned(
            array
        ):  # a local name, and the buffer
            buffer.value, buffer.host = jax.numpy.array(array, device=self.jax_device), None
            buffer.writes += 1
            tensor._array = held
        elif buffer.host is not array:
            buffer.host = array
            self.lent.append(buffer)

    def _finish(self, results: list[Any], arguments: list[Any]) -> Any:
        """Put the results where the step leaves them. Hooks come first: should one raise, nothing has changed."""
        lent = self.n_known + (self.pack is not None)
        made = lent + sum([donor.n_arrays for donor in self.donors])
        if self.leaves_numbers:
            self.call_numbers = self.options.values() + self.options.extra
        for buffer, value in zip(self.made, results[made:]):
            buffer.value, buffer.host = value, None
            buffer.writes += 1
        if self.turns:
            for later in self.turns:
                later.run()
            self.handed.refuse_changes(self.mirrors.changed_containers())
        if self.mirrors.tensors:
            self.mirrors.refuse_writes()
        self._put_written(results, arguments)
        for donor in self.donors:
            donor.receive(results[lent : lent + donor.n_arrays])
            lent += donor.n_arrays
        if self.options.changes or self.options.counted:
            self._put_numbers()
        if self.result_alone:
            left = self.result._array
            result = wrap(left.like(left.buffer.value))
            result._edge, result._requires_grad = self.result._edge, self.result._requires_grad
            return result
        return self._leave(arguments)

    def _put_written(self, results: list[Any], arguments: list[Any]) -> None:
        """Memories that were there before, those of arguments among them."""
        for place, buffer in self.written:
            if buffer.host is None:
                buffer.value = results[place]
            else:
                buffer.host[...] = results[place]
            buffer.writes += 1
        if self.pack is not None:
            self.pack.receive(results[self.n_known])
        for place, argument in self.argument_outputs:
            tensor, value = arguments[argument], results[place]
            replaced = self.mirrors.replaced.get(id(tensor))
            if replaced is not None:  # by a hook
                replaced.gradient._array[...] = value
                replaced.leaf._meta.grad, value = replaced.gradient, jax.numpy.asarray(replaced.value)
            array = tensor._array
            if type(array) is DeviceArray and array._parent is None and array.buffer.host is None:
                array.buffer.value = value
                array.buffer.writes += 1
            else:
                array[...] = value
        for storage, bumps in self.bumps:
            storage.version += bumps

    def _put_numbers(self) -> None:
        """Return what the step makes of optimizers' numbers, and of its own."""
        numbers = self.answer_guard.numbers()
        self.options.change(numbers)
        if self.next_numbers is not None and not self.options.changes:
            options = len(self.options.places)  # as the program saw them: the host may have changed them by now
            self.last_numbers = numbers[:options] + self.options.values()[options:]
            self.number_array = self.next_numbers.buffer.value

    def _leave(self, arguments: list[Any]) -> Any:
        """Return what the step leaves in Python's places, and returns."""
        renewed = {id(self.arguments[place]): arguments[place] for place in self.passed_on}
        shown = self.mirrors.made() if self.mirrors.containers else ()
        rebuilt = Rebuilt(lambda tensor: self._renewed(tensor, renewed), self.known, self.own_objects, shown)
        for place, (holder, key, value) in enumerate(self.exit):
            if place not in self.exit_if or self.exit_if[place].buffer.value:
                put(holder, key, value if value is ABSENT else rebuilt(value))
        if self.given.changes:
            self.given.change(arguments, lambda tensor: self._renewed(tensor, renewed))
        result = rebuilt(self.result)
        if self.way_back is not None:
            numbers = self.call_numbers if self.leaves_numbers else []
            self.way_back.claim([result, *map(rebuilt, self.left_behind()[1:])], arguments, numbers)
        return result

    def _is_alone(self, result: Any) -> bool:
        """Whether all that a call leaves beside gradients and written memories is one tensor in a memory of its own."""
        return (
            type(result) is Tensor
            and type(result._array) is DeviceArray
            and not vars(result)
            and result._array._parent is None
            and id(result._array.buffer) not in self.known_buffers | self.argument_buffers.keys()
            and id(result) not in self.adopted
            and (result._storage is None or result._storage.version == 0)
            and (result._meta is None or (result._meta.grad is None and not result._meta.retains))
            and not (self.exit or self.given.changes or self.way_back or self.mirrors.tensors)
        )

    def _renewed(self, value: Any, renewed: dict[int, Any]) -> Any:
        """Return a tensor that the step made, as a new one for each call; everything else as it is."""
        if not isinstance(value, TensorCore):
            return value.of(self.call_numbers) if isinstance(value, SymbolicScalar) else value
        tensor = renewed.get(id(value))
        if tensor is None:
            if type(value._array) is not DeviceArray or id(value) in self.adopted:
                return value
            if id(value._array.buffer) in self.argument_buffers:
                tensor = self._on_argument(value, renewed)
            else:
                tensor = self.mirrors.host_tensor_of(value)
                tensor = wrap(self._renewed_array(value._array, renewed)) if tensor is None else tensor
                if id(value._array.buffer) in self.known_buffers:
                    tensor._view, tensor._storage = value._view, value._storage
                elif type(value._storage) is InferenceStorage:
                    tensor._storage = InferenceStorage()
                elif value._storage is not None and tensor._storage is None:  # which aliases have in common
                    tensor._storage = renewed.setdefault(id(value._storage), Storage())
                    tensor._storage.version = value._storage.version
            renewed[id(value)] = tensor
            if type(tensor) is not type(value):
                tensor.__class__ = type(value)
            tensor._edge, tensor._requires_grad = value._edge, value._requires_grad
            if value._meta is not None:
                meta = tensor._get_meta()
                meta.retains = value._meta.retains
                if value._meta.grad is not None:
                    meta.grad = self._renewed(value._meta.grad, renewed)
        return tensor

    def _on_argument(self, value: Any, renewed: dict[int, Any]) -> Any:
        """Return a tensor over the memory of an argument: a view of it, or the argument, or a view, without its history."""
        if value._view is not None:
            return view_again(self._renewed(value._view.base, renewed), value._view.steps)
        tensor = renewed[id(self.arguments[self.argument_buffers[id(value._array.buffer)]])].detach()
        tensor._array = _part_of(tensor._array, value._array)
        return tensor

    def _renewed_array(self, array: DeviceArray, renewed: dict[int, Any]) -> Any:
        """Return the memory, or the view of it, that a new tensor stands on."""
        if id(array.buffer) in self.known_buffers:
            now = self.owners[id(array.buffer)]._array  # which may be on the host
            return array if type(now) is DeviceArray and now.buffer is array.buffer else _part_of(now, array)
        whole, parts = parts_of(array)
        if id(array.buffer) not in renewed:
            kept = self.mirrors.memory_at(array.buffer)
            renewed[id(array.buffer)] = whole.like(array.buffer.value) if kept is None else kept
        return part_of(renewed[id(array.buffer)], parts)


def _leave_to_aliases(held: DeviceArray) -> None:
    """Give tensors that still stand on a memory, whose own tensor has another by now, a memory of their own."""
    if held.buffer.value is None and held.buffer.host is None:
        return  # nothing was there yet
    aliases = [each for each in gc.get_referrers(held) if isinstance(each, TensorCore) and each._array is held]
    if aliases:
        apart = held.copy() if held.buffer.host is None else held.on_host().copy()
        for alias in aliases:
            alias._array = apart


def _wrote(call: HostCall) -> bool:
    """Whether a statement on the host may have written into tensors of the program: a replay does not know which."""
    return call.done and call.may_write and isinstance(call.hook, Statement)


def _part_of(whole: Any, traced: DeviceArray) -> Any:
    """Return the part of an array that a trace saw as a view of what stood for it."""
    if traced._parent is None:
        return whole
    above = _part_of(whole, traced._parent)
    return above.view_by(traced._take, traced._put) if type(above) is DeviceArray else traced._take(numpy_xp, above)


def _owned(array: Any) -> bool:
    """Whether nobody holds the memory that an array is a view of."""
    base = array.base
    return base is None or (type(base) is np.ndarray and base.base is None and getrefcount(array.base) <= ALONE + 1)
