"""optim.swap_in_optimizer_params_and_state: an optimizer on other parameters and another state, for a time."""

from __future__ import annotations

import copy
from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


def stepped(torch: Any) -> tuple[Any, Any, Any]:
    """Two parameters and their optimizer, which has made one step."""
    a, b = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.Adam([a, b], lr=0.1)
    a.grad, b.grad = torch.ones(2), torch.ones(3)
    optimizer.step()
    return a, b, optimizer


@cases
def a_step_with_other_parameters(torch, log):
    a, b, optimizer = stepped(torch)
    state = copy.deepcopy(optimizer.state_dict())
    x, y = torch.full((2,), 5.0), torch.full((3,), 6.0)
    x.grad, y.grad = torch.ones(2) * 2, torch.ones(3)
    with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"a": x, "b": y}, state) as value:
        log(value, optimizer.param_groups[0]["params"][0] is x, list(optimizer.param_groups[0]))
        optimizer.step()
        optimizer.state[x]["new"] = 1
        optimizer.param_groups[0]["lr"] = 7.0
    log(a, b, x, y, state, optimizer.state_dict(), optimizer.param_groups[0]["params"][0] is a)


@cases
def groups_names_and_hooks(torch, log):
    a, b = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([{"params": [("a", a)]}, {"params": [("b", b)], "lr": 0.5}], lr=0.1, momentum=0.9)
    a.grad, b.grad = torch.ones(2), torch.ones(3)
    optimizer.step()
    optimizer.register_step_pre_hook(
        lambda o, args, kwargs: log([p.shape for g in o.param_groups for p in g["params"]])
    )
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][1]["lr"] = 9.0
    x, y = torch.zeros(2), torch.zeros(3)
    x.grad, y.grad = torch.ones(2), torch.ones(3)
    with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"q": x, "r": y}, state):
        optimizer.step()
    log(x, y, state, optimizer.state_dict())


@cases
def an_error_inside(torch, log):
    a, _, optimizer = stepped(torch)
    state = copy.deepcopy(optimizer.state_dict())

    def fail():
        with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"a": torch.ones(2), "b": torch.ones(3)}, state):
            raise KeyError("inside")

    attempt(log, "inside", fail)
    log(a in optimizer.state, optimizer.param_groups[0]["params"][0] is a)


@cases
def an_optimizer_without_state(torch, log):
    a = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([a])

    def enter():
        with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"a": torch.ones(2)}, optimizer.state_dict()):
            pass

    attempt(log, "no step", enter)


@cases
def what_is_refused(torch, log):
    edits = {
        "as it is": lambda state, group: state,
        "a number": lambda state, group: 3,
        "no groups": lambda state, group: {"state": {}},
        "groups in a dict": lambda state, group: {**state, "param_groups": {}},
        "fewer groups": lambda state, group: {**state, "param_groups": []},
        "a number as a group": lambda state, group: {**state, "param_groups": [3]},
        "a missing option": lambda state, group: group.pop("lr") and state,
        "another option": lambda state, group: group.update(extra=1) or state,
        "a missing parameter": lambda state, group: group.update(params=[0]) or state,
        "names as numbers": lambda state, group: group.update(params=["0", 1]) or state,
        "a tuple of numbers": lambda state, group: group.update(params=(0, 1)) or state,
        "other numbers": lambda state, group: group.update(params=[0, 5]) or state,
        "the numbers turned": lambda state, group: group.update(params=[1, 0]) or state,
        "a state in a list": lambda state, group: {**state, "state": []},
        "no state": lambda state, group: {**state, "state": {}},
        "an entry less": lambda state, group: state["state"].pop(0) and state,
        "an entry more": lambda state, group: state["state"].update({7: {}}) or state,
        "a number as an entry": lambda state, group: state["state"].update({0: 3}) or state,
    }
    for label, edit in edits.items():
        _, _, optimizer = stepped(torch)
        state = copy.deepcopy(optimizer.state_dict())
        given = edit(state, state["param_groups"][0])

        def enter(optimizer=optimizer, given=given):
            parameters = {"a": torch.ones(2), "b": torch.ones(3)}
            with torch.optim.swap_in_optimizer_params_and_state(optimizer, parameters, given):
                log(optimizer.state_dict())

        attempt(log, label, enter)
    _, _, optimizer = stepped(torch)

    def too_few():
        with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"a": torch.ones(2)}, optimizer.state_dict()):
            pass

    attempt(log, "too few parameters", too_few)


@cases.test
def test_swap_in(program: Any) -> None:
    agree(program)
