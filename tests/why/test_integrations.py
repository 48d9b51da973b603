"""`why` in pytest, in training frameworks and in notebooks.

pytest is the real one. The frameworks are drivers that call a callback's methods in the order of the real ones; those are
tried by `python tests/why/real_packages.py` (`make test-packages`), with the same models and the same answers.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import undertow
from tests.why.engines import both, line_here
from undertow import why
from undertow.pretend import pretend_torch

ROOT = Path(__file__).parents[2]

# --- callbacks


def network(torch: Any, broken: bool) -> Any:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.Linear(4, 4)
            self.head = torch.nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            features = self.encoder(x).relu()
            if broken:
                features = features.detach()
            return self.head(features)

    torch.manual_seed(0)
    return Net()


CUT = line_here() - 7


def lightning_fit(torch: Any, model: Any, callback: Any, raises: Exception | None = None) -> None:
    """Call what `lightning.Trainer.fit` calls, in its order; a step runs forward and backward in a closure."""
    callback.setup(None, model, "fit")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        for batch in range(4):

            def closure() -> Any:
                loss = model(torch.ones(2, 4)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                return loss

            optimizer.step(closure=closure)
            if raises is not None:
                raise raises
            callback.on_train_batch_end(None, model, None, None, batch)
        callback.on_train_end(None, model)
    except Exception as error:
        callback.on_exception(None, model, error)


def transformers_train(torch: Any, model: Any, callback: Any) -> None:
    """Call what `transformers.Trainer.train` calls, in its order."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    callback.on_train_begin(None, None, None, model=model, optimizer=optimizer)
    for _ in range(4):
        model(torch.ones(2, 4)).pow(2).mean().backward()
        optimizer.step()
        model.zero_grad()
        callback.on_step_end(None, None, None, model=model, optimizer=optimizer)
    callback.on_train_end(None, None, None, model=model)


@pytest.fixture(params=["lightning", "transformers"])
def framework(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A framework by its name: (the function that makes the callback, the driver)."""
    package, inner = ModuleType(request.param), ModuleType("lightning.pytorch")
    package.TrainerCallback = inner.Callback = object
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(sys.modules, inner.__name__, inner)
    if request.param == "lightning":
        return why.lightning_callback, lightning_fit
    return why.transformers_callback, transformers_train


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[logging.LogRecord]:
    records: list[logging.LogRecord] = []
    logger = logging.getLogger("undertow.why")
    monkeypatch.setattr(logger, "handlers", [SimpleNamespace(level=0, handle=records.append)])
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()
    return records


@both
def test_a_callback_logs_the_findings_of_the_first_steps(torch: Any, framework: Any, log: Any) -> None:
    make, train = framework
    callback = make(steps=2)
    train(torch, network(torch, broken=True), callback)
    (finding,) = callback.findings
    assert (finding.code, finding.line, finding.subject) == ("detached", CUT, "model.encoder.weight")
    (told,) = log
    assert told.levelname == "WARNING" and told.getMessage().startswith("2 optimizer steps watched\ndetached")


@both
def test_a_callback_says_little_of_a_healthy_run(torch: Any, framework: Any, log: Any) -> None:
    make, train = framework
    callback = make(steps=10)
    train(torch, network(torch, broken=False), callback)
    assert list(callback.findings) == [] and [told.levelname for told in log] == ["INFO"]
    assert "4 optimizer steps watched\nNothing is wrong" in log[0].getMessage()


@both
def test_the_lightning_callback_explains_an_exception(torch: Any, monkeypatch: Any, log: Any) -> None:
    inner = ModuleType("lightning.pytorch")
    inner.Callback = object
    monkeypatch.setitem(sys.modules, "lightning", ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", inner)
    callback = why.lightning_callback(steps=3)
    lightning_fit(torch, network(torch, broken=False), callback, ValueError("no more data"))
    assert str(callback.findings) == "No finding in what ran before the program raised."


def test_at_least_one_step(framework: Any) -> None:
    with pytest.raises(ValueError, match="steps=0"):
        framework[0](steps=0)


# --- notebooks


class Shell:
    """What `%%why` uses of IPython's shell."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[str, Any] = {}

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        self.magics[f"{kind} {name}"] = function

    def run_cell(self, cell: str) -> Any:
        import linecache

        name = f"<ipython-input-{len(linecache.cache)}-test>"
        linecache.cache[name] = len(cell), None, cell.splitlines(keepends=True), name  # as IPython does
        try:
            exec(compile(cell, name, "exec"), self.user_ns)
        except Exception as error:
            return SimpleNamespace(error_in_exec=error)
        return SimpleNamespace(error_in_exec=None)


@pytest.fixture
def shell() -> Shell:
    shell = Shell()
    why.load_ipython_extension(shell)
    return shell


@both
def test_a_cell_is_watched(torch: Any, shell: Shell) -> None:
    with pretend_torch() if torch is undertow else nullcontext():
        watch_cells(shell)


def watch_cells(shell: Shell) -> None:
    shell.run_cell("import torch\nnet = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)")
    cell = "loss = net(torch.ones(1, 2).requires_grad_()).sum()\nx = net.weight.detach() * loss\nloss = x.sum()\n"
    cell += "loss.backward()\noptimizer.step()\n"
    assert list(shell.magics["cell why"]("", cell)) == []
    cut = "frozen = torch.nn.functional.linear(torch.ones(1, 2), net.weight.detach(), net.bias)\nfrozen.sum().backward()\n"
    findings = shell.magics["cell why"]("found", f"optimizer.zero_grad()\n{cut}optimizer.step()\n")
    (finding,) = findings
    assert (finding.code, finding.line, finding.subject) == ("detached", 2, "net.weight")
    assert shell.user_ns["found"] is findings and "detached" in findings._repr_html_()


def test_the_exception_of_a_cell_is_explained(shell: Shell) -> None:
    cell = (
        "import torch\nw = torch.ones(2, requires_grad=True)\nloss = (w * w).sum()\nloss.backward()\nloss.backward()\n"
    )
    with pretend_torch():
        (finding,) = shell.magics["cell why"]("", cell)
    assert (finding.code, finding.line) == ("freed-graph", 4)


# --- pytest

TESTS = """
import pytest
import ENGINE as torch

@pytest.fixture
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))

@pytest.fixture
def optimizer(net):
    return torch.optim.SGD(net.parameters(), lr=0.1)

def train(net, optimizer, cut):
    features = net[:2](torch.ones(4, 2))
    if cut:
        features = features.detach()
    net[2](features).sum().backward()
    optimizer.step()

def test_cut(net, optimizer):
    train(net, optimizer, cut=True)

def test_healthy(net, optimizer):
    train(net, optimizer, cut=False)

def test_without_tensors():
    assert 1 + 1 == 2

def test_step_cut(net, optimizer, why_step):
    with why_step(net):
        train(net, optimizer, cut=True)

def test_step_healthy(net, optimizer, why_step):
    with why_step(net) as seen:
        train(net, optimizer, cut=False)
    assert len(seen.trace.backwards) == 1

def test_step_by_hand(net, optimizer, why_step):
    with why_step(net, check=False) as seen:
        train(net, optimizer, cut=True)
    assert [finding.code for finding in seen.findings()] == ["detached"]
"""


def run_pytest(folder: Path, source: str, *options: str) -> tuple[int, str]:
    """Run the real pytest on a file, with the plugin as its entry point would load it."""
    (folder / "test_model.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "undertow_pytest", "-p", "no:cacheprovider", "-rA", *options]
    ran = subprocess.run(
        [*command, "test_model.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("engine", ["undertow", "torch"])
def test_pytest_reports_findings_per_test(tmp_path: Path, engine: str) -> None:
    status, said = run_pytest(tmp_path, TESTS.replace("ENGINE", engine), "--why")
    report = said[said.index("= undertow why =") :]
    assert status == 1 and "1 failed, 5 passed" in said  # the fixture fails a test, the option does not
    assert "FAILED test_model.py::test_step_cut" in said and "detached  net[0].weight" in said
    assert "test_model.py::test_cut\ndetached  net[0].weight" in report and "test_model.py:17" in report
    assert "1 test with findings" in report and "test_healthy\ndetached" not in report


@pytest.mark.parametrize("engine", ["undertow", "torch"])
def test_pytest_fails_tests_with_findings(tmp_path: Path, engine: str) -> None:
    status, said = run_pytest(tmp_path, TESTS.replace("ENGINE", engine), "--why-fail", "-k", "not step")
    assert status == 1 and "1 failed, 2 passed" in said and "FAILED test_model.py::test_cut - undertow why" in said


def test_the_plugin_costs_nothing_where_it_is_not_asked_for(tmp_path: Path) -> None:
    status, said = run_pytest(tmp_path, "import sys\n\ndef test_modules():\n    assert 'undertow' not in sys.modules\n")
    assert status == 0, said


def test_pytest_finds_the_plugin() -> None:
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert entries == {"pytest11": {"undertow_pytest": "undertow_pytest"}}
