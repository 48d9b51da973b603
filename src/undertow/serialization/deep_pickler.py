"""A pickler for nesting of any depth: it uses a list instead of Python's stack.

Python's picklers are recursive. They fail at a few hundred levels, and the limit can only be changed for the whole
process, so two concurrent saves could restore it wrongly.
"""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

Steps = Iterator[Any]  # yields each object to write next

_BATCH = 1000
_TUPLES = {1: pickle.TUPLE1, 2: pickle.TUPLE2, 3: pickle.TUPLE3}
_Pickler: Any = pickle._Pickler  # the pickler written in Python
_ATOMS = (int, float, bool, type(None))


class DeepPickler(_Pickler):
    """Writes the same bytes as Python's picklers."""

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Write an object and everything in it."""
        if self.proto < 2:  # old protocols have different opcodes
            super().save(obj, save_persistent_id)
            return
        waiting = [self._steps(obj, save_persistent_id)]
        while waiting:
            for part in waiting[-1]:
                if type(part) in _ATOMS:
                    self.dispatch[type(part)](self, part)
                else:
                    waiting.append(self._steps(part))
                    break
            else:
                waiting.pop()

    def _steps(self, obj: Any, save_persistent_id: bool = True) -> Steps:
        kind = type(obj)
        self.framer.commit_frame()
        if save_persistent_id and (pid := self.persistent_id(obj)) is not None:
            self.save_pers(pid)
            return
        known = self.memo.get(id(obj))
        if known is not None:
            self.write(self.get(known[0]))
            return
        override = getattr(self, "reducer_override", None)
        reduced = NotImplemented if override is None else override(obj)
        if reduced is NotImplemented:
            if kind in _CONTAINERS:
                yield from _CONTAINERS[kind](self, obj)
                return
            if kind in self.dispatch:
                self.dispatch[kind](self, obj)
                return
            reducer = getattr(self, "dispatch_table", copyreg.dispatch_table).get(kind)
            if reducer is None and issubclass(kind, type):
                self.save_global(obj)
                return
            reduced = obj.__reduce_ex__(self.proto) if reducer is None else reducer(obj)
        if isinstance(reduced, str):
            self.save_global(obj, reduced)
        elif isinstance(reduced, tuple) and 2 <= len(reduced) <= 6:
            yield from self._call(obj, *reduced)
        else:
            raise pickle.PicklingError(
                f"__reduce__ of {kind.__name__} must return a string or a tuple of two to six elements"
            )

    def _call(
        self, obj: Any, function: Any, args: Any, state: Any = None, items: Any = None, pairs: Any = None,
        setter: Any = None,
    ) -> Steps:  # fmt: skip
        """Write the call that creates an object, then its state and items."""
        if not isinstance(args, tuple):
            raise pickle.PicklingError("args from save_reduce() must be a tuple")
        if not callable(function):
            raise pickle.PicklingError("func from save_reduce() must be callable")
        name = getattr(function, "__name__", "")
        if name in ("__newobj__", "__newobj_ex__"):
            yield from self._new(obj, name, *args)
        else:
            yield function
            yield args
            self.write(pickle.REDUCE)
        if id(obj) in self.memo:  # an argument contains the object itself and has written it
            self.write(pickle.POP + self.get(self.memo[id(obj)][0]))
        else:
            self.memoize(obj)
        if items is not None:
            yield from self._batches(((item,) for item in items), pickle.APPEND, pickle.APPENDS)
        if pairs is not None:
            yield from self._batches(pairs, pickle.SETITEM, pickle.SETITEMS)
        if state is None:
            return
        if setter is None:
            yield state
            self.write(pickle.BUILD)
        else:
            yield setter
            yield obj
            yield state
            self.write(pickle.TUPLE2 + pickle.REDUCE + pickle.POP)  # its result is discarded

    def _new(self, obj: Any, name: str, cls: Any, *args: Any) -> Steps:
        """Write an object as a call of its class's `__new__`."""
        if cls is not obj.__class__:
            raise pickle.PicklingError(f"args[0] from {name} args has the wrong class")
        if name == "__newobj__":
            yield cls
            yield args
            self.write(pickle.NEWOBJ)
            return
        positional, named = args
        if self.proto >= 4:
            yield cls
            yield positional
            yield named
            self.write(pickle.NEWOBJ_EX)
        else:
            yield partial(cls.__new__, cls, *positional, **named)
            yield ()
            self.write(pickle.REDUCE)

    def _batches(self, groups: Iterable[tuple[Any, ...]], one: bytes, several: bytes) -> Steps:
        """Write the items of a container in batches of a thousand."""
        rest = iter(groups)
        while batch := list(islice(rest, _BATCH)):
            single = len(batch) == 1 and bool(one)
            if not single:
                self.write(pickle.MARK)
            for group in batch:
                yield from group
            self.write(one if single else several)

    # --- containers

    def _list(self, obj: list[Any]) -> Steps:
        self.write(pickle.EMPTY_LIST)
        self.memoize(obj)
        yield from self._batches(((item,) for item in obj), pickle.APPEND, pickle.APPENDS)

    def _dict(self, obj: dict[Any, Any]) -> Steps:
        self.write(pickle.EMPTY_DICT)
        self.memoize(obj)
        yield from self._batches(obj.items(), pickle.SETITEM, pickle.SETITEMS)

    def _tuple(self, obj: tuple[Any, ...]) -> Steps:
        short = len(obj) in _TUPLES
        if not short:
            self.write(pickle.MARK if obj else pickle.EMPTY_TUPLE)
        yield from obj
        if not obj:
            return
        if id(obj) in self.memo:  # a list in it contains the tuple itself and has written it
            self.write((pickle.POP * len(obj) if short else pickle.POP_MARK) + self.get(self.memo[id(obj)][0]))
        else:
            self.write(_TUPLES.get(len(obj), pickle.TUPLE))
            self.memoize(obj)

    def _set(self, obj: set[Any]) -> Steps:
        if self.proto < 4:
            yield from self._call(obj, set, (list(obj),))
            return
        self.write(pickle.EMPTY_SET)
        self.memoize(obj)
        yield from self._batches(((item,) for item in obj), b"", pickle.ADDITEMS)

    def _frozenset(self, obj: frozenset[Any]) -> Steps:
        if self.proto < 4:
            yield from self._call(obj, frozenset, (list(obj),))
            return
        self.write(pickle.MARK)
        yield from obj
        if id(obj) in self.memo:
            self.write(pickle.POP_MARK + self.get(self.memo[id(obj)][0]))
        else:
            self.write(pickle.FROZENSET)
            self.memoize(obj)


_CONTAINERS: dict[type, Callable[[DeepPickler, Any], Steps]] = {
    list: DeepPickler._list,
    dict: DeepPickler._dict,
    tuple: DeepPickler._tuple,
    set: DeepPickler._set,
    frozenset: DeepPickler._frozenset,
}
