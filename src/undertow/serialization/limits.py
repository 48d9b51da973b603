"""Limits on the cost of reading a pickle, in proportion to its size.

A pickle can refer to an object any number of times, for two bytes each. So a kilobyte can request the hash of a tuple
of 2**60 parts, a thousand copies of one string, or a dict whose keys all collide. Work beyond the file's size is
charged to an allowance, of which a legitimate file needs a small part.
"""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

_FREE = 1_000_000
_PER_BYTE = 16
_MOST_PARTS_OF_A_KEY = 10_000
_DEEPEST_KEY = 100
_MOST_COLLISIONS = 64
_HASHED_AS_ITSELF = 1 << 60  # smaller integers have distinct hashes


class Limits:
    """The allowance of one pickle of `length` bytes."""

    def __init__(self, length: int) -> None:
        self.left = _FREE + _PER_BYTE * length
        self.hashes: dict[int, tuple[Any, Counter[int]]] = {}  # by the id of the dict or set, which is kept alive

    def spend(self, amount: int) -> None:
        """Charge `amount` steps or bytes that are not in the file itself."""
        self.left -= amount
        if self.left < 0:
            raise pickle.UnpicklingError("the pickle requests more memory or work than its size allows")

    def earn(self, nbytes: int) -> None:
        """Increase the allowance for a storage that was read."""
        self.left += nbytes

    def key(self, owner: Any, key: Any) -> Any:
        """Return a key of a dict or set after checking that hashing and comparing it terminates."""
        kind = type(key)
        if kind is str or (kind is int and -_HASHED_AS_ITSELF < key < _HASHED_AS_ITSELF):
            return key
        if isinstance(key, (tuple, int, float, complex)):  # other hashes are random, or of classes the user allowed
            self.spend(4 * _weight(key))
            if isinstance(owner, (dict, set)) and len(owner) < _MOST_COLLISIONS:
                return key
            _, seen = self.hashes.setdefault(id(owner), (owner, Counter()))
            code = hash(key)
            seen[code] += 1
            if seen[code] > _MOST_COLLISIONS:
                raise pickle.UnpicklingError("a dict or a set has too many keys with the same hash")
        return key


def _weight(key: Any) -> int:
    """Count the parts of a key; refuse tuples too deep or too wide to hash."""
    weight, level = 0, [(key,)]
    for _ in range(_DEEPEST_KEY):
        for part in level:
            weight += 1 + len(part) + sum([item.bit_length() >> 6 for item in part if isinstance(item, int)])
            if weight > _MOST_PARTS_OF_A_KEY:
                raise pickle.UnpicklingError("a dict or a set has a key with too many parts")
        level = [item for part in level for item in part if isinstance(item, tuple)]
        if not level:
            return weight
    raise pickle.UnpicklingError("a dict or a set has a key that is nested too deeply")


def shown(text: str, longest: int = 200) -> str:
    """Return text from a file for an error message: short and printable."""
    text = text if len(text) <= longest else f"{text[:longest]}…"
    return text if text.isprintable() else ascii(text)


def reason(error: BaseException) -> str:
    """Return an error's message. Values in it are shown by type, because a file's values may be huge to format."""
    words = [shown(each) if isinstance(each, str) else f"<{type(each).__name__}>" for each in error.args]
    return f"{type(error).__name__}: {', '.join(words)}" if words else type(error).__name__
