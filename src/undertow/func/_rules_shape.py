"""The rules of vmap for functions that rearrange elements: reshaping, slicing, indexing, joining."""

from __future__ import annotations

from typing import Any

from undertow._src.tensor.core import TensorCore
from undertow.func._batched import RULES, cannot_write, rule
from undertow.func._rules_elementwise import aligned, shift
from undertow.func._vmapping import MappedLevel


def _sizes(args: Any) -> tuple[int, ...]:
    """Return sizes that are given one by one or as one sequence."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        return tuple(args[0])
    return tuple(args)


def _names(args: Any, kwargs: Any, *names: str) -> dict[str, Any]:
    """Return the arguments of a call by name."""
    return {**dict(zip(names, args, strict=False)), **kwargs}


@rule("view reshape _unsafe_view")
def view(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """View with a different size."""
    first, *rest = args
    sizes = _sizes(rest) if rest else kwargs.get("shape", kwargs.get("size"))
    if not isinstance(sizes, (tuple, list)) or not all(isinstance(n, int) for n in sizes):
        return NotImplemented
    whole = first._value
    if -1 in sizes:  # computed for one example, so that it is known for an empty batch, too
        known = -1
        for n in sizes:
            known *= n
        count = first.numel()
        sizes = tuple([count // known if n == -1 and known else n for n in sizes])
    return level.wrap(function(whole, (whole.shape[0], *sizes)))


@rule("view_as reshape_as")
def view_as(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """View with the size of a second tensor."""
    return args[0].reshape(args[1].shape)


@rule("expand broadcast_to")
def expand(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Expand to a size."""
    first, *rest = args
    sizes = _sizes(rest) if rest else tuple(kwargs.get("size", ()))
    whole, rank = first._value, first.dim()
    if rank < len(sizes):
        whole = whole.reshape(whole.shape[0], *[1] * (len(sizes) - rank), *whole.shape[1:])
    return level.wrap(whole.expand(whole.shape[0], *sizes))


@rule("expand_as")
def expand_as(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Expand to the size of a second tensor."""
    if not level.holds(args[0]):
        return (
            level.wrap(level.whole(args[0]).expand(level.size, *args[1].shape))
            if args[0].dim() == args[1].dim()
            else (NotImplemented)
        )
    return args[0].expand(*args[1].shape)


@rule("repeat tile")
def repeat(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Repeat along dims."""
    first, *rest = args
    if kwargs:
        return NotImplemented
    counts = _sizes(rest)
    whole, rank = first._value, first.dim()
    if len(counts) < rank:
        if function.__name__ == "repeat":
            return NotImplemented
        counts = (1,) * (rank - len(counts)) + counts
    if rank < len(counts):
        whole = whole.reshape(whole.shape[0], *[1] * (len(counts) - rank), *whole.shape[1:])
    return level.wrap(whole.repeat(1, *counts))


@rule("transpose swapaxes swapdims")
def transpose(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Exchange two dims."""
    first, *rest = args
    dims = [*rest, *kwargs.values()]
    rank = first.dim()
    return level.wrap(first._value.transpose(shift(dims[0], rank), shift(dims[1], rank)) if rank else first._value)


@rule("t")
def t(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Transpose a matrix."""
    first = args[0]
    if first.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {first.dim()}D")
    return level.wrap(first._value.transpose(1, 2) if first.dim() == 2 else first._value)


@rule("adjoint mT")
def adjoint(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Exchange the last two dims."""
    return level.wrap(function(args[0]._value))


@rule("permute")
def permute(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Reorder the dims."""
    first, *rest = args
    dims = _sizes(rest) if rest else tuple(kwargs["dims"])
    return level.wrap(first._value.permute(0, *shift(dims, first.dim())))


@rule("movedim moveaxis")
def movedim(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Move dims to different positions."""
    first, source, destination = _names(args, kwargs, "input", "source", "destination").values()
    return level.wrap(first._value.movedim(shift(source, first.dim()), shift(destination, first.dim())))


@rule("unsqueeze")
def unsqueeze(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Insert a dim."""
    first, dim = _names(args, kwargs, "input", "dim").values()
    return level.wrap(first._value.unsqueeze(shift(dim, first.dim() + 1)))


@rule("squeeze")
def squeeze(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Remove dims of length 1."""
    first, *rest = args
    dim = rest[0] if rest else kwargs.get("dim")
    whole, rank = first._value, first.dim()
    if dim is None:
        return level.wrap(whole.reshape(whole.shape[0], *[n for n in whole.shape[1:] if n != 1]))
    return level.wrap(whole.squeeze(shift(dim, rank)) if rank else whole)


@rule("t_ transpose_ swapaxes_ swapdims_ unsqueeze_ squeeze_")
def shape_in_place(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Change the dims of an example, over the same memory."""
    target = args[0]
    if not level.holds(target):
        return NotImplemented
    target._value = RULES[function.__name__[:-1]](function, level, args, kwargs)._value
    return target


@rule("flatten ravel")
def flatten(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Merge several dims into one."""
    given = {"start_dim": 0, "end_dim": -1, **_names(args, kwargs, "input", "start_dim", "end_dim")}
    first = given["input"]
    whole, rank = first._value, first.dim()
    if rank == 0:
        return level.wrap(whole.unsqueeze(1))
    return level.wrap(whole.flatten(shift(given["start_dim"], rank), shift(given["end_dim"], rank)))


@rule("unflatten")
def unflatten(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Split one dim into several."""
    first, dim, sizes = _names(args, kwargs, "input", "dim", "sizes").values()
    return level.wrap(first._value.unflatten(shift(dim, first.dim()), sizes))


@rule("flip roll")
def moved(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Reverse or roll along dims."""
    first, *rest = args
    if function.__name__ == "flip":
        dims = _sizes(rest) if rest else kwargs["dims"]
        return level.wrap(function(first._value, shift(tuple(dims), first.dim())))
    given = {"dims": None, **_names(rest, kwargs, "shifts", "dims")}
    if given["dims"] in (None, ()):
        return level.wrap(function(first._value.flatten(1), given["shifts"], 1).reshape(first._value.shape))
    return level.wrap(function(first._value, given["shifts"], shift(given["dims"], first.dim())))


@rule("diagonal diag_embed")
def diagonal(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Take the diagonal of two dims, or make a diagonal of one."""
    embeds = function.__name__ == "diag_embed"
    usual = {"offset": 0, "dim1": -2 if embeds else 0, "dim2": -1 if embeds else 1}
    given = {**usual, **_names(args, kwargs, "input", "offset", "dim1", "dim2")}
    first = given["input"]
    rank = first.dim() + embeds
    return level.wrap(function(first._value, given["offset"], shift(given["dim1"], rank), shift(given["dim2"], rank)))


# --- parts


@rule("chunk split tensor_split unbind select narrow index_select split_with_sizes")
def parts(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Take parts along a dim."""
    name = function.__name__
    order = {
        "chunk": ("input", "chunks", "dim"), "split": ("input", "split_size", "dim"), "unbind": ("input", "dim"),
        "tensor_split": ("input", "indices_or_sections", "dim"), "select": ("input", "dim", "index"),
        "narrow": ("input", "dim", "start", "length"), "index_select": ("input", "dim", "index"),
        "split_with_sizes": ("input", "split_sizes", "dim"),
    }[name]  # fmt: skip
    called = {"tensor": "input", "split_size_or_sections": "split_size"}  # as torch.split names them
    given = {"dim": 0, **_names(args, {called.get(key, key): value for key, value in kwargs.items()}, *order)}
    first = given.pop(order[0])
    if not level.holds(first) or any(isinstance(value, TensorCore) and level.holds(value) for value in given.values()):
        return NotImplemented
    if first.dim() == 0:
        return NotImplemented
    given["dim"] = shift(given["dim"], first.dim())
    return level.wrap_all(function(first._value, *[given[each] for each in order[1:] if each in given]))


@rule("gather scatter scatter_add take_along_dim scatter_reduce index_add index_copy")
def at_indices(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Read or write elements at indices along a dim; all tensors are made whole first."""
    name = function.__name__
    if name.startswith("index_") and (level.holds(args[2]) or not level.holds(args[0])):
        return NotImplemented
    if kwargs or len(args) < 3:
        return NotImplemented
    first, *rest = args
    place = 1 if name == "take_along_dim" else 0
    dim = rest[place]
    if not isinstance(dim, int) or first.dim() == 0:
        return NotImplemented
    whole = [level.whole(value) if isinstance(value, TensorCore) else value for value in rest]
    if name.startswith("index_"):
        whole[1] = rest[1]
    whole[place] = shift(dim, first.dim())
    return level.wrap(function(level.whole(first), *whole))


@rule("as_strided")
def as_strided(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Take the same window of every example's memory; the offset is that of the first example."""
    given = {"storage_offset": None, **_names(args, kwargs, "input", "size", "stride", "storage_offset")}
    whole, offset = given["input"]._value, given["storage_offset"]
    sizes, steps = (whole.shape[0], *given["size"]), (whole.stride()[0], *given["stride"])
    return level.wrap(whole.as_strided(sizes, steps, whole.storage_offset() if offset is None else offset))


@rule("__getitem__")
def getitem(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Index: `x[index]`."""
    first, index = args
    entries = index if isinstance(index, tuple) else (index,)
    mapped = [level.holds(entry) for entry in entries]
    if any(isinstance(entry, TensorCore) and entry.dtype.category == 0 and on for entry, on in zip(entries, mapped)):
        raise RuntimeError(
            "vmap: We do not support batching operators that return a number of elements that depends on values, such as "
            "indexing with a boolean mask."
        )
    if any(mapped) or not level.holds(first):
        return NotImplemented
    found = first._value[(slice(None), *entries)]
    return level.wrap(_mapped_first(found, entries))


def _mapped_first(found: Any, entries: tuple[Any, ...]) -> Any:
    """Move the mapped dim to the front: index tensors that are not adjacent put their dims first."""
    places = [
        place for place, entry in enumerate(entries)
        if isinstance(entry, (TensorCore, list)) or (isinstance(entry, int) and not isinstance(entry, bool))
    ]  # fmt: skip
    tensors = [entries[place] for place in places if isinstance(entries[place], (TensorCore, list))]
    if not tensors or places[-1] - places[0] == len(places) - 1:
        return found
    ranks = [1 if isinstance(entry, list) or entry.dtype.category == 0 else entry.dim() for entry in tensors]
    return found.movedim(max(ranks), 0)


@rule("__setitem__")
def setitem(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Assign: `x[index] = value`."""
    first, index, value = args
    if not level.holds(first):
        raise cannot_write()
    entries = index if isinstance(index, tuple) else (index,)
    if any(level.holds(entry) or isinstance(entry, (TensorCore, list)) for entry in entries):
        return NotImplemented
    part = first._value[(slice(None), *entries)]
    if isinstance(value, TensorCore):
        value = aligned(level, [value], part.dim() - 1)[0] if level.holds(value) else value
        part.copy_(value.expand(part.shape))
    else:
        part.fill_(value)
    return None


# --- joining and making


@rule("cat concat concatenate stack")
def join(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Concatenate or stack."""
    if kwargs.keys() - {"dim", "tensors", "axis"}:
        return NotImplemented
    given = {"dim": 0, **_names(args, kwargs, "tensors", "dim")}
    tensors = list(given["tensors"])
    rank = max([value.dim() for value in tensors]) + (function.__name__ == "stack")
    whole = [level.whole(value) for value in tensors]
    return level.wrap(function(whole, shift(given.get("axis", given["dim"]), rank)))


@rule("new_zeros new_ones new_empty new_full")
def new(function: Any, level: MappedLevel, args: Any, kwargs: Any) -> Any:
    """Make a separate tensor for each example."""
    first, *rest = args
    if function.__name__ == "new_full":
        return level.wrap(function(first._value, (level.size, *rest[0]), *rest[1:], **kwargs))
    sizes = _sizes(rest) if rest else tuple(kwargs.pop("size"))
    return level.wrap(function(first._value, (level.size, *sizes), **kwargs))
