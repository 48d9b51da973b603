"""The reader for weights_only=True: a pickle interpreter that can only build data.

A pickle is a program for a small stack machine. Python's machine imports and calls whatever the program names; this one
resolves names in a fixed table plus the user's additions, and imports nothing.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import IO, Any

from undertow._src.tensor.core import TensorCore
from undertow._tensor import Tensor
from undertow.serialization.limits import Limits, shown
from undertow.serialization.makers import ITEM, MAKERS, TENSOR_MAKERS
from undertow.serialization.rebuild import as_type, rebuild_from_type, set_attributes
from undertow.serialization.safe_globals import ALLOWED, added_by_name
from undertow.serialization.storages import TypedStorage
from undertow.storage import UntypedStorage

_DANGEROUS = {"sys", "os", "posix", "nt", "subprocess", "shutil", "runpy", "importlib", "pty", "socket"}
_HIGHEST_PROTOCOL = 5
_ONLY_NAMED_IDS = {id(Tensor)}  # a tensor class may be named but not called: it could allocate any amount of memory

_MAKERS = {id(function): maker for function, maker in MAKERS.items()}
_MAKES_TENSORS = {id(function) for function in TENSOR_MAKERS}
_CALLABLE_IDS = {id(item) for item in ALLOWED.values()} - _ONLY_NAMED_IDS

Refused = pickle.UnpicklingError


def full_name(module: str, name: str) -> str:
    """Return the name under which an object may be allowed."""
    return name if module in ("builtins", "__builtin__") else f"{module}.{name}"


class Reader:
    """Builds the objects of one pickle.

    `longest` is the size of the file in bytes, and `persistent_load` resolves references to storages.
    """

    steps: dict[bytes, Callable[[Reader], Any]]  # the handler of each opcode

    def __init__(self, file: IO[bytes], longest: int, persistent_load: Callable[[Any], Any]) -> None:
        self.file, self.longest, self.persistent_load = file, longest, persistent_load
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.limits = Limits(longest)
        self.added = added_by_name()
        self.added_ids = {id(item) for item in self.added.values()} - _ONLY_NAMED_IDS
        self.callable_ids = _CALLABLE_IDS | self.added_ids
        self.storages: set[str] = set()  # the keys of the storages that were read
        self.added_classes = tuple([item for item in self.added.values() if isinstance(item, type)])

    def load(self) -> Any:
        """Run the program to its end and return the value it leaves on the stack."""
        read = self.file.read
        while True:
            code = read(1)
            if not code:
                raise Refused("the pickle ends in the middle")
            if code == b".":
                return self.stack.pop()
            step = self.steps.get(code)
            if step is None:
                raise Refused(f"Unsupported operand {code[0]}: it is not needed to describe data")
            step(self)

    # --- reading

    def take(self, count: int) -> bytes:
        data = self.file.read(count) if 0 <= count <= self.longest else b""
        if len(data) != count:
            raise Refused("the pickle ends in the middle")
        return data

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def line(self) -> str:
        line = self.file.readline()
        if line[-1:] != b"\n":
            raise Refused("the pickle ends in the middle")
        return line[:-1].decode()

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop_mark(self) -> list[Any]:
        items = self.stack
        self.stack = self.marks.pop()
        return items

    # --- names and calls

    def find(self, module: str, name: str) -> Any:
        """Return the object for a name in the file, without importing anything."""
        full = full_name(module, name)
        found = self.added.get(full)
        if found is None:
            found = ALLOWED.get(full)
        if found is not None:
            return found
        full = shown(full)
        if module.partition(".")[0] in _DANGEROUS:
            raise Refused(f"Trying to load unsupported GLOBAL {full} whose module {shown(module)} is blocked.")
        raise Refused(
            f"Unsupported global: GLOBAL {full} was not an allowed global by default. If you trust this class or "
            f"function, allow it with `torch.serialization.add_safe_globals([{full}])` or in a `with "
            f"torch.serialization.safe_globals([{full}]):` block."
        )

    def call(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = self.apply(self.stack[-1], args)

    def new_object(self) -> None:
        args = self.stack.pop()
        cls = self.stack[-1]
        if cls in self.added_classes and id(cls) not in _MAKERS:
            self.check_callable(cls, args)
            self.stack[-1] = cls.__new__(cls, *args)
        else:
            self.stack[-1] = self.apply(cls, args)

    def apply(self, function: Any, args: Any) -> Any:
        """Call an allowed function, or its replacement."""
        self.check_callable(function, args)
        if function is rebuild_from_type:
            return self.rebuilt_from_type(*args)
        maker = _MAKERS.get(id(function))
        if maker is not None:
            return maker(self.limits, *args)
        if id(function) in self.added_ids:
            return function(*args)
        raise Refused(f"Trying to call a {type(function).__name__}, which files may refer to, but not call")

    def check_callable(self, function: Any, args: Any) -> None:
        """Check that a callable came from `find`; anything else is a value that must not be called."""
        if type(args) is not tuple or id(function) not in self.callable_ids:
            raise Refused(
                f"Trying to call a {type(function).__name__}, which the file did not obtain by an allowed name"
            )

    def rebuilt_from_type(self, function: Any, cls: Any, args: Any, state: Any) -> Any:
        """Return a tensor of a subclass, or with attributes; only functions that create tensors may be called."""
        self.check_callable(function, args)
        if not (isinstance(cls, type) and issubclass(cls, TensorCore)):
            raise Refused("a tensor's class is not a tensor class")
        if id(function) not in (_MAKES_TENSORS if id(function) in _CALLABLE_IDS else self.added_ids):
            raise Refused(f"Trying to make a tensor with a {type(function).__name__}, which makes none")
        tensor = self.apply(function, args)
        if not isinstance(tensor, TensorCore):
            raise Refused(f"a tensor was expected, not a {type(tensor).__name__}")
        self.pay_for(state)
        return as_type(tensor, cls, state, cls in self.added_classes and "__setstate__" in vars(cls))

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        self.pay_for(state)
        if isinstance(target, TensorCore) or type(target) in (OrderedDict, Counter):
            set_attributes(target, state)
        elif type(target) in self.added_classes:
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                set_attributes(target, state)
        else:
            raise Refused(f"Can only build Tensor, Parameter, OrderedDict or types allowlisted, not {type(target)}")

    def pay_for(self, state: Any) -> None:
        for part in state if type(state) is tuple and len(state) == 2 else (state,):
            if isinstance(part, dict):
                self.limits.spend(ITEM * len(part))

    # --- containers

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list and type(target) not in self.added_classes:
            raise Refused(f"Can only append to lists, but got {type(target)}")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter, *self.added_classes):
            raise Refused(f"Can only set items of dicts, but got {type(target)}")
        if len(items) % 2:
            raise Refused("a dict has a key without a value")
        for position in range(0, len(items), 2):
            target[self.limits.key(target, items[position])] = items[position + 1]

    def add_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not set:
            raise Refused(f"Can only add to sets, but got {type(target)}")
        target.update(self.limits.key(target, item) for item in items)

    def make_tuple(self, length: int) -> None:
        if len(self.stack) < length:
            raise Refused("a tuple has too few items")
        self.stack[-length:] = [tuple(self.stack[-length:])]

    # --- memory

    def remember(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def recall(self, place: int) -> None:
        if place not in self.memo:
            raise Refused(f"the pickle refers to object {place}, which it has not made")
        self.stack.append(self.memo[place])

    def reference(self) -> None:
        pid = self.stack.pop()
        if type(pid) is not tuple or not pid or type(pid[0]) is not str or pid[0] != "storage":
            raise Refused("Only persistent_load of storage is allowed")
        storage = self.persistent_load(pid)
        memory = storage.untyped() if isinstance(storage, TypedStorage) else storage
        if isinstance(memory, UntypedStorage) and pid[2] not in self.storages:
            self.storages.add(pid[2])
            self.limits.earn(memory.nbytes())
        self.stack.append(storage)

    def protocol(self) -> None:
        found = self.take(1)[0]
        if found > _HIGHEST_PROTOCOL:
            raise Refused(f"the pickle has protocol {found}, which is not supported")

    def open_mark(self) -> None:
        self.marks.append(self.stack)
        self.stack = []


def _global(reader: Reader) -> None:
    module = reader.line()
    reader.push(reader.find(module, reader.line()))


def _stack_global(reader: Reader) -> None:
    name, module = reader.stack.pop(), reader.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise Refused("the name of a global is not text")
    reader.push(reader.find(module, name))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


_STEPS: dict[bytes, Callable[[Reader], Any]] = {
    # literals
    b"N": lambda r: r.push(None),
    b"\x88": lambda r: r.push(True),
    b"\x89": lambda r: r.push(False),
    b"J": lambda r: r.push(r.number("<i")),
    b"K": lambda r: r.push(r.take(1)[0]),
    b"M": lambda r: r.push(r.number("<H")),
    b"\x8a": lambda r: r.push(int.from_bytes(r.take(r.take(1)[0]), "little", signed=True)),
    b"\x8b": lambda r: r.push(int.from_bytes(r.take(r.number("<i")), "little", signed=True)),
    b"G": lambda r: r.push(r.number(">d")),
    b"X": lambda r: r.push(_text(r.take(r.number("<I")))),
    b"\x8c": lambda r: r.push(_text(r.take(r.take(1)[0]))),
    b"\x8d": lambda r: r.push(_text(r.take(r.number("<Q")))),
    b"T": lambda r: r.push(r.take(r.number("<I")).decode("latin1")),  # Python 2's strings
    b"U": lambda r: r.push(r.take(r.take(1)[0]).decode("latin1")),
    b"B": lambda r: r.push(r.take(r.number("<I"))),
    b"C": lambda r: r.push(r.take(r.take(1)[0])),
    b"\x8e": lambda r: r.push(r.take(r.number("<Q"))),
    b"\x96": lambda r: r.push(bytearray(r.take(r.number("<Q")))),
    # containers
    b"]": lambda r: r.push([]),
    b"}": lambda r: r.push({}),
    b")": lambda r: r.push(()),
    b"\x8f": lambda r: r.push(set()),
    b"(": Reader.open_mark,
    b"t": lambda r: r.push(tuple(r.pop_mark())),
    b"\x85": lambda r: r.make_tuple(1),
    b"\x86": lambda r: r.make_tuple(2),
    b"\x87": lambda r: r.make_tuple(3),
    b"a": lambda r: r.append([r.stack.pop()]),
    b"e": lambda r: r.append(r.pop_mark()),
    b"s": lambda r: r.set_items([r.stack.pop(-2), r.stack.pop()]),
    b"u": lambda r: r.set_items(r.pop_mark()),
    b"\x90": lambda r: r.add_items(r.pop_mark()),
    # names, calls, storages
    b"c": _global,
    b"\x93": _stack_global,
    b"R": lambda r: r.call(),
    b"\x81": lambda r: r.new_object(),
    b"b": lambda r: r.build(),
    b"Q": lambda r: r.reference(),
    # memory and bookkeeping
    b"q": lambda r: r.remember(r.take(1)[0]),
    b"r": lambda r: r.remember(r.number("<I")),
    b"\x94": lambda r: r.remember(len(r.memo)),
    b"h": lambda r: r.recall(r.take(1)[0]),
    b"j": lambda r: r.recall(r.number("<I")),
    b"0": lambda r: r.stack.pop(),
    b"\x80": Reader.protocol,
    b"\x95": lambda r: r.take(8),  # the length of a frame, which is not needed
}

Reader.steps = _STEPS
