"""The launcher: ranks, their variables and output, failures, restarts; and programs started without it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.distributed.pools import free_port

SOURCE = str(Path(__file__).parents[2] / "src")


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", **variables}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "undertow", "run", *arguments]


def launched(folder: Path, program: str, *arguments: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    """Run a program on ranks and return what the launcher printed."""
    script = folder / "program.py"
    script.write_text("import os, sys, time\nimport torch\nimport torch.distributed as dist\n" + program)
    return subprocess.run(
        command("--nproc-per-node", str(ranks), *arguments, str(script), "first", "--second"),
        capture_output=True, text=True, env=environment(), timeout=120,
    )  # fmt: skip


def test_ranks_get_torchrun_s_variables_and_print_behind_their_rank(tmp_path: Path) -> None:
    program = """if True:
        dist.init_process_group()
        x = torch.ones(2) * dist.get_rank()
        dist.all_reduce(x)
        names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK ROLE_RANK TORCHELASTIC_RESTART_COUNT".split()
        print(x, [os.environ[name] for name in names], sys.argv[1:], dist.is_torchelastic_launched())
        print("to stderr", file=sys.stderr)
        dist.destroy_process_group()
        dist.init_process_group()  # once more, in the same world
        dist.all_reduce(x)
        print(x)
    """
    done = launched(tmp_path, program)
    assert done.returncode == 0, done.stderr
    for rank in "01":
        variables = [rank, rank, "2", "2", "0", rank, "0"]
        assert [line for line in done.stdout.splitlines() if line.startswith(f"[rank{rank}]: ")] == [
            f"[rank{rank}]: tensor([1., 1.]) {variables} ['first', '--second'] True",
            f"[rank{rank}]: tensor([2., 2.])",
        ]
        assert f"[rank{rank}]: to stderr" in done.stderr
    assert len(done.stdout.splitlines()) == 4


def test_the_first_traceback_is_shown_once_and_last_and_all_ranks_are_ended(tmp_path: Path) -> None:
    program = """if True:
        dist.init_process_group()
        print("process", os.getpid())
        if dist.get_rank() == 1:
            raise ValueError("rank 1 says no")
        dist.all_reduce(torch.ones(2))
    """
    done = launched(tmp_path, program)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.endswith("ValueError: rank 1 says no\n")
    assert "undertow: rank 1 exited with code 1; all ranks were ended:\nTraceback" in done.stderr
    for process in re.findall(r"process (\d+)", done.stdout):
        assert not Path(f"/proc/{process}").exists()


def test_the_exit_code_of_a_failed_program_is_torchrun_s(tmp_path: Path) -> None:
    done = launched(tmp_path, "if os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(60)")
    assert done.returncode == 1 and done.stderr.endswith("undertow: rank 1 exited with code 3; all ranks were ended.\n")


def test_a_rank_that_ends_while_ranks_join_is_missed_at_the_timeout(tmp_path: Path) -> None:
    program = """if True:
        from datetime import timedelta
        if os.environ["RANK"] == "1":
            from undertow._src.distributed.runtime import Runtime
            Runtime._connect = lambda self: os._exit(0)  # when its client has reached the coordinator
        try:
            dist.init_process_group(timeout=timedelta(seconds=5))
        except dist.DistNetworkError as error:
            print(error)
    """
    done = launched(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert re.search(r"rank 0 could not join the 2 ranks at \S+ within 5 s: not all ranks came, in", done.stdout)


def test_a_killed_rank_is_named_on_the_others_and_ranks_start_again(tmp_path: Path) -> None:
    program = """if True:
        dist.init_process_group()
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            if dist.get_rank() == 1:
                os.kill(os.getpid(), 9)
            try:
                dist.all_reduce(torch.ones(2))
            except RuntimeError as error:
                print(error)
                raise
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1":
            def hook(grad):  # the program waits for it, and rank 0 for the program
                if calls and grad.sum().item() < 1e9:
                    os.kill(os.getpid(), 9)
                return grad * (1.0 if grad.sum().item() > 0 else 2.0)
            calls, model = [], torch.nn.Linear(2, 1)
            model.weight.register_hook(hook)
            model = torch.nn.parallel.DistributedDataParallel(model)
            run = torch.compile(lambda x: model(x).sum().backward())
            try:
                for number in range(3):
                    calls += [1] if dist.get_rank() == 1 and number == 2 else []
                    run(torch.ones(2, 2))
            except RuntimeError as error:
                print(error)
                raise
        x = torch.ones(1)
        dist.all_reduce(x)
        print("again", x)
    """
    done = launched(tmp_path, program, "--max-restarts", "2")
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"\[rank0\]: all_reduce\(float32\[2\]\) at \S+program.py:\d+ failed: rank 1 \(process \d+\) died", done.stdout
    )
    assert re.search(
        r"\[rank0\]: compiled step\(all_reduce\(float32\[3\]\)\) at \S+program.py:\d+ failed: rank 1 \(process \d+\) died",
        done.stdout,
    )
    assert done.stderr.count("undertow: rank 1 was killed by SIGKILL; all ranks were ended.") == 2
    assert "Traceback" not in done.stderr  # rank 0 only lost its peer
    assert done.stdout.count("again tensor([2.])") == 2


def test_ranks_end_when_the_launcher_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import os, time\nprint('process', os.getpid(), flush=True)\ntime.sleep(100)\n")
    launcher = subprocess.Popen(
        command("--nproc-per-node", "2", str(script)), stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert launcher.stdout is not None
    processes = [launcher.stdout.readline().split()[-1] for _ in range(2)]
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_ranks_without_a_launcher_lose_their_coordinator_and_say_so(tmp_path: Path) -> None:
    """Rank 0 starts the coordinator; when it is killed, ranks get an error and end in order."""
    script = tmp_path / "program.py"
    script.write_text(
        """if True:
        import os, sys, time
        import torch, torch.distributed as dist
        from undertow._src.distributed.world import World
        World._beat = lambda self: time.sleep(100)  # a question that a dead coordinator never answers
        dist.init_process_group(init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
        x = torch.ones(1)
        dist.all_reduce(x)
        print(x)
        if dist.get_rank() == 0:
            from undertow._src.distributed import coordinator
            coordinator._kept[0].kill()
        try:
            while True:
                dist.all_reduce(x)
                time.sleep(0.05)
        except RuntimeError as error:
            print(error)
        sys.exit(7)
        """
    )
    ranks = [
        subprocess.Popen(
            command(str(script), f"file://{tmp_path}/meet", str(rank)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        for rank in ranks:
            output, errors = rank.communicate(timeout=90)
            assert rank.returncode == 7, errors
            assert output.startswith("tensor([2.])\n") and "the coordinator is gone" in output
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def test_torchrun_s_variables_alone_are_enough(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\ntorch.distributed.init_process_group('nccl')\nx = torch.ones(2)\n"
        "torch.distributed.all_reduce(x)\nprint(x, torch.distributed.get_backend())\n"
    )
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(
            command(str(script)), stdout=subprocess.PIPE, text=True, env=environment(**shared, RANK=str(rank))
        )
        for rank in range(2)
    ]
    assert [rank.communicate(timeout=90)[0] for rank in ranks] == ["tensor([2., 2.]) nccl\n"] * 2
    assert [rank.returncode for rank in ranks] == [0, 0]


def test_processes_that_a_program_starts_run_on_undertow_too(tmp_path: Path) -> None:
    """Launchers of other packages start their ranks as `python script.py`."""
    script = tmp_path / "program.py"
    script.write_text(
        "import subprocess, sys\n"
        "code = 'import torch, torch.nn as nn; print(torch.__version__, nn.Linear(1, 1))'\n"
        "print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout, end='')\n"
    )
    done = subprocess.run(command(str(script)), capture_output=True, text=True, env=environment(), timeout=60)
    assert "+undertow Linear(in_features=1" in done.stdout, done.stderr


def test_without_jax_the_launcher_and_a_rank_say_what_to_install() -> None:
    without = "import sys; sys.modules['jaxlib'] = None\n"
    launch = "from undertow.cli import main\nmain(['run', '--nproc-per-node', '2', 'program.py'])"
    join = "import undertow.distributed as dist\ndist.init_process_group()"
    for program in (launch, join):
        done = subprocess.run(
            [sys.executable, "-c", without + program],
            capture_output=True, text=True, timeout=120,
            env=environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), RANK="0", WORLD_SIZE="2"),
        )  # fmt: skip
        last = done.stderr.splitlines()[-1]
        assert last.endswith("several ranks need JAX, which is not installed. Install it with: pip install 'jax>=0.10'")
    assert done.returncode == 1


def test_numbers_that_are_none_are_refused_in_words() -> None:
    for options, said in (
        (["--nproc-per-node", "two"], "undertow: --nproc-per-node two: say how many ranks to start, or auto\n"),
        (["--nproc-per-node", "0"], "undertow: --nproc-per-node 0: say how many ranks to start, or auto\n"),
        (["--nproc-per-node", "2", "--nnodes", "x"], "undertow: --nnodes x: say how many machines take part\n"),
    ):
        done = subprocess.run(command(*options, "program.py"), capture_output=True, text=True, env=environment())
        assert (done.returncode, done.stderr) == (1, said)
