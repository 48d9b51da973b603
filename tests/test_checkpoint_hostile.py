"""Hostile checkpoints, several hundred of them, are refused at once, in little memory, and nothing in them is run."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import undertow as torch
from tests.hostile_files import ATTACKS
from tests.pickle_programs import STOP, THREE, USUAL, archive, by_hand, kept, name, text

ROOT = Path(__file__).parent.parent

# Loads every file of the corpus in each way, in one process. A file that takes longer than two seconds of the processor
# ends it by a signal; what is run shows in the folder, in the modules, or in Python's own audit.
RUNNER = """
    import json, os, pickle, resource, signal, sys
    import undertow as torch
    from tests.hostile_files import corpus
    from tests.pickle_programs import GOOD, THREE, archive

    SECONDS = 2
    CLEAR = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError)
    RUNS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect", "exec", "compile",
            "import", "urllib.Request", "os.remove", "os.rename", "shutil.rmtree")
    seen, watching = [], False

    def audit(event, arguments):
        if watching and (event in RUNS or (event == "open" and "w" in str(arguments[1]))):
            seen.append(event)

    def ways(path, name="archive"):
        yield "load", lambda: torch.load(path)
        yield "mmap", lambda: torch.load(path, mmap=True)
        yield "names", lambda: torch.serialization.get_unsafe_globals_in_checkpoint(path)
        if name.startswith("archive"):
            with torch.serialization.skip_data():
                yield "skip", lambda: torch.load(path)

    def attempt(function):
        global watching
        seen.clear()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        watching = True
        try:
            function()
            return "loaded"
        except CLEAR as error:
            words = str(error)
            if "hostile.pt" not in words or len(words) > 2000 or "MemoryError" in words:
                return f"said {words[:200]}"
        except Exception as error:
            return f"raised {type(error).__name__}: {str(error)[:200]}"
        finally:
            watching = False
            signal.setitimer(signal.ITIMER_PROF, 0)
        return "ran " + ", ".join(seen) if seen else "refused"

    sys.addaudithook(audit)
    path = "hostile.pt"
    for content in (archive(GOOD, THREE), archive(b"cos\\nsystem\\n.")):  # whatever is imported late is imported here
        open(path, "wb").write(content)
        for _, function in ways(path):
            attempt(function)
    modules = set(sys.modules)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, content in corpus():
        with open(path, "wb") as file:
            file.write(content)
        for way, function in ways(path, name):
            print(json.dumps([name, way]), flush=True)  # the last line says which file it was, if the process dies
            print(json.dumps(attempt(function)), flush=True)
    print(json.dumps({
        "grown": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most) >> 10,
        "modules": sorted(set(sys.modules) - modules),
        "files": os.listdir("."),
    }))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("hostile")
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUNNER)], cwd=folder, env=paths, capture_output=True, text=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"at {lines[-1:]}: {done.stderr[-2000:]}"
    return lines


def test_there_are_many(outcomes: list[Any]) -> None:
    names = [name for name, way in outcomes[:-1:2] if way == "load"]
    assert len(names) == len(set(names)) > 700


def test_every_file_is_refused_in_clear_words(outcomes: list[Any]) -> None:
    results = dict(zip(map(tuple, outcomes[:-1:2]), outcomes[1:-1:2], strict=True))
    loads = {case: result for case, result in results.items() if case[1] == "load"}
    assert {case: result for case, result in loads.items() if result != "refused"} == {}
    # What is not read cannot be refused: a storage's checksum with mmap, its bytes with skip_data, all but the names.
    others = {case: result for case, result in results.items() if case[1] != "load"}
    assert {case: result for case, result in others.items() if result not in ("refused", "loaded")} == {}


def test_nothing_is_run_and_little_memory_is_used(outcomes: list[Any]) -> None:
    summary = outcomes[-1]
    assert summary["files"] == ["hostile.pt"]
    assert [each for each in summary["modules"] if not each.startswith("undertow")] == []
    assert summary["grown"] <= 64


# --- the names in a file

HIDDEN: dict[str, tuple[bytes, list[str]]] = {
    "kept": (kept(1, text("os")) + kept(2, text("system")) + b"j\1\0\0\0j\2\0\0\0\x93)R", ["os.system"]),
    "memoized": (
        text("os") + b"\x940" + text("system") + b"\x940" + text("collections") + text("OrderedDict") + b"00h\0h\1\x93)R",
        ["os.system"],
    ),
    "kept by text": (text("os") + b"p7\n0g7\n" + text("system") + b"\x93)R", ["os.system"]),
    "duplicated": (text("this") + b"2\x93)R", ["this.this"]),
    "popped texts": (text("os") + text("system") + text("Size") + b"0\x93)R", ["os.system"]),
    "popped to the mark": (text("os") + text("system") + b"(" + text("torch") + text("Size") + b"1\x93)R", ["os.system"]),
    "an instance": (b"(ios\nsystem\n", ["os.system"]),
    "an object": (b"(" + name("os", "system") + text("true") + b"o", ["os.system"]),
    "a new object": (name("os", "system") + b")\x81", ["os.system"]),
    "a new object with keywords": (name("os", "system") + b")}\x92", ["os.system"]),
    "a function of a function": (
        name("builtins", "getattr") + name("os", "x") + text("system") + b"\x86R)R", ["getattr", "os.x"]
    ),
    "in a reference": (b"(" + text("storage") + name("os", "system") + b"tQ", ["os.system"]),
    "in a state": (name("collections", "OrderedDict") + b")R" + name("os", "system") + b"b", ["os.system"]),
}  # fmt: skip
UNTOLD: dict[str, bytes] = {
    "a made module": name("collections", "OrderedDict") + b")R" + text("system") + b"\x93",
    "a name of bytes": text("os") + b"C\6system\x93",
    "a name of Python 2": text("os") + b"U\6system\x93",
    "a name in quotes": text("os") + b"S'system'\n\x93",
    "a name from outside": text("os") + b"(" + text("storage") + b"tQ\x93",
    "an extension": b"\x82\x01)R",
    "a call of a made value": name("collections", "OrderedDict") + b")R)R",
    "an object of a made value": b"(" + name("collections", "OrderedDict") + b")R" + b"o",
    "an unknown instruction": name("collections", "OrderedDict") + b"\xfe",
    "too little": b"\x93",
}


@pytest.mark.parametrize("case", HIDDEN)
def test_names_are_found_wherever_they_are_kept(tmp_path: Path, case: str) -> None:
    program, names = HIDDEN[case]
    (tmp_path / "names.pt").write_bytes(archive(program + STOP))
    assert torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "names.pt") == names


@pytest.mark.parametrize("case", UNTOLD)
def test_names_that_cannot_be_told_are_refused(tmp_path: Path, case: str) -> None:
    (tmp_path / "names.pt").write_bytes(archive(UNTOLD[case] + STOP))
    with pytest.raises(pickle.UnpicklingError, match=r"names\.pt"):
        torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "names.pt")


def test_no_attack_is_called_safe(tmp_path: Path) -> None:
    safe = []
    for attack, program in ATTACKS.items():
        (tmp_path / "names.pt").write_bytes(archive(program + STOP, THREE))
        try:
            if not torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "names.pt"):
                safe.append(attack)
        except pickle.UnpicklingError:
            pass
    # These name nothing that is not allowed, and Python's own reader would only build data of them.
    assert set(safe) == {
        "codecs", "build a class", "build a dtype", "call the tensor class", "new tensor class", "much memory",
        "another reference", "text reference", "slots of a tensor",
    }  # fmt: skip


# --- what looks alike and is honest


def test_honest_files_stay_within_the_allowance(tmp_path: Path) -> None:
    value = {
        "keys": {(i, str(i)): i for i in range(3000)},
        "floats": {i / 7: i for i in range(3000)},
        "large": {(1 << 61) + i: None for i in range(3000)},
        "complex": {complex(i, -i): None for i in range(3000)},
        "sets": [{i} for i in range(3000)],
        "empty sets": [set() for _ in range(20_000)],
        "tensors": [torch.ones(1) for _ in range(3000)],
        "parameters": [torch.nn.Parameter(torch.ones(1)) for _ in range(1000)],
        "one": [torch.ones(1)] * 20_000,
        "expanded": torch.ones(1).expand(1 << 40),
        "conjugate": torch.ones(1000, dtype=torch.complex64).conj(),
        "bytes": [bytes([i % 256]) * i for i in range(2000)],
        "bytearrays": [bytearray(i) for i in range(2000)],
        "sizes": [torch.Size([i, 2]) for i in range(3000)],
    }
    for protocol in (2, 4):
        torch.save(value, tmp_path / "honest.pt", pickle_protocol=protocol)
        loaded = torch.load(tmp_path / "honest.pt")
        assert loaded.keys() == value.keys()
        for key in ("keys", "floats", "large", "complex", "sets", "empty sets", "bytes", "bytearrays", "sizes"):
            assert loaded[key] == value[key]
        assert loaded["expanded"].shape == (1 << 40,)
        assert torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "honest.pt") == []


def test_the_archives_put_together_by_hand_are_good_ones(tmp_path: Path) -> None:
    (tmp_path / "good.pt").write_bytes(by_hand(*USUAL))
    assert torch.load(tmp_path / "good.pt").tolist() == [0.0, 1.0, 2.0]
