"""Derivatives of functions: vjp, jvp, jacobian, hessian, hvp, vhp, all made of `grad`.

The function gets detached aliases of the inputs, so the caller's tensors get no graph. With create_graph the results can
be differentiated again. With strict, an output that does not depend on an input is an error instead of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from undertow._src.base.lazy import lazy_names
from undertow._src.base.modes import enable_grad
from undertow._src.engine.differentiate import grad
from undertow._src.engine.transforms.levels import Pushed, PushLevel, input_edge
from undertow._src.engine.transforms.tangents import refuse_without_formula
from undertow._src.engine.transforms.unit_vectors import columns, rows, unit_vectors
from undertow._src.ops.join import stack
from undertow._src.tensor import creation
from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._tensor import Tensor

Tensors = tuple[Any, ...]


def vjp(
    func: Callable[..., Any], inputs: Tensor | Tensors, v: Tensor | Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """Return func's output and the product of v with its Jacobian."""
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "vjp")
        given = _prepare(given, create_graph)
        several_outputs, output = _call(func, given, "vjp")
        _check_graph(output, strict, "outputs")
        seeds = _vector(v, output, several_outputs, "vjp")
    create = create_graph
    with enable_grad():
        found = _grads(output, given, seeds, create, strict)
        products = _fill(found, given, strict, create, "back")
    output = _release(output, create_graph)
    products = _release(products, create_graph)
    return _unwrap(output, several_outputs), _unwrap(products, several)


def jvp(
    func: Callable[..., Any], inputs: Tensor | Tensors, v: Tensor | Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """Return func's output and the product of its Jacobian with v, by differentiating a vjp with respect to its vector."""
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "jvp")
        given = _prepare(given, create_graph)
        direction = _vector(v, given, several, "jvp")
        several_outputs, output = _call(func, given, "jvp")
        _check_graph(output, strict, "outputs")
        dummies = tuple([creation.zeros_like(part, requires_grad=True) for part in output])
        backward = _fill(_grads(output, given, dummies, True, strict), given, strict, True, "back")
        _check_graph(backward, strict, "grad_input")
        found = _grads(backward, dummies, direction, create_graph, strict)
        products = _fill(found, dummies, strict, create_graph, "back_trick")
    output, products = _release(output, create_graph), _release(products, create_graph)
    return _unwrap(output, several_outputs), _unwrap(products, several_outputs)


def jacobian(
    func: Callable[..., Any], inputs: Tensor | Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the Jacobian of func: for each output and input, a tensor of shape output.shape + input.shape."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". The first costs one pass per input '
            "element, the second one pass per output element."
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` cannot be '
                "combined (yet)."
            )
        if strict:
            raise RuntimeError(
                'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` cannot be '
                "combined (yet)."
            )
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
                "`vectorize=True`."
            )
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "jacobian")
        if strategy == "forward-mode":
            found, several_outputs = _pushed_forward(func, given)
        else:
            given = _prepare(given, create_graph)
            several_outputs, output = _call(func, given, "jacobian")
            _check_graph(output, strict, "outputs")
            if vectorize and strict:
                raise RuntimeError(
                    "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                    "Leave one of them out."
                )
            if vectorize:
                found = _rows_at_once(output, given, create_graph)
            else:
                found = tuple([_rows(part, place, given, create_graph, strict) for place, part in enumerate(output)])
    kind = list if strategy == "forward-mode" else tuple  # as in PyTorch
    found = kind([kind(_release(row, create_graph)) for row in found])
    if several_outputs:
        return found if several else tuple([row[0] for row in found])
    return found[0] if several else found[0][0]


def _pushed_forward(func: Callable[..., Any], given: Tensors) -> tuple[tuple[Tensors, ...], bool]:
    """Return the Jacobians of each output by forward mode, one direction per element of the inputs."""
    level = PushLevel(wraps=False)
    try:
        inside = [level.begin(part.detach()) for part in given]
        edges = [input_edge(part) for part in inside]
        several_outputs, outputs = _call(func, tuple(inside), "jacobian")
        refuse_without_formula(outputs, edges)
        pushed = Pushed(level, outputs, edges)
    finally:
        level.close()
    found = pushed.along(unit_vectors(given), batched=True)
    return tuple([tuple(columns(whole.detach(), given)) for whole in found]), several_outputs


def _rows_at_once(outputs: Tensors, given: Tensors, create_graph: bool) -> tuple[Tensors, ...]:
    """Return the Jacobians of each output, by one backward pass for the elements of all."""
    vectors, live = unit_vectors(outputs), [place for place, part in enumerate(outputs) if part.requires_grad]
    found: Tensors = (None,) * len(given)
    if live and len(vectors[0]):
        found = grad(
            [outputs[place] for place in live], given, [vectors[place] for place in live], retain_graph=True,
            create_graph=create_graph, allow_unused=True, is_grads_batched=True,
        )  # fmt: skip
    wholes = [
        creation.zeros((len(vectors[0]), *source.shape), dtype=source.dtype) if whole is None else whole
        for whole, source in zip(found, given, strict=True)
    ]
    return tuple(zip(*[rows(whole, outputs) for whole in wholes]))


def _rows(output: TensorCore, place: int, given: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """Return the Jacobians of one output: a backward pass per element, stacked."""
    flat = output.reshape(-1)
    columns: list[list[Any]] = [[] for _ in given]
    for index in range(flat.shape[0]):
        element = flat[index]
        found: Tensors = (None,) * len(given)
        if element.requires_grad:
            found = grad(element, given, retain_graph=True, create_graph=create_graph, allow_unused=True)
        for nr, (column, part, source) in enumerate(zip(columns, found, given, strict=True)):
            if part is None and strict:
                raise RuntimeError(
                    f"Output {place} of the user-provided function is independent of input {nr}, which strict "
                    "mode refuses."
                )
            if strict and create_graph and part is not None and not part.requires_grad:
                raise RuntimeError(
                    "The jacobian of the user-provided function is independent of input "
                    f"{nr}, which strict mode refuses with create_graph=True."
                )
            column.append(creation.zeros_like(source) if part is None else part)
    return tuple(
        [
            stack(column).reshape(tuple(output.shape) + tuple(source.shape))
            if column
            else creation.zeros(tuple(output.shape) + tuple(source.shape), dtype=source.dtype)
            for column, source in zip(columns, given, strict=True)
        ]
    )


def hessian(
    func: Callable[..., Any], inputs: Tensor | Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the matrix of second derivatives of a scalar function, for every pair of inputs."""
    several, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    if outer_jacobian_strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for `vectorize=True`."
        )

    def scalar(*args: TensorCore) -> TensorCore:
        return _scalar_call(func, args, "hessian", strict).squeeze()

    def first(*args: Any) -> Any:
        rows = jacobian(scalar, args, create_graph=True)
        _check_graph(rows, strict, "jacobian")
        return rows

    second = jacobian(first, given, create_graph=create_graph, strict=strict, vectorize=vectorize)
    if outer_jacobian_strategy == "forward-mode":
        second = [list(row) for row in second]
    return second if several else second[0][0]


def vhp(
    func: Callable[..., Any], inputs: Tensor | Tensors, v: Tensor | Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """Return a scalar function's value and the product of v with its Hessian."""
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "vhp")
        given = _prepare(given, create_graph)
        direction = _vector(v, given, several, "vhp")
        output = _scalar_call(func, given, "vhp", strict)
        slopes = _slopes(_grads((output,), given, None, True, strict), given, strict)
        products = _fill(
            _grads(slopes, given, direction, create_graph, strict), given, strict, create_graph, "double_back"
        )
    return _release((output,), create_graph)[0], _unwrap(_release(products, create_graph), several)


def hvp(
    func: Callable[..., Any], inputs: Tensor | Tensors, v: Tensor | Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """Return a scalar function's value and the product of its Hessian with v."""
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "hvp")
        given = _prepare(given, create_graph)
        direction = _vector(v, given, several, "hvp")
        output = _scalar_call(func, given, "hvp", strict)
        slopes = _slopes(_grads((output,), given, None, True, strict), given, strict)
        dummies = tuple([creation.zeros_like(part, requires_grad=True) for part in slopes])
        doubled = _fill(_grads(slopes, given, dummies, True, strict), given, strict, True, "double_back")
        _check_graph(doubled, strict, "hessian")
        products = _fill(
            _grads(doubled, dummies, direction, create_graph, strict), dummies, strict, create_graph,
            "double_back_trick",
        )  # fmt: skip
    return _release((output,), create_graph)[0], _unwrap(_release(products, create_graph), several)


# --- shared steps


def _construct_standard_basis_for(tensors: Tensors, tensor_numels: tuple[int, ...]) -> Tensors:
    """Return the identity matrix, split into columns for each tensor; other packages use it for Jacobians."""
    rows = creation.eye(sum(tensor_numels))
    parts, begin = [], 0
    for each, n in zip(tensors, tensor_numels, strict=True):
        parts.append(rows[:, begin : begin + n].clone().to(each.dtype))
        begin += n
    return tuple(parts)


def _as_tuple(values: Any, what: str, name: str) -> tuple[bool, Tensors]:
    """Return whether several tensors were given, and a tuple of them."""
    several = isinstance(values, tuple)
    tensors = values if several else (values,)
    for place, value in enumerate(tensors):
        if not isinstance(value, TensorCore):
            given = f"value at index {place}" if several else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors; the {given} is of "
                f"{type(value)}."
            )
    return several, tensors


def _prepare(given: Tensors, create_graph: bool) -> Tensors:
    """Return aliases that require grad; with create_graph they stay connected to the caller's tensors."""
    if create_graph:
        return tuple([part.view_as(part) if part.requires_grad else part.detach().requires_grad_() for part in given])
    return tuple([part.detach().requires_grad_() for part in given])


def _call(func: Callable[..., Any], given: Tensors, name: str) -> tuple[bool, Tensors]:
    return _as_tuple(func(*given), "outputs of the user-provided function", name)


def _scalar_call(func: Callable[..., Any], given: Tensors, name: str, strict: bool = False) -> TensorCore:
    several, output = _call(func, given, name)
    _check_graph(output, strict, "outputs")
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if output[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return output[0]


def _vector(v: object, like: Tensors, several: bool, name: str) -> Tensors:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns one Tensor of one element."
                if name == "vjp"
                else "The vector v can only be None if the input to the function is one Tensor of one element."
            )
        return (creation.ones_like(like[0]),)
    _, vectors = _as_tuple(v, "v", name)
    if len(vectors) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}."
            if several
            else "The given v should contain a single Tensor."
        )
    for place, (vector, part) in enumerate(zip(vectors, like, strict=True)):
        if vector.shape != part.shape:
            where = f"Entry {place} in " if len(like) > 1 else ""
            raise RuntimeError(f"{where}v has invalid size: should be {part.shape} but got {vector.shape}.")
    return vectors


def _grads(outputs: Tensors, inputs: Tensors, seeds: Tensors | None, create_graph: bool, strict: bool) -> Tensors:
    given = seeds if seeds is not None else (None,) * len(outputs)
    live = [(out, seed) for out, seed in zip(outputs, given, strict=True) if out is not None and out.requires_grad]
    if not live:
        return (None,) * len(inputs)
    outs, starts = zip(*live, strict=True)
    return grad(outs, inputs, starts, allow_unused=True, create_graph=create_graph, retain_graph=create_graph)


_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {nr}, which strict mode refuses.",
    "back_trick": "The gradient with respect to the input is independent of output gradient {nr}, as "
    "differentiating the backward pass finds. Strict mode refuses that.",
    "double_back": "The jacobian of the user-provided function is independent of input {nr}, which "
    "strict mode refuses with create_graph=True.",
    "double_back_trick": "The hessian of the user-provided function is independent of gradient {nr}. Strict "
    "mode refuses that: by differentiating the backward pass no derivative of it is found.",
}


def _fill(found: Tensors, like: Tensors, strict: bool, create_graph: bool, stage: str) -> Tensors:
    """Return the gradients with zeros for missing ones; in strict mode raise an error that names the input."""
    filled = []
    for nr, (part, source) in enumerate(zip(found, like, strict=True)):
        if part is None:
            if strict:
                raise RuntimeError(_INDEPENDENT[stage].format(nr=nr))
            part = creation.zeros_like(source)
        elif strict and create_graph and not part.requires_grad:
            whole = "hessian" if stage.startswith("double") else "jacobian"
            raise RuntimeError(_INDEPENDENT["double_back"].replace("jacobian", whole).format(nr=nr))
        filled.append(part)
    return tuple(filled)


def _slopes(found: Tensors, like: Tensors, strict: bool) -> Tensors:
    """Return first derivatives to differentiate again; in strict mode each must depend on the inputs."""
    for nr, part in enumerate(found):
        if strict and part is None:
            raise RuntimeError(_INDEPENDENT["back"].format(nr=nr))
        if strict and not part.requires_grad:
            raise _linear(nr)
    return _fill(found, like, False, False, "back")


def _check_graph(values: object, strict: bool, what: str) -> None:
    if not strict:
        return
    several = values if isinstance(values, tuple) else (values,)
    for nr, value in enumerate(several):
        if value is None or not value.requires_grad:
            if what == "outputs":
                raise RuntimeError(
                    f"Output {nr} of the user-provided function does not require gradients. In strict mode every "
                    "output must be computed in a differentiable manner from the input."
                )
            if what == "jacobian":
                raise _linear(nr)
            raise RuntimeError(
                f"The {what} of the user-provided function with respect to input {nr} does not require gradients. This "
                "is not allowed in strict mode."
            )


def _linear(nr: int) -> RuntimeError:
    return RuntimeError(
        "While computing the hessian, found that the jacobian of the user-provided function does not depend on input "
        f"{nr}. Strict mode refuses that: the function must not be linear in the input."
    )


def _release(values: Tensors, create_graph: bool) -> Tensors:
    """Return results detached from the graph, unless it was requested."""
    if create_graph:
        return values
    return tuple([value.detach() for value in values])


def _unwrap(values: Tensors, several: bool) -> Any:
    return values if several else values[0]


__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(
        "_as_tuple_nocheck _autograd_grad _check_requires_grad _fill_in_zeros _grad_postprocess _grad_preprocess _jacfwd "
        "_tuple_postprocess _validate_v".split(),
        "undertow._src.compat.functional_steps",
    ),
)
