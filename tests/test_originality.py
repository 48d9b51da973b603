"""undertow is written here: no function and no text of it reads like PyTorch's (tools/originality.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tools import originality
from tools.originality import ALLOWED, SOURCE, Finding, allowed_functions, constants_of_library, findings

TORCH = Path(torch.__file__).parent


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    return findings(SOURCE, TORCH, allowed_functions(ALLOWED))


def test_functions_are_not_pytorchs(found: list[Finding]) -> None:
    assert [str(finding) for finding in found if finding.kind == "function"] == []


def test_texts_are_not_pytorchs(found: list[Finding]) -> None:
    assert [str(finding) for finding in found if finding.kind == "text"] == []


def test_the_list_of_exceptions_is_short_and_true() -> None:
    allowed = allowed_functions(ALLOWED)
    assert len(allowed) <= 20
    assert [where for where, reason in allowed.items() if not reason] == []
    missing = []
    for where in allowed:
        path, _, function = where.partition("::")
        if not (SOURCE / path).exists() or function not in originality.names_in((SOURCE / path).read_text()):
            missing.append(where)
    assert missing == []


# --- the tool itself

FUNCTION = """
class Scale:
    def fit(self, values):
        total = 0
        for value in values:
            if value is None:
                continue
            total += abs(value) ** 2
        self.scale = (total / max(len(values), 1)) ** 0.5
        if self.scale == 0:
            raise ValueError("all of the values are zero")
        return [value / self.scale for value in values if value is not None]
"""
TYPED = FUNCTION.replace("(self, values):", '(self, values: list[float]) -> list[float]:\n        """Scale values."""')
TYPED = TYPED.replace("total = 0", "total: float = 0  # of the squares")
OTHER = """
class Scale:
    def fit(self, values):
        known = [value for value in values if value is not None]
        self.scale = math.sqrt(sum(map(operator.mul, known, known)) / (len(values) or 1))
        self._refuse_zero()
        scaled = map(operator.truediv, known, itertools.repeat(self.scale))
        self.fitted = list(scaled)
        return self.fitted if self.copies is False else list(self.fitted)
"""
SENTENCE = "a gradient of {}, which is as wide as its tensor is high, can only be turned if the tensor is square"


def compared(folder: Path, mine: str, theirs: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """Return what is found in a package of one file, compared with a PyTorch of one file."""
    for name, text in {"package": mine, "torch": theirs}.items():
        (folder / name).mkdir()
        (folder / name / "file.py").write_text(text)
    return [finding.where for finding in findings(folder / "package", folder / "torch", allowed)]


def test_a_function_with_annotations_and_comments_is_the_same_one(tmp_path: Path) -> None:
    assert compared(tmp_path, TYPED, FUNCTION) == ["file.py::Scale.fit"]


def test_a_function_of_its_own_design_is_not(tmp_path: Path) -> None:
    assert compared(tmp_path, OTHER, FUNCTION) == []


def test_a_function_of_a_different_class_is_not(tmp_path: Path) -> None:
    assert compared(tmp_path, TYPED.replace("Scale", "Norm"), FUNCTION) == []


def test_an_allowed_function_is_left_out(tmp_path: Path) -> None:
    assert compared(tmp_path, TYPED, FUNCTION, ("file.py::Scale.fit",)) == []


def test_a_text_is_found_across_lines_and_placeholders(tmp_path: Path) -> None:
    mine = f"def f(x):\n    raise ValueError(f{SENTENCE.replace('{}', '{x.shape}')!r})\n"
    theirs = SENTENCE.replace("{}", "{tuple(given.shape)}").replace("its ", 'its "\n        f"')
    assert compared(tmp_path, mine, f'def g(given):\n    fail(f"{theirs}")\n') == ["file.py:2"]


def test_fourteen_words_in_a_row_are_not_too_many(tmp_path: Path) -> None:
    words = SENTENCE.replace("{}, ", "").split()
    mine = " ".join([*words[:14], "or else", *words[14:]])
    assert compared(tmp_path, f"text = {mine!r}", f"text = {SENTENCE!r}") == []


def test_the_texts_of_libraries_are_read() -> None:
    assert b"INTERNAL ASSERT FAILED" in constants_of_library(TORCH / "lib" / "libc10.so")
