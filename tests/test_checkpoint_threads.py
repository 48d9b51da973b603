"""Saves and loads that overlap, in threads and in processes, do not disturb each other; killed ones leave nothing."""

from __future__ import annotations

import io
import mmap
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch as real_torch
import torch.utils.serialization

import undertow
import undertow as torch
import undertow.utils.serialization
from undertow.serialization import archive
from undertow.serialization.safetensors import load_file, save_file

SOURCE = Path(torch.__file__).parent.parent


def elsewhere(function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns in another thread."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function(*args)))
    thread.start()
    thread.join()
    return results[0]


def saved(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def test_data_is_skipped_in_one_thread_only() -> None:
    with torch.serialization.skip_data():
        assert torch.load(io.BytesIO(elsewhere(lambda: saved(torch.ones(3))))).shape == (3,)
        content = elsewhere(lambda: saved(torch.ones(3)))
        assert elsewhere(lambda: torch.load(io.BytesIO(content)).tolist()) == [1.0, 1.0, 1.0]
        own = saved(torch.ones(3))
    assert torch.load(io.BytesIO(own)).tolist() == [0.0, 0.0, 0.0]


def settings(torch: Any) -> list[Any]:
    config = torch.utils.serialization.config
    return [
        torch.serialization.get_default_load_endianness() is None, torch.serialization.get_default_mmap_options(),
        torch.serialization.get_crc32_options(), config.load.mmap, config.save.storage_alignment,
        int in torch.serialization.get_safe_globals(),
    ]  # fmt: skip


def test_settings_hold_where_they_hold_in_pytorch() -> None:
    seen = []
    for module in (real_torch, undertow):
        torch: Any = module
        change = {"save.compute_crc32": False, "load.mmap": True, "save.storage_alignment": 128}
        with (
            torch.utils.serialization.config.patch(change), torch.serialization.safe_globals([int]),
            torch.serialization.set_default_mmap_options(mmap.MAP_SHARED),
        ):  # fmt: skip
            torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.BIG)
            seen.append((settings(torch), elsewhere(settings, torch)))
            torch.serialization.set_default_load_endianness(None)
        seen.append((settings(torch), elsewhere(settings, torch)))
    assert seen[:2] == seen[2:]
    assert seen[0][0] != seen[0][1]  # otherwise the test could not fail


def test_blocks_of_two_threads_that_overlap_end_as_they_began() -> None:
    config = torch.utils.serialization.config
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with config.patch({"save.storage_alignment": 256}):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with config.patch({"save.storage_alignment": 128}):
        thread.start()
        inside.wait()
    leave.set()
    thread.join()
    assert config.save.storage_alignment == 64


def test_saves_that_overlap_leave_the_recursion_limit(tmp_path: Path) -> None:
    """The second save begins before the first one ends, and ends after it."""
    before = sys.getrecursionlimit()
    first_is_in, second_is_in, first_is_out = threading.Event(), threading.Event(), threading.Event()
    limits = []

    class First:
        def __reduce__(self) -> Any:
            first_is_in.set()
            second_is_in.wait(10)
            limits.append(sys.getrecursionlimit())
            return int, (1,)

    class Second:
        def __reduce__(self) -> Any:
            second_is_in.set()
            first_is_out.wait(10)
            limits.append(sys.getrecursionlimit())
            return int, (2,)

    def save_second() -> None:
        first_is_in.wait(10)
        torch.save([Second()], tmp_path / "second.pt")

    thread = threading.Thread(target=save_second)
    thread.start()
    torch.save([First()], tmp_path / "first.pt")
    first_is_out.set()
    thread.join()
    assert limits == [before, before] and sys.getrecursionlimit() == before


# --- processes

KILLED = """
    import os, signal, sys
    sys.path.insert(0, {source!r})
    import undertow as torch
    from undertow.serialization import archive
    archive.ArchiveWriter.finish = lambda self: os.kill(os.getpid(), signal.SIGKILL)
    torch.save({{"epoch": 2}}, {path!r})
"""


def killed_while_saving(path: Path) -> None:
    program = textwrap.dedent(KILLED).format(source=str(SOURCE), path=str(path))
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL


def test_what_killed_saves_leave_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"epoch": 1}, path)
    killed_while_saving(path)
    killed_while_saving(tmp_path / "other.pt")
    assert len(list(tmp_path.glob(".model.pt.*.saving"))) == 1
    for similar in (".model.pt.saving", ".model.pt.0123456789ab.saving", ".model.pt.notes", "model.pt.saving"):
        (tmp_path / similar).touch()  # not undertow's, or of another machine
    torch.save({"epoch": 3}, path)
    left = sorted(each.name for each in tmp_path.iterdir())
    assert left[:3] == [".model.pt.0123456789ab.saving", ".model.pt.notes", ".model.pt.saving"]
    assert left[3].startswith(".other.pt.") and left[4:] == ["model.pt", "model.pt.saving"]
    assert torch.load(path) == {"epoch": 3}


def test_what_killed_saves_of_safetensors_leave_is_removed(tmp_path: Path) -> None:
    """The library makes files of its own; its process is killed when they are written and not yet in place."""
    path = tmp_path / "model.safetensors"
    program = """
        import os, signal, sys
        sys.path.insert(0, sys.argv[1])
        import safetensors
        import undertow as torch
        from undertow.serialization.safetensors import save_file
        write = safetensors.serialize_file
        def write_and_die(*args, **kwargs):
            write(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)
        safetensors.serialize_file = write_and_die
        save_file({"a": torch.ones(3)}, sys.argv[2])
    """
    save_file({"a": torch.zeros(3)}, path)
    command = [sys.executable, "-c", textwrap.dedent(program), str(SOURCE), str(path)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert load_file(path)["a"].tolist() == [0.0, 0.0, 0.0] and len(os.listdir(tmp_path)) == 3
    save_file({"a": torch.full((3,), 2.0)}, path)
    assert load_file(path)["a"].tolist() == [2.0, 2.0, 2.0] and os.listdir(tmp_path) == ["model.safetensors"]


def test_permissions_of_safetensors_are_the_usual_ones(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(1)}, path)
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    path.chmod(0o640)
    save_file({"a": torch.ones(1)}, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_save_under_way_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.pt"
    finish = archive.ArchiveWriter.finish

    def save_in_between(self: Any) -> None:
        monkeypatch.setattr(archive.ArchiveWriter, "finish", finish)
        torch.save({"epoch": 1}, path)
        program = (
            "import sys; sys.path.insert(0, sys.argv[1]); import undertow; undertow.save({'epoch': 2}, sys.argv[2])"
        )
        subprocess.run([sys.executable, "-c", program, str(SOURCE), str(path)], check=True)
        assert torch.load(path) == {"epoch": 2}
        finish(self)

    monkeypatch.setattr(archive.ArchiveWriter, "finish", save_in_between)
    torch.save({"epoch": 3}, path)
    assert torch.load(path) == {"epoch": 3}
    assert os.listdir(tmp_path) == ["model.pt"]


def test_a_new_file_that_was_taken_for_abandoned_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process finds the file between its making and its locking, and removes it."""
    from undertow.serialization import atomic

    locked = atomic._locked
    removed: list[str] = []

    def locked_too_late(file: Any) -> bool:
        if not removed:
            removed.append(file.name)
            os.unlink(file.name)
        return locked(file)

    monkeypatch.setattr(atomic, "_locked", locked_too_late)
    torch.save({"epoch": 1}, tmp_path / "model.pt")
    assert torch.load(tmp_path / "model.pt") == {"epoch": 1}
    assert removed and os.listdir(tmp_path) == ["model.pt"]


def test_processes_that_save_to_one_place(tmp_path: Path) -> None:
    """Each file that is seen in the meantime is the whole of one of them."""
    path = tmp_path / "model.pt"
    program = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import undertow as torch
        for _ in range(30):
            torch.save({"who": sys.argv[3], "data": torch.full((1000,), float(sys.argv[3]))}, sys.argv[2])
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(SOURCE), str(path)]
    writers = [subprocess.Popen([*command, str(number)]) for number in range(3)]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            loaded = torch.load(path)
            assert loaded["data"].tolist() == [float(loaded["who"])] * 1000
            seen += 1
    assert [writer.wait() for writer in writers] == [0, 0, 0] and seen
    assert os.listdir(tmp_path) == ["model.pt"]


def test_names_as_long_as_the_system_has_them(tmp_path: Path) -> None:
    path = tmp_path / ("m" * 250 + ".pt")
    torch.save([1], path)
    torch.save([2], path)
    assert torch.load(path) == [2] and os.listdir(tmp_path) == [path.name]


def test_what_is_private_stays_so_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.pt"
    torch.save([1], path)
    path.chmod(0o600)
    modes = []
    finish = archive.ArchiveWriter.finish

    def look(self: Any) -> None:
        modes.append(os.stat(self.out.name).st_mode & 0o777)
        finish(self)

    monkeypatch.setattr(archive.ArchiveWriter, "finish", look)
    torch.save([2], path)
    assert modes == [0o600] and path.stat().st_mode & 0o777 == 0o600
