"""`undertow debug` and `why.debug`: what a backward pass stops at, what is shown there, and the commands."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import undertow as torch
from tests.why.engines import line_here
from undertow import why
from undertow._src.base.modes import slow_path
from undertow.why.debug.picture import gradient, histogram
from undertow.why.debug.prompt import Quit
from undertow.why.debug.stops import Stop

ROOT = Path(__file__).parents[2]


def debugged(go: Any, stops: Any, *commands: str) -> str:
    """Run something under the debugger. Return what it printed."""
    out = io.StringIO()
    with why.debug(stops, commands, out=out):
        go()
    return out.getvalue()


def heads(said: str) -> list[str]:
    """The stops: the name of the node, and why."""
    return [f"{node} {reason}" for node, reason in re.findall(r"^(\w+)  node \d+ of .*stopped at: (.*)$", said, re.M)]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        features = self.encoder(x)
        return self.head(features)


def clip(grad: Any) -> Any:
    return grad.clamp(-0.1, 0.1)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


def train(net: Net) -> Any:
    loss = net(torch.ones(2, 3)).pow(2).mean()
    loss.backward()
    return loss


LINE = line_here() - 5


# --- stops


def test_it_stops_at_the_start_of_every_pass(net: Net) -> None:
    said = debugged(lambda: [train(net) for _ in range(2)], "start", "continue", "continue")
    assert heads(said) == ["MeanBackward0 start", "MeanBackward0 start"]
    assert "of backward pass 2" in said and f"{Path(__file__).name}:{LINE}" in said


def test_it_stops_where_the_pass_enters_a_module(net: Net) -> None:
    said = debugged(lambda: train(net), "module encoder", *["continue"] * 9)
    assert heads(said) == ["ReluBackward0 module encoder"] and "in net.encoder[1]" in said
    said = debugged(lambda: train(net), "module encoder.0", "continue", "continue")
    assert heads(said)[0] == "AddmmBackward0 module encoder.0"


def test_it_stops_at_a_parameter(net: Net) -> None:
    said = debugged(lambda: train(net), "parameter head.weight", "print leaf is net.head.weight", "continue")
    assert heads(said) == ["AccumulateGrad parameter head.weight"]
    assert "leaf net.head.weight  .grad: none yet" in said and "\nTrue\n" in said
    assert ".grad: adds to what is there" in debugged(lambda: train(net), "parameter head.weight", "continue")


def test_it_stops_at_a_line(net: Net) -> None:
    said = debugged(lambda: train(net), f"{Path(__file__).name}:{LINE}", *["continue"] * 9)
    assert heads(said) == [f"MeanBackward0 {Path(__file__).name}:{LINE}"]  # where it enters: all nodes come from there
    with pytest.raises(ValueError, match="no line"):
        Stop("line here")


def test_it_stops_at_a_hook(net: Net) -> None:
    handle = net.head.weight.register_hook(clip)
    net.head.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    net.encoder[0].bias.register_post_accumulate_grad_hook(print)
    said = debugged(lambda: train(net), "hook clip", "continue")
    assert f"1. tensor hook clip, registered at {Path(__file__).name}:{line_here() - 4}" in said
    said = debugged(lambda: train(net), "hook", *["continue"] * 9)
    assert re.findall(r"1\. (.*) hook", said) == ["tensor", "module backward", "post-accumulate"]
    handle.remove()


def test_it_stops_at_the_first_nan() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)

    def step() -> None:
        y = x.sqrt() * x.sqrt()
        y.sum().backward()

    said = debugged(step, "nan", "print out[0]", "print grad", "continue", "continue", "continue")
    assert heads(said)[0] == "SqrtBackward0 nan"
    assert "tensor([   nan, 0.5000])" in said and "tensor([0., 2.])" in said


def test_it_stops_at_an_error(net: Net) -> None:
    def refuse(grad: Any) -> Any:
        raise KeyError("no such gradient")

    net.head.bias.register_hook(refuse)
    out = io.StringIO()
    with pytest.raises(KeyError), pytest.warns(UserWarning, match="Error detected in"):
        with why.debug("nan", ["print leaf.shape", "continue"], out=out):
            train(net)
    assert "stopped at: raised KeyError: 'no such gradient'" in out.getvalue() and "Size([1])" in out.getvalue()


@pytest.mark.parametrize("text", ["nothing", "module", "line x"])
def test_stops_that_are_not_there(text: str) -> None:
    with pytest.raises(ValueError, match=r"stop|needs a name|no line"):
        Stop(text)


# --- commands


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ("parameter encdoer.0.weight", "there is no parameter 'encdoer.0.weight'; near are net.encoder[0].weight"),
        ("module hed", "there is no module 'hed'; near are net.head"),
        ("hook clop", "there is no hook 'clop'; near are clip"),
        ("node MaenBackward0", "there is no node 'MaenBackward0'; near are MeanBackward0"),
        ("test_debgu.py:3", "there is no file 'test_debgu.py'; near are test_debug.py"),
        ("test_debug.py:99999", "there is no line 99999: test_debug.py has"),
    ],
)
def test_a_name_that_is_nowhere_is_an_error(net: Net, stop: str, said: str) -> None:
    net.head.weight.register_hook(clip)
    with pytest.raises(ValueError, match=re.escape(said)):
        debugged(lambda: train(net), stop)
    if not stop.startswith(("hook", "node")):  # those may still come
        assert said in debugged(lambda: train(net), "start", f"stop {stop}", "continue")


def test_a_name_that_no_pass_reaches_is_no_error(net: Net) -> None:
    net.head.requires_grad_(False)
    assert "no stop was reached" in debugged(lambda: train(net), "parameter head.weight")


def test_step_next_and_leaf(net: Net) -> None:
    said = debugged(lambda: train(net), "start", "step", "s", "next", "leaf", "", "delete 1", "continue")
    assert heads(said) == [
        "MeanBackward0 start", "PowBackward0 step", "AddmmBackward0 step", "ReluBackward0 next", "AccumulateGrad leaf",
        "AccumulateGrad leaf",
    ]  # fmt: skip


def test_an_expression_sees_the_program_where_it_called_backward() -> None:
    def step() -> None:
        scale = torch.tensor(3.0)
        w = torch.ones(2, requires_grad=True)
        (w * scale).sum().backward()

    said = debugged(step, "parameter w", "p scale + 1, w.grad", "p undefined", "p grad * 2", "c")
    assert "(tensor(4.), None)" in said and "NameError: name 'undefined'" in said and "tensor([6., 6.])" in said


def test_a_python_prompt(net: Net) -> None:
    lines = [
        "python",
        "total = 0",
        "for part in grads:",
        "    total += part.sum()",
        "",
        "total.item()",
        "1 / 0",
        "exit()",
    ]
    said = debugged(lambda: train(net), "start", *lines, "print total", "continue")
    assert ">>> total.item()\n1.0\n" in said and "ZeroDivisionError" in said
    assert "(debug) print total\ntensor(1.)" in said


def test_what_a_command_computes_is_not_stopped(net: Net) -> None:
    lines = ["python", "with torch.enable_grad():", "    net(torch.ones(1, 3)).sum().backward()", "", "exit()"]
    said = debugged(lambda: train(net), "start", *lines, "print net.head.bias.grad", "continue")
    assert heads(said) == ["MeanBackward0 start"] and "\ntensor([1.])\n" in said


def test_where_list_help_and_stops(net: Net) -> None:
    commands = [
        "module head",
        "where",
        "list",
        "help",
        "stop hook",
        "stop bla",
        "delete 7",
        "bla",
        "continue",
    ]
    said = debugged(lambda: train(net), *[commands[0]], *commands[1:])
    assert "modules net → net.head" in said and "→ " in said and "in forward" in said
    assert "leaf      Run on to the next leaf" in said and "2. hook\n" in said
    assert "there is no stop 'bla'" in said and "there is no stop 7" in said and "there is no command 'bla'" in said


def test_quit_ends_the_program(net: Net) -> None:
    with pytest.raises(Quit):
        debugged(lambda: train(net), "start", "quit")
    assert slow_path.stepper is None and not torch.is_anomaly_enabled()


def test_it_says_if_nothing_was_reached(net: Net) -> None:
    assert debugged(lambda: train(net), "nan") == "1 backward pass, and no stop was reached\n"
    said = debugged(lambda: None, "start")
    assert "the installed PyTorch's are not stopped" in said or said.startswith("0 backward passes")


# --- nothing changes


def log_of(net: Net) -> list[Any]:
    log: list[Any] = []
    for name, parameter in net.named_parameters():
        parameter.register_hook(lambda grad, name=name: log.append((name, grad.tolist())))
    net.head.register_full_backward_hook(lambda module, gi, go: log.append(("head", gi[0].tolist(), go[0].tolist())))
    for _ in range(2):
        x = torch.ones(2, 3, requires_grad=True)
        loss = net(x).pow(2).sum()
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        (first.sum() + loss).backward()
    log.append([(name, parameter.grad.tolist()) for name, parameter in net.named_parameters()])
    return log


def test_gradients_and_hooks_are_those_of_a_run_without_it() -> None:
    torch.manual_seed(0)
    plain = log_of(Net())
    torch.manual_seed(0)
    logs: list[Any] = []
    debugged(lambda: logs.append(log_of(Net())), ["start", "nan"], *["step"] * 50, "continue")
    assert logs == [plain]


# --- the picture


def text_of(value: Any) -> str:
    return "".join(text for _, text in gradient(value))


def test_a_gradient_in_one_line() -> None:
    assert text_of(None) == "none"
    assert text_of(torch.tensor([3.0, 4.0])) == "[2] float32  norm 5  3 … 4  ██"
    assert text_of(torch.zeros(2, 2)).endswith("  all zero")
    odd = text_of(torch.tensor([1.0, float("nan"), float("inf"), 0.0]))
    assert "1 zero" in odd and "1 NaN" in odd and "1 Inf" in odd
    assert "norm 2" in text_of(torch.ones(4, dtype=torch.bfloat16))
    assert histogram(torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0]).numpy()) == "▃ █ ▃"


# --- the command


def test_the_recording_in_the_docs() -> None:
    found = re.search(r"^```console\n\$ undertow (.*?)\n(.*?)^```", (ROOT / "docs/debug.md").read_text(), re.M | re.S)
    assert found is not None
    typed = "".join(f"{line}\n" for line in re.findall(r"^\(debug\) (.*)$", found.group(2), re.M))
    command = [sys.executable, "-m", "undertow", *found.group(1).split()]
    ran = subprocess.run(command, cwd=ROOT, input=typed, capture_output=True, text=True, check=True)
    assert ran.stdout == found.group(2)


def test_commands_from_options(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport torch\nw = torch.ones(2, requires_grad=True)\n(w * 2).sum().backward()\nprint(sys.argv[1:])\n"
    )
    command = [sys.executable, "-m", "undertow", "debug", "--stop", "4", "--command", "print w"]
    ran = subprocess.run(
        [*command, str(script), "--lr", "3"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert heads(ran.stdout) == ["SumBackward0 4"] and "no more commands: the program runs on" in ran.stdout
    assert ran.stdout.endswith("['--lr', '3']\n")
    ran = subprocess.run(
        [*command, "--command", "quit", str(script)], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert ran.returncode == 1 and ran.stderr == "undertow: the program was ended\n"
