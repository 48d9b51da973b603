"""`einsum`: a sum of products spelled with letters, contracted pair by pair, each pair as one batched matrix product.

A letter names a dim. Letters that two operands share and the result lacks are summed by the matrix product; letters of
one operand alone are summed beforehand; dims of size 1 broadcast, so they are left out and put back at the end.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from undertow._src.engine.apply import apply
from undertow._src.engine.arguments import as_ints, tensor_list
from undertow._src.ops.arithmetic import mul
from undertow._src.ops.matmul import bmm
from undertow._src.ops.public import public
from undertow._src.ops.shape import permuted, reshape_to, view_to
from undertow._src.ops.slicing import diagonal
from undertow._src.rules import reduce as reduce_rules

if TYPE_CHECKING:
    from undertow._src.types.aliases import _size
    from undertow._tensor import Tensor

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
Term = tuple[Any, list[str]]  # a tensor and the letter of each of its dims


@public
def einsum(*args: Any, path: _size | None = None) -> Tensor:
    """Σ of products over the letters that the right side of an equation such as "ij,jk->ik" lacks.

    path: which two terms are multiplied first, second and so on; each product becomes the last term.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or operands each with its "
            "subscripts list"
        )
    equation, operands = (args[0], args[1:]) if isinstance(args[0], str) else _from_lists(args)
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    operands = tensor_list(operands, "einsum", "operands", 2)
    return _contract(*_parse(equation, operands), path)


def _from_lists(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the equation of the form einsum(a, [0, 1], b, [1, 2], [0, 2])."""

    def spell(subscripts: Any) -> str:
        letters = []
        for each in subscripts:
            if each is Ellipsis:
                letters.append("...")
            elif 0 <= each < 52:
                letters.append(LETTERS[each])
            else:
                raise ValueError(
                    "einsum(): subscript in subscript list must be within the range [0, 52), but got " + str(each)
                )
        return "".join(letters)

    equation = ",".join(spell(subscripts) for subscripts in args[1::2])
    if len(args) % 2:
        equation += "->" + spell(args[-1])
    return equation, args[: len(args) - len(args) % 2 : 2]


# --- reading the equation


def _read_subscripts(text: str, operand: int, start: int) -> list[str]:
    """Return the letters of one operand; "..." stands for the dims that have none."""
    found: list[str] = []
    place = 0
    while place < len(text):
        letter = text[place]
        if letter == ".":
            if text[place : place + 3] != "...":
                raise RuntimeError(f"einsum(): found '.' for operand {operand} that is not part of any ellipsis")
            if "..." in found:
                raise RuntimeError(f"einsum(): found '.' for operand {operand} for which an ellipsis was already found")
            found.append("...")
            place += 3
            continue
        if letter != " ":
            if letter not in LETTERS:
                raise RuntimeError(
                    f"einsum(): invalid subscript given at index {start + place} in the equation string, subscripts must "
                    "be in [a-zA-Z]"
                )
            found.append(letter)
        place += 1
    return found


@lru_cache(maxsize=256)
def _spell(equation: str, ndims: tuple[int, ...]) -> tuple[list[list[str]], list[str]]:
    """Return the letters of every operand's dims, and the result's. Dims in "..." get numbers as letters."""
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) > len(ndims):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    if len(texts) < len(ndims):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    starts = [sum(len(text) + 1 for text in texts[:nr]) for nr in range(len(texts))]
    spelled = [_read_subscripts(text, nr, start) for nr, (text, start) in enumerate(zip(texts, starts, strict=True))]
    hidden = 0
    for nr, (letters, ndim) in enumerate(zip(spelled, ndims, strict=True)):
        named = len(letters) - ("..." in letters)
        if "..." in letters:
            if named > ndim:
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) is more than the number of "
                    f"dimensions ({ndim}) for operand {nr}"
                )
            hidden = max(hidden, ndim - named)
        elif named != ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions "
                f"({ndim}) for operand {nr} and no ellipsis was given"
            )
    rest = [str(nr) for nr in range(hidden)]
    full = []
    for letters, ndim in zip(spelled, ndims, strict=True):
        shown = ndim - (len(letters) - 1)
        full.append([each for letter in letters for each in (rest[hidden - shown :] if letter == "..." else (letter,))])
    return full, _result_letters(right if arrow else None, spelled, rest, len(ndims), len(left) + 2)


def _parse(equation: str, operands: tuple[Any, ...]) -> tuple[list[Term], list[str], dict[str, int]]:
    """Each operand with its letters, the result's letters, and the size of each."""
    spelled, result = _spell(equation, tuple([operand._array.ndim for operand in operands]))
    sizes: dict[str, int] = {}
    terms = []
    for nr, (letters, operand) in enumerate(zip(spelled, operands, strict=True)):
        terms.append(_take_diagonals(operand, letters, nr))
        for letter, n in zip(terms[-1][1], terms[-1][0]._array.shape, strict=True):
            known = sizes.setdefault(letter, n)
            if known != n and known != 1 and n != 1:
                raise RuntimeError(
                    f"einsum(): subscript {letter} has size {n} for operand {nr} which does not broadcast with "
                    f"previously seen size {known}"
                )
            sizes[letter] = n if known == 1 else known
    return terms, result, sizes


def _result_letters(
    right: str | None, spelled: list[list[str]], rest: list[str], count: int, start: int
) -> list[str]:  # fmt: skip
    every = [letter for letters in spelled for letter in letters if letter != "..."]
    if right is None:  # what occurs once, in order
        return rest + sorted(letter for letter in set(every) if every.count(letter) == 1)
    letters = _read_subscripts(right, count, start)
    for place, letter in enumerate(letters):
        if letter in letters[:place]:
            raise RuntimeError(f"einsum(): output subscript {letter} appears more than once in the output")
        if letter != "..." and letter not in every:
            raise RuntimeError(
                f"einsum(): output subscript {letter} does not appear in the equation for any input operand"
            )
    return [each for letter in letters for each in (rest if letter == "..." else (letter,))]


def _take_diagonals(operand: Tensor, letters: list[str], nr: int) -> Term:
    """Return an operand whose letters all differ: of a repeated one the diagonal remains."""
    letters = list(letters)
    while len(set(letters)) != len(letters):
        second = next(place for place, letter in enumerate(letters) if letter in letters[:place])
        first = letters.index(letters[second])
        a, b = operand._array.shape[first], operand._array.shape[second]
        if a != b:
            raise RuntimeError(
                f"einsum(): subscript {letters[second]} is repeated for operand {nr} but the sizes don't match, {b} != {a}"
            )
        operand = diagonal(operand, 0, first, second)
        letter = letters[second]
        letters = [each for place, each in enumerate(letters) if place not in (first, second)] + [letter]
    return operand, letters


# --- contracting


def _contract(terms: list[Term], result: list[str], sizes: dict[str, int], path: object) -> Tensor:
    shape = tuple([sizes[letter] for letter in result])
    if len(terms) == 1:
        tensor, letters = terms[0]
        order = result + [letter for letter in letters if letter not in result]
        tensor = permuted(tensor, tuple([letters.index(letter) for letter in order]))
        return _summed(tensor, tuple(range(len(result), len(order))))
    sums = any(letter not in result for letter in sizes)
    terms = [_without_ones(term) for term in terms]
    for left, right in [(0, 1)] * (len(terms) - 1) if path is None else _pairs(path, len(terms)):
        pair = terms[left], terms[right]
        rest = [term for place, term in enumerate(terms) if place not in (left, right)]
        later = {letter for _, others in rest for letter in others}
        kept = [letter for letter in result if sizes[letter] != 1] + [each for each in later if each not in result]
        product = _pair(*pair, kept)
        terms = [product, *rest] if path is None else [*rest, product]
    tensor, letters = terms[0]
    if sums:
        tensor = permuted(tensor, tuple([letters.index(letter) for letter in result if letter in letters]))
        return view_to(tensor, shape)  # only dims of size one come and go
    return tensor if tensor._array.shape == shape else reshape_to(tensor, shape)


def _pairs(path: object, count: int) -> list[tuple[int, int]]:
    """Return the terms that a path multiplies, two by two, checked against how many there are."""
    path = as_ints(path, "einsum", "path", None)
    wanted = 2 * (count - 1)
    if len(path) != wanted:
        raise RuntimeError(
            f"einsum(): expected contraction path given in path parameter to have size {wanted} but got {len(path)}"
        )
    pairs: list[tuple[int, int]] = []
    for left, right in zip(path[::2], path[1::2], strict=True):
        left, right = min(left, right), max(left, right)
        if left < 0 or right >= count - len(pairs):
            raise RuntimeError(f"einsum(): invalid contraction ({left}, {right}) operand index is out of bounds")
        if left == right:
            raise RuntimeError(
                f"einsum(): invalid contraction ({left}, {right}) cannot contract an operand with itself"
            )
        pairs.append((left, right))
    return pairs


def _without_ones(term: Term) -> Term:
    tensor, letters = term
    shape = tensor._array.shape
    if 1 not in shape:
        return term
    wide = [place for place, n in enumerate(shape) if n != 1]
    return reshape_to(tensor, tuple([shape[place] for place in wide])), [letters[place] for place in wide]


def _summed(tensor: Tensor, dims: tuple[int, ...]) -> Tensor:
    if not dims:
        return tensor
    return apply(reduce_rules.sum, tensor, dim=dims, keepdim=False, dtype=None)


def _pair(left: Term, right: Term, kept: list[str]) -> Term:
    """Return the product of two terms, summed over the letters that are not kept."""
    (a, a_letters), (b, b_letters) = _sum_alone(left, right[1], kept), _sum_alone(right, left[1], kept)
    shared = [letter for letter in a_letters if letter in b_letters]
    batch = [letter for letter in kept if letter in shared]
    inner = [letter for letter in shared if letter not in kept]
    if not inner:
        return _multiplied((a, a_letters), (b, b_letters), kept)
    rows = [letter for letter in kept if letter in a_letters and letter not in shared]
    columns = [letter for letter in kept if letter in b_letters and letter not in shared]
    lengths = dict(zip(a_letters + b_letters, a._array.shape + b._array.shape, strict=True))
    product = bmm(_as_stack(a, a_letters, (batch, rows, inner), lengths),  # the public function: autocast applies to it
                  _as_stack(b, b_letters, (batch, inner, columns), lengths))  # fmt: skip
    letters = batch + rows + columns
    return reshape_to(product, tuple([lengths[letter] for letter in letters])), letters


def _sum_alone(term: Term, others: list[str], kept: list[str]) -> Term:
    """Return a term summed over the letters that no other term has."""
    tensor, letters = term
    alone = tuple([place for place, each in enumerate(letters) if each not in others and each not in kept])
    return _summed(tensor, alone), [each for place, each in enumerate(letters) if place not in alone]


def _as_stack(tensor: Tensor, letters: list[str], groups: tuple[list[str], ...], lengths: dict[str, int]) -> Tensor:
    order = [letters.index(letter) for group in groups for letter in group]
    size = tuple([math.prod([lengths[letter] for letter in group]) for group in groups])
    return reshape_to(permuted(tensor, tuple(order)), size)


def _multiplied(left: Term, right: Term, kept: list[str]) -> Term:
    """Two terms without a common sum, element by element."""
    letters = [letter for letter in kept if letter in left[1] or letter in right[1]]
    spread = []
    for tensor, own in (left, right):
        order = [letter for letter in letters if letter in own]
        tensor = permuted(tensor, tuple([own.index(letter) for letter in order]))
        size = dict(zip(order, tensor._array.shape, strict=True))
        shape = tuple([size.get(letter, 1) for letter in letters])
        spread.append(tensor if tensor._array.shape == shape else reshape_to(tensor, shape))
    return mul(*spread), letters
