"""A hook that runs on the host: its arguments, and the tensors it finds by name, as they were when its turn came."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

from undertow._core import TensorCore, wrap
from undertow.amp.casting import autocast_as_it_was
from undertow.autograd.apply import settle
from undertow.devices import cpu
from undertow.modes import enable_grad, local, set_grad_enabled
from undertow.nn.modules.module import Module
from undertow.optim.optimizer import Optimizer
from undertow.tree import leaves, map_leaves
from undertow.xla.errors import CompileError
from undertow.xla.numbers import Figure
from undertow.xla.places import held_at, put
from undertow.xla.registrations import where_defined
from undertow.xla.sparse_parts import apart, is_sparse, parts_of_sparse, together
from undertow.xp.device_array import DeviceArray
from undertow.xp.device_memory import Watch

_NO_WAY_BACK = (
    "It has effects besides tensor work, so it runs on the host, where gradients can't flow through what it writes. Let "
    "one hook compute, and another one do the rest"
)


class Placed:
    """Where a hook runs, and why; for `explain`."""

    __slots__ = ("hook", "name", "where", "registered", "runs", "why")
    what = "hook"

    def __init__(self, hook: Any, runs: str, why: str, registered: str = "") -> None:
        self.hook, self.runs, self.why, self.registered = hook, runs, why, registered
        self.name = getattr(hook, "__qualname__", None) or type(hook).__name__
        self.where = where_defined(hook)

    def __str__(self) -> str:
        """The hook, for messages."""
        known = (("defined at", self.where), ("registered at", self.registered))
        places = ", ".join(f"{what} {place}" for what, place in known if place)
        return f"the {self.what} {self.name}" + (f" ({places})" if places else "")


class _Shown:
    """In the place of a tensor: which captured value a new tensor shows."""

    __slots__ = ("place", "requires_grad", "node_name", "grad", "final_grad")

    def __init__(self, place: int, requires_grad: bool, node_name: str, grad: int | None = None) -> None:
        self.place, self.requires_grad = place, requires_grad
        self.node_name = node_name  # of where it was computed
        self.grad = grad  # which captured value is its gradient, if it has one by then
        self.final_grad: int | None = None  # and which one when the step is over, if it retains it


class _ShownNumber:
    """In the place of a number: which captured value it is, and of which type."""

    __slots__ = ("kind", "place")

    def __init__(self, place: int, kind: Any) -> None:
        self.place, self.kind = place, kind


class Kept:
    """In the place of what a pack hook on the host gave: it stays there, until the unpack hook is called with it."""

    __slots__ = ("value", "spec")

    def __init__(self, spec: jax.ShapeDtypeStruct) -> None:
        self.value: Any = None
        self.spec = spec  # what the saved tensor looks like


class HostCall:
    """One call of a hook, to be made when values are known.

    Tensors that were computed are shown as new tensors. Tensors with an identity (parameters, buffers, whatever the hook
    finds by name) are themselves, and hold for the time of the call what they held when the hook's turn came.
    """

    def __init__(
        self, hook: Any, args: Any, kwargs: Any, found: list[Any], placed: Placed | None = None,
        counters: Sequence[tuple[Any, Any]] = (),
    ) -> None:  # fmt: skip
        self.hook, self.placed = hook, placed or Placed(hook, "", "")
        self.recording, self.autocast = local.modes.grad_enabled, local.modes.autocast
        schedules = Watch.trace.schedules
        self.schedules = nullcontext if schedules is None else partial(schedules.at_turn, len(schedules.made))
        self.device = Watch.trace.device
        self.captured: list[DeviceArray] = []
        self.dressed: list[tuple[Any, int, int | None]] = []  # tensors with an identity: places of value and gradient
        choice = Watch.trace.choice
        self.only_if = None if choice is None else self._capture(choice)
        self._known: dict[int, Any] = {}
        for tensor in found:
            self._dress(tensor)
        self.args, self.kwargs = map_leaves(self._taken, apart((args, kwargs)))
        self.numbers = [(place, map_leaves(self._taken, held_at(*place))) for place in counters]  # found by name

    def _capture(self, array: DeviceArray) -> int:
        self.captured.append(array.copy())
        return len(self.captured) - 1

    def _dress(self, tensor: Any) -> None:
        settle((tensor,))
        if id(tensor) not in self._known and type(tensor._array) is DeviceArray:
            self._known[id(tensor)] = tensor
            grad = None if tensor._meta is None else tensor._meta.grad
            place = None if grad is None else self._capture(grad._array)
            self.dressed.append((tensor, self._capture(tensor._array), place))

    def _taken(self, value: Any) -> Any:
        if isinstance(value, Figure):
            return _ShownNumber(self._capture(value.as_array()), type(value.value))
        if isinstance(value, (Module, Optimizer)):
            for tensor in tensors_of(value):
                self._dress(tensor)
        if not isinstance(value, TensorCore):
            return value
        if id(value) in self._known or self._has_identity(value):
            self._dress(value)
            return value
        settle((value,))
        return self._show(value)

    def _has_identity(self, tensor: Any) -> bool:
        """Whether a tensor is shown as itself, also if the hook does not find it by name."""
        return tensor._meta is not None

    def _show(self, tensor: Any) -> _Shown:
        name = "" if tensor._edge is None else type(tensor._edge[0]).__name__
        return _Shown(self._capture(tensor._array), tensor._requires_grad, name)

    def call(self, values: list[Any]) -> tuple[Any, Any, list[Any]]:
        """Calls the hook; what it was given, what it returned, and what the tensors held afterwards: those with an
        identity, then the new ones."""
        stage = _Stage(self, values)
        self.places = [place for _, *places in self.dressed for place in places if place is not None]
        before = []
        for tensor, place, grad in self.dressed:
            meta = tensor._get_meta()
            before.append((tensor, tensor._array, meta, meta.grad))
            array = self.memory(values[place], tensor)
            meta.grad = None if grad is None else wrap(self.memory(values[grad], tensor))
            tensor._array = array
        args, kwargs = together(map_leaves(stage.shown, (self.args, self.kwargs)))
        numbers = [(where, held_at(*where)) for where, _ in self.numbers]
        for where, number in self.numbers:
            put(*where, map_leaves(stage.shown, number))
        try:
            with set_grad_enabled(self.recording), autocast_as_it_was(self.autocast), self.schedules():
                answer = self.hook(*args, **kwargs)
            after = self._held_after()
            stage.finish()
        finally:
            for where, number in numbers:
                put(*where, number)
            for tensor, array, meta, grad in before:
                tensor._array, meta.grad = array, grad
        return args, answer, after + [tensor._array for tensor in stage.made]

    def _held_after(self) -> list[Any]:
        """What tensors with an identity, and their gradients, hold when the hook has run."""
        after: list[Any] = []
        for tensor, _, grad in self.dressed:
            after.append(tensor._array)
            now = tensor._meta.grad
            if (now is None) is not (grad is None):
                raise CompileError(
                    f"undertow.compile: {self.placed} sets a .grad {'to None ' if now is None else ''}and also has "
                    "effects besides tensor work. In a compiled step one hook can't do both: split it in two."
                )
            if now is not None:
                after.append(now._array)
        return after

    def refuse_writes(self, after: list[Any], values: list[Any], why: str, first: int = 0) -> None:
        """Raises if tensors, from one of them on, hold other values than the hook was given."""
        for array, place in zip(after[first:], self.places[first:], strict=True):
            if not np.array_equal(np.asarray(array), np.asarray(values[place]), equal_nan=array.dtype.kind in "fc"):
                raise CompileError(
                    f"undertow.compile: {self.placed} wrote into a tensor of shape {list(array.shape)}. {why}"
                )

    def memory(self, value: Any, tensor: Any = None) -> Any:
        """What a tensor, maybe one with an identity, shows a value on. While the program runs the device is busy."""
        return np.array(value)

    def computed(self, tensor: Any, node_name: str) -> Any:
        """A tensor that asks for gradients as one that was computed, so that it may be written to."""
        return tensor.clone()


class _Stage:
    """What a hook is shown during one call: new tensors of values."""

    def __init__(self, call: HostCall, values: list[Any]) -> None:
        self._call, self._values = call, values
        self.made: list[Any] = []
        self._retaining: list[tuple[Any, int]] = []

    def shown(self, part: Any) -> Any:
        """A part of the arguments as the hook is to see it."""
        call, values = self._call, self._values
        if type(part) is Kept:
            return part.value
        if type(part) is _ShownNumber:
            return part.kind(values[part.place])
        if type(part) is not _Shown:
            return part
        tensor = wrap(call.memory(values[part.place]))
        if part.requires_grad:
            tensor._requires_grad = True
            with enable_grad():
                tensor = call.computed(tensor, part.node_name)
        self.made.append(tensor)
        call.places.append(part.place)
        if part.grad is not None:
            tensor._get_meta().grad = wrap(call.memory(values[part.grad]))
        if part.final_grad is not None:
            self._retaining.append((tensor, part.final_grad))
        return tensor

    def finish(self) -> None:
        """After the hook: who kept a tensor finds its gradient as the backward pass has left it."""
        for tensor, final in self._retaining:
            meta = tensor._get_meta()
            meta.retains, meta.grad = True, wrap(self._call.memory(self._values[final]))
        if any(map(vars, self.made)):
            raise CompileError(
                f"undertow.compile: {self._call.placed} runs on the host, where it is shown copies of tensors, and sets an "
                f"attribute of one ({', '.join(next(filter(None, map(vars, self.made))))}), which would be lost"
            )


def tensors_of(holder: Any) -> Iterator[Any]:
    """The tensors that a module or an optimizer keeps."""
    if isinstance(holder, Module):
        for each in (*holder.parameters(), *holder.buffers()):
            yield from tensors_of(each)
    elif isinstance(holder, Optimizer):
        for group in holder.param_groups:
            yield from group["params"]
        for kept in holder.state.values():
            yield from (each for each in kept.values() if isinstance(each, TensorCore))
    elif is_sparse(holder):
        yield from parts_of_sparse(holder)[:2]
    elif isinstance(holder, TensorCore):
        yield holder


class Later(HostCall):
    """A call that is made after the program."""

    may_write = False  # whether it may turn out to write into tensors

    def __init__(self, *given: Any) -> None:
        self._retained: list[tuple[_Shown, Any]] = []  # what stands for tensors that retain their gradients
        super().__init__(*given)

    def _has_identity(self, tensor: Any) -> bool:
        return tensor._meta is not None and tensor._edge is None  # each call computes another one

    def _show(self, tensor: Any) -> _Shown:
        shown, meta = super()._show(tensor), tensor._meta
        if meta is not None and meta.grad is not None:
            shown.grad = self._capture(meta.grad._array)
        if meta is not None and meta.retains:
            self._retained.append((shown, tensor))
        return shown

    def finish(self) -> None:
        """At the end of the trace: gradients that are retained are what they are now."""
        for shown, tensor in self._retained:
            if tensor._meta.grad is not None:
                shown.final_grad = self._capture(tensor._meta.grad._array)
        self._retained.clear()

    def memory(self, value: Any, tensor: Any = None) -> Any:
        device = self.device if tensor is None else tensor.device
        return np.array(value) if device is cpu else DeviceArray(value, device)

    def run(self) -> None:
        """Calls the hook with the values of this step."""
        values = [array.cell.value for array in self.captured]
        if self.only_if is not None and not values[self.only_if]:
            return
        _, answer, after = self.call(values)
        if answer is not None:
            raise CompileError(
                f"undertow.compile: {self.placed} runs after the program, and returned a value, which comes too late"
            )
        if self.may_write:
            self.refuse_writes(
                after, values, "It runs after the program, where that comes too late: write in a statement of its own"
            )


class Inside(HostCall):
    """A call that the program stops for."""

    threads: set[int] = set()  # on which such calls are under way; see `uncompiled`

    def __init__(self, *given: Any) -> None:
        self.shown_arrays: list[DeviceArray] = []  # whose values new tensors show
        self.values: list[Any] = []  # what was captured, during a call
        super().__init__(*given)

    def _show(self, tensor: Any) -> _Shown:
        self.shown_arrays.append(tensor._array)
        return super()._show(tensor)

    def place(self, changed: int | None, writes: bool, raised: list[BaseException], elsewhere: bool = False) -> Any:
        """Puts the call into the program; what comes back in the place of the hook's result.

        A hook that writes may do so elsewhere only: not into what it is given.
        """
        wanted = [] if changed is None else self._tensors_in(self.args[changed])
        targets: list[DeviceArray] = []
        if writes:
            for tensor, _, grad in self.dressed:
                targets.append(tensor._array)
                if grad is not None:
                    targets.append(tensor._meta.grad._array)
            targets += [] if elsewhere else self.shown_arrays
        spec = [_spec(each) for each in (*wanted, *targets)]

        def results(args: Any, answer: Any, after: list[Any]) -> list[Any]:
            if elsewhere:
                self.refuse_writes(after, self.values, _NO_WAY_BACK, len(targets))
                del after[len(targets) :]
            given = [] if changed is None else self._fitting(args[changed] if answer is None else answer, args[changed])
            return [*given, *(after if writes else ())]

        values = self._call_in_program(results, spec, raised)
        for target, value in zip(targets, values[len(wanted) :]):
            target.write(value)
        if changed is None:
            return None
        fresh = iter([wrap(DeviceArray(value)) for value in values[: len(wanted)]])
        return map_leaves(
            lambda part: next(fresh) if type(part) is _Shown or isinstance(part, TensorCore) else part, self.args[changed]
        )

    def keep(self, saved: DeviceArray, raised: list[BaseException]) -> Kept:
        """The call of a pack hook: what it gives waits on the host."""
        kept = Kept(_spec(saved))

        def results(args: Any, answer: Any, after: list[Any]) -> list[Any]:
            kept.value = answer
            return []

        self._call_in_program(results, [], raised)
        return kept

    def give(self, kept: Kept, raised: list[BaseException]) -> Any:
        """The call of an unpack hook: it gives a tensor like the one that was saved."""
        spec = kept.spec

        def results(args: Any, answer: Any, after: list[Any]) -> list[Any]:
            if not isinstance(answer, TensorCore):
                raise TypeError(
                    f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(answer)}"
                )
            if answer.shape != spec.shape:
                raise CompileError(
                    f"undertow.compile: {self.placed} gives a tensor of shape {list(answer.shape)} for one that was saved "
                    f"with shape {list(spec.shape)}; a program can't change its shape while it runs"
                )
            return [answer.detach().numpy().astype(spec.dtype)]

        (value,) = self._call_in_program(results, [spec], raised)
        return wrap(DeviceArray(value))

    def _call_in_program(self, results: Callable[..., list[Any]], spec: list[Any], raised: list[BaseException]) -> Any:
        def on_host(*values: Any) -> list[Any]:
            nothing = [np.zeros(each.shape, each.dtype) for each in spec]
            if raised or (self.only_if is not None and not values[self.only_if]):
                # eager code would not have come here; the results are thrown away
                return nothing
            try:
                self.values = list(values)
                with uncompiled():
                    return [np.asarray(each) for each in results(*self.call(self.values))]
            except BaseException as error:
                raised.append(error)
                return nothing
            finally:
                self.values = []

        values = io_callback(on_host, spec, *[array.value for array in self.captured], ordered=True)
        self.captured.clear()  # or they would be results of the program
        self.shown_arrays.clear()
        return values

    def _tensors_in(self, part: Any) -> list[DeviceArray]:
        found = []
        for each in leaves(part):
            if isinstance(each, _Shown):
                found.append(self.captured[each.place])
            elif isinstance(each, TensorCore):
                found.append(each._array)
        return found

    def _fitting(self, answer: Any, given: Any) -> list[Any]:
        """The arrays of what a hook returned, which has to look like what it was given."""
        if isinstance(given, tuple) and isinstance(answer, TensorCore):
            answer = (answer,)
        wanted = [each for each in leaves(given) if isinstance(each, TensorCore)]
        found = [each for each in leaves(answer) if isinstance(each, TensorCore)]
        if len(wanted) != len(found) or any(a.shape != b.shape for a, b in zip(wanted, found)):
            raise CompileError(
                f"undertow.compile: {self.placed} runs on the host, and returned other tensors than it was given in number "
                "or shape; a program can't change its shape while it runs"
            )
        return [found.detach().to(wanted.dtype).numpy() for found, wanted in zip(found, wanted)]


@contextmanager
def uncompiled() -> Iterator[None]:
    """On this thread, what is compiled runs as it was written."""
    thread = threading.get_ident()
    Inside.threads.add(thread)
    try:
        yield
    finally:
        Inside.threads.discard(thread)


def _spec(array: DeviceArray) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
