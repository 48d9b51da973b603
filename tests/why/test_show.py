"""How findings are shown to people."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from undertow.why.finding import Finding, fact, note
from undertow.why.places import Place
from undertow.why.report import WIDEST, Report, Table
from undertow.why.show import Findings, show, text


def finding(tmp_path: Path) -> Finding:
    script = tmp_path / "train.py"
    script.write_text("w = make()\nh = w.detach()\nloss = h.sum()\n")
    place = lambda line: Place(str(script), line, "<module>", (None, None, None), None)
    evidence = [fact("w is a leaf", place(1)), fact("detach cuts the way to the loss", place(2)), fact("no grad came")]
    return Finding("detached", place(2), "w", "w was detached.", evidence, "h = w\n# without detach()")


def test_the_line_the_facts_and_the_cure(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert text([finding(tmp_path)]).splitlines() == [
        "detached  w",
        "  train.py:2",
        "    1 │ w = make()",
        "  → 2 │ h = w.detach()",
        "    3 │ loss = h.sum()",
        "  w was detached.",
        "  how it is known",
        "    1. w is a leaf  line 1",
        "    2. detach cuts the way to the loss  line 2",
        "    3. no grad came",
        "  write instead",
        "    h = w",
        "    # without detach()",
        "",
        "1 finding",
    ]


def test_other_subjects_and_unknown_places(tmp_path: Path) -> None:
    nowhere = Finding("unused", None, "a", "never used.", [], "")
    nowhere.subjects += list("bcdefg")
    assert text([nowhere]) == "unused  a\n  and so for b, c, d, e and 2 more\n  never used.\n\n1 finding"


def test_showing_writes_to_a_file(tmp_path: Path) -> None:
    out = io.StringIO()
    show([finding(tmp_path)], file=out)
    assert "→ 2 │ h = w.detach()" in out.getvalue()
    out = io.StringIO()
    show([], file=out)
    assert out.getvalue().startswith("Nothing is wrong")


def test_findings_are_a_report(tmp_path: Path) -> None:
    report = Findings([finding(tmp_path)])
    assert report.data()["findings"][0]["code"] == "detached"
    assert "<td>detached</td>" in report._repr_html_()
    assert len(report) == 1 and [one.code for one in report] == ["detached"]


def test_long_cells_of_a_table_are_wrapped_not_cut() -> None:
    class Long(Report):
        def title(self) -> str:
            return "long"

        def tables(self) -> list[Table]:
            return [Table(("what", "count"), [(" ".join(map(str, range(60))), 7), ("short", 8)])]

    head, *lines = str(Long()).splitlines()[1:]
    assert [line.split()[-1] for line in (head, lines[0], lines[-1])] == ["count", "7", "8"]
    assert [int(word) for line in lines for word in line[:WIDEST].split() if word.isdigit()][:60] == list(range(60))


def test_lines_fit_the_width(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text("result = " + " + ".join(f"value_{number}" for number in range(40)) + "\n")
    place = Place(str(script), 1, "<module>", (None, None, None), None)
    words = "a sentence that goes on for longer than any terminal is wide, and then some more, " * 2
    long = Finding("unused", place, "net.a", words, [fact(words, place), fact("short", place)], f"{words}\nx = 1")
    long.subjects += [f"net.layers[{number}].weight" for number in range(9)]
    short_name = lambda line: "long.py" not in line  # a path is not broken
    for width in (60, 80, 100):
        shown = [line for line in text([long], width).splitlines() if short_name(line)]
        assert max(map(len, shown)) <= width
    assert "    x = 1" in text([long], 60).splitlines()


def test_a_note_is_marked_and_counted_apart(tmp_path: Path) -> None:
    soft = note("probabilities-as-logits", None, "probs", "twice.", [], "")
    assert text([soft]) == "note: probabilities-as-logits  probs\n  twice.\n\n1 note"
    assert text([finding(tmp_path), soft]).endswith("\n1 finding, 1 note")
    assert soft.as_data()["kind"] == "note" and finding(tmp_path).as_data()["kind"] == "finding"
    assert repr(soft) == "Note('probabilities-as-logits', line None, 'probs')"
    assert Findings([soft, soft]).title() == "2 notes" and Findings([]).title() == "no findings"
