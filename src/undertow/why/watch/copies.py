"""Record what a function mode does not get: copy.deepcopy, nn.Parameter(t), from_numpy, custom autograd Functions."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place
from undertow.why.statements import def_line, lines_that_write
from undertow.why.trace import CopyRecord, OpRecord, TensorRecord
from undertow.why.watch.graph import PASSES_ON
from undertow.why.watch.patches import Patches

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher


class Copies:
    """Records tensors that are made from other tensors without a call that the function mode gets."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.trace = watcher.trace
        self.recent: deque[tuple[int, int]] = deque(maxlen=16)  # (address, tensor) of recent cuts

    def install(self, patches: Patches) -> None:
        engine = self.watcher.engine
        patches.wrap(copy, "deepcopy", self._deepcopy)
        patches.wrap(engine.torch, "from_numpy", self._from_numpy)
        new = self._parameter(engine.Parameter.__new__)
        patches.put(engine.Parameter, "__new__", staticmethod(new))
        function = engine.autograd.Function
        patches.put(function, "apply", classmethod(self._apply(function.apply.__func__)))

    def _op(
        self, name: str, kind: str, given: list[Any], made: list[tuple[Any, TensorRecord]], place: Place | None,
        asked: tuple[bool, ...] | None = None, scalars: tuple[int, ...] = (),
    ) -> OpRecord:  # fmt: skip
        watcher = self.watcher
        grad_mode = watcher.engine.is_grad_enabled()
        op = OpRecord(
            id=len(self.trace.ops), time=self.trace.tick(), name=name, kind=kind, place=place,
            inputs=tuple([watcher.see(tensor, place).id for tensor in given]),
            inputs_require_grad=tuple([tensor.requires_grad for tensor in given]) if asked is None else asked,
            outputs=tuple([record.id for _, record in made]),
            outputs_require_grad=tuple([tensor.requires_grad for tensor, _ in made]),
            grad_mode=grad_mode, off=None if grad_mode else watcher.off, scalars=scalars, firing=watcher.firing,
            call=watcher.module_calls.current,
        )  # fmt: skip
        watcher.calls.values(op, [tensor for tensor, _ in made], [record for _, record in made], given)
        watcher.calls.finish(op, made)
        return op

    # --- values that were cut from a graph and become a new leaf

    def cut(self, tensor: Any, record: TensorRecord) -> None:
        """Remember the address of a cut's result: `Variable(t.data)` makes a leaf of it that the mode does not get."""
        address = self.watcher.engine.address(tensor)
        if address is not None:
            self.recent.append((address, record.id))

    def recognise(self, tensor: Any, record: TensorRecord, place: Place | None) -> None:
        """Connect a leaf whose creation was not observed to a recent cut of the same memory."""
        address = self.watcher.engine.address(tensor)
        for other, number in reversed(self.recent):
            if other == address and self.trace.tensors[number].shape == record.shape:
                record.memory = self.trace.tensors[number].memory
                op = OpRecord(
                    id=len(self.trace.ops), time=self.trace.tick(), name="Variable", kind="cut", place=place,
                    inputs=(number,), inputs_require_grad=(False,), outputs=(record.id,),
                    outputs_require_grad=(True,), grad_mode=True,
                )  # fmt: skip
                self.watcher.calls.finish(op, [(tensor, record)])
                return

    # --- nn.Parameter and from_numpy

    def _parameter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
            watcher = self.watcher
            if not watcher.watching:
                return original(cls, *args, **kwargs)
            watcher.busy += 1
            try:
                result = original(cls, *args, **kwargs)
            finally:
                watcher.busy -= 1
            with watcher.unrecorded:
                data = args[0] if args else kwargs.get("data")
                place = watcher.here()
                known = watcher.tensors.find(result) or watcher.tensors.make(result, place)
                known.parameter = True
                if isinstance(data, watcher.engine.Tensor) and data is not result:
                    known.memory = watcher.see(data, place).memory
                    self._op("Parameter", "cut", [data], [(result, known)], place)
            return result

        return __new__

    def _from_numpy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def from_numpy(array: Any) -> Any:
            result = original(array)
            watcher = self.watcher
            if watcher.watching:
                with watcher.unrecorded:
                    place = watcher.here()
                    known = watcher.tensors.make(result, place)
                    self._op("from_numpy", "enters", [], [(result, known)], place, scalars=watcher.calls.left(array))
            return result

        return from_numpy

    # --- custom Functions

    def _apply(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            watcher = self.watcher
            if not watcher.watching:
                return original(cls, *args, **kwargs)
            given: list[Any] = []
            asked: tuple[bool, ...] = ()
            versions: list[int] = []
            with watcher.unrecorded:
                given = list(watcher.engine.tensors_in((args, kwargs)))
                asked = tuple([tensor.requires_grad for tensor in given])
                versions = [watcher.engine.version(tensor) for tensor in given]
            place = watcher.here()
            watcher.busy += 1
            try:
                if any(callable(part) and not isinstance(part, watcher.engine.Tensor) for part in args):
                    with self._run_inside(place):  # a checkpoint runs user code inside its Function
                        result = original(cls, *args, **kwargs)
                else:
                    result = original(cls, *args, **kwargs)
            finally:
                watcher.busy -= 1
            with watcher.unrecorded:
                taken = {id(tensor) for tensor in given}
                made = [
                    (tensor, watcher.tensors.find(tensor) or watcher.tensors.make(tensor, place))
                    for tensor in watcher.engine.tensors_in(result)
                    if id(tensor) not in taken or tensor.grad_fn is not None
                ]
                if cls.__name__ == PASSES_ON and len(given) == len(made):
                    for one, result_of_it, asks in zip(given, made, asked):
                        self._op(cls.__name__, "unseen", [one], [result_of_it], place, (asks,))
                    return result
                op = self._op(cls.__name__, "function", given, made, place, asked)
                for tensor, version in zip(given, versions):
                    if watcher.engine.version(tensor) != version:
                        written = _where_written(cls.forward, place)
                        watcher.calls.wrote(tensor, watcher.see(tensor, place), written, cls.__name__, op.id)
                code = getattr(cls.backward, "__code__", None)
                if code is not None and watcher.places.is_user(code):
                    line = def_line(code.co_filename, code.co_firstlineno)
                    self.trace.functions[op.id] = watcher.places.of_line(code.co_filename, line, code.co_name)
                    watcher.backwards.run_by_passes.add(code)
            return result

        return apply

    @contextmanager
    def _run_inside(self, place: Place | None) -> Iterator[None]:
        """Record user code inside a Function's forward; the Function's line is what switched gradient mode off."""
        watcher = self.watcher
        before, watcher.off = watcher.off, place
        try:
            with watcher.recording_user_code():
                yield
        finally:
            watcher.off = before

    # --- deepcopy

    def _deepcopy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def deepcopy(value: Any, memo: Any = None, *rest: Any) -> Any:
            watcher = self.watcher
            if not watcher.watching:
                return original(value, memo, *rest)
            memo = {} if memo is None else memo
            watcher.busy += 1  # deepcopy is recursive
            try:
                result = original(value, memo, *rest)
            finally:
                watcher.busy -= 1
            with watcher.unrecorded:
                self._copied(memo)
            return result

        return deepcopy

    def _copied(self, memo: dict[int, Any]) -> None:
        """Record which object was copied to which. The memo maps the id of every original to its copy."""
        watcher, engine = self.watcher, self.watcher.engine
        place = watcher.here()
        record = CopyRecord(self.trace.tick(), place)
        for key, new in memo.items():
            if isinstance(new, engine.Tensor):
                reference = watcher.tensors.known.get(key)
                if reference is not None and reference() is not None and reference() is not new:
                    old = reference.record
                    known = watcher.tensors.find(new) or watcher.tensors.make(new, place)
                    known.copied_from = old.id
                    known.place = place
                    known.parameter = old.parameter
                    record.tensors[old.id] = known.id
                    self._op("deepcopy", "copy", [reference()], [(new, known)], place)
            elif isinstance(new, engine.Module):
                reference = watcher.modules.known.get(key)
                if reference is not None and reference() is not new:
                    old = reference.record
                    known = watcher.modules.see(new, place)
                    known.copied_from = old.id
                    record.modules[old.id] = known.id
                    self._belongings(new, known)
        if record.tensors or record.modules:
            self.trace.copies.append(record)

    def _belongings(self, module: Any, known: Any) -> None:
        """Record the parameters and children of a copied module: deepcopy does not register them."""
        watcher = self.watcher
        for name, parameter in module._parameters.items():
            if parameter is not None:
                tensor = watcher.see(parameter, known.place)
                known.parameters[name] = tensor.id
                tensor.module = known.id
        for name, child in module._modules.items():
            if child is not None:
                known.children[name] = watcher.modules.see(child, known.place).id


def _where_written(forward: Any, place: Place | None) -> Place | None:
    """Return the line of a Function's forward that writes in place, if its source shows one; otherwise the call."""
    code = getattr(forward, "__code__", None)
    if code is None:
        return place
    lines = lines_that_write(code.co_filename, code.co_firstlineno)
    return Place(code.co_filename, lines[0], code.co_name, (None, None, None), place) if lines else place
