"""Guards on which tensors are one tensor or share memory, each by itself: it holds until that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import undertow as torch
from undertow import Tensor
from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.memory import known_value
from undertow._src.compile.effects import Place
from undertow._src.compile.guards.alias_guards import AliasGuard, GradientAliasGuard, KeptGradientGuard, Memory
from undertow._src.compile.guards.argument_guard import ArgumentGuard, WayGuard
from undertow._src.compile.guards.guard import Guard
from undertow._src.compile.guards.host_read_guard import HostReadGuard, HostReads, Used
from undertow._src.compile.guards.reachability import Reached
from undertow._src.compile.tracing.arguments import Arguments
from undertow._src.types.devices import cpu

SHARED = "other tensors than before share memory"


def in_program(*shape: int) -> Tensor:
    """A tensor in the memory of a program, as a step's own tensors are after a call."""
    tensor = torch.zeros(shape)
    tensor._array = DeviceArray(known_value(np.zeros(shape, np.float32)), cpu)
    return tensor


def memory(tensor: Tensor) -> Memory:
    return tensor, tensor._array, tensor._array.buffer


def alias_guard(
    written: Sequence[Tensor] = (), read: Sequence[Tensor] = (), tied: Sequence[tuple[Tensor, Tensor]] = (),
    given: Sequence[int] = (), overwritten: Sequence[int] = (),
) -> AliasGuard:  # fmt: skip
    return AliasGuard([*map(memory, written)], [*map(memory, read)], [*tied], [*given], [*overwritten])


def fails(guard: Guard, arguments: Sequence[Tensor] = (), said: str = SHARED) -> bool:
    return not guard.hold(arguments) and guard.reason() == said


@pytest.mark.parametrize("share", ["the read one in the written one's", "the written one in the read one's"])
def test_a_written_and_a_read_tensor_that_come_to_share_memory(share: str) -> None:
    w, v = in_program(2), in_program(2)
    guard = alias_guard([w], [v])
    assert guard.hold([]) and guard.number == 2
    moved, other = (v, w) if share.startswith("the read") else (w, v)
    moved._array = other._array  # as `v.data = w.data`
    assert fails(guard)
    moved._array = np.zeros(2, np.float32)
    assert guard.hold([])


def test_two_read_tensors_may_share_memory() -> None:
    both, v, w = np.zeros(3, np.float32), in_program(2), in_program(2)
    guard = alias_guard([], [v, w])
    v._array, w._array = both[:2], both[1:]
    assert guard.hold([])


def test_memory_of_the_host_that_overlaps() -> None:
    w, v = in_program(2), in_program(2)
    guard = alias_guard([w], [v])
    whole = np.zeros(4, np.float32)
    w._array, v._array = whole[:2], whole[2:]
    assert guard.hold([])
    v._array = whole[1:3]
    assert fails(guard)


def test_memory_that_a_program_keeps_and_the_host_uses() -> None:
    w, v = in_program(2), in_program(2)
    guard = alias_guard([w], [v])
    w._array.buffer.host = np.zeros(2, np.float32)  # as `w.numpy()` leaves it
    assert guard.hold([])
    v._array = w._array.buffer.host
    assert fails(guard)


def test_tied_tensors_must_stay_tied() -> None:
    w, v = torch.ones(2), torch.ones(2)
    v.data = w.data
    guard = alias_guard(tied=[(v, w)])
    assert guard.hold([])
    v.data = torch.ones(2)
    assert fails(guard)


def test_arguments_in_memory_that_the_program_writes_to() -> None:
    w, v = in_program(2), in_program(2)
    guard = alias_guard([w], [v], given=[0])
    alias = torch.zeros(2)
    assert guard.hold([torch.zeros(2)]) and guard.hold([in_program(2)])
    alias._array = v._array
    assert guard.hold([alias])  # both are only read
    alias._array = w._array
    assert fails(guard, [alias])


def test_an_argument_that_the_program_writes_to() -> None:
    v = in_program(2)
    guard = alias_guard([], [v], given=[0, 1], overwritten=[0])
    written, alias = torch.zeros(3), torch.zeros(2)
    assert guard.hold([written, torch.zeros(2)])
    assert fails(guard, [written, written[1:]])
    alias._array = v._array
    assert fails(guard, [alias, torch.zeros(2)])


def of_step(*tensors: Tensor, given: Sequence[Tensor] = ()) -> Arguments:
    return Arguments(given, Reached(tensors=[*tensors], seen={id(tensor) for tensor in tensors}))


def with_grad(*shape: int) -> Tensor:
    tensor = torch.zeros(shape, requires_grad=True)
    tensor.grad = torch.zeros(shape)
    return tensor


def test_gradients_that_come_to_share_memory() -> None:
    w, v = with_grad(2), with_grad(2)
    guard = GradientAliasGuard(alias_guard(), of_step(w, v), [None, None])
    said = "other gradients than before share memory"
    assert guard.hold([]) and guard.number == 2
    w.grad = torch.zeros(2)
    assert guard.hold([])
    v.grad = w.grad
    assert fails(guard, said=said)
    v.grad = torch.zeros(4)[:2]  # a view: its whole may be written to
    assert fails(guard, said=said)


def test_gradients_in_memory_that_the_program_writes_to() -> None:
    w, state = with_grad(2), in_program(2)
    guard = GradientAliasGuard(alias_guard([state]), of_step(w), [None])
    assert guard.hold([])
    w.grad._array = in_program(2)._array
    assert guard.hold([])
    w.grad._array = state._array
    assert not guard.hold([])


def test_gradients_that_were_one_tensor() -> None:
    w, v = with_grad(2), with_grad(2)
    v.grad = w.grad
    guard = GradientAliasGuard(alias_guard(), of_step(w, v), [w.grad, w.grad])
    assert guard.hold([])
    v.grad = torch.zeros(2)
    assert not guard.hold([])


def test_gradients_that_a_step_keeps() -> None:
    w = with_grad(2, 3)
    guard = KeptGradientGuard([(w, w.grad)])
    assert guard.hold([]) and guard.number == 1
    kept, w.grad = w.grad, torch.zeros(2, 3)
    said = "the gradient of a parameter of shape [2, 3] is no longer the tensor that the step keeps"
    assert fails(guard, said=said)
    w.grad = kept
    assert guard.hold([])


ARGUMENTS = "other arguments than before are the same tensor, or one that the step uses anyway"


def test_which_arguments_are_one_tensor() -> None:
    w, a, b = torch.ones(2), torch.ones(2), torch.ones(2)
    apart = ArgumentGuard(of_step(w, given=[a, b]))
    assert apart.hold([a, b]) and apart.hold([b, torch.zeros(2)])
    assert fails(apart, [a, a], ARGUMENTS)
    assert fails(apart, [a, w], ARGUMENTS)
    one = ArgumentGuard(of_step(w, given=[a, a]))
    assert one.hold([b, b]) and fails(one, [a, b], ARGUMENTS)
    own = ArgumentGuard(of_step(w, given=[w]))
    assert own.hold([w]) and fails(own, [a], ARGUMENTS)


def test_which_arguments_share_memory() -> None:
    a = torch.ones(2)
    given = of_step(given=[a, a.detach()])
    given.shared.append((1, 0))
    guard = ArgumentGuard(given)
    assert guard.hold([a, a.detach()])
    assert fails(guard, [a, torch.ones(2)], ARGUMENTS)


def test_carried_tensors_that_are_one_tensor() -> None:
    state = {"hidden": torch.ones(2), "last": torch.ones(2)}
    guard = ArgumentGuard(Arguments([], Reached(), [(state, "hidden"), (state, "last")]))
    assert guard.hold([])
    state["hidden"] = torch.zeros(2)
    assert guard.hold([])
    state["last"] = state["hidden"]
    assert fails(guard, [], ARGUMENTS)


def host_read_guard(held: list[Any], written: Sequence[Tensor] = (), read: Sequence[Tensor] = (), **more: Any) -> Guard:
    given = Arguments([], Reached())
    uses = [Used([*map(memory, each)], given, []) for each in (written, read)]
    return HostReadGuard(HostReads([Place(held, None)], **more), *uses)


FINDS = "a hook on the host finds a tensor of the step in a list, a dict or an object where there was none"


def test_hooks_on_the_host_find_what_the_program_writes_to() -> None:
    written, read, held = in_program(2), in_program(2), [1, torch.zeros(2), [torch.zeros(1)]]
    guard = host_read_guard(held, [written], [read])
    assert guard.hold([]) and guard.watches and guard.number == 1
    held.append([{"last": written.detach()}])
    assert fails(guard, said=FINDS)
    held.clear()
    assert guard.hold([])
    held.append(read.detach())
    assert guard.hold([]) and fails(host_read_guard(held, [written], [read], may_write=True), said=FINDS)


def test_hooks_on_the_host_find_arrays_that_the_program_uses() -> None:
    read, held = torch.zeros(2), list[Any]()
    device = DeviceArray(known_value(np.zeros(2, np.float32)), cpu)
    used = Used([(read, device, device.buffer)], Arguments([], Reached()), [])
    guard = HostReadGuard(HostReads([Place(held, None)]), Used([], used.given, []), used)
    held.append(np.zeros(2, np.float32))
    assert guard.hold([])
    held.append(read.numpy()[1:])
    assert fails(guard, said=FINDS)


def test_hooks_on_the_host_find_tensors_of_the_step() -> None:
    own, held = torch.zeros(2), list[Any]()
    guard = host_read_guard(held, own={id(own)})
    known = host_read_guard(held, own={id(own)}, known={id(own): own})
    held.append(own)
    assert fails(guard, said=FINDS) and known.hold([])


def test_graphs_behind_arguments() -> None:
    leaf, other = torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    given = Arguments([], Reached())
    given.graphs.untaken.append((0, [leaf]))
    guard = WayGuard(given)
    assert guard.hold([other * 2]) and guard.watches
    said = "an argument was computed from a tensor whose gradient a backward pass in the step computes"
    assert fails(guard, [(other + leaf * 2)], said)
