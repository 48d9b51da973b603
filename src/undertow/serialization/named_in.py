"""The names in a pickle, found by interpreting it without creating any objects.

A pickle can store a name as text and use it later, so a scan of its opcodes misses some. Here the stack machine runs in
full: a name is a symbol, and the result of a call is unknown. A pickle whose names depend on an unknown value is
refused, because an incomplete list would be trusted.
"""

from __future__ import annotations

import copyreg
import io
from collections.abc import Callable, Container
from typing import Any

from undertow.serialization.limits import shown
from undertow.serialization.weights_only import Reader, Refused, full_name


class _Unknown:
    """A value that is known only by running the pickle."""


_UNKNOWN = _Unknown()


class NameReader(Reader):
    """Collects the names in a pickle, in order. Once one is not `allowed`, calls of unknown values are accepted too."""

    def __init__(self, pickled: bytes, allowed: Container[str] = ()) -> None:
        super().__init__(io.BytesIO(pickled), len(pickled), lambda pid: _UNKNOWN)
        self.allowed = allowed
        self.names: dict[str, None] = {}

    def load(self) -> list[str]:
        super().load()
        return list(self.names)

    def find(self, module: str, name: str) -> Any:
        full = full_name(module, name)
        self.names[full] = None
        return _Named()

    def apply(self, function: Any, args: Any) -> Any:
        if type(function) is not _Named and all(name in self.allowed for name in self.names):
            raise Refused("the pickle calls a value whose name cannot be determined without running it")
        return _UNKNOWN

    new_object = Reader.call

    def build(self) -> None:
        self.stack.pop()
        self.stack[-1]

    def append(self, items: list[Any]) -> None:
        self.stack[-1]

    set_items = add_items = append

    def reference(self) -> None:
        self.stack[-1] = _UNKNOWN

    def instance(self) -> None:
        """Handle INST: a name in the stream, and all arguments since the mark."""
        module = self.line()
        self.find(module, self.line())
        self.pop_mark()
        self.push(_UNKNOWN)

    def object(self) -> None:
        """Handle OBJ: the class and its arguments since the mark."""
        function, *_ = self.pop_mark()
        self.push(self.apply(function, ()))

    def with_keywords(self) -> None:
        """Handle NEWOBJ_EX: a class, its arguments and its keyword arguments."""
        del self.stack[-2:]
        self.stack[-1] = self.apply(self.stack[-1], ())

    def extension(self, code: int) -> None:
        """Handle EXT1 and its variants: a number in the process's extension table, which has the name."""
        known: dict[int, tuple[str, str]] = copyreg._inverted_registry  # type: ignore[attr-defined]
        if code not in known:
            raise Refused(f"the pickle uses extension {code}, which is not registered here")
        self.push(self.find(*known[code]))

    def unknown_line(self) -> None:
        self.file.readline()
        self.push(_UNKNOWN)

    def recall_by_line(self) -> None:
        self.recall(self.place(self.line()))

    def remember_by_line(self) -> None:
        self.remember(self.place(self.line()))

    def place(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise Refused(f"object {shown(text, 20)} is no number")
        return int(text)


class _Named:
    """The object of a name, which may be called."""


def _replace_items(reader: NameReader) -> None:
    reader.pop_mark()
    reader.push(_UNKNOWN)


def _unknown_text(layout: str) -> Callable[[Any], None]:
    """Return unknown text: a Python 2 string depends on the loader's encoding."""

    def step(reader: NameReader) -> None:
        reader.take(reader.number(layout))
        reader.push(_UNKNOWN)

    return step


_MORE: dict[bytes, Callable[[Any], Any]] = {
    b"i": NameReader.instance,
    b"o": NameReader.object,
    b"\x92": NameReader.with_keywords,
    b"\x82": lambda r: r.extension(r.take(1)[0]),
    b"\x83": lambda r: r.extension(r.number("<H")),
    b"\x84": lambda r: r.extension(r.number("<i")),
    b"2": lambda r: r.push(r.stack[-1]),
    b"1": lambda r: r.pop_mark(),
    b"g": NameReader.recall_by_line,
    b"p": NameReader.remember_by_line,
    b"T": _unknown_text("<i"),
    b"U": _unknown_text("<B"),
    b"P": NameReader.unknown_line,
    b"\x91": _replace_items,
    b"d": _replace_items,
    b"l": _replace_items,
    b"\x97": lambda r: r.push(_UNKNOWN),
    b"\x98": lambda r: r.stack[-1],
    **dict.fromkeys((b"I", b"L", b"F", b"S", b"V"), NameReader.unknown_line),
}
NameReader.steps = {**Reader.steps, **_MORE}
