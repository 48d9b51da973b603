"""Buffers that mirror a source buffer through a function: what `conj` and `_neg_view` return.

PyTorch's conjugate is a view: the same storage, conjugated when it is read. Here a *mirror* is a separate buffer with
the layout of its source, and the two are kept in sync: each counted write (`bump`) to one is copied to the other. So
every function reads plain arrays, and a tensor is conjugated if its buffer is such a mirror.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from undertow.storage import Array, address, empty_strided, flat_memory, root_of

known: dict[int, Mirror] = {}  # all mirrors in use, by the id of the image's buffer
_of: dict[int, list[Mirror]] = {}  # the same, by the id of the source's buffer


class Mirror:
    """A buffer that mirrors a source. It lives as long as a tensor uses the image."""

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
        """Return the image, with the layout of the source."""
        return np.ndarray(self.source.shape, self.source.dtype, self.image(), 0, self.source.strides)

    def across(self, array: Array) -> Array:
        """Return the part of the source that an array over the image mirrors."""
        memory, root = self.image(), root_of(self.source)
        assert memory is not None
        start = address(array) - address(memory) + address(self.source) - address(root)
        return np.ndarray(array.shape, array.dtype, flat_memory(root), start, array.strides)


def showing(array: Any) -> Mirror | None:
    """Return the mirror whose image contains an array."""
    if not known or type(array) is not np.ndarray:
        return None
    return known.get(id(root_of(array)))


def reflect(array: Array, function: Any) -> Array:
    """Return the image of an array under a function that is its own inverse; applied twice, the original buffer."""
    before = showing(array)
    if before is not None and before.function is function and before.source.dtype == array.dtype:
        return before.across(array)
    image = empty_strided(array.shape, [step // array.itemsize for step in array.strides], array.dtype)
    function(array, out=image)
    Mirror(array, function, image)
    return image


def reflections(array: Any) -> list[Any]:
    """Return the functions through which an array mirrors its origin, the outermost first."""
    found = []
    while (mirror := showing(array)) is not None:
        found.append(mirror.function)
        array = mirror.source
    return found


def origin(array: Any) -> Any:
    """Return the part of the original buffer that an array mirrors."""
    while (mirror := showing(array)) is not None:
        array = mirror.across(array)
    return array


def sync(written: Any) -> None:
    """Copy a write back to the original buffer, and from there to all its mirrors."""
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
