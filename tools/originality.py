"""Find what reads like PyTorch's: functions of the same name with much the same body, and texts with the same words.

    python -m tools.originality [--allowed FILE] [--source DIR] [--torch DIR]

Functions are compared by the tokens of their bodies, without signatures, annotations, decorators, docstrings, comments
and the package's name. One of at least TOKENS tokens is listed if it is ALIKE or more alike to a function of PyTorch's
Python sources that has the same name (`Class.method`). Texts are the string constants of the sources; one is listed if it
has WORDS words in a row in common with PyTorch's Python sources or with the constants of its C++ libraries.

FILE lists functions that can only be written one way (a formula, a stream of draws): `path::function  reason` per line.
Prints one line for each finding, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import gc
import importlib.util
import io
import itertools
import mmap
import re
import struct
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "undertow"
ALLOWED = ROOT / "tests" / "originality_allowed.txt"
TOKENS, ALIKE, WORDS = 60, 0.8, 15
LIBRARIES = ("libtorch_cpu.so", "libtorch_python.so", "libc10.so")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Finding:
    """Something here that reads like something there."""

    kind: str  # function or text
    where: str  # path::function, or path:line of a text
    origin: str  # the file of PyTorch's
    measure: float  # how alike two functions are, or how many words in a row texts share
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.measure:5.2f}  {self.where}  {self.origin}  {self.detail}".rstrip()


def torch_package() -> Path:
    """Return the folder of the installed torch, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit("torch is not installed, so there is nothing to compare with; give its folder with --torch")
    return Path(spec.origin).parent


def allowed_functions(file: Path) -> dict[str, str]:
    """Return the functions a file allows, as `path::function`, and the reason for each."""
    lines = [line.split(maxsplit=1) for line in file.read_text().splitlines() if line.strip() and line[0] != "#"]
    return {line[0]: line[1] if len(line) > 1 else "" for line in lines}


# --- functions


def functions_in(node: ast.AST, class_name: str = "") -> Iterator[tuple[str, Function]]:
    """Yield (Class.method, node) for every function of a module; expressions hold none and are not visited."""
    for child in _statements(node):
        if isinstance(child, Function):
            yield f"{class_name}.{child.name}".lstrip("."), child
            yield from functions_in(child, class_name)
        else:
            yield from functions_in(child, child.name if isinstance(child, ast.ClassDef) else class_name)


_BLOCKS = ("body", "orelse", "finalbody")  # fields that hold statements
_PARTS = ("handlers", "cases")  # fields that hold what has such blocks: of try and match statements


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    for field in (*_BLOCKS, *_PARTS):
        yield from getattr(node, field, ())


def names_in(text: str) -> set[str]:
    """Return the names of a file's functions as `functions_in` gives them, by indentation: far faster than parsing."""
    names: set[str] = set()
    around: list[tuple[int, str]] = []  # the classes and functions around a line: indentation, class (a function's own)
    for space, kind, name in _DEFINITION.findall(text):
        while around and around[-1][0] >= len(space):
            around.pop()
        owner = around[-1][1] if around else ""
        if kind == "class":
            around.append((len(space), name))
        else:
            around.append((len(space), owner))
            names.add(f"{owner}.{name}".lstrip("."))
    return names


_DEFINITION = re.compile(r"^([ ]*)(class|def|async def) +(\w+)", re.MULTILINE)


def body_tokens(function: Function, package: str) -> list[str]:
    """Return the tokens of a function's body, with the package's name as torch's."""
    source = ast.unparse(ast.Module(_bare(function.body), []))
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string.replace(package, "torch") for token in found if token.type not in _LAYOUT]


_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}


def _bare(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements without what two functions share because they have the same interface."""
    kept: list[ast.stmt] = []
    for node in statements:
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                kept.append(ast.copy_location(ast.Assign([node.target], node.value), node))
        elif not _is_text(node):
            if isinstance(node, Function):
                _strip_signature(node)
            for holder in (node, *(part for field in _PARTS for part in getattr(node, field, ()))):
                for field in _BLOCKS:
                    if below := getattr(holder, field, ()):
                        setattr(holder, field, _bare(below) or [ast.Pass()])
            kept.append(node)
    return kept


def _strip_signature(node: Function) -> None:
    node.returns, node.decorator_list = None, []
    taken = node.args
    for argument in [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]:
        if argument is not None:
            argument.annotation = None


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


Bodies = dict[str, list[tuple[str, list[str]]]]  # of each function name: where it is defined, and its tokens


def bodies_in(tree: ast.Module, path: str, package: str, names: set[str], found: Bodies) -> None:
    """Add the bodies of a file's functions of these names. The tree cannot be used afterwards."""
    for name, node in list(functions_in(tree)):
        if name in names:
            found[name].append((f"{path}::{name}", body_tokens(node, package)))


def alike_functions(ours: Bodies, theirs: Bodies, allowed: Iterable[str]) -> Iterator[Finding]:
    """Yield the functions that read like PyTorch's of the same name."""
    skipped = set(allowed)
    for name, here in ours.items():
        for where, mine in here:
            if where in skipped or len(mine) < TOKENS:
                continue
            likeness = [(_ratio(mine, other), f"torch/{origin}") for origin, other in theirs.get(name, [])]
            alike, origin = max(likeness, default=(0.0, ""))
            if alike >= ALIKE:
                yield Finding("function", where, origin, alike, f"{len(mine)} tokens")


def _ratio(mine: list[str], other: list[str]) -> float:
    """Return how alike two lists of tokens are, or 0 where it is clear that they are less than ALIKE."""
    matcher = difflib.SequenceMatcher(None, mine, other, autojunk=False)
    if matcher.real_quick_ratio() < ALIKE or matcher.quick_ratio() < ALIKE:
        return 0.0
    return matcher.ratio()


# --- texts

_LETTERS = bytes(byte if byte < 128 and (chr(byte).isalnum() or byte == ord("_")) else 32 for byte in range(256))
_NOT_WORDS = re.compile(rb"\{[^{}\n]*\}|\b[fr](?=[\"'])|\\n")  # placeholders, letters before literals, line ends


def words_in(text: bytes) -> list[bytes]:
    """Return the words of a text, or of source code, where a literal may go on in the next line."""
    return _NOT_WORDS.sub(b" ", text).translate(_LETTERS).lower().split()


def texts_in(tree: ast.Module, path: str) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the string constants of a file that are long enough to compare: where each is, and its words."""
    inside: set[ast.AST] = set()  # constants that are parts of an f-string, which comes before them in a walk
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            inside.update(parts)
            text = " ".join(str(part.value) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            text = node.value
        if len(_COMMON_WORDS.findall(text)) < 2:
            continue  # a list of names, or too short
        words = words_in(text.encode())
        if len(words) >= WORDS:
            yield f"{path}:{node.lineno}", words  # type: ignore[attr-defined]


_COMMON_WORDS = re.compile(r"(?<!\S)(?:an?|the|of|to|in|is|are|be|and|or|not|for|with|that|this|by|it|but)(?!\S)")


_BITS = np.uint64(44)


class Phrases:
    """The runs of WORDS words in our texts, to be looked for in others by a hash of each run."""

    def __init__(self, texts: Iterable[tuple[str, list[bytes]]]) -> None:
        self._numbers: dict[bytes, int] = {}
        self._where: dict[int, set[str]] = defaultdict(set)
        random = np.random.default_rng(0)
        self._powers = random.integers(1, 2**63, WORDS, dtype=np.uint64) | np.uint64(1)
        texts = list(texts)
        for _, words in texts:
            for word in words:
                self._numbers.setdefault(word, len(self._numbers) + 1)
        self._codes = random.integers(0, 2**63, len(self._numbers) + 1, dtype=np.uint64)  # the first: any other word
        for where, words in texts:
            for code in self._hashes(words).tolist():
                self._where[code].add(where)
        self._begins = np.zeros(2**20, bool)  # whether a hash of ours begins with these bits
        self._begins[np.fromiter(self._where, np.uint64, len(self._where)) >> _BITS] = True

    def _hashes(self, words: list[bytes]) -> np.ndarray:
        numbers = np.fromiter(map(self._numbers.get, words, itertools.repeat(0)), np.intp, len(words))
        codes, runs = self._codes[numbers], max(len(words) - WORDS + 1, 0)
        return sum((codes[i : i + runs] * power for i, power in enumerate(self._powers)), np.zeros(runs, np.uint64))

    def found_in(self, text: bytes, origin: str) -> Iterator[Finding]:
        """Yield our texts that have a run of words in common with a text of PyTorch's, each with its longest run."""
        words = words_in(text)
        hashes = self._hashes(words)
        ends: dict[str, tuple[int, int]] = {}  # of each of our texts: where its present run began, and its last start
        longest: dict[str, tuple[int, int]] = {}
        for place in np.flatnonzero(self._begins[hashes >> _BITS]).tolist():
            for where in self._where.get(int(hashes[place]), ()):
                begin, last = ends.get(where, (place, place))
                begin = begin if last >= place - 1 else place
                ends[where] = begin, place
                longest[where] = max(longest.get(where, (0, 0)), (place - begin + WORDS, begin))
        for where, (length, begin) in longest.items():
            shared = b" ".join(words[begin : begin + length]).decode()
            yield Finding("text", where, origin, length, shared)


def constants_of_library(library: Path) -> bytes:
    """Return the printable texts of a shared library (64-bit ELF), those of its read-only data."""
    if not library.exists():
        return b""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        table, size, count, names = (struct.unpack_from(form, data, at)[0] for form, at in _ELF_HEADER)
        sections = [struct.unpack_from("<IIQQQQ", data, table + size * number) for number in range(count)]
        for name, _, _, _, begin, length in sections:
            label = sections[names][4] + name
            if data[label : label + 8] == b".rodata\0":
                return b" endoftext ".join(_PRINTABLE.findall(data, begin, begin + length))
    return b""


_ELF_HEADER = (
    ("<Q", 0x28),
    ("<H", 0x3A),
    ("<H", 0x3C),
    ("<H", 0x3E),
)  # section table, entry size, entries, name section
_PRINTABLE = re.compile(rb"[\t\n\r\x20-\x7e]{40,}")


# --- all of it


def findings(source: Path, torch: Path, allowed: Iterable[str]) -> list[Finding]:
    """Return all that reads like PyTorch's, functions first, the most alike first."""
    gc.disable()  # the trees have no cycles, and looking for them takes half of the time
    try:
        files = {path: path.read_bytes() for path in sorted(torch.rglob("*.py"))}
        names = {path: names_in(text.decode(errors="ignore")) for path, text in files.items()}
        every = set().union(*names.values())
        ours: Bodies = defaultdict(list)
        texts: list[tuple[str, list[bytes]]] = []
        for path in sorted(source.rglob("*.py")):
            tree, where = ast.parse(path.read_bytes()), str(path.relative_to(source))
            texts.extend(texts_in(tree, where))
            bodies_in(tree, where, source.name, every, ours)
        wanted = {name for name, here in ours.items() if any(len(tokens) >= TOKENS for _, tokens in here)}
        phrases, found = Phrases(texts), list[Finding]()
        theirs: Bodies = defaultdict(list)
        for path, text in files.items():
            origin = str(path.relative_to(torch))
            found += phrases.found_in(text, f"torch/{origin}")
            if names[path] & wanted:
                with contextlib.suppress(SyntaxError):  # a template
                    bodies_in(ast.parse(text), origin, "torch", wanted, theirs)
        for library in LIBRARIES:
            found += phrases.found_in(constants_of_library(torch / "lib" / library), library)
        found += alike_functions(ours, theirs, allowed)
    finally:
        gc.enable()
    return sorted(found, key=lambda finding: (finding.kind, -finding.measure, finding.where))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, default=SOURCE)
    parser.add_argument("--torch", type=Path)
    parser.add_argument("--allowed", type=Path, default=ALLOWED)
    options = parser.parse_args()
    allowed = allowed_functions(options.allowed) if options.allowed.exists() else {}
    found = findings(options.source, options.torch or torch_package(), allowed)
    for finding in found:
        print(finding)
    kinds = [finding.kind for finding in found]
    print(f"{kinds.count('function')} functions and {kinds.count('text')} texts read like PyTorch's")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
