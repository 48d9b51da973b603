"""Write the page as one self-contained HTML file: the built script and style, and the data they show."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

# The page contains everything it needs and loads nothing.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="initial-scale=1, width=device-width">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<noscript>This page is drawn by a script that it contains; scripts are switched off.</noscript>
<script type="application/json" id="undertow-data">{data}</script>
<script>
{script}
</script>
<!--
{licences}
-->
</body>
</html>
"""


def page_html(data: dict[str, Any]) -> str:
    """Return the page for this data."""
    built = files("undertow.why.page") / "built"
    parts = {
        "policy": _POLICY,
        "title": html.escape(f"{data['program']['title']} · undertow why"),
        "style": (built / "page.css").read_text(encoding="utf-8"),
        "data": embedded(data),
        "script": (built / "page.js").read_text(encoding="utf-8"),
        "licences": (built / "THIRD_PARTY.txt").read_text(encoding="utf-8").replace("--", "- -"),
    }
    pieces = _PAGE.split("{")  # not format(): the parts have braces of their own
    return pieces[0] + "".join(parts[name] + rest for name, _, rest in (piece.partition("}") for piece in pieces[1:]))


def embedded(data: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def write_page(path: str, data: dict[str, Any]) -> None:
    """Write the page to a file."""
    text = page_html(data)
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
