"""Find the program's names for its tensors and modules: expressions that lead to them from its variables."""

from __future__ import annotations

import itertools
import re
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from undertow.why.places import variables
from undertow.why.source import source
from undertow.why.trace import ModuleRecord, TensorRecord

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from undertow.why.watch.watcher import Watcher

_LOOKS = 3  # how often the variables of one function are searched
_WIDTH = 64  # how many items of a container are searched
_DEPTH = 6  # how many attributes or items deep
_MOST = 20_000  # how many objects in one search


class Names:
    """Finds expressions. Variables of functions are searched while these run, globals at the end."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.looked: dict[CodeType, int] = {}
        self.passing: set[str] = set()  # variables of loops, which mean a different object in each round

    def note(self, frame: FrameType) -> None:
        """Search the variables of a running function, the first few times."""
        code = frame.f_code
        if code.co_name == "<module>" or self.looked.get(code, 0) >= _LOOKS:
            return
        self.looked[code] = self.looked.get(code, 0) + 1
        self.passing |= source(code.co_filename).loop_variables
        self._look(variables(frame))

    def note_all(self, frame: FrameType | None) -> None:
        """Search the variables of the user's functions among a frame and its callers."""
        while frame is not None:
            if self.watcher.places.is_user(frame.f_code):
                self.note(frame)
            frame = frame.f_back

    def globals(self, names: dict[str, Any]) -> None:
        """Search the program's global variables; their expressions come before those of functions."""
        if self.watcher.trace.script is not None:
            self.passing |= source(self.watcher.trace.script).loop_variables
        self._look({name: value for name, value in names.items() if not name.startswith("__")}, first=True)

    def modules(self) -> None:
        """Search the global variables of the program's other files."""
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and self.watcher.places.is_user_file(file):
                self._look({name: value for name, value in vars(module).items() if not name.startswith("__")})

    def _look(self, names: dict[str, Any], first: bool = False) -> None:
        watcher = self.watcher
        engine = watcher.engine
        found: dict[int, tuple[Any, list[str]]] = {}
        passing = {name: value for name, value in names.items() if name in self.passing}
        lasting = {name: value for name, value in names.items() if name not in passing}
        for expression, value in itertools.chain(self._walk(lasting), self._walk(passing)):
            record: Any = None
            if isinstance(value, engine.Tensor):
                record = watcher.tensors.find(value)
            elif isinstance(value, engine.Module):
                record = watcher.modules.find(value)
                if record is not None:
                    self._attributes(value, record)
            else:
                known = watcher.optimizers.records.get(id(value))
                record = None if known is None else known[1]
            if record is not None:
                found.setdefault(id(record), (record, []))[1].append(expression)
        for record, expressions in found.values():
            if isinstance(record, TensorRecord):
                expressions.sort(key=lambda one: one.endswith("]"))  # `params[3]` is a poor name
            order = [*expressions, *record.names] if first else [*record.names, *expressions]
            record.names[:] = sorted(dict.fromkeys(order), key=self._is_passing)

    def _is_passing(self, expression: str) -> bool:
        """Whether an expression begins with the variable of a loop: `p`, `layer.weight`."""
        return re.split(r"[.\[]", expression, maxsplit=1)[0] in self.passing

    def _attributes(self, module: Any, record: ModuleRecord) -> None:
        """Record the tensors and modules that a module holds, but has not registered."""
        watcher = self.watcher
        for buffer in (vars(module).get("_buffers") or {}).values():
            tensor = (
                watcher.tensors.find(buffer) if buffer is not None and watcher.engine.requires_grad(buffer) else None
            )
            if tensor is not None and tensor.leaf:
                tensor.attribute_of = record.id  # parameters() does not list it, either
        for name, value in list(vars(module).items()):
            if name.startswith("_"):
                continue
            values = (
                value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
            )
            for part in itertools.islice(values, _WIDTH):
                if isinstance(part, watcher.engine.Tensor):
                    tensor = watcher.tensors.find(part)
                    if tensor is not None:
                        tensor.attribute_of = record.id
                elif isinstance(part, watcher.engine.Module):
                    child = watcher.modules.find(part)
                    if child is not None and child.id not in record.children.values():
                        file = getattr(sys.modules.get(type(module).__module__), "__file__", None)
                        child.hidden_in = file or watcher.trace.script or "", record.type, name

    def _walk(self, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield (expression, object) breadth first, so that the shortest expression comes first."""
        engine = self.watcher.engine
        optimizer = engine.optim.Optimizer
        seen: set[int] = set()
        level: list[tuple[str, Any]] = list(names.items())
        count = 0
        for _ in range(_DEPTH):
            following: list[tuple[str, Any]] = []
            for expression, value in level:
                count += 1
                if count > _MOST:
                    return
                interesting = isinstance(value, (engine.Tensor, engine.Module, optimizer))
                if interesting:
                    yield expression, value
                if id(value) in seen:
                    continue
                if interesting or isinstance(value, (list, tuple, dict)) or self._is_object(value):
                    seen.add(id(value))
                    following.extend(self._inside(expression, value))
            level = following

    def _is_object(self, value: Any) -> bool:
        """Whether an object is an instance of a class of the program."""
        if isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType)):
            return False
        cls = type(value)
        if not hasattr(value, "__dict__"):
            return False
        init = vars(cls).get("__init__") or cls.__init__
        code = getattr(init, "__code__", None)
        return code is not None and (self.watcher.places.is_user(code) or cls.__module__ == "__main__")

    def _inside(self, expression: str, value: Any) -> Iterator[tuple[str, Any]]:
        engine = self.watcher.engine
        if isinstance(value, engine.Tensor):
            return
        if isinstance(value, (list, tuple)):
            for place, item in enumerate(value[:_WIDTH]):
                yield f"{expression}[{place}]", item
        elif isinstance(value, dict):
            for key, item in list(value.items())[:_WIDTH]:
                if isinstance(key, (str, int)):
                    yield f"{expression}[{key!r}]", item
        elif isinstance(value, engine.Module):
            for name, item in (*value._parameters.items(), *value._buffers.items(), *value._modules.items()):
                if item is not None:
                    yield f"{expression}[{name}]" if name.isdigit() else f"{expression}.{name}", item
            for name, item in vars(value).items():
                if not name.startswith("_") and name != "training":
                    yield f"{expression}.{name}", item
        elif self._is_object(value):
            for name, item in list(vars(value).items())[:_WIDTH]:
                yield f"{expression}.{name}", item
