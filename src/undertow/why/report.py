"""The report that every function of `why` returns: text when printed, tables in a notebook, plain data on request."""

from __future__ import annotations

import html
import math
import os
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from undertow.why.places import Place

WIDEST = 60  # characters of one line of a cell


class Table(NamedTuple):
    """Named columns and rows of plain values: numbers, texts, places, and None for unknown."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    title: str = ""

    def as_data(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, map(plain, row))) for row in self.rows]


class Report:
    """A title, tables and notes. Subclasses supply the contents; printing, HTML and data are written once here."""

    def title(self) -> str:
        raise AssertionError("a subclass of Report must define title()")

    def tables(self) -> list[Table]:
        return []

    def notes(self) -> list[str]:
        return []

    def data(self) -> dict[str, Any]:
        """Return the report as dicts, lists, numbers and texts."""
        tables = self.tables()
        rows = {table.title or "rows": table.as_data() for table in tables}
        return {"title": self.title(), **rows, "notes": self.notes()}

    def __str__(self) -> str:
        parts = [self.title()]
        for table in self.tables():
            if table.title:
                parts += ["", table.title]
            parts += _lines(table)
        parts += [f"note: {note}" for note in self.notes()]
        return "\n".join(parts)

    __repr__ = __str__

    def show(self) -> None:
        """Print in colour where rich is installed, as plain text otherwise."""
        console = rich_console()
        if console is None:
            print(self)
            return
        from rich.table import Table as RichTable
        from rich.text import Text

        console.print(Text(self.title(), style="bold"))
        for table in self.tables():
            drawn = RichTable(title=table.title or None, title_justify="left")
            numeric = _numeric(table)
            for place, column in enumerate(table.columns):
                drawn.add_column(column, justify="right" if place in numeric else "left", overflow="fold")
            for row in table.rows:
                drawn.add_row(*[Text(cell(value)) for value in row])
            console.print(drawn)
        for note in self.notes():
            console.print(Text(f"note: {note}", style="dim"))

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{html.escape(self.title())}</b></p>"]
        for table in self.tables():
            if table.title:
                parts.append(f"<p>{html.escape(table.title)}</p>")
            head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
            body = "".join(
                "<tr>" + "".join(f"<td>{html.escape(cell(value))}</td>" for value in row) + "</tr>"
                for row in table.rows
            )
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        parts += [f"<p><i>{html.escape(note)}</i></p>" for note in self.notes()]
        return "".join(parts)


def rich_console(file: Any = None, color: bool | None = None) -> Any:
    """Return a console of the package rich, or None where rich is not installed."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=file, force_terminal=color, highlight=False)


def cell(value: Any) -> str:
    """Return the text of a value in a table cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return short_place(value) if isinstance(value, Place) else str(value)


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: places become dicts, NaN and Inf become texts."""
    if isinstance(value, Place):
        return {"file": value.file, "line": value.line}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def short_place(place: Place) -> str:
    """Return a place without its folders: `train.py:12`."""
    return f"{os.path.basename(place.file)}:{place.line}"


def bytes_text(count: int) -> str:
    """Return a number of bytes with a unit: 1536 gives '1.5 KiB'."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable: GiB accepts any size")


def _numeric(table: Table) -> set[int]:
    """Return the indices of the columns that hold only numbers and are right-aligned."""
    return {
        place
        for place in range(len(table.columns))
        if all(isinstance(row[place], (int, float, type(None))) and row[place] is not True for row in table.rows)
    }


def _lines(table: Table) -> list[str]:
    numeric = _numeric(table)
    texts: list[Sequence[str]] = [table.columns]
    for row in table.rows:
        cells = [textwrap.wrap(cell(value), WIDEST) or [""] for value in row]
        texts += zip_longest(*cells, fillvalue="")
    widths = [max(len(row[place]) for row in texts) for place in range(len(table.columns))]
    return [
        "  ".join(
            text.rjust(width) if place in numeric else text.ljust(width)
            for place, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in texts
    ]
