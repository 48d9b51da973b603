"""`why.ledger`: what each hook did to each gradient, in the order in which they ran."""

from __future__ import annotations

from typing import Any

from undertow._src.base.hooks import fire
from undertow._src.base.modes import slow_path
from undertow.why.hook_list import HookEntry, hooks, of_everything
from undertow.why.objects import name_of, norm, packages, version_of
from undertow.why.places import Place
from undertow.why.registrations import Registration, StandIn, listen, unlisten
from undertow.why.report import Report, Table

# kind -> which argument of the hook holds the gradients that it may replace
_GRADIENT = {
    "tensor": 0, "post-accumulate": 0, "multi-grad": 0, "node": 0, "node-pre": 0,
    "full-backward": 1, "full-backward-pre": 1, "backward": 1,
}  # fmt: skip


class Firing:
    """One time that a hook ran.

    before, after: norms of the gradients that it got and of those that went on; changed: whether it replaced or wrote
    them; error: what it raised.
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
    """What a firing repeats of its hook."""

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


class _Entered(StandIn):
    """A hook whose calls are entered while the ledger is open."""

    def __init__(self, hook: Any, source: _Source, book: ledger) -> None:
        super().__init__(hook)
        self._source = source
        self._book = book

    def __call__(self, *args: Any) -> Any:
        if not self._book.open:  # wired into a graph that outlived the block
            return fire(self.__wrapped__, *args, decided=True)
        return self._book.enter(self.__wrapped__, self._source, args)


class ledger(Report):
    """Inside the block every backward hook's work is entered: norm before and after, in order.

    Hooks registered inside the block are known; those from before are if they hang on what is given here (modules with
    all that is in them, tensors and, on undertow, the graph behind them) or on every module.

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
            raise RuntimeError("this ledger is open already; make another one for a block inside it")
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
        for found, key, stand_in in self._wrapped:
            if found.get(key) is stand_in:
                found[key] = stand_in.__wrapped__
        self._wrapped.clear()
        self._added.clear()

    # --- registrations

    def seen(self, registration: Registration) -> None:
        self._added.append(registration)
        if registration.kind.removeprefix("global ") in _GRADIENT:
            registration.fired = registration.fired or 0

    def settle(self) -> None:
        """Put stand-ins where hooks were added since."""
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
        stand_in = _Entered(hook, source, self)
        found[key] = stand_in
        self._wrapped.append((found, key, stand_in))

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
    """Hooks on every module, of each engine that this process uses."""
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
