"""Anomaly mode: record the lines that make each node, and report them when its backward fails or gives NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from undertow._src.arrays.device.array import values_known
from undertow._src.arrays.device.memory import NeedsValue
from undertow._src.base.modes import slow_path
from undertow._src.base.sites import format_stack, warn
from undertow._src.engine.node import Node
from undertow._src.tensor.core import TensorCore


class set_detect_anomaly:
    """Switches anomaly mode on or off; as a context manager it restores the mode on exit."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (slow_path.anomaly, slow_path.anomaly_check_nan)
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _switch(*self._before)


class detect_anomaly:
    """A `with` block in anomaly mode."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warn(
            "Anomaly Detection has been enabled. It slows down every node: switch it on to find a fault, then off "
            "again."
        )

    def __enter__(self) -> None:
        self._before = (slow_path.anomaly, slow_path.anomaly_check_nan)
        _switch(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        _switch(*self._before)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off, without restoring it later."""
    for place, (argument, value) in enumerate({"enabled": enabled, "check_nan": check_nan}.items(), 1):
        if not isinstance(value, bool):
            kind = type(value).__name__
            raise TypeError(f"set_anomaly_enabled(): argument '{argument}' (position {place}) must be bool, not {kind}")
    _switch(enabled, check_nan)


def _switch(mode: bool, check_nan: bool) -> None:
    if mode and not slow_path.anomaly:
        slow_path.enter()
    elif slow_path.anomaly and not mode:
        slow_path.leave()
    slow_path.anomaly, slow_path.anomaly_check_nan = bool(mode), bool(check_nan)


def explain(error: Exception, node: Node) -> None:
    """Warn with the forward lines of a node whose backward, or a hook on it, raised; add them as notes to the exception."""
    for traceback in _tracebacks(node):
        warn(traceback)
        error.add_note(traceback)


def _tracebacks(node: Node | None) -> Iterator[str]:
    """Yield where a node was made; if in a backward pass, also where the node that ran then was made, and so on."""
    opening = "Error detected in {}. Traceback of forward call that caused the error:\n"
    while node is not None:
        extras, name = node._extras, node._node_name()
        if extras is None or not extras.stack:
            yield (
                f"Error detected in {name}. No forward pass information available. Anomaly mode must be on in the forward "
                "pass too."
            )
            return
        yield opening.format(name) + format_stack(extras.stack)
        opening = "\n\nPrevious calculation was induced by {}. "
        opening += "Traceback of forward call that induced the previous calculation:\n"
        node = extras.parent


def check_nan(node: Node, results: tuple[Any, ...]) -> None:
    """Raise if a node's gradient has NaN."""
    for place, value in enumerate(results):
        if value is None:
            continue
        if isinstance(value, TensorCore):
            value = (value if value._is_strided else value._values())._array
        if value.dtype.kind not in "fcV":
            continue
        if not values_known(value):
            raise NeedsValue(
                "anomaly mode is switched on inside the step and checks gradients for NaN, but their values are unknown "
                "while the step is compiled. Switch it on around the call, which then runs eagerly, or set check_nan=False."
            )
        if np.isnan(value.astype("f4") if value.dtype.kind == "V" else value).any():
            raise RuntimeError(f"Function '{node._node_name()}' returned nan values in its {place}th output.")
