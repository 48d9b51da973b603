"""Parametrizations: registering, reading, assigning, removing, copying, and the ready-made ones."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


def kinds(torch: Any) -> dict[str, Any]:
    """Parametrizations good and bad, by name."""
    base = torch.nn.Module

    def make(name: str, forward: Any, right_inverse: Any = None) -> Any:
        body = {"forward": forward}
        if right_inverse is not None:
            body["right_inverse"] = right_inverse
        return type(name, (base,), body)

    def unwritten(self: Any, x: Any) -> Any:
        raise NotImplementedError

    made = (
        make("Symmetric", lambda self, x: x.triu() + x.triu(1).transpose(-1, -2)),
        make("Double", lambda self, x: x * 2, lambda self, x: x / 2),
        make("Two", lambda self, a, b: a + b, lambda self, x: (x * 0.25, x * 0.75)),
        make("Row", lambda self, x: x[0]),
        make("Number", lambda self, x: 3),
        make("Wide", lambda self, x: x.double()),
        make("InverseNumber", lambda self, x: x, lambda self, x: 3),
        make("InverseRow", lambda self, x: x, lambda self, x: x[0]),
        make("InverseWide", lambda self, x: x, lambda self, x: x.double()),
        make("InverseUnwritten", lambda self, x: x, unwritten),
        make("InverseMixed", lambda self, a, b: a + b, lambda self, x: (x, 3)),
    )
    return {cls.__name__: cls for cls in made}


def linear(torch: Any) -> Any:
    return torch.nn.Linear(3, 3)


def show(torch: Any, log: Any, module: Any) -> None:
    log(repr(module), type(module).__name__, module.state_dict(), dict(module.named_parameters()))
    log([name for name, _ in module.named_modules()], [name for name, _ in module.named_buffers()])


@cases
def registering(torch, log):
    parametrize = torch.nn.utils.parametrize
    for name in ("Symmetric", "Double", "Two", "InverseUnwritten"):
        module = linear(torch)
        log(parametrize.register_parametrization(module, "weight", kinds(torch)[name]()) is module)
        show(torch, log, module)
        log(module.weight, module(torch.ones(1, 3)), module.parametrizations.weight.is_tensor)
        (module(torch.arange(6.0).view(2, 3)) ** 2).sum().backward()
        log({key: p.grad for key, p in module.named_parameters()})


@cases
def refused(torch, log):
    register = torch.nn.utils.parametrize.register_parametrization
    for name, kind in kinds(torch).items():
        attempt(log, name, lambda: repr(register(linear(torch), "weight", kind())))
        second = register(linear(torch), "weight", kinds(torch)["Double"]())
        attempt(log, (name, "second"), lambda: repr(register(second, "weight", kind())))
        attempt(log, (name, "unsafe"), lambda: register(linear(torch), "weight", kind(), unsafe=True).weight)
    attempt(log, "no such", lambda: register(linear(torch), "foo", kinds(torch)["Double"]()))
    attempt(log, "empty", lambda: torch.nn.utils.parametrize.ParametrizationList([], torch.ones(1)))


@cases
def several_on_one_tensor(torch, log):
    register = torch.nn.utils.parametrize.register_parametrization
    module = register(linear(torch), "weight", kinds(torch)["Double"]())
    register(module, "weight", kinds(torch)["Double"]())
    register(module, "bias", kinds(torch)["Two"]())
    show(torch, log, module)
    log(module.weight, module.bias, len(module.parametrizations.weight), repr(module.parametrizations.weight[1]))


@cases
def assigning(torch, log):
    register = torch.nn.utils.parametrize.register_parametrization
    module = register(linear(torch), "weight", kinds(torch)["Double"]())
    held = module.parametrizations.weight.original
    module.weight = torch.ones(3, 3)
    log(module.weight, module.parametrizations.weight.original, module.parametrizations.weight.original is held)
    two = register(linear(torch), "weight", kinds(torch)["Two"]())
    two.weight = torch.ones(3, 3)
    log(two.weight, two.state_dict())
    one_way = register(linear(torch), "weight", kinds(torch)["Symmetric"]())
    attempt(log, "no inverse", lambda: setattr(one_way, "weight", held))


@cases
def asking(torch, log):
    parametrize = torch.nn.utils.parametrize
    module = linear(torch)
    log(parametrize.is_parametrized(module), parametrize.type_before_parametrizations(module).__name__)
    parametrize.register_parametrization(module, "weight", kinds(torch)["Double"]())
    log(parametrize.is_parametrized(module), parametrize.is_parametrized(module, "weight"))
    log(parametrize.is_parametrized(module, "bias"), parametrize.type_before_parametrizations(module).__name__)
    log([cls.__name__ for cls in type(module).__mro__[:2]], isinstance(module, torch.nn.Linear))
    log(module.weight is module.weight)
    with parametrize.cached():
        log(module.weight is module.weight)
    log(module.weight is module.weight)


@cases
def removing(torch, log):
    parametrize = torch.nn.utils.parametrize
    for name in ("Double", "Symmetric", "Two"):
        for leave in (True, False):
            module = parametrize.register_parametrization(linear(torch), "weight", kinds(torch)[name]())
            attempt(log, (name, leave), lambda: repr(parametrize.remove_parametrizations(module, "weight", leave)))
            log(type(module).__name__, module.state_dict(), type(module.weight).__name__)
    attempt(log, "plain", lambda: parametrize.remove_parametrizations(linear(torch), "weight"))
    module = linear(torch)
    module.register_buffer("extra", torch.ones(3, 3))
    parametrize.register_parametrization(module, "extra", kinds(torch)["Double"]())
    parametrize.register_parametrization(module, "weight", kinds(torch)["Double"]())
    show(torch, log, module)
    parametrize.remove_parametrizations(module, "extra")
    log(type(module).__name__, dict(module.named_buffers()), parametrize.is_parametrized(module))


@cases
def copying(torch, log):
    parametrize = torch.nn.utils.parametrize
    module = parametrize.register_parametrization(linear(torch), "weight", kinds(torch)["Double"]())
    twin = copy.deepcopy(module)
    twin.parametrizations.weight.original.data.zero_()
    log(twin.weight, module.weight, type(twin) is type(module))
    attempt(log, "pickle", lambda: pickle.dumps(module))
    other = parametrize.register_parametrization(linear(torch), "weight", kinds(torch)["Double"]())
    log(repr(other.load_state_dict(module.state_dict())), other.weight)
    target = linear(torch)
    log(repr(parametrize.transfer_parametrizations_and_params(module, target)), target.weight)
    log(target.parametrizations.weight.original is module.parametrizations.weight.original)
    log(repr(parametrize.transfer_parametrizations_and_params(linear(torch), target)) == repr(target))


@cases
def weight_norm(torch, log):
    parametrizations, nn = torch.nn.utils.parametrizations, torch.nn
    for module, options, shape in (
        (nn.Linear(3, 2), {}, (2, 3)), (nn.Linear(3, 2), {"dim": None}, (2, 3)),
        (nn.Conv2d(2, 3, 2), {"dim": 1}, (1, 2, 3, 3)),
    ):  # fmt: skip
        plain = module(torch.ones(shape))
        parametrizations.weight_norm(module, **options)
        show(torch, log, module)
        out = module(torch.ones(shape))
        (out * torch.arange(1.0, out.numel() + 1).view(out.shape)).sum().backward()
        log(plain, out, {name: p.grad for name, p in module.named_parameters()})
    fresh, old = parametrizations.weight_norm(nn.Linear(3, 2)), nn.utils.weight_norm(nn.Linear(3, 2))
    log(repr(fresh.load_state_dict(old.state_dict())), fresh.state_dict())
    attempt(log, "no such", lambda: parametrizations.weight_norm(nn.Linear(3, 2), "foo"))


@cases
def spectral_norm(torch, log):
    parametrizations, nn = torch.nn.utils.parametrizations, torch.nn
    for module, options, shape in (
        (nn.Linear(4, 3), {}, (2, 4)), (nn.Linear(4, 3), {"n_power_iterations": 2, "dim": 1}, (2, 4)),
        (nn.Conv1d(2, 3, 2), {}, (1, 2, 4)), (nn.ConvTranspose1d(2, 3, 2), {}, (1, 2, 4)),
        (nn.Linear(4, 3), {"name": "bias"}, (2, 4)),
    ):  # fmt: skip
        parametrizations.spectral_norm(module, **options)
        show(torch, log, module)
        out = module(torch.ones(shape))
        (out * torch.arange(1.0, out.numel() + 1).view(out.shape)).sum().backward()
        log(out, {name: p.grad for name, p in module.named_parameters()}, dict(module.named_buffers()))
        module.eval()
        log(module(torch.ones(shape)), dict(module.named_buffers()))
    for label, options in {"name": {"name": "foo"}, "iterations": {"n_power_iterations": 0}, "dim": {"dim": 5}}.items():
        attempt(log, label, lambda: parametrizations.spectral_norm(nn.Linear(2, 2), **options))


@cases
def orthogonal(torch, log):
    parametrizations, nn = torch.nn.utils.parametrizations, torch.nn
    for how in ("matrix_exp", "cayley", "householder", None):
        for shape in ((3, 3), (4, 3), (3, 4)):
            for trivial in (True, False):
                module = nn.Linear(shape[1], shape[0], bias=False)
                attempt(log, (how, shape, trivial), lambda: repr(
                    parametrizations.orthogonal(module, orthogonal_map=how, use_trivialization=trivial)
                ))  # fmt: skip
                out = module(torch.arange(1.0, shape[1] + 1).view(1, -1))
                (out * torch.arange(1.0, out.numel() + 1).view(out.shape)).sum().backward()
                log(module.weight, {name: p.grad for name, p in module.named_parameters()})
    attempt(log, "map", lambda: parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="x"))
    attempt(log, "bias", lambda: parametrizations.orthogonal(nn.Linear(2, 2), "bias"))
    module = parametrizations.orthogonal(nn.Linear(3, 3))
    module.weight = torch.eye(3)[[1, 2, 0]]
    log(module.weight)


@cases.test
def test_parametrizations(program: Any) -> None:
    agree(program, rtol=1e-3, atol=2e-5, warns=True, raises=False)
