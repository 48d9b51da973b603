"""`rearrange`: permute, split and join the dims of a tensor as a pattern says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from undertow._src.ops.join import stack
from undertow._src.tensor.core import TensorCore

if TYPE_CHECKING:
    from undertow._tensor import Tensor

Group = list[str]  # the axes of one dim: names, "1" or "..."


class DimensionBindError(Exception):
    """The sizes of a tensor do not fit a pattern."""


def rearrange(tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int) -> Tensor:
    """Return a tensor with its dims in the order and grouping that a pattern names; several tensors are stacked first.

    >>> torch.func.rearrange(torch.zeros(2, 3, 4), "a b c -> c (a b)").shape
    torch.Size([4, 6])
    """
    given: Any = tensor if isinstance(tensor, TensorCore) else stack(tensor)
    left, right = _sides(pattern, axes_lengths)
    shape = tuple(given.shape)
    if not shape:
        return given
    groups = _spelled_out(left, shape)
    middle = tuple([f"...{place}" for place in range(len(groups) - len(left) + 1)]) if ["..."] in left else ()
    sizes = dict(axes_lengths)
    for place, (group, size) in enumerate(zip(groups, shape, strict=True)):
        _bind(group, size, sizes, place)
    unnamed = [place for place, group in enumerate(groups) if group == ["1"]]
    given = given.movedim(unnamed, tuple(range(-len(unnamed), 0)))
    names = [name for group in groups for name in group if name != "1"]
    target = [[each for name in group for each in (middle if name == "..." else (name,))] for group in right]
    flat: list[str] = []
    for spread in target:
        flat += [name for name in spread if name != "1"]
    split = [*[sizes[name] for name in names], *[shape[place] for place in unnamed]]
    if [*given.shape] != split:
        given = given.reshape(split)
    if flat != names:
        given = given.permute([*[names.index(name) for name in flat], *range(len(names), len(split))])
    if unnamed:  # PyTorch sums over them, whatever their sizes are
        given = given.sum(tuple(range(-len(unnamed), 0)))
    result: list[int] = []
    for spread, group in zip(target, right, strict=True):
        lengths = [1 if name == "1" else sizes[name] for name in spread]
        result += lengths if group == ["..."] else [math.prod(lengths)]
    return given if [*given.shape] == result else given.reshape(result)


def _sides(pattern: str, lengths: dict[str, int]) -> tuple[list[Group], list[Group]]:
    """Return both sides of a pattern, checked against each other and against the given lengths."""
    texts = pattern.split("->")
    if len(texts) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = (_parsed(text) for text in texts)
    if any("..." in group and group != ["..."] for group in left):
        raise ValueError(f"Ellipsis is parenthesis in the left side: it can only be split on the right of {pattern}")
    on_left, on_right = ({name for group in side for name in group} for side in (left, right))
    if "..." in on_right and "..." not in on_left:
        raise ValueError(f"Ellipsis found in right side, but not on the left: {pattern}")
    for name in on_left | on_right:
        if name.isdecimal() and name != "1":
            raise ValueError("rearrange only supports unnamed axes of size 1")
    alone = (on_left ^ on_right) - {"1"}
    if alone:
        raise ValueError(f"Identifiers only on one side of rearrange expression, not on both: {alone}")
    unknown = lengths.keys() - on_left
    if unknown:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
    for length in lengths.values():
        if not isinstance(length, int):
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    return left, right


def _parsed(text: str) -> list[Group]:
    """Return one side of a pattern as a group of axes for each dim."""
    if "." in text.replace("...", "", 1):
        one = "; only one ellipsis is allowed" if "..." in text else f". The expression is {text!r}"
        raise ValueError(f"Expression may contain dots only inside ellipsis (...){one}")
    groups: list[Group] = []
    inside: Group | None = None
    for word in text.replace("...", " ... ").replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            if inside is not None:
                raise ValueError("Axis composition is one-level (brackets inside brackets are refused)")
            inside = []
        elif word == ")":
            if inside is None:
                raise ValueError("Brackets are not balanced")
            groups.append([*inside, "1"] if inside in ([], ["..."]) else inside)  # not the same as a bare ellipsis
            inside = None
        else:
            _check_name(word, [*groups, inside or []])
            if inside is None:
                groups.append([word])
            else:
                inside.append(word)
    if inside is not None:
        raise ValueError(f"Imbalanced parentheses in expression: {text!r}")
    return groups


def _check_name(word: str, before: list[Group]) -> None:
    if word == "..." or word.isdecimal():
        return
    if not word.isidentifier() or word.startswith("_") or word.endswith("_"):
        raise ValueError(f"Invalid axis identifier: {word}\nAn axis is a Python name without underscores at its ends.")
    if any(word in group for group in before):
        raise ValueError(f"Indexing expression contains duplicate dimension '{word}'")


def _spelled_out(groups: list[Group], shape: tuple[int, ...]) -> list[Group]:
    """Return the groups with a name for each dim that an ellipsis stands for."""
    missing = len(shape) - len(groups) + 1
    if ["..."] in groups:
        if missing < 0:
            raise ValueError(
                f"Number of dimensions in pattern ({len(groups) - 1}) must be at most that of the tensor, {len(shape)}"
            )
        place = groups.index(["..."])
        return [*groups[:place], *[[f"...{each}"] for each in range(missing)], *groups[place + 1 :]]
    if missing != 1:
        raise ValueError(
            f"Number of dimensions in pattern ({len(groups)}) must be equal to that of the tensor, {len(shape)}"
        )
    return groups


def _bind(group: Group, size: int, sizes: dict[str, int], place: int) -> None:
    """Find the size of the axes in a dim, of which one may be unknown."""
    names = [name for name in group if name != "1"]
    unknown = [name for name in names if sizes.get(name, -1) < 0]
    known = math.prod(sizes[name] for name in names if name not in unknown)
    if len(unknown) > 1:
        raise DimensionBindError(f"cannot infer the sizes of two dimensions at once {unknown[0]} and {unknown[1]}")
    if unknown and size % known:
        raise DimensionBindError(f"inferred dimension does not evenly fit into {size}: the others make {known}")
    if unknown:
        sizes[unknown[0]] = size // known
    elif names and known != size:
        raise DimensionBindError(f"Dimension sizes to do not match ({size} != {known}) at dim {place}")
