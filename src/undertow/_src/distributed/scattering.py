"""PyTorch's collectives that give each rank a different part of tensors: gather, scatter, reduce_scatter, all_to_all."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.base import tracer
from undertow._src.distributed import collectives, in_program
from undertow._src.distributed.arguments import (
    alike,
    belonging,
    check_tensor,
    check_tensors,
    described,
    different_dtypes,
    place_of,
    put,
    run,
    same_as,
)  # fmt: skip
from undertow._src.distributed.reduce_ops import ReduceOp, checked
from undertow._src.distributed.traced import traced
from undertow._src.distributed.work import Work


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copy the tensors of all ranks into a list on one rank."""
    check_tensor(tensor, "tensor")
    if gather_list:
        check_tensors(gather_list, "gather_list")
    chosen = belonging(group, "gather")
    if chosen is None:
        return None
    root = place_of(chosen, 0 if dst is None and group_dst is None else dst, group_dst, "dst", "gather")
    at_root = chosen.rank() == root
    if at_root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        if len(gather_list) != chosen.size():
            raise RuntimeError(
                f"ProcessGroupGloo::gather: Incorrect output list size {len(gather_list)} for {chosen.size()} ranks"
            )
        same_as(tensor, gather_list, "gather")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    if tracer.here() is not None:
        outputs = gather_list if at_root else []
        return traced(
            chosen, "gather", f"to {root}, {alike(tensor)}", described(tensor), [tensor], outputs, async_op,
            lambda call, values: collectives.all_gather(chosen, call, values[0])[: len(outputs)],
            lambda program, values: in_program.all_gather(program, values[0])[: len(outputs)],
            outputs,
        )  # fmt: skip

    def body(call: Any) -> Any:
        rows = collectives.all_gather(chosen, call, tensor._array)
        if at_root:
            for output, row in zip(gather_list, rows, strict=True):
                put(output, row)
        return gather_list if at_root else []

    return run(chosen, "gather", f"to {root}, {alike(tensor)}", described(tensor), body, async_op)


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Send each rank one tensor of a list that one rank has."""
    check_tensor(tensor, "tensor")
    if scatter_list:
        check_tensors(scatter_list, "scatter_list")
    chosen = belonging(group, "scatter")
    if chosen is None:
        return None
    root = place_of(chosen, 0 if src is None and group_src is None else src, group_src, "src", "scatter")
    at_root = chosen.rank() == root
    if at_root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        if len(scatter_list) != chosen.size():
            raise RuntimeError(
                f"ProcessGroupGloo::scatter: Incorrect input list size {len(scatter_list)} for {chosen.size()} ranks"
            )
        same_as(tensor, scatter_list, "scatter")
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    if tracer.here() is not None:
        given = list(scatter_list) if at_root else [tensor] * chosen.size()
        return traced(
            chosen, "scatter", f"from {root}, {alike(tensor)}", described(tensor), given, [tensor], async_op,
            lambda call, values: [collectives.scatter(chosen, call, values, values[0], root)],
            lambda program, values: [in_program.exchange(program, values)[root]],
        )  # fmt: skip

    def body(call: Any) -> list[Any]:
        rows = [part._array for part in scatter_list] if at_root else None
        put(tensor, collectives.scatter(chosen, call, rows, tensor._array, root))
        return [tensor]

    return run(chosen, "scatter", f"from {root}, {alike(tensor)}", described(tensor), body, async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce a list of tensors over all ranks; each rank gets one of the results."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    chosen = belonging(group, "reduce_scatter")
    if chosen is None:
        return None
    if len(input_list) != chosen.size():
        raise RuntimeError(f"reduce_scatter: input_list has {len(input_list)} tensors for {chosen.size()} ranks")
    name, factor = checked(op, output, "reduce_scatter")
    if len({part._array.shape for part in input_list}) > 1:
        raise RuntimeError("reduce_scatter: the tensors of input_list must have one shape")
    same_as(output, input_list, "reduce_scatter")
    if tracer.here() is not None:
        return traced(
            chosen, "reduce_scatter", f"{name} {alike(output)}", described(output), input_list, [output], async_op,
            lambda call, values: [collectives.reduce_scatter(chosen, call, values, name, factor)],
            lambda program, values: [in_program.reduce_scatter(program, values, name, factor)],
        )  # fmt: skip

    def body(call: Any) -> list[Any]:
        rows = [part._array for part in input_list]
        put(output, collectives.reduce_scatter(chosen, call, rows, name, factor))
        return [output]

    return run(chosen, "reduce_scatter", f"{name} {alike(output)}", described(output), body, async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce a tensor over all ranks; each rank gets its part of the result."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    chosen = belonging(group, "reduce_scatter_tensor")
    if chosen is None:
        return None
    size = chosen.size()
    if output._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"reduce_scatter_tensor: the output's dtype {output.dtype} is not the input's, {input.dtype}"
        )
    if input._array.size != output._array.size * size:
        raise RuntimeError(
            f"reduce_scatter_tensor: the input has {input._array.size} elements, not {size} times the output's "
            f"{output._array.size}"
        )
    name, factor = checked(op, output, "reduce_scatter_tensor")
    if tracer.here() is not None:
        return traced(
            chosen, "reduce_scatter_tensor", f"{name} {alike(output)}", described(input), [input], [output], async_op,
            lambda call, values: [
                collectives.reduce_scatter(chosen, call, list(values[0].reshape(size, -1)), name, factor)
            ],
            lambda program, values: [
                in_program.reduce_scatter(program, list(values[0].reshape(size, -1)), name, factor)
            ],
        )  # fmt: skip

    def body(call: Any) -> list[Any]:
        rows = list(collectives.joined([input._array]).reshape(size, -1))
        put(output, collectives.reduce_scatter(chosen, call, rows, name, factor))
        return [output]

    return run(chosen, "reduce_scatter_tensor", f"{name} {alike(output)}", described(input), body, async_op)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Send each rank one tensor of a list, and fill a list with the tensors that the ranks send."""
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    chosen = belonging(group, "all_to_all")
    if chosen is None:
        return None
    for tensors in (output_tensor_list, input_tensor_list):
        if len(tensors) != chosen.size():
            raise RuntimeError(f"all_to_all: a list has {len(tensors)} tensors for {chosen.size()} ranks")
    first = input_tensor_list[0]
    if any(part._array.dtype != first._array.dtype for part in (*output_tensor_list, *input_tensor_list)):
        raise RuntimeError("all_to_all: all tensors must have one dtype")
    if tracer.here() is not None:
        given = [part._array.size for part in input_tensor_list]
        wanted = [part._array.size for part in output_tensor_list]
        return _exchange_traced(chosen, "all_to_all", input_tensor_list, output_tensor_list, given, wanted, async_op)

    def body(call: Any) -> list[Any]:
        rows = [collectives.joined([part._array]) for part in input_tensor_list]
        wanted = [part._array.size for part in output_tensor_list]
        for output, row in zip(
            output_tensor_list, collectives.exchange_uneven(chosen, call, rows, wanted), strict=True
        ):
            put(output, row)
        return output_tensor_list

    what = ", ".join(map(described, input_tensor_list))
    return run(chosen, "all_to_all", str(first.dtype).rpartition(".")[2], what, body, async_op)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Split a tensor along its first dim, send each rank a part, and concatenate the parts that the ranks send."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    chosen = belonging(group, "all_to_all_single")
    if chosen is None:
        return None
    if output._array.dtype != input._array.dtype:
        raise different_dtypes("all_to_all_single", "the output", output, input)
    given = _elements(input, input_split_sizes, chosen.size(), "input")
    wanted = _elements(output, output_split_sizes, chosen.size(), "output")
    if tracer.here() is not None:
        return _exchange_traced(chosen, "all_to_all_single", [input], [output], given, wanted, async_op)

    def body(call: Any) -> list[Any]:
        flat, rows, start = collectives.joined([input._array]), [], 0
        for count in given:
            rows.append(flat[start : start + count])
            start += count
        put(output, collectives.joined(collectives.exchange_uneven(chosen, call, rows, wanted)))
        return [output]

    return run(chosen, "all_to_all_single", str(input.dtype).rpartition(".")[2], described(input), body, async_op)


def _exchange_traced(
    group: Any, op: str, inputs: Any, outputs: Any, given: list[int], wanted: list[int], async_op: bool
) -> Work | None:
    """Add an exchange of parts to the program; parts of several sizes are exchanged on the host.

    `given` and `wanted`: the elements that this rank sends to each rank, and expects of each.
    """
    dtype = str(inputs[0].dtype).rpartition(".")[2]
    starts, ends = np.cumsum([0, *given])[:-1], np.cumsum([part._array.size for part in outputs])[:-1]
    is_even = len({*given, *wanted}) == 1

    def on_host(call: Any, values: list[Any]) -> list[Any]:
        rows = np.split(collectives.joined(values), starts[1:])
        return np.split(collectives.joined(collectives.exchange_uneven(group, call, rows, wanted)), ends)

    def inside(program: Any, values: list[Any]) -> list[Any]:
        flat = in_program.joined(program, values)
        rows = [flat[start : start + given[0]] for start in starts]
        flat = in_program.joined(program, in_program.exchange(program, rows))
        return [flat[start:end] for start, end in zip([0, *ends], [*ends, flat.size], strict=True)]

    return traced(
        group, op, f"parts of {given[0]}" if is_even else "parts of several sizes", dtype, inputs, outputs, async_op,
        on_host, inside if is_even else None,
    )  # fmt: skip


def _elements(tensor: Any, sizes: Any, count: int, name: str) -> list[int]:
    """Return the number of elements in each rank's part of a tensor."""
    shape = tensor._array.shape
    length = shape[0] if shape else 1
    if not sizes:
        if length % count:
            raise RuntimeError(f"Tensor's dim 0 does not divide equally across group size: {name} has {length} rows")
        sizes = [length // count] * count
    if len(sizes) != count:
        raise RuntimeError(
            f"Number of tensor splits not equal to group size: {name} has {len(sizes)} for {count} ranks"
        )
    if sum(sizes) != length:
        raise RuntimeError(
            f"Split sizes doesn't match total dim 0 size: {name} has {length} rows, its splits {sum(sizes)}"
        )
    each = tensor._array.size // length if length else 0
    return [int(size) * each for size in sizes]
