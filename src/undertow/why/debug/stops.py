"""What a debugged backward pass stops at: a line, a module, a parameter, a hook, NaN, an error, or its start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from linecache import getlines
from typing import Any

from undertow._src.engine.node import AccumulateGrad
from undertow.why.debug.origins import Origins

KINDS = {
    "line": "a node that a line of the forward pass made: `line 12`, `12` or `model.py:12`",
    "module": "the pass enters a module: `module net.encoder`, or just `module encoder`",
    "parameter": "the gradient of a parameter or another leaf is about to be added: `parameter encoder.weight`",
    "hook": "a hook is about to fire: `hook`, or by its name `hook clip`",
    "node": "a kind of node: `node MulBackward0`",
    "nan": "a node has made NaN or Inf of finite gradients",
    "error": "a node or one of its hooks has raised",
    "start": "a backward pass starts",
}
_NEEDS_A_NAME = ("line", "module", "parameter", "node")


class Stop:
    """One condition."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        kind, _, name = self.text.replace(":", " ", 1).partition(" ") if text[:1].isalpha() else ("line", "", text)
        if kind not in KINDS and self.text.rpartition(":")[2].isdigit():
            kind, name = "line", self.text  # model.py:12
        if kind not in KINDS:
            raise ValueError(f"there is no stop {self.text!r}; it may be {', '.join(KINDS)}")
        self.kind, self.name = kind, name.strip()
        if kind in _NEEDS_A_NAME and not self.name:
            raise ValueError(f"{kind!r} needs a name: {KINDS[kind]}")
        self.file, self.line = "", 0
        if kind == "line":
            file, _, number = self.name.rpartition(":")
            if not number.isdigit():
                raise ValueError(f"{self.name!r} is no line: {KINDS[kind]}")
            self.file, self.line = file, int(number)
        self._inside = False  # whether the previous node was inside, too
        self._seen: set[str] = set()  # names of its kind

    def missing(self, origins: Origins) -> str:
        """Return an error if what the stop names was nowhere so far, with names like it; empty if it was there."""
        if self.kind == "line":
            return self._missing_line(origins)
        if self.kind not in ("module", "parameter", "hook", "node") or not self.name:
            return ""
        self._seen |= origins.known.get(self.kind, set())
        if any(_is_called(name, self.name) for name in self._seen):
            return ""
        return f"there is no {self.kind} {self.name!r}{_instead(self.name, self._seen)}"

    def _missing_line(self, origins: Origins) -> str:
        loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        files = {file for file in (origins.places.script, *loaded) if file and origins.places.is_user_file(file)}
        if self.file:
            found = [file for file in files if file.endswith(os.sep + self.file)]
        else:
            found = [file for file in (origins.places.script,) if file]
        if self.file and not found:
            return f"there is no file {self.file!r}{_instead(self.file, {os.path.basename(file) for file in files})}"
        ends = [len(getlines(file)) for file in found]
        if not ends or self.line in range(1, max(ends) + 1):
            return ""
        return f"there is no line {self.line}: {os.path.basename(found[0])} has {max(ends)} lines"

    def begins(self) -> None:
        """Prepare for a new backward pass."""
        self._inside = False

    def reached(self, node: Any, origins: Origins, first: bool) -> bool:
        """Whether to stop before a node runs; for a line and a module, where the pass enters it."""
        if self.kind == "start":
            return first
        if self.kind == "hook":
            names = {hook.name for hook in origins.hooks(node)}
            self._seen |= names
            return self.name in names if self.name else bool(names)
        if self.kind == "node":
            self._seen.add(name := node._node_name().rpartition("::")[2])
            return name == self.name
        if self.kind == "parameter":
            return type(node) is AccumulateGrad and _is_called(origins.name(node.variable), self.name)
        if self.kind not in ("line", "module") or type(node) is AccumulateGrad:  # leaves run in between
            return False
        before, self._inside = self._inside, self._is_there(node, origins)
        return self._inside and not before

    def _is_there(self, node: Any, origins: Origins) -> bool:
        if self.kind == "module":
            return any(_is_called(name, self.name) for name in origins.modules(node))
        return any(
            site.lineno == self.line and (site.filename.endswith(os.sep + self.file) or self._is_main(site, origins))
            for site in origins.stack(node)
        )

    def _is_main(self, site: Any, origins: Origins) -> bool:
        """Whether a line without a file means this one: the script's, or any of the user's files without a script."""
        if self.file:
            return False
        script = origins.places.script
        return site.filename == script if script else origins.places.is_user_file(site.filename)


def _is_called(name: str, asked: str) -> bool:
    """Whether `net.encoder.weight` is meant by `encoder.weight`; `net.layers[0]` also by `layers.0`."""
    name, asked = (text.replace("[", ".").replace("]", "") for text in (name, asked))
    return name == asked or name.endswith("." + asked)


def _instead(asked: str, names: Iterable[str]) -> str:
    """Return `; near are …` with the names that are like the one that was asked for, or `; there are …` with all."""
    parts = asked.count(".") + 1
    tails = {".".join(name.replace("[", ".").replace("]", "").split(".")[-parts:]): name for name in sorted(names)}
    near = [tails[tail] for tail in get_close_matches(asked, tails, 3, 0.5)]
    if near:
        return f"; near are {', '.join(near)}"
    return f"; there are {', '.join(sorted(names)[:8])}{', …' if len(tails) > 8 else ''}" if tails else ""
