"""`why.ledger`: record what each backward hook did to each gradient, in the order of the calls."""

from __future__ import annotations

from typing import Any

from undertow._src.base.hooks import fire
from undertow._src.base.modes import slow_path
from undertow.why.hook_list import HookEntry, hooks, of_everything
from undertow.why.objects import name_of, norm, packages, version_of
from undertow.why.places import Place
from undertow.why.registrations import HookWrapper, Registration, listen, unlisten
from undertow.why.report import Report, Table

# kind -> the position of the hook's argument with the gradients that it may replace
_GRADIENT = {
    "tensor": 0, "post-accumulate": 0, "multi-grad": 0, "node": 0, "node-pre": 0,
    "full-backward": 1, "full-backward-pre": 1, "backward": 1,
}  # fmt: skip


class Firing:
    """One call of a hook.

    before, after: norms of the gradients that the hook got and of those passed on after it; changed: whether it
    replaced them or wrote into them; error: the exception that it raised.
    """

    __slots__ = ("after", "before", "changed", "error", "hook", "kind", "order", "owner", "registered", "target")

    def __init__(self, order: int, entry: _Source, before: float | None) -> None:
        self.order = order
        self.kind = entry.kind
        self.owner = entry.owner
        self.target: int = entry.target
        self.hook = entry.name
        self.registered = entry.registered
        self.before = before
        self.after: float | None = before
        self.changed = False
        self.error: str | None = None


class _Source:
    """The facts about a hook that each of its firings repeats."""

    __slots__ = ("kind", "name", "owner", "registered", "registration", "target")

    def __init__(
        self, kind: str, owner: str, target: Any, hook: Any, registered: Place | None, registration: Registration | None
    ) -> None:
        self.kind = kind
        self.owner = owner
        self.target = id(target)
        self.name = name_of(hook)
        self.registered = registered
        self.registration = registration


class _Entered(HookWrapper):
    """A hook whose calls are recorded while the ledger is open."""

    def __init__(self, hook: Any, source: _Source, book: ledger) -> None:
        super().__init__(hook)
        self._source = source
        self._book = book

    def __call__(self, *args: Any) -> Any:
        if not self._book.open:  # called from a graph that outlived the block
            return fire(self.__wrapped__, *args, decided=True)
        return self._book.enter(self.__wrapped__, self._source, args)


class ledger(Report):
    """Record every call of a backward hook inside the block, in order, with the gradient's norm before and after.

    Hooks registered inside the block are recorded. Hooks from before are recorded if they are global, or on the
    subjects: modules with everything inside them, tensors and, on undertow, their graphs.

    >>> from undertow import why
    >>> x = torch.ones(4, requires_grad=True)
    >>> with why.ledger() as ledger:
    ...     handle = x.register_hook(lambda grad: grad / 2)
    ...     x.sum().backward()
    >>> [(entry.before, entry.after) for entry in ledger.entries]
    [(2.0, 1.0)]
    """

    def __init__(self, *subjects: Any) -> None:
        self.entries: list[Firing] = []
        self.open = False
        self._subjects = subjects
        self._names: dict[int, str] = {}
        self._added: list[Registration] = []
        self._wrapped: list[tuple[Any, int, _Entered]] = []

    def __enter__(self) -> ledger:
        if self.open:
            raise RuntimeError("this ledger is already open; use a new one for the inner block")
        for subject in self._subjects:
            if hasattr(subject, "named_modules"):
                parts = [*subject.named_modules(), *subject.named_parameters(), *subject.named_buffers()]
                self._names.update((id(part), name or f"({type(part).__name__})") for name, part in parts)
        for entry in [*hooks(*self._subjects), *everywhere()]:
            self._take_old(entry)
        self.open = True
        slow_path.as_written += 1
        listen(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        self.settle()
        unlisten(self)
        slow_path.as_written -= 1
        self.open = False
        for found, key, wrapper in self._wrapped:
            if found.get(key) is wrapper:
                found[key] = wrapper.__wrapped__
        self._wrapped.clear()
        self._added.clear()

    # --- registrations

    def seen(self, registration: Registration) -> None:
        self._added.append(registration)
        if registration.kind.removeprefix("global ") in _GRADIENT:
            registration.fired = registration.fired or 0

    def settle(self) -> None:
        """Wrap the hooks that were registered since the last call."""
        for registration in self._added:
            hook, found = registration.hook(), registration.handle.hooks_dict_ref()
            if hook is None or registration.kind.removeprefix("global ") not in _GRADIENT:
                continue
            owner = registration.owner()
            name = self._names.get(id(owner)) or registration.owner_text()
            counted = None if _is_counted(hook) else registration
            source = _Source(registration.kind, name, owner, hook, registration.place, counted)
            self._put(found, registration.handle.id, hook, source)
        self._added.clear()

    def _take_old(self, entry: HookEntry) -> None:
        hook = entry.hook
        if hook is not None and entry.kind.removeprefix("global ") in _GRADIENT:
            source = _Source(entry.kind, entry.owner, entry._target, hook, entry.registered, None)
            self._put(entry.map, entry.key, hook, source)

    def _put(self, found: Any, key: int, hook: Any, source: _Source) -> None:
        wrapper = _Entered(hook, source, self)
        found[key] = wrapper
        self._wrapped.append((found, key, wrapper))

    # --- firing

    def enter(self, hook: Any, source: _Source, args: Any) -> Any:
        """Run a hook and record what it did."""
        kind = source.kind.removeprefix("global ")
        given = _gradients(kind, args)
        versions = [version_of(value) for value in given]
        firing = Firing(len(self.entries) + 1, source, norm(*given))
        self.entries.append(firing)
        if source.registration is not None:
            source.registration.fired = (source.registration.fired or 0) + 1
        try:
            answer = fire(hook, *args, decided=True)
        except BaseException as error:
            firing.error = f"{type(error).__name__}: {error}"
            raise
        if kind == "post-accumulate":
            going_on = _gradients(kind, args)
        elif answer is None or kind == "multi-grad":
            going_on = given
        else:
            going_on = _tensors(answer)
        firing.after = norm(*going_on)
        replaced = len(going_on) != len(given) or any(new is not old for new, old in zip(going_on, given))
        firing.changed = replaced or versions != [version_of(value) for value in given]
        return answer

    # --- report

    def title(self) -> str:
        changed = sum(firing.changed for firing in self.entries)
        return f"{len(self.entries)} hook call{'' if len(self.entries) == 1 else 's'}, {changed} changed a gradient"

    def tables(self) -> list[Table]:
        columns = ("order", "kind", "owner", "hook", "before", "after", "changed", "registered")
        rows: list[tuple[Any, ...]] = [
            (f.order, f.kind, f.owner, f.hook, f.before, f.after, f.error or f.changed, f.registered)
            for f in self.entries
        ]
        return [Table(columns, rows)] if rows else []


def everywhere() -> list[HookEntry]:
    """Return the global hooks of modules, of each engine that this process uses."""
    return [entry for package in packages() for entry in of_everything(package)]


def _is_counted(hook: Any) -> bool:
    """Whether another open ledger counts the calls of this hook."""
    while hook is not None:
        if type(hook) is _Entered:
            return True
        hook = getattr(hook, "__dict__", {}).get("__wrapped__")
    return False


def _gradients(kind: str, args: Any) -> list[Any]:
    value = args[_GRADIENT[kind]]
    if kind == "post-accumulate":
        value = value.grad
    return _tensors(value)


def _tensors(value: Any) -> list[Any]:
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return [part for part in parts if hasattr(part, "grad_fn")]
