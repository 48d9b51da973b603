"""Optimizer states pass from PyTorch to undertow and back in the middle of a training, which goes on as if nothing was."""

from __future__ import annotations

from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.facts import differences, facts, to_numpy, to_tensor
from tests.oracle.harness import agree
from tests.oracle.optim_cases import CASES, Training, case_name, result
from tests.oracle.programs import Table, attempt

cases = Table()


def carried(value: Any, source: Any, target: Any) -> Any:
    """A state with its tensors made into another library's."""
    if isinstance(value, source.Tensor):
        return to_tensor(target, to_numpy(source, value), dtype=str(value.dtype).rpartition(".")[2])
    if isinstance(value, dict):
        return {key: carried(item, source, target) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(carried(item, source, target) for item in value)
    return value


def go_on(torch: Any, case: Any, params: list[Any], state: Any, seed: int) -> tuple[Training, Any]:
    """A training that takes over parameters and a state, and makes seven more steps."""
    training = Training(torch, seed=seed)
    training.params = [param.requires_grad_() for param in params]
    optimizer = getattr(torch.optim, case[0])(training.params, **case[1])
    if state is not None:
        optimizer.load_state_dict(state)
    training.run(optimizer, 7)
    return training, optimizer


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_there_and_back(case):
    start = Training(real_torch).params
    whole, optimizer = go_on(real_torch, case, [param.detach().clone() for param in start], None, 1)
    for seed in (2, 3):
        whole, optimizer = go_on(
            real_torch, case, [param.detach() for param in whole.params], optimizer.state_dict(), seed
        )
    path = [real_torch, undertow, real_torch]
    params, state, before = [param.detach().clone() for param in start], None, real_torch
    for seed, torch in enumerate(path, 1):
        params = [carried(param.detach(), before, torch) for param in params]
        training, travelled = go_on(torch, case, params, carried(state, before, torch), seed)
        params, state, before = training.params, travelled.state_dict(), torch
    expected, actual = facts(real_torch, result(whole, optimizer)), facts(real_torch, result(training, travelled))
    assert not list(differences(expected, actual, rtol=1e-5, atol=1e-6))


def test_lbfgs_there_and_back():
    def part(torch: Any, start: Any, state: Any) -> tuple[Any, Any]:
        w = start.requires_grad_()
        optimizer = torch.optim.LBFGS([w], lr=0.3, max_iter=3)
        if state is not None:
            optimizer.load_state_dict(state)

        def closure():
            optimizer.zero_grad()
            loss = ((w - 3) ** 4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return w.detach(), optimizer.state_dict()

    start = real_torch.tensor([1.0, -2.0], dtype=real_torch.float64)
    w, state = part(real_torch, start.clone(), None)
    over, over_state = part(undertow, carried(w, real_torch, undertow), carried(state, real_torch, undertow))
    back, _ = part(real_torch, carried(over, undertow, real_torch), carried(over_state, undertow, real_torch))
    for _ in range(2):
        w, state = part(real_torch, w, state)
    assert real_torch.allclose(w, back, rtol=1e-8)


# --- what load_state_dict does with what it is given


def adam(torch: Any, *shapes: tuple[int, ...], **options: Any) -> Any:
    params = [torch.ones(shape, requires_grad=True) for shape in shapes or [(2,)]]
    for param in params:
        param.grad = torch.ones_like(param.detach())
    optimizer = torch.optim.Adam(params, **options)
    optimizer.step()
    return optimizer


@cases
def format_of_a_state(torch, log):
    optimizer = adam(torch, (2,), (3,))
    state = optimizer.state_dict()
    log(state, [list(group) for group in state["param_groups"]], [list(item) for item in state["state"].values()])
    log(state["state"][0]["exp_avg"] is optimizer.state[optimizer.param_groups[0]["params"][0]]["exp_avg"])
    state["param_groups"][0]["lr"] = 9
    log(optimizer.param_groups[0]["lr"])


@cases
def tensors_are_shared_and_options_copied(torch, log):
    a, b = adam(torch), adam(torch)
    state = a.state_dict()
    b.load_state_dict(state)
    own = b.state[b.param_groups[0]["params"][0]]
    log([own[key] is state["state"][0][key] for key in own], b.param_groups[0] is state["param_groups"][0])
    state["param_groups"][0]["betas"] = (0.1, 0.2)
    log(b.param_groups[0]["betas"])


@cases
def values_are_cast(torch, log):
    optimizer = adam(torch)
    state = optimizer.state_dict()
    state["state"][0] = {key: value.double() for key, value in state["state"][0].items()}
    state["state"][0]["nested"] = [torch.ones(1, dtype=torch.float64), 3, {"a": torch.ones(1).long()}]
    state["state"][0]["integers"] = torch.ones(2, dtype=torch.int64)
    state["state"]["name"] = torch.ones(1, dtype=torch.float64)
    optimizer.load_state_dict(state)
    for key, value in optimizer.state.items():
        log(value if isinstance(key, str) else dict(value))


@cases
def step_of_a_fused_optimizer_is_cast(torch, log):
    optimizer = adam(torch, fused=True)
    state = optimizer.state_dict()
    state["state"][0]["step"] = state["state"][0]["step"].double()
    optimizer.load_state_dict(state)
    log(optimizer.state_dict()["state"][0]["step"])


@cases
def wrong_states(torch, log):
    optimizer = adam(torch)
    attempt(log, "no groups", lambda: optimizer.load_state_dict({"state": {}, "param_groups": []}))
    attempt(log, "size", lambda: optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}))
    attempt(log, "empty", lambda: optimizer.load_state_dict({}))
    attempt(log, "no state", lambda: optimizer.load_state_dict({"param_groups": [{"params": [0]}]}))
    log(optimizer.state_dict())


@cases
def other_numbers_of_parameters(torch, log):
    optimizer = adam(torch, (2,), (3,))
    state = optimizer.state_dict()
    renumbered = {
        "state": {number + 10: value for number, value in state["state"].items()},
        "param_groups": [{**state["param_groups"][0], "params": [10, 11]}],
    }
    optimizer.load_state_dict(renumbered)
    log(optimizer.state_dict())


@cases
def states_from_old_releases(torch, log):
    """Options that came later are filled in; step counts were plain numbers once."""
    names = "SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD Rprop Adafactor"
    for name in names.split():
        w = torch.ones(2, requires_grad=True)
        optimizer = getattr(torch.optim, name)([w])
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})
        group = optimizer.param_groups[0]
        log(name, {key: group[key] for key in sorted(group) if key != "params"})
        if name in ("SGD", "Adafactor"):
            continue
        optimizer = getattr(torch.optim, name)([w])
        w.grad = torch.ones(2)
        optimizer.step()
        state = optimizer.state_dict()
        old = {key: value.item() if value.dim() == 0 else value for key, value in state["state"][0].items()}
        optimizer.load_state_dict({"state": {0: old}, "param_groups": state["param_groups"]})
        optimizer.step()
        log(optimizer.state_dict()["state"])


@cases
def float64_is_the_default(torch, log):
    torch.set_default_dtype(torch.float64)
    try:
        log(adam(torch).state_dict()["state"])
    finally:
        torch.set_default_dtype(torch.float32)


@cases.test
def test_loading(program):
    agree(program)
