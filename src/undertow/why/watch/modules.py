"""Record modules: their creation, their parameters and children, and every run of forward, direct or by `__call__`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place
from undertow.why.trace import BindingRecord, CallRecord, OpRecord
from undertow.why.watch.firings import Returns
from undertow.why.watch.patches import Patches

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher


class Running:
    """A module call that has not ended."""

    __slots__ = ("frame", "module", "record", "waits")

    def __init__(self, module: Any, record: CallRecord, waits: bool, frame: FrameType) -> None:
        self.module = module
        self.record = record
        self.waits = waits  # its `__call__` has begun, and its forward has not
        self.frame = frame  # of the watcher, around the call: the place of all frames outside it is the record's


class ModuleCalls:
    """Records modules and their calls."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.trace = watcher.trace
        self.patches: Patches | None = None
        self.wrapped: set[type] = set()

    @property
    def current(self) -> int | None:
        """The innermost module call that runs in this thread."""
        calls = self.watcher.now.calls
        return calls[-1].record.id if calls else None

    def install(self, patches: Patches) -> None:
        self.patches = patches
        engine = self.watcher.engine
        patches.wrap(engine.Module, "__init__", self._made)
        patches.wrap(engine.Module, "__call__", self._called)
        patches.wrap(engine.Module, "zero_grad", self._cleared)
        if hasattr(engine.torch, "jit") and hasattr(engine.torch.jit, "script"):
            patches.wrap(engine.torch.jit, "script", self._scripted)
        file = engine.module_file
        self.handles = [
            file.register_module_parameter_registration_hook(self._parameter),
            file.register_module_module_registration_hook(self._child),
        ]

    def uninstall(self) -> None:
        for handle in self.handles:
            handle.remove()

    # --- making and binding

    def _made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(module: Any, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            if self.watcher.in_thread:
                with self.watcher.unrecorded:
                    self.watcher.modules.see(module, self.watcher.here())
                    self._wrap_forward(type(module))

        return __init__

    def _parameter(self, module: Any, name: str, parameter: Any) -> None:
        if parameter is None or not self.watcher.in_thread:
            return
        with self.watcher.unrecorded:
            place = self.watcher.here()
            known = self.watcher.modules.see(module, place)
            tensor = self.watcher.see(parameter, place)
            self._bind(known, name, place, known.parameters.get(name), tensor.id, None)
            known.parameters[name] = tensor.id
            tensor.module = known.id
            tensor.parameter = True

    def _child(self, module: Any, name: str, child: Any) -> None:
        if child is None or not self.watcher.in_thread:
            return
        with self.watcher.unrecorded:
            place = self.watcher.here()
            known, new = self.watcher.modules.see(module, place), self.watcher.modules.see(child, place)
            self._bind(known, name, place, None, None, new.id)
            known.children[name] = new.id

    def adopt(self, module: Any) -> None:
        """Record a module that was made before watching began, with everything inside it."""
        watcher = self.watcher
        with watcher.unrecorded:
            for part in module.modules():
                known = watcher.modules.see(part, None)
                for name, parameter in part._parameters.items():
                    if parameter is not None:
                        tensor = watcher.see(parameter, None)
                        tensor.module, tensor.parameter = known.id, True
                        known.parameters[name] = tensor.id
                for name, child in part._modules.items():
                    if child is not None:
                        known.children[name] = watcher.modules.see(child, None).id

    def _bind(
        self, module: Any, name: str, place: Place | None, old: int | None, tensor: int | None, child: int | None
    ) -> None:
        self.trace.bindings.append(
            BindingRecord(
                self.trace.tick(),
                module.id,
                name,
                place,
                tensor,
                child,
                old,
                module.children.get(name) if child is not None else None,
            )
        )

    # --- calling

    def _called(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.watcher.watching:
                return original(module, *args, **kwargs)
            return self._run(module, lambda: original(module, *args, **kwargs), (args, kwargs), False)

        return __call__

    def _wrap_forward(self, cls: type) -> None:
        """Patch the forward of a class and its bases, so that direct calls are recorded, too."""
        assert self.patches is not None
        for base in cls.__mro__:
            original = vars(base).get("forward")
            if (
                base not in self.wrapped
                and isinstance(original, FunctionType)
                and base is not self.watcher.engine.Module
            ):
                self.wrapped.add(base)
                self.patches.put(base, "forward", self._forward(original))

    def _forward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.watcher.watching:
                return original(module, *args, **kwargs)
            calls = self.watcher.now.calls
            top = calls[-1] if calls else None
            if top is not None and top.waits and top.module is module:
                top.waits = False
                return self._with_return(module, top.record, original, args, kwargs)
            if any(running.module is module for running in calls):  # super().forward()
                return original(module, *args, **kwargs)
            return self._run(module, lambda: original(module, *args, **kwargs), (args, kwargs), True)

        return forward

    def _scripted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def script(*args: Any, **kwargs: Any) -> Any:
            """Run `torch.jit.script` on unpatched classes: TorchScript reads the source of forward."""
            watched = {cls: vars(cls)["forward"] for cls in self.wrapped}
            for cls, wrapper in watched.items():
                cls.forward = wrapper.__wrapped__  # type: ignore[attr-defined]
            try:
                return original(*args, **kwargs)
            finally:
                for cls, wrapper in watched.items():
                    cls.forward = wrapper  # type: ignore[attr-defined]

        return script

    def _with_return(self, module: Any, record: CallRecord, original: Any, args: Any, kwargs: Any) -> Any:
        """Run a forward; if the module has backward hooks, record the line of the return."""
        if not (module._backward_hooks or module._backward_pre_hooks):
            return original(module, *args, **kwargs)
        with Returns(self.watcher, getattr(original, "__code__", None)) as returns:
            result = original(module, *args, **kwargs)
        record.returned = returns.place
        return result

    def _run(self, module: Any, go: Callable[[], Any], given: Any, direct: bool) -> Any:
        watcher, trace = self.watcher, self.trace
        record: CallRecord | None = None
        with watcher.unrecorded:
            place = watcher.here()
            known = watcher.modules.see(module, place)
            self._wrap_forward(type(module))
            record = CallRecord(
                id=len(trace.calls), time=trace.tick(), module=known.id, place=place, direct=direct,
                parent=self.current, grad_mode=watcher.engine.is_grad_enabled(),
                inputs=tuple([watcher.see(tensor, place).id for tensor in watcher.engine.tensors_in(given)]),
                training=bool(getattr(module, "training", True)),
            )  # fmt: skip
            trace.calls.append(record)
        if record is None:
            return go()
        first_op = len(trace.ops)
        watcher.now.calls.append(Running(module, record, not direct, sys._getframe()))
        try:
            result = go()
        except Exception as error:
            record.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            watcher.now.calls.pop()
            record.end = trace.tick()
        with watcher.unrecorded:
            self._finish(module, record, result, first_op)
        return result

    def _finish(self, module: Any, record: CallRecord, result: Any, first_op: int) -> None:
        watcher, engine = self.watcher, self.watcher.engine
        tensors = list(engine.tensors_in(_parts(result)))
        record.outputs = tuple([watcher.see(tensor, record.place).id for tensor in tensors])
        record.outputs_require_grad = tuple([tensor.requires_grad for tensor in tensors])
        record.result = (
            "tensor" if isinstance(result, engine.Tensor) else "tuple" if isinstance(result, tuple) else
            type(result).__name__
        )  # fmt: skip
        looked_at = [result] if isinstance(result, engine.Tensor) else result if isinstance(result, tuple) else []
        seen = any(isinstance(part, engine.Tensor) and part.requires_grad for part in looked_at)
        record.loose = not seen and any(record.outputs_require_grad)
        if self.trace.modules[record.module].library and tensors:
            self._out_of_sight(module, record, tensors, first_op)

    def _out_of_sight(self, module: Any, record: CallRecord, tensors: list[Any], first_op: int) -> None:
        """Add an op for what a library module did unobserved.

        It stands for parameters of the module that no recorded op uses, and for results known only from the graph,
        which lacks inputs without a graph.
        """
        watcher, trace = self.watcher, self.trace
        own = [parameter for parameter in module._parameters.values() if parameter is not None]
        ops = trace.ops[first_op:]
        used = {number for op in ops for number in op.inputs}
        if any(op.kind == "unseen" for op in ops):
            used.clear()
        hidden = [tensor for tensor in own if watcher.see(tensor, record.place).id not in used]
        if not hidden and used:
            return
        inputs = [*(watcher.see(tensor, record.place).id for tensor in hidden), *record.inputs]
        grad_mode = record.grad_mode
        op = OpRecord(
            id=len(trace.ops), time=trace.tick(), name=type(module).__name__, kind="module", place=record.place,
            inputs=tuple(inputs),
            inputs_require_grad=(*(tensor.requires_grad for tensor in hidden),
                                 *(trace.tensors[number].requires_grad for number in record.inputs)),
            outputs=record.outputs, outputs_require_grad=record.outputs_require_grad, grad_mode=grad_mode,
            off=None if grad_mode else watcher.off, firing=watcher.firing, call=record.id,
            output_nodes=tuple([trace.tensors[number].node for number in record.outputs]),
        )  # fmt: skip
        watcher.calls.add(op)

    # --- clearing

    def _cleared(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.watcher.watching:
                return original(module, *args, **kwargs)
            with self.watcher.unrecorded:
                found = [parameter for parameter in module.parameters() if parameter.grad is not None]
            return self.watcher.optimizers.clearing(lambda: original(module, *args, **kwargs), found)

        return zero_grad


def _parts(value: Any) -> Any:
    """Return the fields of a dataclass; any other result as it is."""
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None:
        return [getattr(value, name, None) for name in fields]
    return value
