"""Map tensors and modules to their records, through weak references only."""

from __future__ import annotations

import weakref
from typing import Any

from undertow._src.base.ownership import is_own_class, module_name
from undertow.why.places import Place
from undertow.why.trace import ModuleRecord, TensorRecord, Trace
from undertow.why.watch.engine import Engine


class _Reference(weakref.ref):
    """A weak reference with the record of its object."""

    __slots__ = ("key", "record", "known")

    key: int
    record: Any
    known: dict[int, Any]

    def note_freed(self, time: int) -> None:
        """Forget the object, which was freed at this time."""
        if self.known.get(self.key) is self:
            del self.known[self.key]
        if type(self.record) is TensorRecord:
            self.record.died = time


class Objects:
    """Records by object. The id of a freed object may be reused, so each lookup checks the weak reference."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.known: dict[int, Any] = {}

    def find(self, value: Any) -> Any:
        """Return the record of an object, or None."""
        reference = self.known.get(id(value))
        return reference.record if reference is not None and reference() is value else None

    def add(self, value: Any, record: Any) -> None:
        # The callback is a function in C: Python would drop a KeyboardInterrupt that is raised in a callback.
        reference: Any = _Reference(value, self.trace.freed.append)
        reference.key, reference.record, reference.known = id(value), record, self.known
        self.known[id(value)] = reference

    def alive(self) -> list[tuple[Any, Any]]:
        """Return (object, record) for all objects that still exist."""
        found = [(reference(), reference.record) for reference in list(self.known.values())]
        return [(value, record) for value, record in found if value is not None]


class Tensors(Objects):
    """Records of tensors."""

    def __init__(self, trace: Trace, engine: Engine) -> None:
        super().__init__(trace)
        self.engine = engine

    def make(self, tensor: Any, place: Place | None) -> TensorRecord:
        """Make the record of a tensor that has none."""
        trace, engine = self.trace, self.engine
        number = len(trace.tensors)
        dtype, floating = engine.kind_of(tensor)
        time = trace.tick()
        record = TensorRecord(
            number, time, place, engine.shape(tensor), dtype, floating, engine.node(tensor) is None,
            engine.requires_grad(tensor), type(tensor) is not engine.Tensor and isinstance(tensor, engine.Parameter),
            None, None, None, number,
        )  # fmt: skip
        trace.tensors.append(record)
        self.add(tensor, record)
        base = engine.base(tensor)
        if base is not None:
            record.memory = (self.find(base) or self.make(base, place)).memory
        return record


class Modules(Objects):
    """Records of modules."""

    def __init__(self, trace: Trace, engine: Engine) -> None:
        super().__init__(trace)
        self.engine = engine

    def see(self, module: Any, place: Place | None) -> ModuleRecord:
        """Return the record of a module; make it if there is none."""
        record = self.find(module)
        if record is None:
            cls = type(module)
            record = ModuleRecord(
                id=len(self.trace.modules),
                time=self.trace.tick(),
                place=place,
                type=cls.__name__,
                library=is_own_class(cls) or module_name(cls).partition(".")[0] == "torch",
                callable=any("forward" in vars(base) for base in cls.__mro__ if base is not self.engine.Module),
            )
            self.trace.modules.append(record)
            self.add(module, record)
        return record
