"""`undertow run` and `undertow why` run a program as `python` does: what it sees, says and ends with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import undertow

SOURCE = str(Path(undertow.__file__).parent.parent)

PROGRAMS = {
    "what it sees, its threads and its last words": """
        import os, sys, threading, time
        from concurrent.futures import ThreadPoolExecutor
        import beside
        main = sys.modules["__main__"]
        print(sys.argv, __name__, __file__, sys.path[0], __spec__, __cached__, __package__, __doc__, os.getcwd())
        print(main.__dict__ is globals(), beside.x, input(), sys.stdin.read())
        def work():
            time.sleep(0.2)
            print("the thread is done")
            raise KeyError("thread")
        threading.Thread(target=work).start()
        pool = ThreadPoolExecutor(1)
        pool.submit(print, "worked")
        sys.exit("bye")
        """,
    "an exit code, and a copy of the process": """
        import os, sys
        child = os.fork()
        if not child:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        sys.exit(7)
        """,
    "its own excepthook": "import sys\nsys.excepthook = lambda *error: print('mine:', error[1])\n1 / 0",
    "a cause": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise BaseException('no') from error",
    "processes": """
        import multiprocessing, sys
        def work(queue):
            queue.put((__name__, sys.argv))
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                context = multiprocessing.get_context(method)
                queue = context.SimpleQueue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                print(queue.get())
                process.join()
        """,
}


def ended(folder: Path, *command: str) -> tuple[str, str, int]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True,
        input="first line\nthe rest",
    )  # fmt: skip
    said = done.stdout.removesuffix("No finding: the program computed nothing with tensors.\n")
    return said, done.stderr, done.returncode


@pytest.mark.parametrize("command", [("run",), ("why", "--engine", "undertow")])
def test_a_folder(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "__main__.py").write_text("import sys\nprint(sys.argv, sys.path[0])\n")
    assert ended(tmp_path, "-m", "undertow", *command, "program", "x") == ended(tmp_path, "program", "x")
    (tmp_path / "empty").mkdir()
    for name, words in (("empty", "can't find '__main__' module in"), ("absent.py", "can't open file")):
        _, said, code = ended(tmp_path, "-m", "undertow", *command, name)
        assert words in said and words in ended(tmp_path, name)[1] and code == 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_python(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "beside.py").write_text("x = 5\n")
    lines = PROGRAMS[name].splitlines()
    indent = len(lines[-1]) if len(lines) > 1 and not lines[-1].strip() else 0
    (folder / "program.py").write_text("\n".join(line[indent:] for line in lines) + "\n")
    program = ("inside/program.py", "--json", "-x", "--engine=2")
    expected = ended(tmp_path, *program)
    assert ended(tmp_path, "-m", "undertow", "run", *program) == expected
    assert ended(tmp_path, "-m", "undertow", "why", "--engine", "undertow", program[0], "--", *program[1:]) == expected
