"""Text for a stopped backward pass: a gradient in one line with a histogram, a node with its line, its hooks."""

from __future__ import annotations

import linecache
import os
from typing import Any

import numpy as np

from undertow._src.base.sites import Site
from undertow.why.report import rich_console

BARS = "▁▂▃▄▅▆▇█"
_BINS = 12
STYLES = {
    "head": "bold cyan",
    "place": "cyan",
    "code": "bold",
    "label": "bold",
    "bad": "bold red",
    "dim": "dim",
    "": "",
}

Line = list[tuple[str, str]]  # (style, text) pieces


class Printer:
    """Prints lines, in colour where rich is installed and the file is a terminal."""

    def __init__(self, out: Any) -> None:
        self.out = out
        self.console = rich_console(out) if out.isatty() else None

    def __call__(self, *lines: Line | str) -> None:
        for line in lines:
            pieces: Line = [("", line)] if isinstance(line, str) else line
            if self.console is None:
                print("".join(text for _, text in pieces).rstrip(), file=self.out)
                continue
            from rich.text import Text

            self.console.print(Text.assemble(*[(text, STYLES[style]) for style, text in pieces]), soft_wrap=True)
        self.out.flush()


def array_of(gradient: Any) -> np.ndarray | None:
    """Return the values of a gradient as the pass carries it; None if it has none that NumPy can show."""
    array = gradient if isinstance(gradient, np.ndarray) else getattr(gradient, "_array", None)
    if array is None:
        return None
    array = np.asarray(array)
    if array.dtype.kind == "c":
        return np.abs(array)
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)


def is_finite(gradient: Any) -> bool:
    """Whether a gradient has no NaN and no Inf. A missing one counts as finite."""
    array = None if gradient is None else array_of(gradient)
    return array is None or bool(np.isfinite(array).all())


def gradient(value: Any) -> Line:
    """Return a gradient in one line: shape, dtype, norm, range, and a histogram of its values."""
    array = None if value is None else array_of(value)
    if array is None:
        return [("dim", "none" if value is None else f"a {type(value).__name__}")]
    shape = f"{list(array.shape)} {array.dtype}"
    finite = array[np.isfinite(array)].astype(np.float64)
    line: Line = [("", shape)]
    if finite.size:
        line.append(("", f"  norm {np.sqrt(finite @ finite):.4g}"))
        if finite.size > 1:
            line.append(("", f"  {finite.min():.3g} … {finite.max():.3g}  {histogram(finite)}"))
    zeros = int((finite == 0).sum())
    if zeros:
        line.append(
            ("bad" if zeros == array.size else "dim", "  all zero" if zeros == array.size else f"  {zeros} zero")
        )
    nan, infinite = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    line += [("bad", f"  {count} {name}") for count, name in ((nan, "NaN"), (infinite, "Inf")) if count]
    return line


def histogram(values: np.ndarray) -> str:
    """Return the distribution of finite values, from the least to the largest, as bars."""
    if values.min() == values.max():
        return BARS[-1]
    counts, _ = np.histogram(values, bins=min(_BINS, values.size))
    heights = np.ceil(counts / counts.max() * len(BARS)).astype(int)
    return "".join(BARS[height - 1] if height else " " for height in heights)


def place(site: Site | None) -> str:
    """Return a line without its folders: `train.py:12`."""
    return "line unknown" if site is None else f"{os.path.basename(site.filename)}:{site.lineno}"


def source(site: Site, around: int = 0) -> list[Line]:
    """Return a line of the program, marked, with some lines before and after it."""
    numbers = range(max(1, site.lineno - around), site.lineno + around + 1)
    width = len(str(numbers[-1]))
    shown: list[Line] = []
    for number in numbers:
        code = linecache.getline(site.filename, number).rstrip()
        if code or number == site.lineno:
            here = number == site.lineno
            mark = "→" if here else " "
            shown.append([("", f"  {mark} "), ("code" if here else "dim", f"{number:>{width}} │ {code}")])
    return shown
