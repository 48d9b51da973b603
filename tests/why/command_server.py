"""Runs `undertow why` in forks of one process for each engine, so that the engine is imported once: see case_server.py."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.why.case_server import Server, serve
from undertow.cli import main

_servers = cache(lambda engine: Server(engine, "tests.why.command_server"))


def why(folder: Path, engine: str, *words: str) -> dict[str, Any]:
    """Run a command line in a folder: {"status": the exit status, "printed": …, "errors": what went to stderr}."""
    return _servers(engine).run(json.dumps([str(folder), *words]))


def _answer(request: str, engine: str) -> dict[str, Any]:
    folder, *words = json.loads(request)
    os.chdir(folder)
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as errors:
        status = main(["why", "--engine", engine, *words])
    return {"status": status, "printed": printed.getvalue(), "errors": errors.getvalue()}


if __name__ == "__main__":
    serve(sys.argv[1], _answer)
