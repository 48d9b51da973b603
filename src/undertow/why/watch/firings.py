"""Run a hook and record the call: what it got, what it returned, what it changed, and the line of its return."""

from __future__ import annotations

import functools
import sys
import weakref
from types import CodeType, FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from undertow._src.base.hooks import fire
from undertow.why.places import Place
from undertow.why.trace import FiringRecord, HookRecord

if TYPE_CHECKING:
    from undertow.why.watch.watcher import Watcher

# The position of the hook's argument that holds the tensors it may replace.
_VALUE = {
    "tensor": 0, "post-accumulate": 0, "multi-grad": 0, "node": 0, "node-pre": 0, "forward-pre": 1, "forward": -1,
    "full-backward-pre": 1, "full-backward": 1, "backward": 1,
}  # fmt: skip
_TUPLES = ("full-backward", "full-backward-pre", "backward", "node", "node-pre")  # kinds that return tuples


def code_of(hook: Any) -> tuple[CodeType | None, Any, Any]:
    """Return (the code that runs when a hook is called, the object it is bound to, the function itself)."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    if isinstance(hook, MethodType):
        return getattr(hook.__func__, "__code__", None), hook.__self__, hook.__func__
    if isinstance(hook, FunctionType):
        return hook.__code__, None, hook
    call = getattr(type(hook), "__call__", None)  # noqa: B004
    return getattr(call, "__code__", None), hook, call


RETURNS = 5  # how many calls are profiled to find the line of the return; profiling is slow


class Returns:
    """Records the lines on which functions return, with a profile function that is set for the block.

    For `return helper(x)` it is the line in the helper. If the program sets a profile function itself, that one stays
    and the lines are unknown.
    """

    def __init__(self, watcher: Watcher, *codes: CodeType | None) -> None:
        self.watcher = watcher
        self.codes = [code for code in codes if code is not None and watcher.places.is_user(code)]
        self.places: list[Place] = []
        self._passing: tuple[Any, Place] | None = None  # a weak reference to the tensor returned last, and the place

    @property
    def place(self) -> Place | None:
        """The last recorded line."""
        return self.places[-1] if self.places else None

    def __enter__(self) -> Returns:
        self.before = sys.getprofile()
        self.set = bool(self.codes) and isinstance(getattr(self.before, "__self__", self), Returns)
        if self.set:
            sys.setprofile(self._seen)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.set:
            sys.setprofile(self.before)

    def _seen(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "return" or not self.watcher.places.is_user(code):
            return
        place = self.watcher.places.of_line(code.co_filename, frame.f_lineno, code.co_name)
        if isinstance(argument, self.watcher.engine.Tensor):
            handed_on = self._passing is not None and self._passing[0]() is argument
            if handed_on and self._passing is not None:
                place = self._passing[1]
            self._passing = weakref.ref(argument), place
        if any(code is known for known in self.codes):
            self.places.append(place)


class Firings:
    """Runs hooks and records them."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.trace = watcher.trace
        self.last: int | None = None  # the firing that ended last

    def fire(self, hook: Any, record: HookRecord, args: Any) -> Any:
        """Run a user's hook for the engine, and record the call."""
        watcher = self.watcher
        if not watcher.in_thread:
            return fire(hook, *args, decided=True)
        firing = FiringRecord(
            id=-1, time=self.trace.tick(), hook=record.id,
            backward=watcher.backwards.current, call=watcher.module_calls.current,
        )  # fmt: skip
        values: list[Any] = []
        with watcher.unrecorded:
            firing.id = len(self.trace.firings)
            self.trace.firings.append(firing)
            record.firings.append(firing.id)
            if record.kind == "post-accumulate":
                watcher.backwards.accumulated(args[0])
            values = self._values(record, args)
            self._before(record, firing, values)
        outer, watcher.firing = watcher.firing, firing.id
        try:
            code = code_of(hook)[0] if len(record.firings) <= RETURNS else None
            with watcher.recording_user_code(), Returns(watcher, code) as returns:
                result = fire(hook, *args, decided=True)
        except Exception as error:
            firing.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            watcher.firing = outer
            firing.end = self.trace.tick()
            self.last = firing.id
        with watcher.unrecorded:
            firing.returned = returns.place
            self._after(record, firing, values, args, result)
        return result

    def _values(self, record: HookRecord, args: Any) -> list[Any]:
        """Return the tensors that a hook may replace."""
        value = args[_VALUE[record.kind]]
        if record.kind == "post-accumulate":
            return [] if value.grad is None else [value.grad]
        return list(self.watcher.engine.tensors_in(value))

    def _before(self, record: HookRecord, firing: FiringRecord, values: list[Any]) -> None:
        engine = self.watcher.engine
        firing.before = tuple([engine.peak(value) for value in values])
        firing.before_norms = tuple([engine.norm(value) for value in values])
        firing.shapes = tuple([tuple(value.shape) for value in values])
        firing.given = tuple([self.watcher.see(value, record.place).id for value in values])

    def _after(self, record: HookRecord, firing: FiringRecord, values: list[Any], args: Any, result: Any) -> None:
        engine = self.watcher.engine
        now = self._values(record, args)
        norms = tuple([engine.norm(value) for value in now])
        firing.changed = norms != firing.before_norms and not _both_nan(norms, firing.before_norms)
        going_on = now
        if result is not None:
            given_back = list(engine.tensors_in(result))
            same = len(given_back) == len(now) and all(a is b for a, b in zip(given_back, now))
            firing.answer = "same" if same else "new"
            going_on = given_back
            firing.refused = self._refused(record, values, result, args)
        if result is None and norms == firing.before_norms:
            firing.after, firing.after_norms = firing.before, norms
            return
        firing.after = tuple([engine.peak(value) for value in going_on])
        firing.after_norms = norms if result is None else tuple([engine.norm(value) for value in going_on])

    def _refused(self, record: HookRecord, values: list[Any], result: Any, args: Any) -> str | None:
        """Return why the engine will refuse a hook's result; None if it will not, or if that is not known here."""
        tensor = self.watcher.engine.Tensor
        kind = record.kind
        if kind == "post-accumulate":
            return None if result is args[0] else "a post-accumulate hook must return None"
        if kind == "forward":
            gone = values and not self.watcher.engine.tensors_in(result)
            if gone or (isinstance(args[_VALUE[kind]], tensor) and not isinstance(result, tensor)):
                return f"it replaced the output by {_described(result, tensor)}"
            return None
        if kind == "tensor":
            return _unlike(values[0], result, tensor) if values else None
        if kind in _TUPLES:
            wanted = args[_VALUE[kind]]
            if not isinstance(result, tuple) and not (isinstance(wanted, tuple) and isinstance(result, list)):
                return f"it returned {_described(result, tensor)} where a tuple is expected"
            if len(result) != len(wanted):
                return f"it returned {len(result)} gradients where {len(wanted)} are expected"
            for old, new in zip(wanted, result):
                if old is not None and new is not None and (said := _unlike(old, new, tensor)):
                    return said
        return None


def _described(value: Any, tensor: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, tensor) else f"a {type(value).__name__}"


def _unlike(old: Any, new: Any, tensor: Any) -> str | None:
    """Return how a result differs from the gradient that it should replace; None if it fits."""
    if not isinstance(new, tensor):
        return f"it returned a {type(new).__name__} where a tensor is expected"
    if tuple(new.shape) != tuple(old.shape):
        return f"it returned shape {tuple(new.shape)} where {tuple(old.shape)} is expected"
    if new.dtype != old.dtype:
        return f"it returned {new.dtype} where {old.dtype} is expected"
    return None


def _both_nan(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Whether two tuples of norms are equal, with NaN equal to NaN."""
    return len(left) == len(right) and all(a == b or (a != a and b != b) for a, b in zip(left, right))
