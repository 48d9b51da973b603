"""The types that editors and type checkers see: stubs that match the modules, and a program that passes `mypy --strict`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools.any_share import ROOMS, share
from tools.stubs import stubs

ROOT = Path(__file__).parent.parent

# After the arrow stands what mypy says of the line.
PROGRAM = """
import undertow as torch
from undertow import nn
from undertow.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(4, width)
        self.outer = nn.Sequential(nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.relu(self.inner(x)))

def clip(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.clamp(-1.0, 1.0)

def watch(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    print(type(module).__name__, output.shape)

torch.manual_seed(0)
net = Net(8).train().to(torch.float32)
handles = [p.register_hook(clip) for p in net.parameters()]
handle = net.register_forward_hook(watch)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.9, 0.99))
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
x = torch.randn(16, 4)
y = x.sum(dim=1, keepdim=True)
for batch, wanted in DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(batch), wanted)
    loss.backward()
    optimizer.step()
    schedule.step()
    print(loss.item(), torch.linalg.norm(x).item())
with torch.no_grad():
    torch.save(net.state_dict(), "net.pt")

@torch.compile
def step(data: torch.Tensor) -> torch.Tensor:
    return net(data).sum()

reveal_type(torch.relu(x))  # -> Tensor
reveal_type(loss)  # -> Tensor
reveal_type(net)  # -> Net
reveal_type(net(x))  # -> Tensor
reveal_type(x * 2 + y)  # -> Tensor
reveal_type(-x[0] / 3 @ x > 0)  # -> Tensor
reveal_type(x.sum(dim=1))  # -> Tensor
reveal_type(x.mul_(2).exp().view(2, -1))  # -> Tensor
reveal_type(nn.Parameter(x).normal_())  # -> Parameter
reveal_type(optimizer)  # -> Adam
reveal_type(torch.zeros(3, 2, dtype=torch.float64))  # -> Tensor
reveal_type(net.inner)  # -> Linear
reveal_type(net.inner.weight)  # -> Parameter
reveal_type(x.grad)  # -> Tensor | None
reveal_type(x.grad_fn)  # -> Node | None
reveal_type(x.shape)  # -> Size
reveal_type(x.size(0))  # -> int
reveal_type(x.dtype)  # -> dtype
reveal_type(torch.max(x, dim=0))  # -> tuple[Tensor, Tensor, fallback=max]
reveal_type(torch.max(x))  # -> Tensor
reveal_type(x.sort().indices)  # -> Tensor
reveal_type(torch.linalg.svd(x).S)  # -> Tensor
reveal_type(torch.split(x, 2))  # -> tuple[Tensor, ...]
reveal_type(torch.equal(x, y))  # -> bool
reveal_type(handle)  # -> RemovableHandle
reveal_type(torch.fft.fft(x))  # -> Tensor
reveal_type(torch.fft.fftn(x, dim=(0, 1)))  # -> Tensor
reveal_type(torch.linalg.matrix_norm(x, dim=(0, 1)))  # -> Tensor
reveal_type(torch.topk(x, 2, out=(torch.empty(0), torch.empty(0, dtype=torch.int64))).values)  # -> Tensor
reveal_type(torch.linalg.eigh(x, out=(torch.empty(0), torch.empty(0))).eigenvalues)  # -> Tensor
reveal_type(nn.functional.conv1d(x, x, padding="same"))  # -> Tensor
reveal_type(nn.Conv2d(1, 2, (3, 3), padding="same"))  # -> Conv2d
reveal_type(torch.special.erf(x))  # -> Tensor
reveal_type(step(x))  # -> Tensor
reveal_type(next(net.named_modules()))  # -> tuple[str, Module]
reveal_type(nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)))  # -> Linear
reveal_type(nn.utils.clip_grad_norm_(net.parameters(), 1.0))  # -> Tensor
reveal_type(torch.autograd.grad(loss, list(net.parameters())))  # -> tuple[Any, ...]
reveal_type(nn.Sequential(nn.ReLU()).pop(0))  # -> Module
reveal_type(torch.isin(x, 1))  # -> Tensor
"""

# Each line is an error of this kind.
WRONG = """
import undertow as torch
x = torch.ones(2)
x.no_such_method()  # attr-defined
torch.no_such_function(x)  # attr-defined
torch.relu("text")  # arg-type
torch.nn.Linear("two", 3)  # arg-type
torch.nn.Linear(2, 3)(1)  # arg-type
torch.nn.Conv2d(1, 2, "three")  # arg-type
x.grad.sum()  # union-attr
x.register_hook(len)  # arg-type
"""


def test_stubs_are_those_of_the_modules() -> None:
    stale = [path.name for path, text in stubs().items() if not path.exists() or path.read_text("utf-8") != text]
    assert stale == [], "run `make tables`"
    assert set((ROOT / "src" / "undertow").rglob("*.pyi")) == set(stubs())


def test_a_training_program_passes_mypy_strict(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    options = ["--strict", "--follow-imports=silent", "--no-error-summary", "--no-pretty", "--config-file="]
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'strict'}"
    answer = subprocess.run(
        [sys.executable, "-m", "mypy", *options, cache, "train.py", "wrong.py"],
        cwd=tmp_path, env={"MYPYPATH": str(ROOT / "src"), "PATH": ""}, capture_output=True, text=True,
    )  # fmt: skip
    said = [re.sub(r"(\w+\.)+(?=\w)", "", text) for text in re.findall(r'Revealed type is "(.*)"', answer.stdout)]
    assert said == re.findall(r"# -> (.*)", PROGRAM), answer.stdout + answer.stderr
    errors = [line for line in answer.stdout.splitlines() if " error: " in line]
    assert [line for line in errors if not line.startswith("wrong.py")] == []
    found = [tuple(re.findall(r"wrong.py:(\d+): error: .*\[(.*)\]", line)[0]) for line in errors]
    wanted = [(str(number), line.split("# ")[1]) for number, line in enumerate(WRONG.splitlines(), 1) if "#" in line]
    assert found == wanted, answer.stdout


def test_few_annotations_leave_everything_open() -> None:
    shares = {room: vague / count for room, (vague, count) in ((room, share(*ROOMS[room])) for room in ROOMS)}
    assert {room for room, part in shares.items() if part > 0.15} == set(), shares
