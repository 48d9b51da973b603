"""A save replaces the old file at once or not at all."""

from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import undertow as torch
from undertow.serialization import archive

SOURCE = Path(torch.__file__).parent.parent


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A checkpoint that must survive."""
    path = tmp_path / "model.pt"
    torch.save({"epoch": 1}, path)
    return path


@pytest.mark.parametrize("moment", ["record", "directory", "fsync", "replace"])
def test_a_process_killed_in_the_middle_leaves_the_old_file(old: Path, moment: str) -> None:
    program = f"""
        import os, signal, sys
        sys.path.insert(0, {str(SOURCE)!r})
        import undertow as torch
        from undertow.serialization import archive, saving

        def die(*args):
            os.kill(os.getpid(), signal.SIGKILL)

        write = archive.ArchiveWriter.write
        def write_or_die(self, name, content):
            write(self, name, content)
            if name == "data/1":
                self.out.flush()
                die()
        match {moment!r}:
            case "record": archive.ArchiveWriter.write = write_or_die
            case "directory": archive.ArchiveWriter.finish = die
            case "fsync": os.fsync = die
            case "replace": os.replace = die
        torch.save({{"epoch": 2, "weights": [torch.ones(1000), torch.ones(1000), torch.ones(1000)]}}, {str(old)!r})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert torch.load(old) == {"epoch": 1}


def test_a_whole_save_in_another_process_arrives(old: Path) -> None:
    program = "import sys; sys.path.insert(0, sys.argv[1]); import undertow; undertow.save({'epoch': 2}, sys.argv[2])"
    subprocess.run([sys.executable, "-c", program, str(SOURCE), str(old)], check=True)
    assert torch.load(old) == {"epoch": 2}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "ctrl-c"])
def test_an_interrupted_save_leaves_no_trace(old: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(self: Any) -> None:
        raise error

    monkeypatch.setattr(archive.ArchiveWriter, "finish", fail)
    with pytest.raises(type(error)):
        torch.save({"epoch": 2}, old)
    assert torch.load(old) == {"epoch": 1}
    assert os.listdir(old.parent) == ["model.pt"]


def test_what_cannot_be_pickled_touches_nothing(old: Path) -> None:
    with pytest.raises(AttributeError, match="local object"):
        torch.save({"epoch": 2, "hook": lambda: None}, old)
    assert torch.load(old) == {"epoch": 1}
    assert os.listdir(old.parent) == ["model.pt"]


def test_permissions_stay(old: Path) -> None:
    old.chmod(0o640)
    torch.save({"epoch": 2}, old)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    torch.save([1], tmp_path / "new.pt")
    assert (tmp_path / "new.pt").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_link_stays_a_link(old: Path) -> None:
    link = old.parent / "latest.pt"
    link.symlink_to(old.name)
    torch.save({"epoch": 2}, link)
    assert link.is_symlink()
    assert torch.load(old) == {"epoch": 2}


def test_a_file_that_only_writes() -> None:
    class Pipe:
        """Neither seeks nor tells."""

        def __init__(self) -> None:
            self.content = b""

        def write(self, data: bytes) -> int:
            self.content += bytes(data)
            return len(data)

    pipe: Any = Pipe()
    torch.save({"a": torch.arange(3.0)}, pipe)
    assert torch.load(io.BytesIO(pipe.content))["a"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_a_file_that_takes_a_part_at_a_time(zipped: bool) -> None:
    class Narrow(io.BytesIO):
        """Like a file without a buffer, or a socket."""

        def write(self, data: Any) -> int:
            return super().write(memoryview(data).cast("B")[:7] if len(data) else data)

    file = Narrow()
    torch.save({"a": torch.arange(30.0)}, file, _use_new_zipfile_serialization=zipped)
    assert torch.load(io.BytesIO(file.getvalue()))["a"].tolist() == list(range(30))


def test_a_file_that_takes_nothing() -> None:
    class Stopped(io.BytesIO):
        def write(self, data: Any) -> int:
            return 0

    with pytest.raises(OSError, match="wrote 0 of"):
        torch.save([1], Stopped())


def test_an_object_that_fails_to_be_pickled_touches_nothing(old: Path) -> None:
    class Failing:
        def __reduce__(self) -> Any:
            raise KeyError("boom")

    with pytest.raises(KeyError, match="boom"):
        torch.save([torch.ones(3), Failing()], old)
    assert torch.load(old) == {"epoch": 1}
    assert os.listdir(old.parent) == ["model.pt"]


def test_a_device_is_written_to_and_not_replaced() -> None:
    torch.save([1], os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
