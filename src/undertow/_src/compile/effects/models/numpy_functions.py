"""Calls of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertow._src.compile.effects import purity
from undertow._src.compile.effects.interface import Analysis
from undertow._src.compile.effects.models.items import with_contents
from undertow._src.compile.effects.values import (
    EMPTY,
    ONE,
    OPAQUE,
    PLAIN,
    CallArguments,
    Concrete,
    Fresh,
    Value,
    is_plain,
)


def call_numpy(analysis: Analysis, function: Any, name: str, arguments: CallArguments, node: Any) -> Value:
    """Return the result of a function or ufunc of NumPy: an array, which may share memory with an argument."""
    module = getattr(function, "__module__", None) or ""
    if purity.numpy_effect(name, module):
        field = "random" if "random" in module else "output" if name in purity.NUMPY_FILES else "harmless"
        analysis.log.effect("call", f"calls `numpy.{name}`", node, field=field)
        return ONE[OPAQUE]
    written = [arguments.keywords.get("out", EMPTY), arguments.more_keywords]
    if name in purity.NUMPY_FILLERS:
        written += arguments.positional[:1]
    if isinstance(function, np.ufunc):
        written += arguments.positional[function.nin if name == function.__name__ else 3 :]
    for atom in EMPTY.union(*written):
        if isinstance(atom, Concrete) and not is_plain(atom.value):
            analysis.log.effect("store", f"writes into `{atom.name}`", node, atom.value)
        elif atom is OPAQUE:
            analysis.log.effect("store", "writes into an array that is unknown", node)
        elif isinstance(atom, Fresh):
            analysis.log.change(atom)
    analysis.log.contents(arguments.all() - EMPTY.union(*written), deep=3)
    analysis.protocols(with_contents(analysis, arguments.all()), node)
    return analysis.heap.fresh(node, None, ONE[PLAIN]) | arrays_in(arguments.all())


def arrays_in(value: Value) -> Value:
    """Return the arrays from outside that a value may be."""
    return frozenset(atom for atom in value if isinstance(atom, Concrete) and isinstance(atom.value, np.ndarray))
