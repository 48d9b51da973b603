"""Lazy modules: before, during and after the first call."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


@cases
def before_the_first_call(torch, log):
    lazy = torch.nn.LazyLinear(3)
    weight = lazy.weight
    log(repr(lazy), repr(weight), lazy.has_uninitialized_params(), list(lazy.state_dict()), type(weight).__name__)
    log(torch.nn.parameter.is_lazy(weight), weight.is_leaf, weight.requires_grad, weight.dtype, weight.size())
    for label, action in {
        "shape": lambda: weight.shape,
        "add": lambda: weight + 1,
        "numel": lambda: weight.numel(),
        "sum": lambda: weight.sum(),
        "missing": lambda: weight.foo,
        "share": lambda: lazy.share_memory(),
        "into another": lambda: torch.nn.Linear(4, 3).load_state_dict(lazy.state_dict()),
        "buffer": lambda: torch.nn.LazyBatchNorm1d().running_mean.shape,
    }.items():
        attempt(log, label, action, words=7)


@cases
def first_call(torch, log):
    lazy = torch.nn.LazyLinear(3)
    held = lazy.weight
    log(lazy(torch.ones(2, 5)), repr(lazy), type(lazy).__name__, lazy.weight is held, type(held).__name__)
    log(len(lazy._forward_pre_hooks), len(lazy._load_state_dict_pre_hooks))
    log(sorted(name for name in vars(lazy) if "hook" not in name))
    attempt(log, "other size", lambda: lazy(torch.ones(2, 4)), words=4)


@cases
def casts_before_the_call(torch, log):
    for cast in (lambda m: m.double(), lambda m: m.to(torch.float64), lambda m: m.to("cpu", torch.float64)):
        lazy = cast(torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d()))
        log(lazy[0].weight.dtype, lazy(torch.ones(2, 4, dtype=torch.float64)).dtype, repr(lazy))
        log([(name, value.dtype) for name, value in lazy.state_dict().items()])


@cases
def loading(torch, log):
    nn = torch.nn
    source = nn.Linear(4, 3)
    lazy = nn.LazyLinear(3)
    log(repr(lazy.load_state_dict(source.state_dict())), type(lazy).__name__, lazy.weight, lazy.in_features)
    log(lazy(torch.ones(1, 4)), type(lazy).__name__, lazy.in_features)
    other = nn.LazyLinear(3)
    other.load_state_dict(source.state_dict())
    attempt(log, "other input", lambda: other(torch.ones(1, 5)))
    twin = nn.LazyLinear(3)
    log(repr(twin.load_state_dict(nn.LazyLinear(3).state_dict())), repr(twin.weight))


@cases
def copies(torch, log):
    lazy = torch.nn.LazyConv2d(2, 3)
    for twin in (copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))):
        torch.manual_seed(3)
        log(twin(torch.ones(1, 3, 4, 4)).shape, repr(twin), repr(lazy), twin.weight)


@cases
def a_lazy_module_of_ones_own(torch, log):
    nn = torch.nn

    class LazyScale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.UninitializedParameter()
            self.shift = nn.UninitializedBuffer()

        def initialize_parameters(self, x: Any, *, by: Any = 1) -> None:
            log("initialize", x.shape, by)
            self.scale.materialize(x.shape[-1:])
            self.shift.materialize(x.shape[-1:], dtype=torch.float64)
            with torch.no_grad():
                self.scale.fill_(2.0)
                self.shift.zero_()

        def forward(self, x: Any, *, by: Any = 1) -> Any:
            return x * self.scale * by + self.shift

    module = LazyScale()
    module.register_forward_pre_hook(lambda m, args: log("pre", args))
    log(list(module.state_dict()), module(torch.ones(2, 3), by=3), module(torch.ones(2, 3)), type(module).__name__)
    log(type(module.scale).__name__, type(module.shift).__name__, list(dict(module.named_buffers())))


@cases
def lazy_modules_that_stay_lazy(torch, log):
    nn = torch.nn

    class Nothing(nn.modules.lazy.LazyModuleMixin, nn.Module):
        pass

    class Forgets(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, x: Any) -> None:
            pass

    attempt(log, "nothing", lambda: Nothing()(1))
    attempt(log, "forgets", lambda: Forgets()(1))


@cases
def training_a_lazy_model(torch, log):
    nn = torch.nn
    model = nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    x = torch.arange(24.0).view(2, 2, 6) / 10
    model(x).sum().backward()
    log(repr(model), {name: parameter.grad for name, parameter in model.named_parameters()})


@cases.test
def test_lazy_modules(program: Any) -> None:
    agree(program, warns=True, raises=False, atol=1e-5, rtol=1e-4)
