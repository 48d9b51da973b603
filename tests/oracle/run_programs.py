"""Run programs that say `import torch` (or `import undertow`) on a library of one's choice; print what each did, as JSON.

    python tests/oracle/run_programs.py undertow tests/seeds/000_doubled_gradient.py …

Meant for a process of its own, because both names in `sys.modules` are made to be that library. A program that imports
nothing finds `torch` all the same: in the documents that the seeds come from, blocks lean on the import of the one before.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import runpy
import sys
import warnings
from typing import Any


def answer_imports(library: str) -> Any:
    """Make `import torch`, `import undertow` and the imports of their parts give the library's modules."""
    module = importlib.import_module(library)
    for name in list(sys.modules):
        if name == library or name.startswith(library + "."):
            for alias in ("torch", "undertow"):
                sys.modules[alias + name[len(library) :]] = sys.modules[name]
    return module


def run(torch: Any, path: str) -> dict[str, Any]:
    """What one program printed, warned of and raised."""
    printed = io.StringIO()
    raised: list[str] | None = None
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            runpy.run_path(path, init_globals={"torch": torch}, run_name="__main__")
        except Exception as error:
            raised = [type(error).__name__, str(error)]
    warned = [[item.category.__name__, str(item.message)] for item in caught]
    return {"printed": printed.getvalue(), "warned": warned, "raised": raised}


def main(library: str, *paths: str) -> None:
    torch = answer_imports(library)
    print(json.dumps({path: run(torch, path) for path in paths}))


if __name__ == "__main__":
    main(*sys.argv[1:])
