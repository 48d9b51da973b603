"""Memory that shows other memory through a function: what `conj` and `_neg_view` return.

PyTorch's conjugate is a view: the same memory, to be conjugated when it is read. Here a *mirror* has memory of its own,
laid out as its source, and the two are kept in step: a write to one that is counted (`bump`) is carried to the other. So
every function reads plain arrays, and a tensor is conjugated if its memory is such a mirror.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from undertow.storage import Array, address, empty_strided, flat_memory, root_of

known: dict[int, Mirror] = {}  # all that tensors show, by the id of the memory that is the image
_of: dict[int, list[Mirror]] = {}  # the same, by the id of the memory that they show


class Mirror:
    """One memory that shows another. It lives as long as a tensor shows it."""

    __slots__ = ("source", "function", "image")

    def __init__(self, source: Array, function: Any, image: Array) -> None:
        self.source = source
        self.function = function  # its own inverse
        root = root_of(image)
        key = id(root)
        self.image = weakref.ref(root, lambda _: self._forget(key))
        known[key] = self
        _of.setdefault(id(root_of(source)), []).append(self)

    def _forget(self, key: int) -> None:
        del known[key]
        key = id(root_of(self.source))
        _of[key].remove(self)
        if not _of[key]:
            del _of[key]

    def shown(self) -> Array:
        """Return the image, laid out as the source is."""
        return np.ndarray(self.source.shape, self.source.dtype, self.image(), 0, self.source.strides)

    def across(self, array: Array) -> Array:
        """Return the place in the source that an array over the image shows."""
        memory, root = self.image(), root_of(self.source)
        assert memory is not None
        start = address(array) - address(memory) + address(self.source) - address(root)
        return np.ndarray(array.shape, array.dtype, flat_memory(root), start, array.strides)


def showing(array: Any) -> Mirror | None:
    """Return the mirror that an array lies in."""
    if not known or type(array) is not np.ndarray:
        return None
    return known.get(id(root_of(array)))


def reflect(array: Array, function: Any) -> Array:
    """Return what an array shows through a function that is its own inverse; twice gives the array's own memory."""
    before = showing(array)
    if before is not None and before.function is function and before.source.dtype == array.dtype:
        return before.across(array)
    image = empty_strided(array.shape, [step // array.itemsize for step in array.strides], array.dtype)
    function(array, out=image)
    Mirror(array, function, image)
    return image


def reflections(array: Any) -> list[Any]:
    """Return the functions through which an array shows memory, the outermost first."""
    found = []
    while (mirror := showing(array)) is not None:
        found.append(mirror.function)
        array = mirror.source
    return found


def origin(array: Any) -> Any:
    """Return the place in the memory that was there first."""
    while (mirror := showing(array)) is not None:
        array = mirror.across(array)
    return array


def sync(written: Any) -> None:
    """After a write: carries it back to the memory that was there first, and from there to all its mirrors."""
    while (mirror := showing(written)) is not None:
        place = mirror.across(written)
        mirror.function(written, out=place)
        written = place
    changed = [root_of(written)]
    for root in changed:
        for mirror in tuple(_of.get(id(root), ())):
            image = mirror.image()
            if image is not None:
                mirror.function(mirror.source, out=mirror.shown())
                changed.append(image)
