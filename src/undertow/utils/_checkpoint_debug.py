"""`checkpoint(debug=True)`: logs the operators of both runs, and lists them side by side if the runs differ."""

from __future__ import annotations

import itertools
from typing import Any

from undertow._src.base.sites import Site, user_stack
from undertow._src.tensor.core import TensorCore
from undertow.utils._dtype_abbrs import dtype_abbrs
from undertow.utils._python_dispatch import TorchDispatchMode
from undertow.utils._pytree import tree_map

_RULE = "-" * 80


class OperatorLog(TorchDispatchMode):
    """Log every operator that runs inside the block, with the lines that led to it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.stacks: list[list[Site]] = []
        self.tensors: list[Any] = []  # kept alive, so that ids are not reused
        self.numbers: dict[int, int] = {}
        self.next = itertools.count()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [str(tree_map(self.named, value)) for value in args]
        given += [f"{name}={tree_map(self.named, value)}" for name, value in (kwargs or {}).items()]
        out = func(*args, **(kwargs or {}))
        if str(func) == "aten.detach.default":  # checkpointing itself detaches the tensors it keeps
            return out
        results = out if isinstance(out, (tuple, list)) else (out,)
        made = ", ".join([self.named(value, described=True) for value in results])
        self.lines.append(f"{made} = torch._ops.{func}({', '.join(given)})")
        self.stacks.append(user_stack())
        return out

    def named(self, value: Any, described: bool = False) -> str:
        """Return `$3` for a tensor; with `described`, `$3: f32[2]`."""
        if not isinstance(value, TensorCore):
            return repr(value)
        if id(value) not in self.numbers:
            self.numbers[id(value)] = next(self.next)
            self.tensors.append(value)
        kind = f": {dtype_abbrs[value.dtype]}{list(value.shape)}" if described else ""
        return f"${self.numbers[id(value)]}{kind}"

    def with_stacks(self, run: str) -> str:
        """Return each operator with the place where it was called."""
        parts = []
        for nr, (line, stack) in enumerate(zip(self.lines, self.stacks, strict=True), 1):
            places = "\n".join([f"{site}: {site.source}" for site in reversed(stack)])
            parts.append(f"{line}   ({nr} of {len(self.lines)} in {run})\n\n{places}\n")
        return "\n".join(parts)


def differing_runs(first: OperatorLog, second: OperatorLog, found: str) -> str:
    """Return the error text: the operators of both runs, where they were called, and what differs."""
    return (
        "An error happened while unpacking tensors. These are the operators of both runs, because debug=True was passed "
        "to checkpoint().\n\n"
        f"1. Where the operators of the original forward were called\n{_RULE}\n{first.with_stacks('original')}\n"
        f"2. Where the operators of the recomputation were called\n{_RULE}\n{second.with_stacks('recompute')}\n"
        f"3. The operators in order\n{_RULE}\n"
        "Operations executed during the original forward:\n\n" + "\n".join(first.lines) + "\n\n"
        "Operations executed during recomputation:\n\n" + "\n".join(second.lines) + "\n\n"
        "ERROR: Detected non-determinism while running activation checkpointing. "
        "The lists above should be equal, as far as the second goes: what the function runs must not depend on anything "
        f"that has changed between its two runs.\n{found}"
    )
