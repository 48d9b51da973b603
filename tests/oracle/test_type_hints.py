"""Annotations of modules can be evaluated by programs that only have the class: typing.get_type_hints."""

from __future__ import annotations

import types
import typing
from typing import Any

from tests.oracle.harness import agree


def _hinted(torch: Any) -> list[str]:
    """Return the names of the modules whose annotations are understood by a program without PyTorch's imports."""
    understood = []
    for name in torch.nn.modules.__all__:
        kind = getattr(torch.nn, name)
        instance = types.SimpleNamespace(__annotations__=dict(kind.__annotations__))
        if name not in ("ModuleDict", "ModuleList", "Sequential"):  # text in PyTorch
            typing.get_type_hints(instance, globalns={})
        typing.get_type_hints(kind)
        if "Iterable" not in str(kind.__init__.__annotations__) and name != "ModuleDict":  # not imported in PyTorch
            typing.get_type_hints(kind.__init__)
        typing.get_type_hints(kind.forward)
        understood.append(name)
    return understood


def test_modules() -> None:
    agree(lambda torch: [name for name in _hinted(torch) if name != "Container"])


def test_a_class_of_the_program_keeps_its_annotations() -> None:
    def program(torch: Any) -> Any:
        class Scaled(torch.nn.Module):
            scale: "Unknown"  # type: ignore[name-defined]  # noqa: F821, UP037

        return Scaled.__annotations__["scale"], typing.get_type_hints(torch.nn.CrossEntropyLoss())["reduction"]

    agree(program)
