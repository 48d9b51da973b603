"""Long runs: `--steps`, `--sample`, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.why.engines import both
from undertow._src.base.modes import slow_path
from undertow.why.watch.watcher import EnoughSteps, Watcher

engines = pytest.mark.parametrize("engine", ["undertow", "torch"])

PROGRAM = """import sys
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
net.spare = nn.Linear(2, 2) if "spare" in sys.argv else None
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    features = net[:2](torch.randn(16, 4))
    if "cut" in sys.argv:
        features = features.detach()
    loss = net[2](features).pow(2).mean()
    if "nan" in sys.argv and step > 6:
        loss = loss * float("nan")
    try:
        loss.backward()
        optimizer.step()
    except Exception:
        print("caught")
    print("step", step, flush=True)
"""


def command(engine: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "undertow", "why", "--engine", engine, *options]


def why(folder: Path, engine: str, *options: str) -> tuple[int, str, str]:
    (folder / "script.py").write_text(PROGRAM)
    ran = subprocess.run(command(engine, *options), cwd=folder, capture_output=True, text=True, check=False)
    assert "watcher itself failed" not in ran.stderr
    return ran.returncode, ran.stdout, ran.stderr


@engines
def test_steps_end_the_program(tmp_path: Path, engine: str) -> None:
    status, said, told = why(tmp_path, engine, "--steps", "3", "script.py", "100", "cut")
    assert status == 1 and said.startswith("step 0\nstep 1\ndetached  net[0].weight") and "1 finding" in said
    assert told == "undertow: the program was ended after step 3 (--steps)\n"
    status, said, told = why(tmp_path, engine, "--steps", "3", "script.py", "100")
    assert status == 0 and "No finding in the first" in said


@engines
def test_a_parameter_that_no_watched_step_uses(tmp_path: Path, engine: str) -> None:
    status, said, _ = why(tmp_path, engine, "--steps", "3", "script.py", "100", "spare")
    assert status == 1 and "unused  net.spare.weight" in said and "no operation of the watched steps uses it" in said
    status, said, _ = why(tmp_path, engine, "--steps", "1", "script.py", "100", "spare")
    assert status == 0  # it may be used in the second step


@engines
def test_sampling_watches_the_first_steps_and_then_for_nan(tmp_path: Path, engine: str) -> None:
    status, said, told = why(tmp_path, engine, "--sample", "3", "script.py", "10", "cut")
    assert status == 1 and "step 9\ndetached  net[0].weight" in said and told == ""
    status, said, told = why(tmp_path, engine, "--sample", "3", "script.py", "10")
    assert status == 0 and said.endswith(
        "No finding in 3 steps; in 7 more, gradients were looked at for NaN and Inf only.\n"
    )


@both
@pytest.mark.parametrize("options", [{"sample": 2}, {"limit": 5}])
def test_steps_end_a_program_that_is_no_longer_watched_in_full(torch: Any, options: dict[str, int]) -> None:
    done = 0
    with pytest.raises(EnoughSteps), Watcher(torch, steps=4, **options):
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        while done < 10:
            (w * 2).sum().backward()
            done += 1
            optimizer.step()
    assert done == 4


@both
def test_sampling_notes_a_gradient_that_becomes_nan(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from undertow.why.judge import judge
    from undertow.why.watch import later

    monkeypatch.setattr(later, "_SHARE", 1e9)  # look at every step, however slow the machine is
    with Watcher(torch, sample=2) as watcher:
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        for step in range(6):
            optimizer.zero_grad()
            (w * (float("nan") if step == 4 else 1.0)).sum().backward()
            optimizer.step()
        watcher.names.globals({"w": w})
    (note,) = judge(watcher.trace)
    assert note.is_note and (note.code, note.subject) == ("nan-born", "w") and "at step 5" in note.message


@both
def test_sampling_takes_the_mode_off(torch: Any) -> None:
    before = slow_path.count
    seen = []
    with Watcher(torch, sample=1) as watcher:
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        for _ in range(3):
            (w * 2).sum().backward()
            optimizer.step()
            seen.append((len(watcher.trace.ops), slow_path.count, torch.overrides._get_current_function_mode()))
    operations = seen[0][0]
    assert seen == [(operations, before, None)] * 3 and slow_path.count == before
    assert not watcher.trace.problems


@both
def test_sampling_inside_a_mode_of_the_program(torch: Any) -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    with Watcher(torch, sample=1) as watcher:
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        with Mode() as mode:
            for _ in range(2):
                (w * 2).sum().backward()
                optimizer.step()
                assert torch.overrides._get_current_function_mode() is mode
    assert torch.overrides._get_current_function_mode() is None and not watcher.trace.problems


@both
def test_enough_steps_pass_the_handlers_of_the_program(torch: Any) -> None:
    with pytest.raises(EnoughSteps), Watcher(torch, steps=2) as watcher:
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        while True:
            try:
                (w * 2).sum().backward()
                optimizer.step()
            except Exception:
                raise AssertionError("it is no Exception") from None
    assert not watcher.trace.complete and len(watcher.trace.backwards) == 2


@engines
def test_ctrl_c_reports_what_was_seen(tmp_path: Path, engine: str) -> None:
    (tmp_path / "script.py").write_text(PROGRAM)
    with subprocess.Popen(
        command(engine, "script.py", "1000000", "cut", "spare"), cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while process.stdout.readline() != "step 3\n":
            pass
        process.send_signal(signal.SIGINT)
        said, told = process.communicate(timeout=120)
    assert process.returncode == 1 and told.endswith("operations (Ctrl-C)\n")
    assert "detached  net[0].weight" in said and "unused  net.spare.weight" in said


@both
def test_no_python_code_runs_when_a_watched_tensor_is_freed(torch: Any) -> None:
    # Python drops what is raised there, so that a Ctrl-C would be lost.
    called = []
    with Watcher(torch) as watcher:
        value = torch.ones(2) * 2
        record = watcher.trace.tensors[-1]
        sys.setprofile(lambda frame, event, _: called.append((event, frame.f_code.co_name)))
        del value
        sys.setprofile(None)
        assert {event for event, _ in called} <= {"c_call", "c_return"}
        now = watcher.trace.time
        torch.ones(2) * 3
    assert record.died == now


def test_an_abbreviated_option_is_no_program(tmp_path: Path) -> None:
    status, _, told = why(tmp_path, "undertow", "--step", "2", "script.py")
    assert status == 2 and "there is no option --step; is --steps meant?" in told


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_steps_are_at_least_one(tmp_path: Path, number: str) -> None:
    status, _, told = why(tmp_path, "undertow", f"--steps={number}", "script.py")
    assert status == 2 and "is not a number of steps: say 1 or more" in told
