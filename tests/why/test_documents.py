"""docs/why.md lists every code with its meaning, as the causes say it."""

from __future__ import annotations

import re
from pathlib import Path

from undertow.why.causes import CODES

_TEXT = (Path(__file__).parents[2] / "docs" / "why.md").read_text()


def test_every_code_is_listed_with_its_meaning() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", _TEXT, re.MULTILINE))
    listed = {code: meaning.replace("`", "") for code, meaning in rows.items()}
    assert listed == {code: cause.meaning for code, cause in CODES.items()}
