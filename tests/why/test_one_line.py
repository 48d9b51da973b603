"""Where a statement, not a line, holds the cause; and how many graphs are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from undertow.why.finding import Finding
from undertow.why.judge import judge
from undertow.why.script import Run

BEGIN = """
import torch
w, data, losses, total, i = torch.ones(2, requires_grad=True), [torch.randn(2) for _ in range(6)], [], 0, 0
"""


def findings(tmp_path: Path, source: str) -> list[Finding]:
    script = tmp_path / "script.py"
    script.write_text(BEGIN + source)
    run = Run(str(script), engine="undertow")
    return judge(run.go())  # while its variables are alive, as on the command line


@pytest.mark.parametrize(
    ("source", "container", "line"),
    [
        ("for x in data: loss = (w * x).sum(); loss.backward(); losses.append(loss)", "losses", 4),
        ("for x in data:\n    loss = (w * x).sum()\n    losses.append(loss)\n    loss.backward()", "losses", 6),
        ("while i < 6: loss = (w * data[i]).sum(); losses.append(loss); i += 1", "losses", 4),
        ("while i < 6: losses.append((w * data[i]).sum()); i += 1", "losses", 4),
        ("while i < 6: i += 1; total += (w * data[i - 1]).sum()", "total", 4),
        ("for x in data: loss = (w * x).sum(); total += loss", "total", 4),
        ("for x in data: loss = (w * x).sum(); loss.backward(); total = total + loss; w.grad = None", "total", 4),
        ("step = lambda x: losses.append((w * x).sum())\nfor x in data: step(x)", "losses", 4),
    ],
)
def test_graphs_kept_by_a_loop_on_one_line(tmp_path: Path, source: str, container: str, line: int) -> None:
    (found,) = findings(tmp_path, source)
    assert (found.code, found.line, found.subject) == ("graph-leak", line, container)
    assert "6 tensors" in found.message or "all 6 rounds" in found.message


@pytest.mark.parametrize(
    "source",
    [
        "for x in data: loss = (w * x).sum(); losses.append(loss.item()); loss.backward()",
        "for x in data: loss = (w * x).sum(); loss.backward(); total += float(loss)",
        "for x in data: losses.append((w * x).sum())\nsum(losses).backward()",
        "for x in data: total += (w * x).sum()\ntotal.backward()",
    ],
)
def test_loops_on_one_line_that_keep_no_graph(tmp_path: Path, source: str) -> None:
    assert findings(tmp_path, source) == []


def test_a_leak_beside_a_gradient_that_is_lost_elsewhere(tmp_path: Path) -> None:
    source = """
aux = torch.ones(2, requires_grad=True)
opt = torch.optim.SGD([w, aux], lr=0.1)
for x in data:
    with torch.no_grad():
        a = (aux * x).sum()
    loss = (w * x).sum() + a
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss
"""
    assert [(found.code, found.line) for found in findings(tmp_path, source)] == [
        ("no-grad-mode", 8),
        ("graph-leak", 14),
    ]
