"""A profiler's events as a text table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undertow.autograd.profiler_util import EventList

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def _format_time(time_us: float) -> str:
    """Format a time: `1.500ms`."""
    unit = "s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us"
    return f"{time_us / _UNITS[unit]:.3f}{unit}"


def _format_time_share(time_us: float, total_time_us: float) -> str:
    """Format a share of the total time: `12.50%`."""
    if total_time_us == 0:
        if time_us != 0:
            raise AssertionError(f"Expected time_us == 0 but got {time_us}")
        return "NaN"
    return f"{time_us * 100.0 / total_time_us:.2f}%"


def _format_memory(nbytes: float) -> str:
    """Format a size: `1.50 MB`."""
    for unit, size in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if abs(nbytes) >= size:
            return f"{nbytes * 1.0 / size:.2f} {unit}"
    return f"{nbytes} B"


def _attr_formatter(name: str) -> property:
    """Return a property that formats a time."""
    return property(lambda self: _format_time(getattr(self, name)))


def _in_unit(time_us: float, unit: str | None) -> str:
    return _format_time(time_us) if unit is None else f"{time_us / _UNITS[unit]:.3f}{unit}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _flops_column(events: list[Any]) -> tuple[str, float]:
    largest = max([event.flops or 0 for event in events], default=0)
    for name, size in (("TFLOPs", 1e12), ("GFLOPs", 1e9), ("MFLOPs", 1e6), ("KFLOPs", 1e3)):
        if largest >= size:
            return f"Total {name}", size
    return "Total FLOPs", 1.0


def _build_table(
    events: EventList, sort_by: str | None = None, header: str | None = None, row_limit: int = 100,
    max_src_column_width: int = 75, max_name_column_width: int = 55, max_shapes_column_width: int = 80,
    with_flops: bool = False, profile_memory: bool = False, top_level_events_only: bool = False,
    time_unit: str | None = None,
) -> str:  # fmt: skip
    """Return the table: a row per event, or per average of events."""
    if len(events) == 0:
        return ""
    rows = list(events)
    whole = sum(event.self_cpu_time_total for event in rows)
    if sort_by is not None:
        rows.sort(key=lambda event: getattr(event, sort_by), reverse=True)
    if top_level_events_only:
        rows = [event for event in rows if event.cpu_parent is None]
    if row_limit >= 0:
        rows = rows[:row_limit]
    with_shapes = any(event.input_shapes is not None and len(event.input_shapes) > 0 for event in events)
    with_sources = any(event.stack for event in events)
    name_width = min(max(len(event.key) for event in events) + 4, max_name_column_width)
    shapes_width = min(max(len(str(event.input_shapes)) for event in events) + 4, max_shapes_column_width)
    flops_name, flops_size = _flops_column(list(events))

    columns: list[tuple[str, int, Any]] = [
        ("Name", name_width, lambda event: _cut(event.key, name_width)),
        ("Self CPU %", 12, lambda event: _format_time_share(event.self_cpu_time_total, whole)),
        ("Self CPU", 12, lambda event: _in_unit(event.self_cpu_time_total, time_unit)),
        ("CPU total %", 12, lambda event: _format_time_share(event.cpu_time_total, whole)),
        ("CPU total", 12, lambda event: _in_unit(event.cpu_time_total, time_unit)),
        ("CPU time avg", 12, lambda event: _in_unit(event.cpu_time, time_unit)),
    ]
    if profile_memory:
        columns.append(("CPU Mem", 12, lambda event: _format_memory(event.cpu_memory_usage)))
        columns.append(("Self CPU Mem", 12, lambda event: _format_memory(event.self_cpu_memory_usage)))
    columns.append(("# of Calls", 12, lambda event: str(event.count)))
    if with_shapes:
        columns.append(("Input Shapes", shapes_width, lambda event: str(event.input_shapes)[:shapes_width]))
    if with_sources:
        widest = max(len(line) for event in events for line in event.stack or ()) + 4
        width = min(widest, max_src_column_width)
        columns.append(("Source Location", width, lambda event: _cut((event.stack or [""])[0], width)))
    if with_flops:
        columns.append((flops_name, 12, lambda event: f"{event.flops / flops_size:.3f}" if event.flops else "--"))

    rule = "".join("-" * width + "  " for _, width, _ in columns)
    lines = []
    if header is not None or top_level_events_only:
        lines.append("=" * (len(rule) - 2))
        lines += [header] if header is not None else []
        lines += ["This report only display top-level ops statistics"] if top_level_events_only else []
    lines += [rule, "".join(name.rjust(width) + "  " for name, width, _ in columns), rule]
    lines += ["".join(shown(event).rjust(width) + "  " for _, width, shown in columns) for event in rows]
    return "\n".join([*lines, rule, f"Self CPU time total: {_in_unit(whole, time_unit)}", ""])
