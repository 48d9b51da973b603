"""The folder of compiled programs: this user's only, bounded, and not trusted where it is another user's."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from undertow._src.compile import cache

SOURCE = Path(cache.__file__).parents[3]
COMPILE = """
    import warnings
    import jax
    import undertow as torch
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step = torch.compile(lambda x: (x * 2).sin())
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        for count in range(1, {programs} + 1):
            step(torch.ones(count))
    print([str(each.message) for each in caught], jax.config.jax_compilation_cache_dir)
"""


def compiled(folder: Path, programs: int = 1, **variables: str) -> str:
    """Compile in a process whose programs go to `folder`/undertow/xla, and return what it says."""
    settings = {**os.environ, "XDG_CACHE_HOME": str(folder), "PYTHONPATH": str(SOURCE), **variables}
    program = textwrap.dedent(COMPILE).format(programs=programs)
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_for_this_user_only(tmp_path: Path) -> None:
    assert str(tmp_path / "undertow" / "xla") in compiled(tmp_path)
    assert mode(tmp_path / "undertow") == mode(tmp_path / "undertow" / "xla") == 0o700
    assert list((tmp_path / "undertow" / "xla").glob("*-cache"))


def test_a_folder_of_old_is_closed(tmp_path: Path) -> None:
    (tmp_path / "undertow" / "xla").mkdir(parents=True)
    (tmp_path / "undertow" / "xla").chmod(0o777)
    assert cache.not_to_be_trusted(tmp_path / "undertow" / "xla", own=True) is None
    assert mode(tmp_path / "undertow" / "xla") == 0o700


def test_a_chosen_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    said = compiled(tmp_path, programs=0, UNDERTOW_CACHE=str(tmp_path / "shared"))
    assert "other users may write to" in said and said.rstrip().endswith("None")
    assert not list((tmp_path / "shared").iterdir())
    assert mode(tmp_path / "shared") == 0o777


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert "belongs to another user" in str(cache.not_to_be_trusted(tmp_path, own=True))


def test_a_folder_that_cannot_be_made_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert cache.not_to_be_trusted(tmp_path / "file" / "inside", own=True) is not None


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    compiled(tmp_path, programs=2, UNDERTOW_CACHE_MB="0")
    assert not list((tmp_path / "undertow" / "xla").glob("*-cache"))


def test_what_was_used_last_is_kept(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"jit-{number}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1000 + number, 1000))
    (tmp_path / "jit-0-atime").touch()
    (tmp_path / "notes.txt").write_bytes(bytes(1000))
    os.utime(tmp_path / "jit-1-cache", (2000, 1000))  # read again
    cache.trim(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jit-1-cache", "jit-4-cache", "notes.txt"]
    cache.trim(tmp_path / "gone", 250)
