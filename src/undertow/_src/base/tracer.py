"""What eager code tells a compiler that traces it, and asks of it.

While a step is compiled, its own Python code runs once on values that are not known yet (`_src/compile/tracing/trace.py`).
There is no second implementation of ops, autograd or hooks, so eager code has to say what it does with memory, and to ask
before it looks at a value. It does so here: `current` is the trace that is running, or None. While none is, that costs one
attribute read and a test for None:

    if tracer.current is not None:
        tracer.current.note_backward()

One trace runs at a time in a process. Other threads see it too; a tracer leaves alone what they do (`is_here`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from undertow._src.arrays.device.array import DeviceArray
    from undertow._src.arrays.device.memory import Buffer, DeviceMemory, Value
    from undertow._src.tensor.core import TensorCore
    from undertow._src.types.devices import device as Device

    Check = Callable[[Any], None]
    Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Tracer(Protocol):
    """A trace, as eager code sees it. Every method may raise to end the trace."""

    @property
    def device(self) -> Device:
        """Where the program will run."""

    def is_here(self) -> bool:
        """Whether it is this thread that is traced."""

    def note_abort(self, error: BaseException) -> None:
        """Remember an exception that ends the trace, also where the step's own code handles it."""

    # --- memory

    def new_array(self, array: Any) -> Any:
        """Return the array of a new tensor over a NumPy array: a constant, or an input if the step did not make it."""

    def note_buffer(self, buffer: Buffer) -> None:
        """Note a buffer that was made."""

    def note_write(self, array: DeviceMemory) -> None:
        """Check that memory can be written to inside a program."""

    def adopt(self, operands: Sequence[Any]) -> None:
        """Make the memory of tensors from outside the program's; they are the operands of one op."""

    # --- values

    def is_constant(self, value: Value) -> bool:
        """Whether a value is the same in every call of the program, so that Python may look at it."""

    def item(self, array: DeviceArray, kind: type) -> Any:
        """Return the only element of an array, for code that asks for a bool, an int or any number (`object`)."""

    def refuse_value(self, array: DeviceMemory) -> None:
        """Refuse to give a value that only the running program knows."""

    def guarded_value(self, array: DeviceArray) -> Any:
        """Return a value that decides about shapes and is guarded from now on, or None if no call brings it along."""

    def note_integers(self, result: DeviceArray, function: Callable[..., Any], arguments: Arguments) -> None:
        """Note how integers were computed, so that they can be computed before a call if its arguments decide them."""

    def check_before_calls(self, check: Check, array: DeviceArray) -> None:
        """Check a value now if it is known, else before each call of the program that brings it along."""

    def check_in_program(self, holds: DeviceArray, complaint: str) -> None:
        """Have the program raise a RuntimeError unless a value is true."""

    def run_if(self, condition: DeviceArray) -> AbstractContextManager[None]:
        """Return a block that takes effect in the calls in which a value is true."""

    def select(self, tensor: TensorCore, indices: Sequence[Any]) -> Any:
        """Return `tensor[indices]` with a mask among the indices that only the program knows."""

    def nonzero(self, mask: DeviceArray) -> Any:
        """Return the positions at which a mask is true that only the program knows, a row for each."""

    # --- gradients and optimizers

    def note_backward(self) -> None:
        """Note that the step uses `.grad`."""

    def note_sparse_gradient(self, shape: tuple[int, ...]) -> None:
        """Check that the step does not depend on whether a gradient is sparse: in a program it is dense."""

    def note_storage_offset(self, array: DeviceArray) -> None:
        """Check that the step may ask where in its memory a tensor begins."""

    def note_taken_over(self, tensor: TensorCore, gradient: TensorCore) -> None:
        """Note that a leaf's `.grad` has taken over the memory of a gradient that hooks were shown."""

    def references_to(self, tensor: TensorCore) -> int:
        """Return how many references the trace itself holds to a tensor."""

    def next_count(self, counter: TensorCore) -> Any:
        """Count a step of an optimizer, and return the new count; None if the count is not an input of the program."""

    def takes_schedule(self, scheduler: Any, step: Callable[..., None], arguments: Arguments) -> bool:
        """Whether a scheduler's step was made by the tracer, because the program's calls make it on the host."""

    # --- what runs

    def call_jax(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of JAX's, whose own code is no part of the step."""


class HookTracer(Protocol):
    """What decides, in the place of `hooks.fire`, when a hook is called: a trace, or a run that repeats one."""

    def call_hook(self, hook: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Return what a hook gives: call it now by `hooks.fire(…, decided=True)`, or see that the program does."""


current: Tracer | None = None
hooks: HookTracer | None = None  # set with `current`, and where hooks are observed without a trace
epoch = 0  # a different number in each trace: what a view has cached outside of it is no value inside


def running() -> Tracer:
    """Return the trace, in code that is only reached while there is one."""
    assert current is not None
    return current
