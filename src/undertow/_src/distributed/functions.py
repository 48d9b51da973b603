"""PyTorch's collectives on tensors in which every rank gets the same result, or the tensors of all ranks."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from undertow._src.base import tracer
from undertow._src.base.modes import no_grad
from undertow._src.distributed import collectives, in_program
from undertow._src.distributed.arguments import (
    alike,
    belonging,
    check_tensor,
    check_tensors,
    described,
    ended,
    place_of,
    put,
    run,
    same_as,
    takes_results,
)  # fmt: skip
from undertow._src.distributed.errors import DistBackendError
from undertow._src.distributed.reduce_ops import ReduceOp, checked
from undertow._src.distributed.sparse import all_reduce_sparse
from undertow._src.distributed.state import seconds
from undertow._src.distributed.traced import traced
from undertow._src.distributed.work import Done, Work


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce a tensor over all ranks, in place on every rank."""
    check_tensor(tensor, "tensor")
    chosen = belonging(group, "all_reduce")
    if chosen is None:
        return None
    if tensor.is_sparse:
        return _all_reduce_sparse(tensor, op, chosen, async_op)
    name, factor = checked(op, tensor, "all_reduce")
    if tracer.here() is not None:
        return traced(
            chosen, "all_reduce", f"{name} {alike(tensor)}", described(tensor), [tensor], [tensor], async_op,
            lambda call, values: [collectives.all_reduce(chosen, call, values[0], name, factor)],
            lambda program, values: [in_program.all_reduce(program, values[0], name, factor)],
        )  # fmt: skip

    def body(call: Any) -> list[Any]:
        in_place = takes_results(tensor)
        put(tensor, collectives.all_reduce(chosen, call, tensor._array, name, factor, in_place))
        return [tensor]

    return run(chosen, "all_reduce", f"{name} {alike(tensor)}", described(tensor), body, async_op)


def _all_reduce_sparse(tensor: Any, op: Any, group: Any, async_op: bool) -> Work | None:
    """Add up a sparse tensor over all ranks, in place."""
    if op != ReduceOp.SUM:
        raise RuntimeError("unsupported reduction operation: sparse tensors can only be added up")
    with no_grad():
        tensor.copy_(all_reduce_sparse(tensor.detach(), group, all_gather))
    return Done([tensor]) if async_op else None


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce a tensor over all ranks, in place on one rank."""
    check_tensor(tensor, "tensor")
    chosen = belonging(group, "reduce")
    if chosen is None:
        return None
    root = place_of(chosen, dst, group_dst, "dst", "reduce")
    name, factor = checked(op, tensor, "reduce")
    if tracer.here() is not None:
        kept = [tensor] if chosen.rank() == root else []
        return traced(
            chosen, "reduce", f"{name} to {root}, {alike(tensor)}", described(tensor), [tensor], kept, async_op,
            lambda call, values: [collectives.all_reduce(chosen, call, values[0], name, factor)][: len(kept)],
            lambda program, values: [in_program.all_reduce(program, values[0], name, factor)][: len(kept)],
            [tensor],
        )  # fmt: skip

    def body(call: Any) -> list[Any]:
        flat = collectives.all_reduce(chosen, call, tensor._array, name, factor)
        if chosen.rank() == root:
            put(tensor, flat)
        return [tensor]

    return run(chosen, "reduce", f"{name} to {root}, {alike(tensor)}", described(tensor), body, async_op)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Copy the tensor of one rank into those of all others."""
    check_tensor(tensor, "tensor")
    chosen = belonging(group, "broadcast")
    if chosen is None:
        return None
    root = place_of(chosen, src, group_src, "src", "broadcast")
    if tracer.here() is not None:
        return traced(
            chosen, "broadcast", f"from {root}, {alike(tensor)}", described(tensor), [tensor], [tensor], async_op,
            lambda call, values: [collectives.broadcast(chosen, call, values[0], root)],
            lambda program, values: [in_program.broadcast(program, values[0], chosen.rank() == root)],
        )  # fmt: skip

    def body(call: Any) -> list[Any]:
        flat = collectives.broadcast(chosen, call, tensor._array, root)
        if chosen.rank() != root:
            put(tensor, flat)
        return [tensor]

    return run(chosen, "broadcast", f"from {root}, {alike(tensor)}", described(tensor), body, async_op)


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy the tensors of all ranks into a list, on every rank."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    chosen = belonging(group, "all_gather")
    if chosen is None:
        return None
    if len(tensor_list) != chosen.size():
        raise RuntimeError(
            "ProcessGroupGloo::allgather: invalid output tensor list at index 0 "
            f"(expected length {chosen.size()}, got {len(tensor_list)})"
        )
    same_as(tensor, tensor_list, "all_gather")
    if tracer.here() is not None:
        return traced(
            chosen, "all_gather", alike(tensor), described(tensor), [tensor], tensor_list, async_op,
            lambda call, values: collectives.all_gather(chosen, call, values[0]),
            lambda program, values: in_program.all_gather(program, values[0]),
        )  # fmt: skip

    def body(call: Any) -> list[Any]:
        for output, flat in zip(tensor_list, collectives.all_gather(chosen, call, tensor._array), strict=True):
            put(output, flat)
        return tensor_list

    return run(chosen, "all_gather", alike(tensor), described(tensor), body, async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy the tensors of all ranks into one tensor, concatenated or stacked, on every rank."""
    check_tensor(output_tensor, "output_tensor")
    check_tensor(input_tensor, "input_tensor")
    chosen = belonging(group, "all_gather_into_tensor")
    if chosen is None:
        return None
    _check_multiple(output_tensor, input_tensor, chosen.size(), "all_gather_into_tensor")
    if tracer.here() is not None:
        return traced(
            chosen, "all_gather_into_tensor", alike(input_tensor), described(input_tensor), [input_tensor],
            [output_tensor], async_op,
            lambda call, values: [collectives.joined(collectives.all_gather(chosen, call, values[0]))],
            lambda program, values: [in_program.joined(program, in_program.all_gather(program, values[0]))],
        )  # fmt: skip

    def body(call: Any) -> list[Any]:
        put(output_tensor, collectives.joined(collectives.all_gather(chosen, call, input_tensor._array)))
        return [output_tensor]

    return run(chosen, "all_gather_into_tensor", alike(input_tensor), described(input_tensor), body, async_op)


def _check_multiple(large: Any, small: Any, size: int, op: str) -> None:
    """Raise unless a tensor has as many elements as the ranks' tensors together."""
    if large._array.dtype != small._array.dtype:
        raise RuntimeError(f"{op}: the output's dtype {large.dtype} is not the input's, {small.dtype}")
    if large._array.size != small._array.size * size:
        raise RuntimeError(
            f"{op}: invalid tensor size: {large._array.size} elements are not {size} times {small._array.size}"
        )


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Work | None:
    """Wait until every rank of the group has called this."""
    chosen = belonging(group, "barrier")
    if chosen is None:
        return None
    limit = None if timeout is None else seconds(timeout)
    return ended(chosen.start("barrier", "", "", lambda call: collectives.barrier(chosen, call), limit), async_op)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """Wait until every rank of the group has called this; at the timeout, raise an error that names the others."""
    chosen = belonging(group, "monitored_barrier")
    if chosen is None:
        return
    limit = chosen.timeout if timeout is None else seconds(timeout)
    try:
        chosen.start("monitored_barrier", "", "", lambda call: collectives.barrier(chosen, call), limit).wait()
    except DistBackendError as error:
        if "timed out" not in str(error):
            raise
        ranks = re.findall(r"^  rank (\d+) (.*)$", str(error), re.MULTILINE)
        absent = [rank for rank, answer in ranks if not _IN_BARRIER.match(answer)] or [rank for rank, _ in ranks]
        names = f"Rank {absent[0]}" if len(absent) == 1 else f"Ranks {', '.join(absent)}"
        raise RuntimeError(
            f"[Rank {chosen.rank()}]: {names} failed to pass monitoredBarrier in {limit * 1000:.0f} ms\n {error}"
        ) from None


_IN_BARRIER = re.compile(r"is at (\S+); its last collective was monitored_barrier\(\) at \1$")


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce several tensors of one dtype over all ranks."""
    if not isinstance(tensors, (list, tuple)):
        tensors = [tensors]
    check_tensors(tensors, "tensor")
    chosen = belonging(group, "all_reduce_coalesced")
    if chosen is None:
        return None
    if len({tensor._array.dtype for tensor in tensors}) > 1:
        raise ValueError("Invalid usage of all_reduce_coalesced: the tensors must have one dtype")
    name, factor = checked(op, tensors[0], "all_reduce_coalesced")
    if tracer.here() is not None:
        for tensor in tensors:
            all_reduce(tensor, op, chosen)
        return Done(list(tensors)) if async_op else None

    def body(call: Any) -> list[Any]:
        flat = collectives.joined([tensor._array for tensor in tensors])
        _split(tensors, collectives.all_reduce(chosen, call, flat, name, factor))
        return list(tensors)

    return _run_coalesced(chosen, "all_reduce_coalesced", name, tensors, body, async_op)


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copy several tensors of all ranks into lists, one for each rank."""
    chosen = belonging(group, "all_gather_coalesced")
    if chosen is None:
        return None
    check_tensors(input_tensor_list, "tensor_list")
    if not isinstance(output_tensor_lists, list):
        raise RuntimeError("Invalid function argument: output_tensor_lists should be a list")
    if len(output_tensor_lists) != chosen.size():
        raise ValueError(f"all_gather_coalesced: expected {chosen.size()} output lists, got {len(output_tensor_lists)}")
    for outputs in output_tensor_lists:
        check_tensors(outputs, "output_tensor_lists")
    if tracer.here() is not None:
        for place, tensor in enumerate(input_tensor_list):
            all_gather([outputs[place] for outputs in output_tensor_lists], tensor, chosen)
        return Done(output_tensor_lists) if async_op else None

    def body(call: Any) -> list[Any]:
        raw = collectives.joined([collectives.bytes_of(tensor._array) for tensor in input_tensor_list])
        for outputs, row in zip(output_tensor_lists, collectives.all_gather(chosen, call, raw), strict=True):
            start = 0
            for output in outputs:
                end = start + output._array.nbytes
                put(output, row[start:end].view(output._array.dtype))
                start = end
        return output_tensor_lists

    return _run_coalesced(chosen, "all_gather_coalesced", "", input_tensor_list, body, async_op)


def _split(tensors: Any, flat: Any) -> None:
    """Write the parts of a flat array into tensors."""
    start = 0
    for tensor in tensors:
        end = start + tensor._array.size
        put(tensor, flat[start:end])
        start = end


def _run_coalesced(chosen: Any, op: str, name: str, tensors: Any, body: Any, async_op: bool) -> Work | None:
    detail = f"{name} {', '.join(map(alike, tensors))}"
    return run(chosen, op, detail, ", ".join(map(described, tensors)), body, async_op)
