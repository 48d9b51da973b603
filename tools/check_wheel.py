"""Build the wheel, install it in a clean virtual environment and run the README's first example there.

python -m tools.check_wheel     # `make wheel` does this; the wheel stays in dist/
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]


def _run(python: str | Path, *words: str, folder: Path = ROOT) -> str:
    """Run Python and return what it prints; an error ends the check."""
    done = subprocess.run([python, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"failed: {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def _readme_example() -> tuple[str, str]:
    """Return the README's first program and what it says the program prints."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.DOTALL)
    if found is None:
        sys.exit("README.md no longer begins with a program and what it prints")
    return found[1], found[2]


def build(folder: Path) -> Path:
    """Build the wheel into a folder and return its path."""
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # setuptools would pack what an earlier build left there
    for old in folder.glob("undertow-*.whl"):
        old.unlink()
    _run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("undertow-*.whl")
    return wheel


def check(wheel: Path) -> None:
    """Install the wheel where nothing else is, and compare what the README's example prints with what it says."""
    program, expected = _readme_example()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        _run(python, *PIP, "install", "--constraint", str(ROOT / "requirements-dev.txt"), str(wheel))
        printed = _run(python, "-c", program, folder=folder)
        _run(python, "-c", "from undertow.cli import main; main(['run', '--help'])", folder=folder)
    if printed != expected:
        sys.exit(f"the README's example prints\n{printed}\nand the README says\n{expected}")


if __name__ == "__main__":
    wheel = build(ROOT / "dist")
    check(wheel)
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size:,} bytes, installs alone and runs the README's example")
