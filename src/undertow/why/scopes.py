"""`why.scope`: remove all hooks that are added inside the block at its end."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from undertow._src.base.hooks import fire
from undertow.why.objects import defined_at, name_of
from undertow.why.registrations import HookWrapper, Registration, listen, unlisten
from undertow.why.report import Report, Table

# A module call wires these into its graph, where removal does not reach them: they must be switched off.
_WIRED_IN_FORWARD = ("full-backward", "full-backward-pre", "backward")


class _WhileOpen(HookWrapper):
    """A hook that does nothing once its scope has ended."""

    def __init__(self, hook: Any, scope: scope) -> None:
        super().__init__(hook)
        self.scope = scope

    def __call__(self, *args: Any) -> Any:
        return fire(self.__wrapped__, *args, decided=True) if self.scope.open else None


class scope(Report):
    """Remove, at the end of the block, every hook that was added inside it, also if the block raises.

    This covers hooks on tensors, nodes, modules and optimizers, and global hooks. Afterwards the scope is a report of
    the removed hooks.

    >>> from undertow import why
    >>> layer = torch.nn.Linear(2, 2)
    >>> with why.scope() as scope:
    ...     handle = layer.register_forward_hook(lambda *_: print("called"))
    ...     _ = layer(torch.zeros(2))
    called
    >>> _ = layer(torch.zeros(2))
    >>> len(scope.removed)
    1
    """

    def __init__(self) -> None:
        self.open = False
        self.removed: list[dict[str, Any]] = []
        self._added: list[Registration] = []
        self._kinds: dict[int, tuple[Any, Any]] = {}  # modules whose kind of backward hook was chosen inside

    def __enter__(self) -> scope:
        if self.open:
            raise RuntimeError("this scope is already open; use a new one for the inner block")
        self.open = True
        listen(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unlisten(self)
        self.open = False
        for registration in self._added:
            hook = registration.hook()
            if hook is None:  # removed by the user, or its owner was freed
                continue
            self.removed.append({
                "kind": registration.kind, "owner": registration.owner_text(), "hook": name_of(hook),
                "defined": defined_at(hook), "registered": registration.place,
            })  # fmt: skip
            registration.handle.remove()
        for module, before in self._kinds.values():
            if not module._backward_hooks:
                module._is_full_backward_hook = before
        self._added.clear()
        self._kinds.clear()

    def seen(self, registration: Registration) -> None:
        self._added.append(registration)
        module = registration.owner()
        if registration.kind in _WIRED_IN_FORWARD and module is not None:
            before = module._is_full_backward_hook if module._backward_hooks else None
            self._kinds.setdefault(id(module), (module, before))

    def settle(self) -> None:
        """Wrap the hooks that a module call reads, so that they stop when the scope ends."""
        for registration in self._added:
            if registration.kind.removeprefix("global ") in _WIRED_IN_FORWARD:
                hook = registration.hook()
                if hook is not None and type(hook) is not _WhileOpen:
                    registration.replace(_WhileOpen(hook, self))

    def title(self) -> str:
        if self.open:
            return f"an open scope with {len(self._added)} registrations"
        return f"{len(self.removed)} hook{'' if len(self.removed) == 1 else 's'} removed"

    def tables(self) -> list[Table]:
        columns = ("kind", "owner", "hook", "defined", "registered")
        rows = [tuple(row.values()) for row in self.removed]
        return [Table(columns, rows)] if rows else []
