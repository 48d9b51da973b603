"""The cell magic `%%why`, for IPython and notebooks: `%load_ext undertow.why`."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

from undertow.why.integrations.stretch import Stretch
from undertow.why.objects import packages
from undertow.why.show import Findings

_IMPORTS_TORCH = re.compile(r"^\s*(import|from)\s+torch\b", re.MULTILINE)


def load_ipython_extension(shell: Any) -> None:
    """Add the magic to a shell; IPython calls this for `%load_ext undertow.why`."""

    def why(line: str, cell: str) -> Findings:
        """Run a cell, and show what is wrong with its gradients and hooks.

        `%%why found` also binds the findings to a variable.
        """
        if _IMPORTS_TORCH.search(cell) and "torch" not in sys.modules:
            importlib.import_module("torch")  # so that it is the engine to watch
        stretch = Stretch(engine=packages()[-1])
        for model in _models(shell.user_ns, stretch.watcher.engine.Module):
            stretch.models += (model,)
        stretch.begin()
        error: BaseException | None = None
        try:
            error = shell.run_cell(cell).error_in_exec
        finally:
            names = {name: value for name, value in shell.user_ns.items() if not name.startswith("_")}
            findings = stretch.end(names, error)
        if line.strip():
            shell.user_ns[line.strip()] = findings
        return findings

    shell.register_magic_function(why, "cell", "why")


def _models(names: dict[str, Any], module: type) -> list[Any]:
    """Return the models of earlier cells, each once."""
    found = {id(value): value for name, value in names.items() if isinstance(value, module) and name[:1] != "_"}
    return list(found.values())
