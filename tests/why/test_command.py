"""`undertow why` where there is little to say: programs that do not start, or of which not all was seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from undertow.cli import main

BROKEN = """
import torch
w, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
loss = (w.detach() * v).sum()
loss.backward()
"""


def why(tmp_path: Path, source: str, *options: str) -> int:
    script = tmp_path / "script.py"
    script.write_text(source)
    return main(["why", str(script), "--engine", "undertow", *options])


def test_what_was_not_watched_is_not_called_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(tmp_path, BROKEN, "--limit", "1") == 0
    assert capsys.readouterr().out.startswith("No finding in the first 1 operations")


def test_a_program_without_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(tmp_path, "print('hello')\n") == 0
    assert capsys.readouterr().out == "hello\nNo finding: the program computed nothing with tensors.\n"


def test_a_syntax_error_is_shown_as_python_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(tmp_path, "x = (\n") == 1
    said = capsys.readouterr().err
    assert "SyntaxError: '(' was never closed" in said and "undertow" not in said
