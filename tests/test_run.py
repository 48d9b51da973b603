"""`undertow run` runs a program as Python would, with undertow answering `import torch`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import undertow

SOURCE = str(Path(undertow.__file__).parent.parent)


def run(folder: Path, *arguments: str, command: str = "run") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.run(
        [sys.executable, "-m", "undertow", command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


def write(folder: Path, source: str, name: str = "script.py") -> str:
    (folder / name).write_text(textwrap.dedent(source))
    return name


def test_a_script(tmp_path: Path) -> None:
    name = write(
        tmp_path,
        """
        import sys
        import torch
        from torch import nn
        import beside

        if __name__ == "__main__":
            torch.manual_seed(0)
            x = torch.ones(2, requires_grad=True)
            (x * 3).sum().backward()
            print(torch.__spec__.name, x.grad, beside.name, sys.argv[1:])
            print(sys.modules["__main__"].__file__ == __file__, sys.path[0] == beside.folder, sys.argv[0])
        """,
    )
    write(tmp_path, "import os\nname = 'found'\nfolder = os.path.dirname(os.path.abspath(__file__))", "beside.py")
    done = run(tmp_path, name, "--help", "-m", "x")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "undertow tensor([3., 3.]) found ['--help', '-m', 'x']",
        "True True script.py",
    ]


@pytest.mark.parametrize(
    ("ending", "code"), [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('words')", 1), ("0", 0)]
)
def test_exit_codes(tmp_path: Path, ending: str, code: int) -> None:
    done = run(tmp_path, write(tmp_path, f"import sys, torch\n{ending}"))
    assert done.returncode == code
    assert done.stderr == ("words\n" if "words" in ending else "")


def test_a_traceback_shows_the_program_only(tmp_path: Path) -> None:
    source = "import torch\n\ndef fail():\n    return torch.nonsense\n\nfail()\n"
    name = write(tmp_path, source)
    done = run(tmp_path, name)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "^" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path / name}", line 6, in <module>',
        "    fail()",
        f'  File "{tmp_path / name}", line 4, in fail',
        "    return torch.nonsense",
        "AttributeError: module 'torch' has no attribute 'nonsense' in undertow",
    ]


def test_an_installed_command_is_no_part_of_the_program(tmp_path: Path) -> None:
    command = write(tmp_path, "import sys\nfrom undertow.cli import main\nsys.exit(main())\n", "installed.py")
    program = """
        import torch
        torch.autograd.set_detect_anomaly(True)
        x = torch.zeros(1, requires_grad=True)
        (x.sqrt() * 0).backward()
    """
    done = subprocess.run(
        [sys.executable, command, "run", write(tmp_path, program)], capture_output=True, text=True, cwd=tmp_path
    )
    _, _, forward = done.stderr.partition("Traceback of forward call")
    assert "script.py" in forward.partition("Traceback (most")[0] and "installed.py" not in forward


def test_a_syntax_error(tmp_path: Path) -> None:
    done = run(tmp_path, write(tmp_path, "x = = 1"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("  File ") and done.stderr.endswith("SyntaxError: invalid syntax\n")


def test_ctrl_c(tmp_path: Path) -> None:
    name = write(tmp_path, "import os, signal, time, torch\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)")
    done = run(tmp_path, name)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt") and "undertow/cli" not in done.stderr


def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    write(tmp_path, "", "package/__init__.py")
    write(
        tmp_path, "import sys, torch\nfrom . import part\nprint(__name__, sys.argv[1:], part.x)", "package/__main__.py"
    )
    write(tmp_path, "import torch\nx = torch.ones(1)", "package/part.py")
    done = run(tmp_path, "-m", "package", "-a", "b")
    assert done.stdout == "__main__ ['-a', 'b'] tensor([1.])\n", done.stderr


def test_a_module_that_fails(tmp_path: Path) -> None:
    write(tmp_path, "import torch\n1 / 0", "failing.py")
    done = run(tmp_path, "-m", "failing")
    assert done.returncode == 1
    assert done.stderr.count("File ") == 1 and "ZeroDivisionError" in done.stderr


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    write(tmp_path, "import torch, beside\nprint(beside.x)", "program/__main__.py")
    write(tmp_path, "x = 5", "program/beside.py")
    assert run(tmp_path, "program").stdout == "5\n"


def test_what_cannot_be_run(tmp_path: Path) -> None:
    missing = run(tmp_path, "missing.py")
    assert missing.returncode == 2
    assert missing.stderr == "undertow: can't open file 'missing.py': [Errno 2] No such file or directory\n"
    nothing = run(tmp_path)
    assert nothing.returncode == 2 and "say which program to run" in nothing.stderr
    assert run(tmp_path, "-m", "missing_module").returncode == 1


def test_help_and_version(tmp_path: Path) -> None:
    assert "script.py" in run(tmp_path, "-h").stdout
    assert run(tmp_path, command="--version").stdout.startswith("undertow ")
    assert "run a PyTorch program" in run(tmp_path, command="--help").stdout


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_find_torch_too(tmp_path: Path, method: str) -> None:
    name = write(
        tmp_path,
        f"""
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Squares(Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return torch.tensor(float(index ** 2)), torch.__spec__.name

        if __name__ == "__main__":
            loader = DataLoader(Squares(), 2, num_workers=1, multiprocessing_context={method!r})
            for batch, names in loader:
                print(batch, names)
        """,
    )
    done = run(tmp_path, name)
    expected = ["tensor([0., 1.]) ('undertow', 'undertow')", "tensor([4., 9.]) ('undertow', 'undertow')"]
    assert done.stdout.splitlines() == expected, done.stderr


def test_checkpoints_of_the_program_name_its_own_classes(tmp_path: Path) -> None:
    name = write(
        tmp_path,
        """
        import torch

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))

        torch.save(Net(), "net.pt")
        print(torch.load("net.pt", weights_only=False).weight.tolist())
        torch.save(Net().state_dict(), "weights.pt")
        print(torch.load("weights.pt"))
        """,
    )
    done = run(tmp_path, name)
    lines = done.stdout.splitlines()
    assert lines[0] == "[1.0, 1.0]" and "tensor([1., 1.])" in lines[1], done.stderr


def test_tensorboard_is_needed_for_its_writer(tmp_path: Path) -> None:
    """The files themselves were compared with PyTorch's by hand; TensorBoard is no dependency of the tests."""
    (tmp_path / "program.py").write_text("from torch.utils.tensorboard import SummaryWriter")
    command = [sys.executable, "-m", "undertow", "run", "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "No module named 'tensorboard'" in done.stderr or not done.returncode


def test_importing_jax_does_not_change_the_program_s_draws() -> None:
    """JAX itself draws from NumPy's generator when it is imported."""
    program = """if True:
        import numpy as np
        import undertow as torch
        def draw(start):
            np.random.seed(0)
            start()
            return np.random.rand()
        first = draw(lambda: None)
        print(first == draw(lambda: torch.compile(lambda x: x * 2)(torch.ones(2))))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n", done.stderr
