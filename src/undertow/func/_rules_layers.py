"""The rules of vmap for matrix products, layers and losses."""

from __future__ import annotations

from typing import Any

from undertow._src.ops.matmul import matmul
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.creation import zeros_like
from undertow.func._batched import rule
from undertow.func._rules_elementwise import aligned
from undertow.func._vmapping import MappedLevel

# --- gradients


@rule("grad")
def gradients(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Run `autograd.grad` on a graph that all examples share, with a grad_output for each example."""
    names = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused")
    given = dict(zip((*names, "is_grads_batched", "materialize_grads"), args, strict=False)) | kwargs
    if given["is_grads_batched"] or any(level.holds(each) for each in (*given["outputs"], *given["inputs"])):
        return NotImplemented
    ones = [
        output.new_ones(output.shape) if g is None else g for output, g in zip(given["outputs"], given["grad_outputs"])
    ]
    materializes = given["materialize_grads"]
    given |= {
        "grad_outputs": [level.whole(each) for each in ones], "is_grads_batched": True, "materialize_grads": False,
        "allow_unused": materializes or given["allow_unused"],
    }  # fmt: skip
    found = zip(function(**given), given["inputs"], strict=True)
    return tuple(
        [
            level.wrap(whole) if whole is not None else zeros_like(target) if materializes else None
            for whole, target in found
        ]
    )


# --- classes


@rule("one_hot")
def one_hot(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Require `num_classes`: without it, the number of classes could differ between examples."""
    given = {**dict(zip(("input", "num_classes"), args)), **kwargs}
    count = given.get("num_classes", -1)
    if count == -1:
        raise RuntimeError(
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument."
        )
    return level.wrap(function(given["input"]._value, count))


@rule("masked_select")
def masked_select(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Select by a mask that all examples share; with a mask for each, their numbers of elements would differ."""
    given = {**dict(zip(("input", "mask"), args)), **kwargs}
    values, mask = given["input"], given.get("mask")
    if level.holds(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask): the number of elements would differ "
            "between examples. Use torch.where, or vmap over the values alone."
        )
    if mask is None or kwargs.get("out") is not None or mask.shape != values.shape:
        return NotImplemented
    return level.wrap(values._value[:, mask])


@rule("pad")
def pad(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Pad; modes other than "constant" take batches, so the examples are merged into one batch."""
    given = {**dict(zip(("input", "pad", "mode", "value"), args)), **kwargs}
    example = given.pop("input")
    if not level.holds(example):
        return NotImplemented
    whole = example._value
    if given.get("mode", "constant") == "constant" or example.dim() != len(given["pad"]) // 2 + 2:
        return level.wrap(function(whole, **given))
    return level.wrap(function(whole.flatten(0, 1), **given).unflatten(0, whole.shape[:2]))


# --- products


@rule("matmul mm bmm mv dot __matmul__ __rmatmul__ inner vdot")
def product(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Multiply: vectors become matrices of one row or column, and the mapped dim becomes a batch dim."""
    if kwargs.get("out") is not None or len(args) < 2:
        return NotImplemented
    left, right = args[:2]
    name = function.__name__
    if name == "__rmatmul__":
        left, right = right, left
    if name == "vdot" and left.is_complex():
        return NotImplemented
    _check(name, left, right)
    if name == "inner":
        if left.dim() != 1 or right.dim() != 1:
            return NotImplemented
    return level.wrap(multiply(level, left, right))


def multiply(level: MappedLevel, left: Any, right: Any) -> Any:
    """Return the whole tensor of the products."""
    a, b = left.dim(), right.dim()
    if a == 0 or b == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D")
    if not level.holds(right) and b <= 2:
        return matmul(left._value, right)
    rank = max(a, b, 2)
    whole = []
    for value, own, missing in ((left, a, -2), (right, b, -1)):
        mapped = level.holds(value)
        value = value._value if mapped else value
        if own == 1:
            value, own = value.unsqueeze(missing), 2
        if mapped and own < rank:
            value = value.reshape(value.shape[0], *[1] * (rank - own), *value.shape[1:])
        whole.append(value)
    found = matmul(*whole)
    if a == 1:
        found = found.squeeze(-2)
    return found.squeeze(-1) if b == 1 else found


def _check(name: str, left: Any, right: Any) -> None:
    wanted = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1), "vdot": (1, 1)}.get(name)
    if wanted is not None and (left.dim(), right.dim()) != wanted:
        raise RuntimeError(
            f"{name}: expected tensors with {wanted[0]} and {wanted[1]} dimensions, got {left.dim()} and {right.dim()}"
        )


@rule("linear")
def linear(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Return x Wᵀ + b."""
    names = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
    x, weight, bias = names["input"], names["weight"], names.get("bias")
    if not level.holds(weight) and not level.holds(bias):
        return level.wrap(function(x._value, weight, bias))
    found = x @ (weight.mT if weight.dim() > 1 else weight)
    return found if bias is None else found + bias


@rule("addmm addmv baddbmm")
def added(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Return beta x + alpha (y @ z)."""
    if len(args) != 3 or kwargs.keys() - {"beta", "alpha"}:
        return NotImplemented
    first, left, right = args
    if kwargs.get("beta", 1) == 0 and function.__name__ != "addmm":  # nothing of `first` counts, not even nan
        return NotImplemented
    return kwargs.get("beta", 1) * first + kwargs.get("alpha", 1) * (left @ right)


@rule("outer ger")
def outer(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Return all products of two vectors' elements."""
    return args[0].unsqueeze(1) * args[1].unsqueeze(0)


@rule("einsum")
def einsum(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Run the equation with one more letter, for the mapped dim."""
    equation, *operands = args
    if not isinstance(equation, str):
        return NotImplemented
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    equation = equation.replace(" ", "")
    given, arrow, result = equation.partition("->")
    terms = given.split(",")
    letters = [letter for letter in given if letter.isalpha()]
    if not arrow:
        once = sorted({letter for letter in letters if letters.count(letter) == 1})
        result = ("..." if "..." in given else "") + "".join(once)
    free = next(letter for letter in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if letter not in letters)
    terms = [free + term if level.holds(value) else term for term, value in zip(terms, operands, strict=True)]
    whole = [value._value if level.holds(value) else value for value in operands]
    return level.wrap(function(f"{','.join(terms)}->{free}{result}", *whole, **kwargs))


@rule(
    "det logdet inverse linalg_det linalg_inv linalg_slogdet slogdet linalg_cholesky cholesky linalg_qr qr linalg_svd svd "
    "linalg_svdvals linalg_eigh linalg_eigvalsh linalg_eig linalg_eigvals linalg_matrix_exp matrix_exp linalg_pinv "
    "matrix_power linalg_matrix_power"
)
def on_matrices(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Run a function of the last two dims, which allows any number of batch dims."""
    if not level.holds(args[0]) or any(isinstance(value, TensorCore) for value in args[1:]):
        return NotImplemented
    return level.wrap_all(function(args[0]._value, *args[1:], **kwargs))


# --- layers

_RANKS = {  # the number of dims of an example that is itself a batch
    **{f"{name}{rank}d": rank + 2 for rank in (1, 2, 3) for name in ("conv", "conv_transpose")},
    **{
        f"{name}{rank}d": rank + 2
        for rank in (1, 2, 3)
        for name in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "lp_pool")
    },
    "max_pool1d_with_indices": 3,
    "max_pool2d_with_indices": 4,
    "pixel_shuffle": 4,
    "pixel_unshuffle": 4,
}


@rule(" ".join(_RANKS))
def on_images(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Merge the mapped dim into the batch dim; with a different kernel for each example, run one by one."""
    others = [*args[1:], *kwargs.values()]
    if not args or not level.holds(args[0]) or any(level.holds(value) for value in others):
        return NotImplemented
    return joined(function, level, args, kwargs, _RANKS[function.__name__])


def joined(function: Any, level: MappedLevel, args: Any, kwargs: Any, rank: int) -> Any:
    """Run a function of batches on the batches of all examples, merged into one."""
    first, *rest = args
    whole = first._value
    if first.dim() == rank - 1:  # without a batch dim, the mapped dim serves as one
        return level.wrap_all(function(whole, *rest, **kwargs))
    if first.dim() != rank:
        return NotImplemented
    found = function(whole.flatten(0, 1), *rest, **kwargs)
    split = lambda one: one.unflatten(0, (whole.shape[0], whole.shape[1]))
    return level.wrap_all(split(found) if isinstance(found, TensorCore) else tuple(map(split, found)))


@rule("interpolate group_norm")
def on_batches(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Merge the mapped dim into the batch dim."""
    others = [*args[1:], *kwargs.values()]
    if not args or not level.holds(args[0]) or any(level.holds(value) for value in others) or args[0].dim() < 2:
        return NotImplemented
    return joined(function, level, args, kwargs, args[0].dim())


@rule("layer_norm rms_norm")
def trailing_norm(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Normalize the last dims; scale and shift afterwards if each example has its own."""
    names = dict(zip(("input", "normalized_shape", "weight", "bias", "eps"), args, strict=False)) | kwargs
    if function.__name__ == "rms_norm":
        names = dict(zip(("input", "normalized_shape", "weight", "eps"), args, strict=False)) | kwargs
    x, shape = names["input"], names["normalized_shape"]
    weight, bias = names.pop("weight", None), names.pop("bias", None)
    options = {"eps": names["eps"]} if "eps" in names else {}
    if not level.holds(x):
        return NotImplemented
    if not level.holds(weight) and not level.holds(bias):
        affine = {"weight": weight, "bias": bias} if function.__name__ == "layer_norm" else {"weight": weight}
        return level.wrap(function(x._value, shape, **affine, **options))
    found = level.wrap(function(x._value, shape, **options))
    found = found if weight is None else found * weight
    return found if bias is None else found + bias


def _named(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return a call's arguments by name: torch.batch_norm and torch.embedding order theirs as F's do not."""
    return {**dict(zip(getattr(function, "__wrapped__", function).__code__.co_varnames, args)), **kwargs}


@rule("batch_norm instance_norm")
def running_norm(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Refuse running averages: those of all examples cannot be kept in one buffer."""
    names = _named(function, args, kwargs)
    training = names.get("training", names.get("use_input_stats", function.__name__ == "instance_norm"))
    averages = [names.get(name) for name in ("running_mean", "running_var")]
    if not training or averages[0] is None or all(map(level.holds, averages)):
        return NotImplemented
    if level.holds(names["input"]):
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, updated in "
            "place, were not batched. Set track_running_stats to False, use GroupNorm, or patch the module with "
            "torch.func.replace_all_batch_norm_modules_."
        )
    if any(map(level.holds, averages)):
        return NotImplemented
    result = function(**{**names, "weight": None, "bias": None})  # once, since it updates the averages
    sizes = (-1, *[1] * (result.dim() - 2))
    if names.get("weight") is not None:
        result = result * names["weight"].reshape(sizes)
    return result if names.get("bias") is None else result + names["bias"].reshape(sizes)


@rule("embedding")
def embedding(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Look up rows of a table that all examples share."""
    names = _named(function, args, kwargs)
    places = "indices" if "indices" in names else "input"
    if not level.holds(names[places]) or level.holds(names["weight"]) or names.get("max_norm") is not None:
        return NotImplemented
    return level.wrap(function(**{**names, places: names[places]._value}))


@rule("scaled_dot_product_attention")
def attention(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Run attention on all examples; the mapped dim becomes a batch dim."""
    if (
        len(args) < 3
        or not all(isinstance(value, TensorCore) for value in args[:3])
        or kwargs.get("dropout_p")
        or args[4:]
    ):
        return NotImplemented
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    rank = max([value.dim() for value in args[:3]])
    if any(value.dim() != rank for value in args[:3]):
        return NotImplemented
    if level.holds(mask):
        mask = aligned(level, [mask], rank)[0]
    options = {name: value for name, value in kwargs.items() if name != "attn_mask"}
    return level.wrap(function(*[level.whole(value) for value in args[:3]], attn_mask=mask, **options))


# --- losses


@rule(
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss "
    "poisson_nll_loss"
)
def elementwise_loss(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Compute the loss of every element, then reduce over the dims of an example."""
    kwargs = _given(kwargs)
    if len(args) > 2 or kwargs.keys() & {"size_average", "reduce"}:
        return NotImplemented
    if "weight" in kwargs and "binary" not in function.__name__:  # their mean is over the weights
        return NotImplemented
    options = dict(kwargs)
    reduction = options.pop("reduction", "mean")
    if any(isinstance(value, TensorCore) for value in options.values()) and len(args) < 2:
        return NotImplemented
    values = [*args, *options.values()]
    rank = max([value.dim() for value in values if isinstance(value, TensorCore)])
    whole = aligned(level, values)
    tensors = [level.whole(value) if isinstance(value, TensorCore) else value for value in args]
    if all(isinstance(value, TensorCore) and value.dim() == rank for value in args):
        whole[: len(args)] = tensors  # expanded, since some losses warn about broadcasting
    found = function(*whole[: len(args)], **dict(zip(options, whole[len(args) :], strict=True)), reduction="none")
    return _reduced(level, found, reduction)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def _reduced(level: MappedLevel, found: Any, reduction: str) -> Any:
    if reduction == "none":
        return level.wrap(found)
    flat = found.reshape(found.shape[0], -1)
    return level.wrap(flat.mean(1) if reduction == "mean" else flat.sum(1))


@rule("cross_entropy nll_loss")
def class_loss(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Compute the loss of class indices, one or a batch of them per example, without weights."""
    kwargs = _given(kwargs)
    if len(args) != 2 or kwargs.keys() - {"reduction", "ignore_index", "label_smoothing"}:
        return NotImplemented
    x, target = args
    if target.dtype.is_inexact or x.dim() not in (1, 2) or target.dim() != x.dim() - 1:
        return NotImplemented
    if kwargs.get("label_smoothing") and kwargs.get("ignore_index", -100) >= 0:
        return NotImplemented
    options = {name: value for name, value in kwargs.items() if name != "reduction"}
    rows, labels = level.whole(x), level.whole(target)
    found = function(rows.reshape(-1, rows.shape[-1]), labels.reshape(-1), reduction="none", **options)
    found = found.reshape(labels.shape)
    if kwargs.get("reduction", "mean") != "mean" or x.dim() == 1:
        return _reduced(level, found, kwargs.get("reduction", "mean"))
    counted = (labels != kwargs.get("ignore_index", -100)).sum(1)
    return level.wrap(found.sum(1) / counted)
