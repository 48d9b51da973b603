"""`backward` and `grad`: check the arguments, make the first gradients, run the engine."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.placement import one_like
from undertow._src.arrays.namespaces import batched_namespace, is_batched, namespace_of, tensor_namespace
from undertow._src.base import tracer
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import warn, warn_once
from undertow._src.engine import engine
from undertow._src.engine.metadata import note_output, output_specs
from undertow._src.engine.node import AccumulateGrad, Edge, Node, edge_of
from undertow._src.engine.views import refresh_view
from undertow._src.overrides import torch_function
from undertow._src.tensor.core import InferenceStorage, TensorCore, ndarray, tensor_class, wrap
from undertow._src.types.dtypes import DTYPE_OF
from undertow._src.types.sizes import size_of


class GradientEdge(NamedTuple):
    """A position in the graph: an output of a node. It stands for a tensor in `backward` and `grad` without holding it."""

    node: Node
    output_nr: int
    ownership_token: Any = None


GradientEdge.__module__ = "undertow.autograd.graph"

Source: TypeAlias = TensorCore | GradientEdge  # what a backward pass starts from, and what it leads to
Seeds: TypeAlias = TensorCore | Sequence[TensorCore | None] | None


def get_gradient_edge(tensor: TensorCore) -> GradientEdge:
    """Return where a tensor's gradient goes: its node and output number (for a leaf, its accumulator)."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor without requires_grad")
    edge = edge_of(tensor)
    if edge is None:
        raise AssertionError("Expected gradient function to be set")
    return GradientEdge(note_output(edge[0], tensor._array), edge[1])


def backward(
    tensors: Source | Iterable[Source], grad_tensors: Seeds = None, retain_graph: bool | None = None,
    create_graph: bool = False, grad_variables: Seeds = None, inputs: Source | Iterable[Source] | None = None,
) -> None:  # fmt: skip
    """Add the gradients of `tensors` to the `.grad` of every leaf they depend on (or of `inputs` only)."""
    if tracer.current is not None:
        tracer.current.note_backward()
    if local.modes.transforms:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported: use torch.func.grad or vjp there, or "
            "call backward() outside of the function that is transformed."
        )
    if grad_variables is not None:
        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    targets = None
    if inputs is not None:
        targets = _inputs(inputs, "backward")
        if not targets:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    outputs = (tensors,) if isinstance(tensors, (TensorCore, GradientEdge)) else tuple(tensors)
    given = _as_tuple(grad_tensors, len(outputs))
    roots, seeds = _roots(outputs, given)
    keep = _keeps(retain_graph, create_graph)
    aims = None
    if targets is not None:
        aims = []
        for place, target in enumerate(targets):
            if isinstance(target, TensorCore):
                target.retain_grad()
            aims.append(_input_edge(place, target))
    if create_graph:
        warn_once(
            "Using backward() with create_graph=True will create a reference cycle of each parameter and its "
            "gradient, which is not freed at once. Take the gradients from autograd.grad() instead, which writes to no "
            ".grad; or set .grad of the parameters to None as soon as you are done with it."
        )
    engine.run(roots, _as_carried(seeds, given, create_graph), keep, create_graph, aims)


@overload
def grad(
    outputs: Source | Iterable[Source], inputs: dict[str, TensorCore], grad_outputs: Seeds = None,
    retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True,
    allow_unused: bool | None = None, is_grads_batched: bool = False, materialize_grads: bool = False,
) -> dict[str, Any]: ...  # fmt: skip
@overload
def grad(
    outputs: Source | Iterable[Source], inputs: Source | Iterable[Source], grad_outputs: Seeds = None,
    retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True,
    allow_unused: bool | None = None, is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple[Any, ...]: ...  # fmt: skip
def grad(
    outputs: Source | Iterable[Source], inputs: Source | Iterable[Source] | dict[str, TensorCore],
    grad_outputs: Seeds = None, retain_graph: bool | None = None, create_graph: bool = False,
    only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:  # fmt: skip
    """Return the gradients of `outputs` with respect to `inputs`, a dict for a dict; nothing is added to `.grad`."""
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To write to .grad, call "
            "backward().",
            FutureWarning,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: False.")
    if allow_unused is None:
        allow_unused = materialize_grads
    outs = (outputs,) if isinstance(outputs, (TensorCore, GradientEdge)) else tuple(outputs)
    wanted = _inputs(inputs, "grad")
    if type(inputs) is dict:
        options = (retain_graph, create_graph, only_inputs, allow_unused, is_grads_batched, materialize_grads)
        return dict(zip(inputs, grad(outs, wanted, grad_outputs, *options), strict=True))
    if torch_function.has_override((*outs, *wanted)):
        named = {
            "grad_outputs": grad_outputs, "retain_graph": retain_graph, "create_graph": create_graph,
            "only_inputs": only_inputs, "allow_unused": allow_unused, "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        }  # fmt: skip
        return torch_function.dispatch(grad, (outs, wanted), named)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    given = _as_tuple(grad_outputs, len(outs))
    if local.modes.transforms and torch_function.has_override(given):  # a vmap over gradients of outputs
        asked = (
            outs,
            wanted,
            given,
            retain_graph,
            create_graph,
            True,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
        return torch_function.dispatch(grad, asked, {})
    keep = _keeps(retain_graph, create_graph)
    operator.index(allow_unused)
    if is_grads_batched:
        return _batched_grad(outs, wanted, given, keep, create_graph, allow_unused, materialize_grads)
    if slow_path.duals is not None and not create_graph and slow_path.duals.follows((*outs, *given)):
        followed = grad(outs, wanted, given, True, True, True, allow_unused, False, materialize_grads)
        return tuple([slow_path.duals.settled(gradient) for gradient in followed])
    roots, seeds = _roots(outs, given)
    aims = [_input_edge(place, target) for place, target in enumerate(wanted)]
    found = engine.run(roots, _as_carried(seeds, given, create_graph), keep, create_graph, aims, accumulates=False)
    return _found(wanted, found, seeds, allow_unused, materialize_grads, create_graph)


def _inputs(inputs: Any, caller: str) -> tuple[Any, ...]:
    """Return the inputs of a backward pass: one, several, or those of a dict."""
    if isinstance(inputs, (TensorCore, GradientEdge)):
        return (inputs,)
    if isinstance(inputs, Mapping) and type(inputs) is not dict:
        raise TypeError(f"`inputs` argument to `{caller}()` must be a dict, not {type(inputs).__name__}")
    return tuple(inputs.values() if type(inputs) is dict else inputs)


def _keeps(retain_graph: Any, create_graph: Any) -> bool:
    """Return whether a backward pass keeps the graph; refuse flags that are no integers."""
    operator.index(create_graph)
    return bool(create_graph if retain_graph is None else operator.index(retain_graph))


def _found(
    wanted: tuple[Any, ...], values: list[Any], seeds: Sequence[Any], allow_unused: bool, materialize_grads: bool,
    create_graph: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the captured gradients for the inputs of `grad` as tensors: one array, one tensor, wherever it arrives."""
    tensors = {id(seed._array): seed for seed in seeds if seed._is_strided}
    results = []
    for place, (target, value) in enumerate(zip(wanted, values, strict=True)):
        if value is None and materialize_grads:
            if not isinstance(target, TensorCore):
                raise RuntimeError(
                    "materialize_grads cannot be used when the given input is a GradientEdge, whose shape is not known. "
                    "Pass the tensor, or allow_unused=True."
                )
            zeros = np.zeros_like(target._array)
            value = wrap(zeros).requires_grad_() if create_graph else zeros
        if value is None and not allow_unused:
            raise RuntimeError(_unused(place, target, len(wanted)))
        if value is not None and not isinstance(value, TensorCore):
            if id(value) not in tensors:
                tensors[id(value)] = wrap(value)
            value = tensors[id(value)]
        results.append(value)
    return tuple(results)


def silent_grad(
    outputs: Sequence[Any], inputs: Sequence[GradientEdge], grad_outputs: Sequence[Any], create_graph: bool,
    batched: bool = False,
) -> list[Any]:  # fmt: skip
    """Run `grad` for internal use: no hook fires, the graph is kept, and an unused input gets None.

    `batched`: as with `is_grads_batched`.
    """
    given = tuple(grad_outputs)
    roots, seeds = _roots(tuple(outputs), tuple([g[0] for g in given]) if batched else given)
    modes = local.modes
    before, modes.saved_hooks = modes.saved_hooks, []
    try:
        if batched:
            return _run_rows(roots, given, True, create_graph, as_edges(inputs), silent=True)
        carried = _as_carried(seeds, given, create_graph)
        found = engine.run(roots, carried, True, create_graph, as_edges(inputs), accumulates=False, silent=True)
    finally:
        modes.saved_hooks = before
    return [value if value is None or isinstance(value, TensorCore) else wrap(value) for value in found]


def batched_grad(
    outputs: Sequence[Any], inputs: Sequence[Any], grad_outputs: Sequence[Any], retain_graph: bool, create_graph: bool
) -> tuple[Any, ...]:
    """Run `grad` with `is_grads_batched` for a transform of `torch.func`; an unused input gets None."""
    asked = (tuple(outputs), tuple(inputs), tuple(grad_outputs), retain_graph, create_graph, True, False)
    return _batched_grad(*asked, is_legacy=False)


def _batched_grad(
    outs: tuple[Any, ...], wanted: tuple[Any, ...], given: tuple[Any, ...], keep: bool, create: bool, unused: bool,
    materialize: bool, is_legacy: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    """Run one backward pass for all leading indices of grad_outputs."""
    for place, (output, g) in enumerate(zip(outs, given, strict=True)):
        if g is not None and not g.ndim:
            raise IndexError(f"invalid index of a 0-dim tensor. grad_output[{place}] has no dim of the batch")
        if g is not None and isinstance(output, TensorCore) and g._array.shape[1:] != output._array.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch. "
                "The others must be those of the corresponding output, but "
                f"grad_output[{place}] has a shape of {size_of(g._array.shape)} and output[{place}] has a shape of "
                f"{size_of(output._array.shape)}."
            )
        if g is None:
            _seed(place, output, None)  # which only a scalar output has
            raise ValueError(
                "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a Tensor of "
                f"dimensionality 0: give a gradient for output {place}, with the batch as its first dim."
            )
    batch = given[0].shape[0]
    if any(g.shape[0] != batch for g in given):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension; the sizes "
            f"{[g.shape[0] for g in given]} are those of grad_outputs"
        )
    firsts = tuple([g[0] for g in given])
    if not _must_run_by_rows(given):
        roots, _ = _roots(outs, firsts)
        aims = [_input_edge(place, target) for place, target in enumerate(wanted)]
        found = _run_rows(roots, given, keep, create, aims, is_legacy=is_legacy)
        return _with_unused(wanted, found, unused, materialize)
    rows = []
    for index in range(batch):
        row = tuple([g[index] for g in given])
        last = index == batch - 1
        rows.append(grad(outs, wanted, row, keep if last else True, create, True, unused, False, materialize))
    return tuple(
        [
            None if column[0] is None else tensor_namespace().stack(column)
            for column in map(list, zip(*rows, strict=True))
        ]
    )


def _must_run_by_rows(given: tuple[Any, ...]) -> bool:
    """Return whether something is on that looks at each gradient by itself."""
    return (
        slow_path.duals is not None
        or slow_path.anomaly
        or bool(slow_path.listeners)
        or (slow_path.dispatcher is not None and slow_path.dispatcher.watches(given))
        or any(type(g) is not tensor_class() for g in given)
    )


def _run_rows(
    roots: list[Edge], given: Sequence[Any], keep: bool, recorded: bool, aims: list[Edge], is_legacy: bool = False,
    silent: bool = False,
) -> list[Any]:  # fmt: skip
    """Run the engine for gradients with the dim of the batch in front. Return what arrives at the aims, as such tensors."""
    arrays = [g if recorded else g._array for g in given]
    inner = tensor_namespace() if recorded else namespace_of(arrays)
    xp = batched_namespace(inner, len(given[0]._array), wrap, is_legacy)
    try:
        found = engine.run(roots, [xp.batched(each) for each in arrays], keep, recorded, aims, False, silent)
    finally:
        xp.close()
    return [None if value is None else _as_whole(value, xp.size) for value in found]


def _as_whole(value: Any, batch: int) -> Any:
    """Return a gradient of each row as one tensor; one that is the same for all is repeated."""
    if is_batched(value):
        return value.raw if isinstance(value.raw, TensorCore) else wrap(value.raw)
    value = value if isinstance(value, TensorCore) else wrap(value)
    return value.unsqueeze(0).expand(batch, *value.shape)


def _with_unused(
    wanted: tuple[Any, ...], values: list[Any], allow_unused: bool, materialize_grads: bool
) -> tuple[Any, ...]:
    """Return what such a pass has found, as tensors."""
    results: list[Any] = []
    for place, (target, value) in enumerate(zip(wanted, values, strict=True)):
        if value is None and not (allow_unused or materialize_grads):
            raise RuntimeError(_unused(place, target, len(wanted)))
        if value is None and materialize_grads:
            results.append(wrap(np.zeros_like(target._array)))  # without the dim of the batch, as in PyTorch
        else:
            results.append(value)
    return tuple(results)


def _as_tuple(given: Seeds, count: int) -> tuple[Any, ...]:
    if given is None:
        return (None,) * count
    result = (given,) if isinstance(given, TensorCore) else tuple(given)
    if len(result) < count:
        raise RuntimeError(f"got {count} tensors and {len(result)} gradients")
    return result[:count]


def _as_carried(seeds: list[Any], given: tuple[Any, ...], recorded: bool) -> list[Any]:
    """Return gradients as the engine carries them: raw arrays; in a recorded pass, the user's own tensors."""
    if recorded or (slow_path.dispatcher is not None and slow_path.dispatcher.watches(seeds)):
        return seeds
    plain = tensor_class()
    return [
        seed if (seed is own and type(seed) is plain) or not seed._is_strided else seed._array
        for seed, own in zip(seeds, given, strict=True)
    ]


def _roots(outputs: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[list[Edge], list[Any]]:
    """Return the edges to start from and the initial gradients."""
    roots: list[Edge] = []
    if len(outputs) > 1:  # all initial gradients are made before the roots are checked
        for place, (output, g) in enumerate(zip(outputs, given, strict=True)):
            if g is None and isinstance(output, TensorCore) and output._requires_grad:
                _seed(place, output, g)
    for place, output in enumerate(outputs):
        if isinstance(output, GradientEdge):
            roots.append((output.node, output.output_nr))
        else:
            _check_output(place, output)
            roots.append(edge_of(output))
    return roots, [_seed(place, output, g) for place, (output, g) in enumerate(zip(outputs, given, strict=True))]


def _check_output(place: int, output: TensorCore) -> None:
    if not isinstance(output, TensorCore):
        raise AssertionError(f"Expected output to be a torch.Tensor. Got {type(output).__name__}")
    if type(output._storage) is InferenceStorage:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    if output._view is not None:
        refresh_view(output)
    if not output._requires_grad or edge_of(output) is None:
        raise RuntimeError(
            f"element {place} of tensors does not require grad and does not have a grad_fn. Nothing was recorded for "
            "it: either no input requires gradients, or the path was cut by detach(), no_grad() or an operation "
            "without a derivative."
        )


def _seed(place: int, output: Source, g: object) -> Any:
    if g is None:
        array = _shaped_like(output) if isinstance(output, GradientEdge) else output._array
        if array.size != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs. This one has shape "
                f"{list(array.shape)}: reduce it first, as in output.sum().backward(), or pass the gradient."
            )
        if array.dtype.kind != "f" and DTYPE_OF[array.dtype].is_complex:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {DTYPE_OF[array.dtype]!r}"
            )
        if slow_path.dispatcher is not None and slow_path.dispatcher.takes((output,)):
            return slow_path.dispatcher.seed(output)
        if type(array) is not ndarray:
            return wrap(one_like(array) if type(array) is DeviceArray else np.ones_like(array))
        one = np.empty(array.shape, array.dtype)
        one.fill(1)
        return wrap(one)
    if not isinstance(g, TensorCore):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if isinstance(output, GradientEdge):
        specs = output_specs(output.node)
        if specs and specs[output.output_nr].shape != g._array.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{place}] has a shape of {size_of(g._array.shape)} and "
                f"output[{place}] has a shape of {size_of(specs[output.output_nr].shape)}."
            )
        return g
    plain = type(g) is tensor_class()
    if plain and g._array.shape == output._array.shape and g._array.dtype is output._array.dtype:
        return g
    if not g._is_strided and g.shape == output.shape:
        return g
    if g.shape != output.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{place}] has a shape of {size_of(g.shape)} and "
            f"output[{place}] has a shape of {size_of(output.shape)}."
        )
    if not plain and g.device.type == "meta" != output.device.type:
        raise RuntimeError(f"invalid gradient at index {place} - expected device {output.device} but got meta")
    if DTYPE_OF[output._array.dtype].is_complex != DTYPE_OF[g._array.dtype].is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to be of one dtype: "
            f"grad_output[{place}] has a dtype of {DTYPE_OF[g._array.dtype]!r} and output[{place}] has a dtype of "
            f"{DTYPE_OF[output._array.dtype]!r}."
        )
    if g._array.dtype != output._array.dtype and not (output._meta is not None and output._meta.grad_dtype is not None):
        g = wrap(g._array.astype(output._array.dtype))
    return g


def _shaped_like(edge: GradientEdge) -> np.ndarray:
    """Return an array in the shape of a gradient edge's tensor, as far as the edge knows it."""
    specs = output_specs(edge.node)
    if not specs:
        raise RuntimeError("grad can be implicitly created only for scalar outputs. Pass the gradient of this edge.")
    return np.empty(specs[edge.output_nr].shape, specs[edge.output_nr].dtype)


def _input_edge(place: int, target: Source) -> Edge:
    if isinstance(target, GradientEdge):
        return (target.node, target.output_nr)
    if not isinstance(target, TensorCore):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(target).__name__}")
    if target._view is not None:
        refresh_view(target)
    if not target._requires_grad:
        raise RuntimeError(
            f"One of the differentiated Tensors does not require grad: input {place} of shape "
            f"{list(target._array.shape)}. Call requires_grad_() on it before it is used."
        )
    return edge_of(target) or (AccumulateGrad(target), 0)  # an edge that leads nowhere


def _unused(place: int, target: Source, count: int) -> str:
    what = f"one of {count}, "
    if isinstance(target, TensorCore):
        what += f"a {'leaf' if target._edge is None else 'result'} of shape {list(target._array.shape)}"
        if target._edge is not None:
            what += f" from {target._edge[0]._node_name()}"
    else:
        what += f"a position in the graph, {target.node._node_name()}"
    return (
        f"The differentiated Tensor at index {place} appears to not have been used in the graph: {what}. "
        "Leave it out, or set allow_unused=True if this is the desired behavior: its gradient is then None."
    )


def as_edges(tensors: Sequence[Any]) -> list[Edge]:
    """Return the edges of tensors or gradient edges."""
    return [_input_edge(place, tensor) for place, tensor in enumerate(tensors)]
