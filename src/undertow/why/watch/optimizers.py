"""Record optimizers: the tensors each holds, every step, every zero_grad."""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from undertow.why.places import Place
from undertow.why.trace import FalseFlag, OpRecord, OptimizerRecord, ScalingEvent, StepRecord, WriteRecord
from undertow.why.watch.patches import Patches
from undertow.why.watch.ranks import AFTER_STEP, BEFORE_STEP

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher


_FREEZES = re.compile(r"_?requires?d?_?grad(s|ient|ients)?_?", re.IGNORECASE)  # names of attributes


class Optimizers:
    """Records optimizers. Inside a step, only a closure is recorded."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.trace = watcher.trace
        self.records: dict[int, tuple[Any, OptimizerRecord]] = {}
        self.patches: Patches | None = None
        self.wrapped: set[type] = set()
        self.done: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # steps, watched or not

    def install(self, patches: Patches) -> None:
        self.patches = patches
        optim = self.watcher.engine.optim
        patches.wrap(optim.Optimizer, "__init__", self._made)
        patches.wrap(optim.Optimizer, "add_param_group", self._added)
        patches.wrap(optim.Optimizer, "zero_grad", self._zero_grad)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            patches.wrap(self.watcher.engine.torch.nn.utils, name, self._clip)
        scaler = getattr(getattr(self.watcher.engine.torch, "amp", None), "GradScaler", None)
        for name in () if scaler is None else ("scale", "unscale_", "step"):
            patches.wrap(scaler, name, self._scaling(name))
        self.handles = [
            optim.register_optimizer_step_pre_hook(self._before_step),
            optim.register_optimizer_step_post_hook(self._after_step),
        ]

    def uninstall(self) -> None:
        for handle in self.handles:
            handle.remove()

    # --- making

    def _record(self, optimizer: Any) -> OptimizerRecord:
        known = self.records.get(id(optimizer))
        if known is not None:
            return known[1]
        record = OptimizerRecord(
            id=len(self.trace.optimizers), time=self.trace.tick(), type=type(optimizer).__name__,
            place=self.watcher.here(),
        )  # fmt: skip
        self.trace.optimizers.append(record)
        self.records[id(optimizer)] = optimizer, record  # the optimizer is kept alive, so that no id is reused
        return record

    def _made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(optimizer: Any, params: Any, *args: Any, **kwargs: Any) -> None:
            watcher = self.watcher
            if not watcher.watching:
                return original(optimizer, params, *args, **kwargs)
            record = None
            with watcher.unrecorded:
                if not isinstance(params, (watcher.engine.Tensor, list, dict)):
                    params = list(params)
                record = self._record(optimizer)
                watcher.names.note_all(watcher.caller())
            try:
                with watcher.silent:
                    original(optimizer, params, *args, **kwargs)
            except Exception as error:
                if record is not None:
                    record.error = f"{type(error).__name__}: {error}"
                    with watcher.unrecorded:
                        given = [tensor for tensor in watcher.engine.tensors_in(params) if not tensor.is_leaf]
                        record.refused = tuple([watcher.see(tensor, record.place).id for tensor in given])
                raise
            with watcher.unrecorded:
                self._holds(optimizer)
                self._wrap_step(type(optimizer))
            return None

        return __init__

    def _wrap_step(self, cls: type) -> None:
        """Patch the step of a class: the hooks after a step do not run if it raises."""
        original: Any = getattr(cls, "step", None)
        if original is None or self.patches is None or cls in self.wrapped:
            return
        self.wrapped.add(cls)

        @functools.wraps(original)  # with the mark that the hooks of a step are in place
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            running = len(self.watcher.now.stepping)
            try:
                return original(optimizer, *args, **kwargs)
            finally:
                while len(self.watcher.now.stepping) > running:
                    self._resume()

        self.patches.put(cls, "step", step)

    def _resume(self) -> dict[int, tuple[Any, int]]:
        """Watch user code again after a step. Return the versions of the tensors before it."""
        _, versions, mode_off = self.watcher.now.stepping.pop()
        if mode_off:
            self.watcher.put_mode_on()
        self.watcher.busy -= 1
        return versions

    def _added(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def add_param_group(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            with self.watcher.silent:
                result = original(optimizer, *args, **kwargs)
            if self.watcher.watching:
                with self.watcher.unrecorded:
                    self._holds(optimizer)
            return result

        return add_param_group

    def _holds(self, optimizer: Any) -> None:
        record, place = self._record(optimizer), self.watcher.here()
        for tensor in self._tensors(optimizer):
            record.tensors.setdefault(self.watcher.see(tensor, place).id, place)

    def _tensors(self, optimizer: Any) -> list[Any]:
        return [tensor for group in optimizer.param_groups for tensor in group["params"]]

    # --- stepping

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        watcher = self.watcher
        if watcher.later is not None:
            watcher.later.step(optimizer)
        if not watcher.watching:
            return None
        versions: dict[int, tuple[Any, int]] = {}
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        with watcher.unrecorded:
            place = watcher.here()
            record = self._record(optimizer)
            self._holds(optimizer)
            if not record.steps:
                self._false_flags(optimizer)
            record.steps.append(StepRecord(self.trace.tick(), place, callable(closure)))
            for tensor in self._tensors(optimizer):
                versions[watcher.see(tensor, place).id] = tensor, watcher.engine.version(tensor)
            if not callable(closure):
                self._looks_at(optimizer, record, place)
            watcher.ranks.look(BEFORE_STEP, place)
        watcher.busy += 1
        watcher.now.stepping.append((optimizer, versions, watcher.take_mode_off()))
        return self._recorded_closure(closure, args, kwargs) if callable(closure) else None

    def _false_flags(self, optimizer: Any) -> None:
        """Record attributes like `p.require_grad`, of what the optimizer holds and of modules: they freeze nothing."""
        trace, known = self.trace, {(flag.tensor, flag.module, flag.name) for flag in self.trace.false_flags}
        tensors = [(tensor, self.watcher.see(tensor, None).id, None) for tensor in self._tensors(optimizer)]
        modules = [(module, None, record.id) for module, record in self.watcher.modules.alive()]
        for value, tensor, module in (*tensors, *modules):
            for name in [name for name in getattr(value, "__dict__", ()) if _FREEZES.fullmatch(name)]:
                if (tensor, module, name) not in known:
                    flag = vars(value)[name]
                    trace.false_flags.append(FalseFlag(trace.tick(), name, bool(flag), tensor, module))

    def _looks_at(self, optimizer: Any, record: OptimizerRecord, place: Place | None) -> None:
        """Record the gradients that a step uses. With a closure, they exist only after the step."""
        watcher = self.watcher
        if watcher.recorder is not None:
            watcher.recorder.step(watcher, record, place, self._tensors(optimizer))
        for tensor in self._tensors(optimizer):
            known = watcher.see(tensor, place)
            found = watcher.calls.gradient(tensor, known, place)
            peak = None
            if found is not None:
                own = found.peak_version >= 0 and found.memory == found.id  # no view of what else may be written
                same = own and found.peak_version == watcher.engine.version(tensor.grad)
                peak = found.peak if same else watcher.engine.peak(tensor.grad)
            watcher.calls.grad_event("step", known.id, place, found=found is not None, peak=peak, optimizer=record.id)

    def _recorded_closure(self, closure: Any, args: Any, kwargs: Any) -> Any:
        """Wrap a closure given to step: user code inside library code."""

        def watched() -> Any:
            with self.watcher.recording_user_code():
                return closure()

        if "closure" in kwargs:
            return args, {**kwargs, "closure": watched}
        return (args[0], watched, *args[2:]), kwargs

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        stepping = self.watcher.now.stepping
        if stepping and stepping[-1][0] is optimizer:
            self._record_end(optimizer)
        if not stepping:  # else it is a part of another optimizer's step
            self.done[optimizer] = done = self.done.get(optimizer, 0) + 1
            self.watcher.stepped(done)

    def _record_end(self, optimizer: Any) -> None:
        watcher = self.watcher
        versions = self._resume()
        with watcher.unrecorded:
            place = watcher.here()
            record = self._record(optimizer)
            step = record.steps[-1]
            if step.closure:
                self._looks_at(optimizer, record, place)
            step.end = self.trace.tick()
            for number, (tensor, version) in versions.items():
                now = watcher.engine.version(tensor)
                if now != version:
                    self.trace.writes.append(WriteRecord(self.trace.tick(), number, place, "step", None, now))
            watcher.ranks.look(AFTER_STEP, place)

    # --- clearing

    def _zero_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.watcher.watching:
                return original(optimizer, *args, **kwargs)
            with self.watcher.unrecorded:
                found = [tensor for tensor in self._tensors(optimizer) if tensor.grad is not None]
            return self.clearing(lambda: original(optimizer, *args, **kwargs), found)

        return zero_grad

    def _scaling(self, name: str) -> Callable[..., Any]:
        """Return a wrapper of a GradScaler's method that records its calls."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(scaler: Any, *args: Any, **kwargs: Any) -> Any:
                watcher = self.watcher
                if watcher.watching and scaler.is_enabled():
                    with watcher.unrecorded:
                        self._scaled(name.strip("_"), name)
                return original(scaler, *args, **kwargs)

            return call

        return wrap

    def _scaled(self, kind: str, name: str, tensors: tuple[int, ...] = ()) -> None:
        self.trace.scalings.append(ScalingEvent(self.trace.tick(), kind, name, self.watcher.here(), tensors))

    def _clip(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            watcher = self.watcher
            if not watcher.watching:
                return original(parameters, *args, **kwargs)
            if not isinstance(parameters, watcher.engine.Tensor):
                parameters = list(parameters)
            given = watcher.engine.tensors_in(parameters)
            before: list[tuple[Any, int]] = []
            with watcher.unrecorded:
                self._reads_missing(given)
                known = [watcher.see(parameter, None).id for parameter in given]
                self._scaled("clip", original.__name__, tuple(known))
                before = [(one, watcher.engine.version(one.grad)) for one in given if one.grad is not None]
            with watcher.silent:
                result = original(parameters, *args, **kwargs)
            with watcher.unrecorded:
                self._clipped(original.__name__, before, result)
            return result

        return clip

    def _clipped(self, name: str, before: list[tuple[Any, int]], result: Any) -> None:
        """Record a clipping as one op, which takes the gradients, may change them, and may return their norm."""
        watcher, calls, engine = self.watcher, self.watcher.calls, self.watcher.engine
        place = watcher.here()
        found = [calls.gradient(tensor, watcher.see(tensor, place), place) for tensor, _ in before]
        pairs = [(tensor.grad, record) for (tensor, _), record in zip(before, found) if record is not None]
        now = [(grad, known) for (grad, known), (_, version) in zip(pairs, before) if engine.version(grad) != version]
        made = [(result, watcher.tensors.make(result, place))] if isinstance(result, engine.Tensor) else []
        written = tuple([known.id for _, known in now])
        op = OpRecord(
            id=len(self.trace.ops), time=self.trace.tick(), name=name, kind="op", place=place,
            inputs=tuple([known.id for _, known in pairs]),
            inputs_require_grad=tuple([engine.requires_grad(grad) for grad, _ in pairs]),
            outputs=tuple([known.id for _, known in (*made, *now)]),
            outputs_require_grad=tuple([engine.requires_grad(tensor) for tensor, _ in (*made, *now)]),
            grad_mode=engine.is_grad_enabled(), writes=written, firing=watcher.firing, call=watcher.module_calls.current,
        )  # fmt: skip
        calls.clipped(op, [*made, *now], [known for _, known in pairs])
        for grad, known in now:
            calls.wrote(grad, known, place, name, op.id)
            known.peak_version = engine.version(grad)

    def _reads_missing(self, parameters: list[Any]) -> None:
        """Record clipping as a read of missing gradients, if no parameter has one."""
        if any(parameter.grad is not None for parameter in parameters):
            return
        place = self.watcher.here()
        for parameter in parameters:
            if parameter.requires_grad:
                self.watcher.calls.grad_event("read", self.watcher.see(parameter, place).id, place)

    def clearing(self, go: Callable[[], Any], tensors: list[Any]) -> Any:
        """Run a zero_grad, and record the gradients that it cleared."""
        watcher = self.watcher
        with watcher.silent:
            result = go()
        with watcher.unrecorded:
            place = watcher.here()
            for tensor in tensors:
                known = watcher.see(tensor, place)
                grad = tensor.grad
                if grad is None:
                    watcher.calls.grad_event("clear", known.id, place, found=True)
                else:
                    found = watcher.calls.gradient(tensor, known, place)
                    if found is not None:
                        found.peak = 0.0
                    watcher.calls.grad_event("clear", known.id, place, found=True, peak=0.0)
        return result
