"""What `compile.explain()` says about hooks on the host, and about what made a step compile again: by name."""

from __future__ import annotations

from typing import Any

import undertow as torch
from undertow import nn, optim
from undertow._src.compile.recompile_reasons import difference


def test_what_made_a_step_compile_again() -> None:
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    sizes = {"of": [1, 2]}

    @torch.compile
    def step(x: Any, k: float, mode: str = "plain", more: Any = ()) -> Any:
        with torch.no_grad():
            y = model(x.expand(2, 3)) * k * sizes["of"][1]
        optimizer.step()
        return y * 2 if k > 3 else y

    x, group = torch.ones(2, 3), optimizer.param_groups[0]

    def said(*args: Any, **kwargs: Any) -> str:
        before = len(torch.compile.explain(step).data[0]["recompiles"])
        step(*args, **kwargs)
        causes = torch.compile.explain(step).data[0]["recompiles"]
        return causes[-1] if len(causes) > before else ""

    said(x, 1.0)
    assert said(x, 2.0) == "k was 1.0 and is 2.0"
    assert said(x, 3.0) == ""
    assert said(x, 4.0) == "k was 3.0 and is 4.0, and a comparison in the step comes out differently"
    assert said(x, 2, more=[x]) == "k was a float and is an int, and 1 more"
    assert said(x[:1], 1.0, mode="other") == (
        "x was a float32 tensor of shape [2, 3] and is a float32 tensor of shape [1, 3], and 1 more"
    )
    with torch.autocast("cpu"):
        assert said(x, 1.0) == "autocast was off and is cpu to torch.bfloat16"
    sizes["of"][1] = 3
    assert said(x, 1.0) == "sizes['of'][1] was 2 and is 3"
    group["nesterov"] = True
    assert said(x, 1.0) == "SGD.param_groups[0]['nesterov'] was False and is True"


def test_keywords_in_another_order() -> None:
    said = difference([{"a": "an int", "b": "a float"}], {"b": "a float", "a": "an int"})
    assert said == "the keyword arguments are in a different order"


def test_a_hook_on_the_host_is_explained_in_one_line() -> None:
    weight = torch.ones(3, requires_grad=True)

    def scale(gradient: Any) -> Any:
        return gradient * int(gradient.norm())

    weight.register_hook(scale)

    @torch.compile
    def step() -> None:
        (weight * 3).sum().backward()

    step()
    (hook,) = torch.compile.explain(step).data[0]["programs"][0]["hooks"]
    line = scale.__code__.co_firstlineno + 1
    source = "return gradient * int(gradient.norm())"
    assert hook["runs"] == "inside the program, on the host"
    assert hook["why"] == (
        f"it needs a value: the value of a tensor of shape [] was asked for at {__file__}:{line}, in `{source}`"
    )


def test_why_hooks_run_inside_the_program() -> None:
    weight, log = torch.ones(2, requires_grad=True), list[Any]()
    names: dict[str, Any] = {}
    exec("def unread(gradient):\n    pass\n", names)

    def noted(gradient: Any) -> None:
        log.append(1)

    def waited_for(gradient: Any) -> Any:
        if gradient.norm() > 1:
            log.append(2)
            return gradient * 2
        return gradient

    for hook in (noted, waited_for, names["unread"]):
        weight.register_hook(hook)

    @torch.compile
    def step() -> None:
        (weight * 3).sum().backward()

    step()
    assert log == [1, 2]
    program = torch.compile.explain(step).data[0]["programs"][0]
    said = [each["why"] for each in program["hooks"]]
    (moved,) = [each["why"] for each in program["statements"]]
    assert "appends to `log`" in moved and "the program waits for" in moved and moved.endswith("waited_for`")
    assert said[1].endswith("may return something to the program")
    assert said[2] == "it has no source to read, and may return something to the program"
