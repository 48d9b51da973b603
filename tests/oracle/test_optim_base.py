"""class Optimizer: groups, checks and their words, state_dict, copies, printing."""

from __future__ import annotations

import copy
import pickle
from importlib import import_module
from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.optim_cases import ONE_OF_EACH, Training, case_name, result
from tests.oracle.programs import Table, attempt

cases = Table()


def leaf(torch: Any, *shape: int) -> Any:
    return torch.ones(*shape or (2,), requires_grad=True)


@cases
def attributes(torch, log):
    for name, options in ONE_OF_EACH:
        optimizer = getattr(torch.optim, name)([leaf(torch)], **options)
        log(name, optimizer.defaults, sorted(vars(optimizer)), list(optimizer.param_groups[0]))
        log(type(optimizer.state).__name__, isinstance(optimizer, torch.optim.Optimizer))
        log(repr(optimizer))


@cases
def defaults_of_every_optimizer(torch, log):
    names = "SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam LBFGS Adafactor ASGD Rprop Muon"
    for name in names.split():
        optimizer = getattr(torch.optim, name)([leaf(torch, 2, 2)])
        log(name, optimizer.defaults, list(optimizer.defaults), repr(optimizer))


@cases
def wrong_parameters(torch, log):
    w = leaf(torch)
    for label, params in {
        "a tensor": w,
        "an empty list": [],
        "an empty iterator": iter(()),
        "a string": ["a"],
        "a number": 3,
        "None": None,
        "a dict": {"params": [w]},
        "a set in a group": [{"params": {w}}],
        "a group without params": [{"lr": 1.0}],
        "twice in two groups": [{"params": [w]}, {"params": [w]}],
        "a computed tensor": [w * 2],
        "some names": [("a", leaf(torch)), leaf(torch)],
        "a list of lists": [[w]],
        "a module": [torch],
    }.items():
        attempt(log, label, lambda: torch.optim.SGD(params, lr=0.1))


@cases
def duplicates_warn(torch, log):
    w = leaf(torch)
    optimizer = torch.optim.SGD([w, w], lr=0.1)
    w.grad = torch.ones(2)
    optimizer.step()
    log(w, optimizer.state_dict())


@cases
def a_required_option(torch, log):
    from_module = import_module(f"{torch.__name__}.optim.optimizer")
    attempt(log, "missing", lambda: torch.optim.Optimizer([leaf(torch)], {"lr": from_module.required}))
    optimizer = torch.optim.Optimizer([{"params": leaf(torch), "lr": 1}], {"lr": from_module.required})
    log(repr(optimizer), repr(from_module.required))


@cases
def adding_groups(torch, log):
    w = leaf(torch)
    optimizer = torch.optim.SGD([w], lr=0.1)
    group = {"params": leaf(torch), "lr": 0.5}
    optimizer.add_param_group(group)
    log(optimizer.param_groups[1] is group, list(group), group["momentum"])
    optimizer.add_param_group({"params": (leaf(torch) for _ in range(3)), "extra": "kept"})
    log(len(optimizer.param_groups[2]["params"]), repr(optimizer))
    attempt(log, "a list", lambda: optimizer.add_param_group([w]))
    attempt(log, "the same tensor", lambda: optimizer.add_param_group({"params": [w]}))
    attempt(log, "names", lambda: optimizer.add_param_group({"params": [("w", leaf(torch))]}))
    attempt(log, "a number", lambda: optimizer.add_param_group({"params": 3}))
    log(len(optimizer.param_groups))


@cases
def names_of_parameters(torch, log):
    a, b = leaf(torch), leaf(torch, 3)
    optimizer = torch.optim.SGD([("a", a), ("b", b)], lr=0.1, momentum=0.9)
    log(repr(optimizer), optimizer.state_dict(), list(optimizer.param_groups[0]))
    attempt(log, "without names", lambda: optimizer.add_param_group({"params": [leaf(torch)]}))
    optimizer.add_param_group({"params": [("c", leaf(torch))]})
    log(optimizer.param_groups[1]["param_names"])
    named = optimizer.state_dict()
    plain = torch.optim.SGD([{"params": [leaf(torch), leaf(torch, 3)]}, {"params": [leaf(torch)]}], lr=0.5)
    without = plain.state_dict()
    plain.load_state_dict(named)
    log(plain.param_groups[0].get("param_names"), list(plain.param_groups[0]))
    optimizer.load_state_dict(without)
    log(optimizer.param_groups[0]["param_names"], optimizer.param_groups[0]["lr"], list(optimizer.param_groups[0]))


@cases
def step_of_the_base(torch, log):
    optimizer = torch.optim.Optimizer([leaf(torch)], {})
    attempt(log, "step", optimizer.step)
    log(torch.optim.Optimizer.step.__name__)


@cases
def an_optimizer_of_ones_own(torch, log):
    class Signs(torch.optim.Optimizer):
        def __init__(self, params, lr=0.1):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        state = self.state[param]
                        state["count"] = state.get("count", 0) + 1
                        param.add_(param.grad.sign(), alpha=-group["lr"])

    w = leaf(torch)
    optimizer = Signs([{"params": [w]}, {"params": [leaf(torch)], "lr": 1.0}])
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: log("stepped", len(args), kwargs))
    (w * 3).sum().backward()
    optimizer.step()
    optimizer.step(closure=None)
    log(w, optimizer.state_dict(), repr(optimizer), Signs.step.__name__)


@cases
def an_optimizer_that_never_calls_init(torch, log):
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

        @property
        def param_groups(self):
            return self.inner.param_groups

    w = leaf(torch)
    inner = torch.optim.SGD([w], lr=0.1)
    inner.register_step_pre_hook(lambda *_: log("inner"))
    w.grad = torch.ones(2)
    Wrapper(inner).step()
    log(w)


@cases
def helpers_for_other_libraries(torch, log):
    module = import_module(f"{torch.__name__}.optim.optimizer")
    log(module._get_value(torch.tensor(2.0)), module._get_value(3), module._get_scalar_dtype())
    log(module._to_scalar(torch.tensor([2.0])), module._default_to_fused_or_foreach([leaf(torch)], False))
    log(module._default_to_fused_or_foreach([leaf(torch)], False, True), module._stack_if_compiling(3))
    log(module._get_capturable_supported_devices(False), module._get_fused_kernels_supported_devices())
    listed = [torch.ones(2), torch.ones(1).double(), torch.ones(3)]
    grouped = torch.optim.Optimizer._group_tensors_by_device_and_dtype([listed, [None] * 3], with_indices=True)
    log(sorted((str(key), lists, places) for key, (lists, places) in grouped.items()))
    numbers, more = [torch.tensor([1 + 2j]), torch.ones(1)], [torch.tensor([3 + 4j]), torch.ones(2)]
    module._view_as_real(numbers, more)
    log(numbers, more)

    class Doubling(torch.optim.Optimizer):
        def __init__(self, params, differentiable):
            super().__init__(params, {"differentiable": differentiable})

        @module._use_grad_for_differentiable
        def step(self, closure=None):
            log("recorded", torch.is_grad_enabled())
            return "answer"

    log(Doubling([leaf(torch)], False).step(), torch.is_grad_enabled())
    with torch.no_grad():
        log(Doubling([leaf(torch)], True).step(), torch.is_grad_enabled())


@cases.test
def test_optimizer(program):
    agree(program, warns=True)


WRONG_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"lr": -1}, {"momentum": -1}, {"weight_decay": -1}, {"nesterov": True},
            {"nesterov": True, "momentum": 0.5, "dampening": 0.1}, {"fused": True, "foreach": True},
            {"fused": True, "differentiable": True}, {"unknown": 1}],
    "Adam": [{"lr": -1}, {"eps": -1}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"weight_decay": -1},
             {"betas": (0, 0.9)}, {"betas": (0.9, 0)}, {"fused": True, "foreach": True},
             {"fused": True, "differentiable": True}],
    "AdamW": [{"lr": -1}, {"eps": -1}, {"betas": (1.0, 0.9)}, {"weight_decay": -1}],
    "RMSprop": [{"lr": -1}, {"eps": -1}, {"momentum": -1}, {"weight_decay": -1}, {"alpha": -1}],
    "Adagrad": [{"lr": -1}, {"lr_decay": -1}, {"weight_decay": -1}, {"initial_accumulator_value": -1}, {"eps": -1},
                {"fused": True, "foreach": True}, {"fused": True, "differentiable": True}],
    "Adadelta": [{"lr": -1}, {"rho": 1.5}, {"eps": -1}, {"weight_decay": -1}],
    "Adamax": [{"lr": -1}, {"eps": -1}, {"betas": (1.0, 0.9)}, {"betas": (0.9, 1.0)}, {"weight_decay": -1}],
    "NAdam": [{"lr": -1}, {"eps": -1}, {"betas": (1.0, 0.9)}, {"weight_decay": -1}, {"momentum_decay": -1}],
    "RAdam": [{"lr": -1}, {"eps": -1}, {"betas": (1.0, 0.9)}, {"weight_decay": -1}],
    "ASGD": [{"lr": -1}, {"weight_decay": -1}],
    "Rprop": [{"lr": -1}, {"etas": (1.5, 2)}, {"etas": (0.5, 0.9)}],
    "Adafactor": [{"lr": -1}, {"beta2_decay": 1}, {"eps": (-1, 1)}, {"eps": (None, -1)}, {"d": 0.5}, {"weight_decay": -1}],
    "Muon": [{"lr": -1}, {"momentum": -1}, {"weight_decay": -1}, {"adjust_lr_fn": "other"}],
    "LBFGS": [{"lr": -1}],
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_wrong_options(name):
    def program(torch, log):
        for options in WRONG_OPTIONS[name]:
            attempt(log, str(options), lambda: getattr(torch.optim, name)([leaf(torch, 2, 2)], **options), words=9)
        for rate in (torch.ones(2), torch.ones(1, 1), torch.tensor(-1.0)):
            attempt(log, "tensor", lambda: type(getattr(torch.optim, name)([leaf(torch, 2, 2)], lr=rate)).__name__)

    agree(program)


def test_more_wrong_options():
    def program(torch, log):
        w = leaf(torch)
        tensor = torch.tensor(0.5)
        for options in (
            {"lr": tensor, "foreach": True},
            {"betas": (tensor, 0.5)},
            {"betas": (tensor, tensor), "foreach": True},
            {"betas": (torch.tensor([0.5, 0.6]), tensor)},
        ):
            attempt(log, sorted(options), lambda: torch.optim.Adam([w], **options))
        attempt(log, "muon", lambda: torch.optim.Muon([w]))

    agree(program)


@pytest.mark.parametrize(("name", "options"), ONE_OF_EACH, ids=[name for name, _ in ONE_OF_EACH])
def test_state_lies_in_memory_as_its_parameter_does(name, options):
    def program(torch, log):
        w = torch.arange(12.0).reshape(3, 4).t().clone().requires_grad_()
        optimizer = getattr(torch.optim, name)([w], **options)
        for _ in range(2):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step(lambda: (w * w).sum())
            tensors = {key: value for key, value in optimizer.state[w].items() if hasattr(value, "stride")}
            log({key: value.stride() for key, value in tensors.items()})

    agree(program)


@pytest.mark.parametrize("name", "Adam AdamW RMSprop Adadelta Adamax NAdam RAdam ASGD Rprop".split())
def test_capturable_is_for_other_devices(name):
    def program(torch, log):
        for foreach in (None, True):
            w = leaf(torch)
            optimizer = getattr(torch.optim, name)([w], capturable=True, foreach=foreach)
            optimizer.step()  # without gradients there is nothing to capture
            w.grad = torch.ones(2)
            attempt(log, foreach, optimizer.step, words=40)

    agree(program)


def test_fused_is_for_floats():
    def program(torch, log):
        for name in ("SGD", "Adam", "AdamW", "Adagrad"):
            w = torch.ones(2, dtype=torch.complex64, requires_grad=True)
            optimizer = getattr(torch.optim, name)([w], fused=True)
            w.grad = torch.ones(2, dtype=torch.complex64)
            attempt(log, name, optimizer.step, words=12)

    agree(program)


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=case_name)
@pytest.mark.parametrize("how", ["pickle", "deepcopy", "twice"])
def test_copies_go_on_alike(case, how):
    def program(torch, log):
        name, options = case
        training = Training(torch)
        optimizer = getattr(torch.optim, name)(training.params, **options)
        optimizer.register_step_post_hook(print)
        optimizer._optimizer_step_post_hooks.clear()
        training.run(optimizer, 3)
        if how == "pickle":
            twin = pickle.loads(pickle.dumps(optimizer))
        elif how == "deepcopy":
            twin = copy.deepcopy(optimizer)
        else:
            twin = copy.deepcopy(pickle.loads(pickle.dumps(optimizer)))
        log(sorted(vars(twin)))
        for group in twin.param_groups:
            training.params = group["params"]
        training.run(twin, 3)
        return result(training, twin)

    agree(program, rtol=1e-5, atol=1e-6)


def test_hooks_are_not_copied():
    def program(torch, log):
        optimizer = torch.optim.SGD([leaf(torch)], lr=0.1)
        optimizer.register_step_pre_hook(lambda *_: log("pre"))
        copy.deepcopy(optimizer).step()
        optimizer.step()

    agree(program)
