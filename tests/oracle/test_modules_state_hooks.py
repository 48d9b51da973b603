"""Hooks on modules being put together, saved, loaded and copied."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt
from tests.oracle.test_modules_hooks import ask, layer

cases = Table()


# --- registration hooks


@cases
def registration_hooks(torch, log):
    nn, space = torch.nn, torch.nn.modules.module
    handles = [
        space.register_module_parameter_registration_hook(
            lambda m, name, p: log("parameter", type(m).__name__, name, p is None)
        ),
        space.register_module_buffer_registration_hook(
            lambda m, name, b: log("buffer", type(m).__name__, name, b is None)
        ),
        space.register_module_module_registration_hook(
            lambda m, name, child: log("module", type(m).__name__, name, type(child).__name__)
        ),
    ]
    try:
        module = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
        module.extra = nn.Parameter(torch.ones(1))
        module.extra = None
        module.add_module("a", None)
        module.register_buffer("b", torch.ones(1))
        module.b = torch.zeros(1)
        module.c = nn.Buffer(torch.zeros(1))
        module.append(nn.ReLU())
        module[0] = nn.Tanh()
    finally:
        for handle in handles:
            handle.remove()
    nn.Linear(1, 1)


@cases
def registration_hooks_replace(torch, log):
    nn, space = torch.nn, torch.nn.modules.module
    with (
        space.register_module_parameter_registration_hook(
            lambda m, name, p: nn.Parameter(p.detach() * 0) if name == "bias" else None
        ),
        space.register_module_module_registration_hook(
            lambda m, name, child: nn.Identity() if isinstance(child, nn.ReLU) else None
        ),
    ):
        module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    log(repr(module), module[0].bias)


# --- state dict hooks


@cases
def state_dict_hooks(torch, log):
    inner = layer(torch)
    model = torch.nn.Sequential(inner)
    for name, module in (("outer", model), ("inner", inner)):
        module.register_state_dict_pre_hook(lambda m, prefix, keep, name=name: log(name, "pre", prefix, keep))
        module.register_state_dict_post_hook(
            lambda m, state, prefix, meta, name=name: log(name, "post", list(state), prefix, meta)
        )
        module._register_state_dict_hook(
            lambda m, state, prefix, meta, name=name: log(name, "private", list(state), prefix)
        )
    log(list(model.state_dict(keep_vars=True)))

    def rename(m: Any, state: Any, prefix: str, meta: Any) -> Any:
        return {"renamed." + key: value for key, value in state.items()}

    model._register_state_dict_hook(rename)
    log(list(model.state_dict()))
    bad = layer(torch)
    bad.register_state_dict_post_hook(lambda *_: {})
    attempt(log, "returns", lambda: bad.state_dict())

    def both(*_: Any) -> None:
        return None

    bad.register_state_dict_post_hook(both)
    attempt(log, "both", lambda: bad._register_state_dict_hook(both))


@cases
def load_state_dict_hooks(torch, log):
    inner = layer(torch)
    model = torch.nn.Sequential(inner)
    for name, module in (("outer", model), ("inner", inner)):
        module.register_load_state_dict_pre_hook(
            lambda m, state, prefix, meta, strict, missing, unexpected, errors, name=name: log(
                name, "pre", type(m).__name__, list(state), prefix, meta, strict, missing, unexpected, errors
            )
        )
        module._register_load_state_dict_pre_hook(lambda *args, name=name: log(name, "private", len(args), args[1]))
        module._register_load_state_dict_pre_hook(
            lambda *args, name=name: log(name, "with", len(args)), with_module=True
        )
        module.register_load_state_dict_post_hook(
            lambda m, keys, name=name: log(name, "post", type(m).__name__, keys.missing_keys, keys.unexpected_keys)
        )
    state = model.state_dict()
    log(repr(model.load_state_dict(state)))
    state["extra"] = torch.ones(1)
    del state["0.bias"]
    log(repr(model.load_state_dict(state, strict=False)))
    attempt(log, "strict", lambda: model.load_state_dict(state))


@cases
def load_hooks_that_change_things(torch, log):
    model = layer(torch)

    def rename(state: Any, prefix: str, *rest: Any) -> None:
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    model._register_load_state_dict_pre_hook(rename)
    log(repr(model.load_state_dict({"kernel": torch.zeros(2, 2), "bias": torch.ones(2)})), model.weight)
    model.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    log(repr(model.load_state_dict({"kernel": torch.ones(2, 2)})), model.weight)
    model.register_load_state_dict_post_hook(lambda m, keys: keys)
    attempt(log, "returns", lambda: model.load_state_dict({"kernel": torch.ones(2, 2)}))
    failing = layer(torch)
    failing.register_load_state_dict_pre_hook(lambda *args: args[-1].append("mine"))
    attempt(log, "errors", lambda: failing.load_state_dict(failing.state_dict()))


# --- copies


def shout(module: Any, args: Any, out: Any) -> Any:
    return out * 100


def count(module: Any, *_: Any) -> None:
    module.calls = getattr(module, "calls", 0) + 1


@cases
def copies_keep_hooks(torch, log):
    module = layer(torch)
    handle = module.register_forward_hook(shout)
    module.register_full_backward_hook(count)
    module.register_full_backward_pre_hook(count)
    module.register_forward_pre_hook(count, with_kwargs=True)
    module.register_state_dict_pre_hook(count)
    module.register_load_state_dict_post_hook(count)
    module.register_load_state_dict_pre_hook(count)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        twin(ask(torch)).sum().backward()
        twin.load_state_dict(twin.state_dict())
        log(twin(ask(torch)), twin.calls, getattr(module, "calls", 0))
        handle.remove()
        log(twin(ask(torch)))
    log(module(ask(torch)))


@cases
def handles_as_context_managers(torch, log):
    module, x = layer(torch), ask(torch)
    with module.register_forward_hook(lambda *_: log("inside"), with_kwargs=True, always_call=True):
        module(x)
    module(x)
    flags = (module._forward_hooks_with_kwargs, module._forward_hooks_always_called)
    log(len(module._forward_hooks), *[len(held) for held in flags])


@cases.test
def test_module_state_hooks(program: Any) -> None:
    agree(program, warns=True, raises=False)
