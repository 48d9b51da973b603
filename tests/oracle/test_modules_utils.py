"""nn.utils: clipping, conversion, stateless calls, fusion, and the older weight and spectral norms."""

from __future__ import annotations

import copy
from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


def parameters(torch: Any, *gradients: Any, dtype: Any = None) -> list[Any]:
    made = []
    for values in gradients:
        parameter = torch.nn.Parameter(torch.zeros(len(values), dtype=dtype))
        parameter.grad = torch.tensor(values, dtype=dtype)
        made.append(parameter)
    return made


@cases
def clipping_by_norm(torch, log):
    utils = torch.nn.utils
    for norm in (2.0, 1, float("inf"), "inf", 3.0, 0):
        held = parameters(torch, [3.0, 4.0], [1.0])
        log(utils.clip_grad_norm_(held, 1.0, norm_type=norm), [p.grad for p in held])
    for limit in (100.0, 0.5, torch.tensor(2.0)):
        held = parameters(torch, [3.0, 4.0])
        log(utils.clip_grad_norm_(held[0], limit), held[0].grad)
    log(utils.clip_grad_norm_([], 1.0), utils.clip_grad_norm_(iter([]), 1.0))
    log(utils.clip_grad_norm_([torch.nn.Parameter(torch.ones(2))], 1.0))
    held = parameters(torch, [3.0], dtype=torch.float64) + parameters(torch, [4.0])
    log(utils.clip_grad_norm_(held, 1.0), [p.grad for p in held])
    held = parameters(torch, [3.0, 4.0])
    log(utils.clip_grad_norm_((p for p in held), 1.0, foreach=True), held[0].grad, utils.clip_grad_norm(held, 0.5))
    for label, values in {"nan": [float("nan")], "inf": [float("inf")]}.items():
        held = parameters(torch, values)
        log(utils.clip_grad_norm_(held, 1.0), held[0].grad)
        attempt(log, label, lambda: utils.clip_grad_norm_(parameters(torch, values), 1.0, error_if_nonfinite=True))
    attempt(log, "number", lambda: utils.clip_grad_norm_(3, 1.0))


@cases
def clipping_in_parts(torch, log):
    utils = torch.nn.utils
    held = parameters(torch, [3.0, 4.0], [1.0])
    total = utils.get_total_norm([p.grad for p in held])
    utils.clip_grads_with_norm_(held, 2.0, total)
    log(total, [p.grad for p in held], utils.get_total_norm(torch.ones(2)), utils.get_total_norm([]))
    utils.clip_grad_value_(held, 0.5)
    log([p.grad for p in held], utils.clip_grad_value_(held[0], 0.1), held[0].grad)


@cases
def clipping_after_backward(torch, log):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    (model(torch.ones(2, 3)) * 10).sum().backward()
    held = model[0].weight.grad
    log(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1), [p.grad for p in model.parameters()])
    log(model[0].weight.grad is held, held._version)


@cases
def parameters_as_vectors(torch, log):
    utils = torch.nn.utils
    model = torch.nn.Linear(2, 3)
    vector = utils.parameters_to_vector(model.parameters())
    log(vector)
    held = model.weight
    utils.vector_to_parameters(torch.arange(9.0), model.parameters())
    log(model.weight, model.bias, model.weight is held, model.weight.requires_grad)
    (utils.parameters_to_vector(model.parameters()) ** 2).sum().backward()
    log(model.weight.grad)
    attempt(log, "list", lambda: utils.vector_to_parameters([1], model.parameters()))
    attempt(log, "short", lambda: utils.vector_to_parameters(torch.ones(7), model.parameters()))
    attempt(log, "nothing", lambda: utils.parameters_to_vector([]))


@cases
def skipping_first_values(torch, log):
    utils, nn = torch.nn.utils, torch.nn
    made = utils.skip_init(nn.Linear, 2, 3, bias=False)
    log(repr(made), made.weight.shape, made.weight.requires_grad)
    attempt(log, "class", lambda: utils.skip_init(int, 3))
    attempt(log, "device", lambda: utils.skip_init(nn.ReLU))


@cases
def stateless_calls(torch, log):
    nn = torch.nn
    call = nn.utils.stateless.functional_call
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    x = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    given = {"0.weight": torch.ones(2, 2, requires_grad=True), "0.bias": torch.zeros(2, requires_grad=True)}
    before = copy.deepcopy(model.state_dict())
    out = call(model, given, x)
    (out * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    log(out, given["0.weight"].grad, model[0].weight.grad, model.state_dict(), before)
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    call(model, {**given, **buffers}, (x,), {})
    log(buffers, dict(model.named_buffers()))
    log(torch.func.functional_call(model, (given, buffers), (x,)))
    for label, action in {
        "unknown": lambda: call(model, {"5.weight": x}, x),
        "unknown name": lambda: call(model, {"0.foo": x}, x),
        "strict": lambda: call(model, given, x, strict=True),
        "twice": lambda: torch.func.functional_call(model, (given, given), (x,)),
    }.items():
        attempt(log, label, action, words=4)
    log(type(model[0].weight).__name__, model[0].weight.requires_grad)


@cases
def stateless_calls_of_tied_modules(torch, log):
    nn = torch.nn

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(2, 2, bias=False)
            self.other = nn.Linear(2, 2, bias=False)
            self.other.weight = self.one.weight

        def forward(self, x: Any) -> Any:
            return self.other(self.one(x))

    model, x = Tied(), torch.ones(1, 2)
    log(torch.func.functional_call(model, {"one.weight": torch.ones(2, 2)}, (x,)))
    log(torch.func.functional_call(model, {"one.weight": torch.eye(2)}, (x,), tie_weights=False).shape)
    both = {"one.weight": torch.ones(2, 2), "other.weight": torch.eye(2)}
    attempt(log, "two values", lambda: torch.func.functional_call(model, both, (x,)), words=6)
    log(model.one.weight is model.other.weight)


@cases
def stateless_calls_keep_hooks_and_errors(torch, log):
    model = torch.nn.Linear(2, 1)
    model.register_forward_hook(lambda m, args, out: log("hook", m.weight, out))
    torch.func.functional_call(model, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, (torch.ones(2),))
    held = model.weight
    given = {"weight": torch.ones(1, 2)}
    attempt(log, "fails", lambda: torch.func.functional_call(model, given, (torch.ones(3),)), words=3)
    log(model.weight is held)


@cases
def fusing(torch, log):
    nn, utils = torch.nn, torch.nn.utils
    conv, norm = nn.Conv2d(2, 3, 2).eval(), nn.BatchNorm2d(3)
    norm(torch.randn(4, 3, 5, 5))
    norm.eval()
    x = torch.randn(1, 2, 4, 4)
    log(utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)))
    linear, flat = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()
    log(utils.fuse_linear_bn_eval(linear, flat)(torch.ones(1, 2)))
    attempt(log, "training", lambda: utils.fuse_conv_bn_eval(conv.train(), norm))


@cases
def gradients_of_convolutions(torch, log):
    for n, shape, kernel in ((1, (2, 4, 7), (3,)), (2, (2, 4, 5, 6), (3, 2)), (3, (1, 2, 4, 4, 3), (2, 2, 1))):
        x, weight = torch.randn(shape), torch.randn(4, shape[1] // 2, *kernel)
        options = (2, 1, 1, 2)
        out = getattr(torch.nn.functional, f"conv{n}d")(x, weight, None, *options)
        given = torch.arange(1.0, out.numel() + 1).view(out.shape)
        log(getattr(torch.nn.grad, f"conv{n}d_input")(x.shape, weight, given, *options))
        log(getattr(torch.nn.grad, f"conv{n}d_weight")(x, weight.shape, given, *options))


# --- the older norms


@cases
def old_weight_norm(torch, log):
    nn, utils = torch.nn, torch.nn.utils
    for module, options, shape in (
        (nn.Linear(2, 3), {}, (1, 2)), (nn.Linear(2, 3), {"dim": None}, (1, 2)), (nn.Linear(2, 3), {"dim": 1}, (1, 2)),
        (nn.Conv1d(2, 3, 2), {}, (1, 2, 4)), (nn.Linear(2, 3), {"name": "bias"}, (1, 2)),
    ):  # fmt: skip
        x = torch.ones(shape)
        plain = module(x)
        log(utils.weight_norm(module, **options) is module, repr(module), module.state_dict(), plain)
        out = module(x)
        (out * torch.arange(1.0, out.numel() + 1).view(out.shape)).sum().backward()
        log(out, {name: p.grad for name, p in module.named_parameters()})
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if name.endswith("_g"):
                    parameter.mul_(2)
        log(module(x), utils.remove_weight_norm(module, options.get("name", "weight")) is module, module.state_dict())
        log(module(x), len(module._forward_pre_hooks))
    attempt(log, "twice", lambda: utils.weight_norm(utils.weight_norm(nn.Linear(1, 1))))
    attempt(log, "not there", lambda: utils.remove_weight_norm(nn.Linear(1, 1)))
    attempt(log, "lazy", lambda: utils.weight_norm(nn.LazyLinear(3)))


@cases
def old_spectral_norm(torch, log):
    nn, utils = torch.nn, torch.nn.utils
    for module, options, shape in (
        (nn.Linear(4, 3), {}, (2, 4)), (nn.Linear(4, 3), {"n_power_iterations": 3, "dim": 1}, (2, 4)),
        (nn.Conv2d(2, 3, 2), {}, (1, 2, 3, 3)), (nn.ConvTranspose1d(2, 3, 2), {}, (1, 2, 3)),
    ):  # fmt: skip
        log(utils.spectral_norm(module, **options) is module, repr(module), module.state_dict())
        x = torch.ones(shape)
        for _ in range(2):
            module.zero_grad()
            out = module(x)
            (out * torch.arange(1.0, out.numel() + 1).view(out.shape)).sum().backward()
            log(out, {name: p.grad for name, p in module.named_parameters()}, module.weight_u, module.weight_v)
        module.eval()
        log(module(x), module(x), module.state_dict()._metadata)
        twin = copy.deepcopy(module) if module.weight.is_leaf else None
        log(twin is None, repr(module.load_state_dict(module.state_dict())))
        log(utils.remove_spectral_norm(module) is module, module.state_dict())
        log(len(module._forward_pre_hooks), len(module._state_dict_hooks))
    attempt(log, "twice", lambda: utils.spectral_norm(utils.spectral_norm(nn.Linear(1, 1))))
    attempt(log, "not there", lambda: utils.remove_spectral_norm(nn.Linear(1, 1)))
    attempt(log, "iterations", lambda: utils.spectral_norm(nn.Linear(1, 1), n_power_iterations=0))


@cases.test
def test_utils(program: Any) -> None:
    agree(program, rtol=1e-4, atol=1e-5, warns=True, raises=False)
