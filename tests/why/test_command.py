"""`undertow why` where there is little to say: programs that do not start, or of which not all was seen."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from undertow.cli import main
from undertow.cli.why import split

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


TWO_MISTAKES = """
import torch
from torch import nn

net = nn.Linear(2, 2)
net.register_forward_hook(print)
w = torch.ones(2, requires_grad=True)
v = torch.ones(2, requires_grad=True)
loss = (w.detach() * v).sum()
loss.backward()
print(w.grad)
"""


def test_findings_come_in_the_order_of_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(tmp_path, TWO_MISTAKES, "--json") == 1
    said = capsys.readouterr().out
    findings = json.loads(said[said.index("[\n") :])
    assert [(finding["code"], finding["line"]) for finding in findings] == [("module-not-called", 6), ("detached", 9)]


TWICE = """
import torch

def twice(w):
    loss = (w * w).sum()
    loss.backward()
    loss.backward()

twice(torch.ones(2, requires_grad=True))
"""


def test_a_traceback_shows_the_program_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(tmp_path, TWICE) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):\n") and "a second time" in said
    frames = [line for line in said.splitlines() if line.startswith("  File ")]
    assert len(frames) == 2 and all(str(tmp_path) in frame for frame in frames)


def test_what_was_seen_before_ctrl_c_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(tmp_path, f"{BROKEN}\nprint(w.grad)\nraise KeyboardInterrupt\n") == 1
    said = capsys.readouterr()
    assert "1 finding" in said.out and said.err.endswith("operations (Ctrl-C)\n")


CRASHED = """
import torch

w = torch.ones(2, requires_grad=True)
out = w * 2
out.register_hook(print)
{}["losses"].append(out.sum().item())
"""


def test_a_hook_is_not_accused_before_there_was_a_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(tmp_path, CRASHED) == 1
    assert capsys.readouterr().out == "No finding in what ran before the program raised.\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that trains when it is run by its name; its model is in a second file."""
    folder = tmp_path / "trained_by_name"
    folder.mkdir()
    (folder / "__init__.py").write_text("import torch\n")
    (folder / "model.py").write_text("import torch\n\nw = torch.ones(2, requires_grad=True)\n")
    (folder / "train.py").write_text(
        "import sys\nfrom .model import w\nloss = (w.data * 2).sum().requires_grad_()\nloss.backward()\n"
        "print(w.grad, __name__, sys.argv[1:])\n"
    )
    (folder / "__main__.py").write_text("from . import train\n")
    monkeypatch.chdir(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "name, ran_as", [("trained_by_name.train", "__main__"), ("trained_by_name", "trained_by_name.train")]
)
def test_a_module_by_its_name(package: Path, capsys: pytest.CaptureFixture[str], name: str, ran_as: str) -> None:
    assert main(["why", "--engine", "undertow", "-m", name, "--lr", "3", "--json"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"None {ran_as} ['--lr', '3']\n")
    (finding,) = json.loads(said[said.index("[\n") :])
    assert (finding["code"], finding["line"], finding["subject"]) == ("detached", 3, "w")
    assert finding["file"] == str(package / "train.py")


@pytest.mark.parametrize("name", ["no_such_program", "trained_by_name.nothing", "no_such.program"])
def test_a_module_that_is_not_there(package: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["why", "--engine", "undertow", "-m", name]) == 1
    assert capsys.readouterr().err == f"undertow: No module named {name}\n"


def test_no_program_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["why", "--engine", "undertow"])
    assert "say which program to run" in capsys.readouterr().err


def test_a_misspelt_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["why", "--enigne", "torch", "train.py"])
    said = capsys.readouterr().err
    assert said.startswith("usage: undertow why") and "no option --enigne; is --engine meant?" in said


def test_a_warning_names_the_line_of_the_program(tmp_path: Path) -> None:
    program = (
        "import warnings, torch\nwarnings.simplefilter('always')\ny = torch.ones(2, requires_grad=True) * 2\ny.grad\n"
    )
    with pytest.warns(UserWarning, match="not a leaf") as told:
        why(tmp_path, program)
    assert [(Path(one.filename).name, one.lineno) for one in told] == [("script.py", 4)]


def test_a_json_file_is_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "found.json").write_text("[]")
    assert main(["why", "--engine", "undertow", str(tmp_path / "found.json")]) == 2
    assert "is no program; to write the findings there: --json=" in capsys.readouterr().err
    assert why(tmp_path, BROKEN, f"--json={tmp_path / 'nowhere' / 'found.json'}") == 2
    assert "there is no folder for" in capsys.readouterr().err


def test_findings_go_to_a_json_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name may follow the option as a word of its own, and is meant where the program starts."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "script.py").write_text(f"{BROKEN}\nprint(w.grad)\nimport os\nos.chdir('elsewhere')\n")
    monkeypatch.chdir(tmp_path)
    assert main(["why", "--engine", "undertow", "--json", "found.json", "script.py"]) == 1
    monkeypatch.chdir(tmp_path)
    assert [finding["code"] for finding in json.loads((tmp_path / "found.json").read_text())] == ["detached"]


@pytest.mark.parametrize(
    ("typed", "ours", "theirs"),
    [
        ("--json script.py --lr 3", "--json=- script.py", "--lr 3"),
        ("--json=f script.py", "--json=f script.py", ""),
        ("--json f.json script.py -x", "--json=f.json script.py", "-x"),
        ("script.py --json f.json -x --engine torch y", "script.py --json=f.json --engine torch", "-x y"),
        ("script.py x -- --json", "script.py", "x --json"),
        ("has_json.py --json f.json --limit 5", "has_json.py --limit 5", "--json f.json"),
        ("--json has_json.py --json", "--json=- has_json.py", "--json"),
        ("imports.py --json=3 --html a.html", "imports.py --html a.html", "--json=3"),
        ("-m has_json --json", "-m has_json", "--json"),
        ("-m package.part --html x --json", "-m package.part --json=-", "--html x"),
        ("fired.py --limit=5 --json", "fired.py --json=-", "--limit=5"),
        ("typed.py --engine v8 --limit 5", "typed.py --limit 5", "--engine v8"),
        ("plain.py --limit 5", "plain.py --limit 5", ""),
    ],
)
def test_whose_options_are_whose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, ours: str, theirs: str
) -> None:
    """Behind the program's name an option belongs to the program if it has one of that name."""
    (tmp_path / "package").mkdir()
    (tmp_path / "has_json.py").write_text("parser.add_argument('--json', '-j')")
    (tmp_path / "imports.py").write_text("from has_json import parser")
    (tmp_path / "package" / "part.py").write_text('"--html"')
    (tmp_path / "fired.py").write_text("import fire\ndef main(limit=3): pass\nfire.Fire(main)")
    (tmp_path / "typed.py").write_text("import tyro\nclass Config:\n    engine: str = 'v6'\ntyro.cli(Config)")
    (tmp_path / "plain.py").write_text("def main(limit=3): pass\nmain()")
    monkeypatch.chdir(tmp_path)
    assert split(typed.split()) == (ours.split(), theirs.split())


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    """`undertow why script.py | head -1`."""
    (tmp_path / "script.py").write_text(f"{BROKEN}print(w.grad)\n")
    command = [sys.executable, "-u", "-m", "undertow", "why", "--engine", "undertow", "script.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"None\n"
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 1


COMPILED = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
spare = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD([*net.parameters(), *spare.parameters()], lr=0.1)

@torch.compile
def step(x):
    optimizer.zero_grad()
    loss = (net(x).sum() + spare(x).detach().sum()) ** 2
    loss.backward()
    optimizer.step()
    return loss

for _ in range(2):
    step(torch.ones(3, 2))
torch.compile(net)(torch.ones(3, 2)).sum().backward()
"""


@pytest.mark.parametrize("engine", ["undertow", "torch"])
def test_what_is_compiled_is_watched_as_it_was_written(engine: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(COMPILED)
    command = [sys.executable, "-m", "undertow", "why", str(script), "--engine", engine]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "script.py:11" in said.stdout, said.stdout + said.stderr
    assert "detached" in said.stdout and "Traceback" not in said.stderr


def test_a_note_leaves_the_exit_status_at_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = (
        "import torch\n"
        "logits = torch.randn(2, 3, requires_grad=True)\n"
        "probs = logits.softmax(1)\n"
        "torch.nn.functional.cross_entropy(probs, torch.tensor([0, 1])).backward()\n"
    )
    assert why(tmp_path, source, "--json") == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["kind"], said["code"], said["line"], said["subject"]) == (
        "note",
        "probabilities-as-logits",
        3,
        "probs",
    )


def test_a_number_of_steps_that_is_none_is_refused_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--steps", "--sample"):
        with pytest.raises(SystemExit):
            main(["why", option, "0", "script.py"])
        assert f"argument {option}: '0' is not a number of steps: say 1 or more" in capsys.readouterr().err
