"""What eager code reports to a compiler that traces it, and what it queries.

While a step is compiled, its own Python code runs once on values that are not known yet
(`_src/compile/tracing/trace_state.py`). There is no second implementation of ops, autograd or hooks, so eager code has to
report what it does with buffers, and to query the tracer before it reads a value. It does so here: `current` is the
running trace, or None. Without a trace that costs one attribute read and a test for None:

    if tracer.current is not None:
        tracer.current.note_backward()

One trace runs at a time in a process. Other threads see it too; a tracer leaves alone what they do (`is_here`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from undertow._src.arrays.device.array import DeviceArray
    from undertow._src.arrays.device.memory import Buffer, DeviceMemory, Value
    from undertow._src.tensor.core import TensorCore
    from undertow._src.types.devices import device as Device

    Check = Callable[[Any], None]
    Inside = Callable[[Any, list[Any]], Sequence[Any]]
    OnHost = Callable[[int, list[str], list[Any]], Sequence[Any]]
    Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Tracer(Protocol):
    """A trace, as seen from eager code. Every method may raise to end the trace."""

    @property
    def device(self) -> Device:
        """The device on which the program will run."""

    def is_here(self) -> bool:
        """Whether this thread is the traced one."""

    def note_abort(self, error: BaseException) -> None:
        """Remember an exception that ends the trace, also where the step's own code handles it."""

    # --- buffers

    def new_array(self, array: Any) -> Any:
        """Return the array of a new tensor over a NumPy array: a constant, or an input if the step did not make it."""

    def note_buffer(self, buffer: Buffer) -> None:
        """Record a buffer that was made."""

    def note_write(self, array: DeviceMemory) -> None:
        """Check that a buffer can be written to inside a program."""

    def adopt(self, operands: Sequence[Any]) -> None:
        """Make the buffers of tensors from outside, the operands of one op, buffers of the program."""

    # --- values

    def is_constant(self, value: Value) -> bool:
        """Whether a value is the same in every call of the program, so that Python may read it."""

    def item(self, array: DeviceArray, kind: type) -> Any:
        """Return the only element of an array, as a bool, an int or any number (`object`)."""

    def refuse_value(self, array: DeviceMemory) -> None:
        """Raise the error for reading a value that only the running program knows."""

    def guarded_value(self, array: DeviceArray) -> Any:
        """Return a value that determines shapes, guarded from now on; None if no call's arguments determine it."""

    def note_integers(self, result: DeviceArray, function: Callable[..., Any], arguments: Arguments) -> None:
        """Record how integers were computed, so that they can be computed before a call if its arguments decide them."""

    def sizes_shown(self, sizes: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the sizes of an array, or numbers computed from them, for the calling code."""

    def check_before_calls(self, check: Check, array: DeviceArray) -> None:
        """Check a value now if it is known, else before each call of the program whose arguments determine it."""

    def check_in_program(self, holds: DeviceArray, complaint: str) -> None:
        """Make the program raise a RuntimeError unless a value is true."""

    def run_if(self, condition: DeviceArray) -> AbstractContextManager[None]:
        """Restrict the effects inside the block to the calls in which a value is true."""

    def select(self, tensor: TensorCore, indices: Sequence[Any]) -> Any:
        """Return `tensor[indices]` where one index is a mask whose values only the program knows."""

    def nonzero(self, mask: DeviceArray) -> Any:
        """Return the positions, one per row, at which a mask is true whose values only the program knows."""

    # --- gradients and optimizers

    def note_backward(self, asked: TensorCore | None = None) -> None:
        """Record that the step uses `.grad`."""

    def note_targets(self, reached: Sequence[Any], targets: Sequence[Any]) -> None:
        """Check that no argument was computed from the targets of a backward pass: a program lacks that graph."""

    def note_sparse_gradient(self, shape: tuple[int, ...]) -> None:
        """Check that the step does not depend on whether a gradient is sparse: in a program it is dense."""

    def note_storage_offset(self, array: DeviceArray) -> None:
        """Check that the step may read a tensor's storage offset."""

    def note_taken_over(self, tensor: TensorCore, gradient: TensorCore) -> None:
        """Record that a leaf's `.grad` has taken over the buffer of a gradient that hooks have seen."""

    def references_to(self, tensor: TensorCore) -> int:
        """Return how many references the trace itself holds to a tensor."""

    def next_count(self, counter: TensorCore) -> Any:
        """Count a step of an optimizer, and return the new count; None if the count is not an input of the program."""

    def takes_schedule(self, scheduler: Any, step: Callable[..., None], arguments: Arguments) -> bool:
        """Whether the tracer made a scheduler's step, because the program's calls make it on the host."""

    # --- what runs

    @property
    def collectives(self) -> CollectiveTracer:
        """The step's communication with other ranks."""

    def call_jax(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a JAX function, whose own code is no part of the step."""


class CollectiveTracer(Protocol):
    """What a trace does with collectives."""

    def emit(
        self,
        call: str,
        group: Any,
        inside: Inside | None,
        run: OnHost,
        given: Sequence[Any],
        like: Sequence[Any],
    ) -> list[Any]:
        """Add a collective to the program, and return arrays like `like`.

        `inside(program, values)` returns their values, if it can be part of the program. Else the host calls
        `run(number, calls, values)`.
        """

    def refuse(self, what: str) -> NoReturn:
        """End the trace: this can't be compiled."""

    def at_end(self, check: Callable[[], None]) -> None:
        """Call a function when the step has run."""


class HookTracer(Protocol):
    """Decides, instead of `hooks.fire`, when a hook is called: a trace, or a replay of a step."""

    def call_hook(self, hook: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Return the hook's result: call it now by `hooks.fire(…, decided=True)`, or make the program call it."""


current: Tracer | None = None
hooks: HookTracer | None = None  # set with `current`, and when hooks are observed without a trace
compiling = ""  # the step that is being compiled, until its program communicates with other ranks
is_alone = False  # whether a step is repeated on this rank only: it must not communicate
epoch = 0  # differs in each trace, so that what a view cached outside of it is not reused inside


def here() -> Tracer | None:
    """Return the current trace if it traces this thread."""
    return current if current is not None and current.is_here() else None


def running() -> Tracer:
    """Return the current trace, in code that only runs while there is one."""
    assert current is not None
    return current
