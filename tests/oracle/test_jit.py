"""torch.jit returns code unchanged, and programs that check what they got find what they expect."""

from __future__ import annotations

from typing import Any

from tests.oracle.harness import agree


def test_what_is_compiled() -> None:
    def program(torch: Any) -> Any:
        jit, linear, example = torch.jit, torch.nn.Linear(2, 2), torch.ones(1, 2)

        def double(x: Any) -> Any:
            return x + x

        kinds = (jit.ScriptModule, jit.RecursiveScriptModule, jit.TracedModule, jit.ScriptFunction, torch.nn.Module)
        made = (
            jit.script(torch.nn.Linear(2, 2)),
            jit.trace(torch.nn.ReLU(), example),
            jit.trace(double, example),
            linear,
        )
        return [[isinstance(each, kind) for kind in kinds] for each in made]

    agree(program)
