"""`undertow why` on two ranks: the programs of `cases/ranks.txt` on both engines, the launcher, and torchrun."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.distributed.pools import free_port
from tests.why.case_server import Server
from undertow.why.ranks.report import outcome_of
from undertow.why.ranks.states import Rank

_CASES = Path(__file__).parent / "cases" / "ranks.txt"
_MARK = re.compile(r"\s*# <- (or )?here")
_INIT = 'dist.init_process_group("gloo")'
_SOURCE = str(Path(__file__).parents[2] / "src")
both = pytest.mark.parametrize("engine", ["undertow", "torch"])


@cache
def server(engine: str) -> Server:
    return Server(engine, "tests.why.rank_server")


def programs() -> dict[str, tuple[str, list[str]]]:
    """{name: (code, lines)}, in the format of `test_programs`."""
    parts = [part.splitlines() for part in _CASES.read_text().split("=== ")[1:]]
    return {title.partition(": ")[0]: (title.partition(": ")[2], lines) for title, *lines in parts}


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(_MARK.sub("", line.removesuffix("#-")) for line in lines) + "\n")
    return path


@both
@pytest.mark.parametrize("name", programs())
def test_a_mistake_of_ranks(name: str, engine: str, tmp_path: Path) -> None:
    code, lines = programs()[name]
    broken = [line for line in lines if not line.lstrip().startswith("#+")]
    answer = server(engine).run(write(tmp_path / f"{name}.py", broken))
    assert not answer["problems"]
    marked = [number for number, line in enumerate(broken, 1) if _MARK.search(line)]
    found = [(finding["code"], finding["line"]) for finding in answer["findings"]]
    assert len(found) == 1 and found[0][0] == code and found[0][1] in marked, (found, answer["error"])
    assert answer["findings"][0]["ranks"]


@both
def test_healthy_twins_have_no_findings(engine: str, tmp_path: Path) -> None:
    """All of them in one run."""
    whole = ["import torch.distributed as dist", _INIT]
    for _, lines in programs().values():
        healthy = [line.replace("#+ ", "", 1) for line in lines if not line.endswith("#-")]
        whole += [line for line in healthy if line != _INIT]
    answer = server(engine).run(write(tmp_path / "healthy.py", whole))
    assert answer["error"] is None and not answer["problems"]
    assert answer["findings"] == []


def test_the_verdict_is_of_the_rank_that_raised_first() -> None:
    def rank(number: int, lost: bool) -> Rank:
        error = {"type": "ValueError", "message": "", "file": None, "line": None, "lost": lost, "time": number}
        return Rank(number, [], {"verdict": "No finding in what ran.", "error": error})

    assert outcome_of([rank(0, lost=True), rank(1, lost=False)]).verdict == "Rank 1: No finding in what ran."


_PROGRAM = """import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(2, requires_grad=True)
x.sum().backward()
print("rank", dist.get_rank(), "here")
if dist.get_rank() == 1:
    dist.all_reduce(x.grad)
"""


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": _SOURCE, "OMP_NUM_THREADS": "1", **variables}


def test_one_report_for_all_ranks_of_the_launcher(tmp_path: Path) -> None:
    script = tmp_path / "absent.py"
    script.write_text(_PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "undertow", "why", "--engine", "undertow", "--nproc-per-node", "2", "--json=out.json",
         str(script)],
        capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    for rank in "01":
        assert f"[rank{rank}]: rank {rank} here" in done.stdout
    assert done.stdout.count("absent-rank  rank 0\n") == 1 and "1 finding\n" in done.stdout
    assert "rank 1 waits in all_reduce(float32[2])  line 7" in done.stdout
    (entry,) = json.loads((tmp_path / "out.json").read_text())
    assert (entry["code"], entry["line"], entry["ranks"]) == ("absent-rank", 7, [0])


@pytest.mark.parametrize("engine", ["torch"])  # where it is installed
def test_ranks_of_another_launcher_report_once(tmp_path: Path, engine: str) -> None:
    """With torchrun's variables alone, the first rank's report is for all."""
    script = tmp_path / "absent.py"
    script.write_text(_PROGRAM)
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "undertow", "why", "--engine", engine, str(script)], text=True,
            env=environment(RANK=str(rank), LOCAL_RANK=str(rank), **shared), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]  # fmt: skip
    said = [process.communicate(timeout=120)[0] for process in ranks]
    assert said[0].count("absent-rank  rank 0\n") == 1 and "absent-rank" not in said[1]
    assert ranks[0].returncode == 1


_SHARDED = """import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
log = []
net[0].weight.register_post_accumulate_grad_hook(lambda p: log.append(1))
fully_shard(net)
net[2].weight.register_hook(lambda g: log.append(2))
net[2].bias.register_post_accumulate_grad_hook(lambda p: log.append(3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.randn(8, 4)).pow(2).mean().backward()
optimizer.step()
"""


@pytest.mark.parametrize("engine", ["torch"])
def test_hooks_that_fully_shard_loses(tmp_path: Path, engine: str) -> None:
    """The post-accumulate hook that is registered afterwards fires; the other two do not."""
    script = tmp_path / "sharded.py"
    script.write_text(_SHARDED)
    answer = Server(engine).run(script)
    assert not answer["problems"] and answer["error"] is None
    found = [(finding["code"], finding["line"]) for finding in answer["findings"]]
    assert found == [("hook-lost-in-fully-shard", 7), ("hook-lost-in-fully-shard", 9)]
