"""What a debugged backward pass stops at: a line, a module, a parameter, a hook, NaN, an error, or its start."""

from __future__ import annotations

import os
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

    def begins(self) -> None:
        """Prepare for a new backward pass."""
        self._inside = False

    def reached(self, node: Any, origins: Origins, first: bool) -> bool:
        """Whether to stop before a node runs; for a line and a module, where the pass enters it."""
        if self.kind == "start":
            return first
        if self.kind == "hook":
            return any(self.name in ("", hook.name) for hook in origins.hooks(node))
        if self.kind == "node":
            return node._node_name().rpartition("::")[2] == self.name
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
