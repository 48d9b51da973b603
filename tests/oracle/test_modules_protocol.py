"""nn.Module apart from hooks: attributes, traversals, casts, copies, text, and what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


def family(torch: Any) -> Any:
    """A small tree with a shared child, a None child, buffers of both kinds and a shared parameter."""
    nn = torch.nn
    root = nn.Module()
    root.first = nn.Linear(2, 3)
    root.blocks = nn.ModuleList([nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), nn.ReLU()])
    root.again = root.first
    root.nothing = None
    root.register_module("empty", None)
    root.scale = nn.Parameter(torch.ones(2))
    root.tied = root.scale
    root.register_parameter("absent", None)
    root.register_buffer("kept", torch.arange(3.0))
    root.register_buffer("dropped", torch.zeros(1), persistent=False)
    root.register_buffer("missing", None)
    return root


@cases
def traversals(torch, log):
    root = family(torch)
    log(repr(root), list(root.state_dict()))
    for walk in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        log(walk, [name for name, _ in getattr(root, walk)()])
    for options in ({"prefix": "x"}, {"recurse": False}, {"remove_duplicate": False}):
        log([name for name, _ in root.named_parameters(**options)], [name for name, _ in root.named_buffers(**options)])
    log([name for name, _ in root.named_modules(prefix="p", remove_duplicate=False)])
    log(len(list(root.parameters())), len(list(root.buffers())), len(list(root.modules())), len(list(root.children())))
    log(len(list(root.parameters(recurse=False))), root.again is root.first)
    log(sorted(name for name in dir(root) if not name.startswith("_")))


@cases
def getting_by_name(torch, log):
    root = family(torch)
    log(repr(root.get_submodule("blocks.0.1")), root.get_submodule("") is root)
    log(root.get_parameter("blocks.0.0.weight"), root.get_buffer("kept"), root.get_buffer("blocks.0.1.running_mean"))
    for label, action in {
        "no module": lambda: root.get_submodule("blocks.7"),
        "not a module": lambda: root.get_submodule("scale"),
        "no parameter": lambda: root.get_parameter("foo"),
        "not a parameter": lambda: root.get_parameter("kept"),
        "no buffer": lambda: root.get_buffer("bar"),
        "not a buffer": lambda: root.get_buffer("scale"),
        "extra state": lambda: root.get_extra_state(),
        "set extra state": lambda: root.set_extra_state(1),
        "no attribute": lambda: root.foo,
        "delete none": lambda: delattr(root, "foo"),
        "set with no name": lambda: root.set_submodule("", torch.nn.ReLU()),
        "set a number": lambda: root.set_submodule("a", 3),
        "set strictly": lambda: root.set_submodule("blocks.9", torch.nn.ReLU(), strict=True),
        "set over a parameter": lambda: root.set_submodule("scale", torch.nn.ReLU()),
        "set below a number": lambda: root.set_submodule("scale.a", torch.nn.ReLU()),
    }.items():
        attempt(log, label, action)
    root.set_submodule("blocks.0.1", torch.nn.Identity())
    root.set_submodule("fresh", torch.nn.Tanh())
    log(repr(root))


@cases
def assigning(torch, log):
    nn = torch.nn
    module = nn.Module()
    module.x = 5
    module.x = nn.Parameter(torch.ones(2))
    log(list(module._parameters), "x" in module.__dict__)
    for label, action in {
        "tensor over parameter": lambda: setattr(module, "x", torch.ones(2)),
        "number over parameter": lambda: setattr(module, "x", 3),
        "none over parameter": lambda: setattr(module, "x", None),
        "parameter again": lambda: setattr(module, "x", nn.Parameter(torch.zeros(1))),
        "module over parameter": lambda: setattr(module, "x", nn.ReLU()),
        "module": lambda: setattr(module, "m", nn.ReLU()),
        "number over module": lambda: setattr(module, "m", 3),
        "none over module": lambda: setattr(module, "m", None),
        "parameter over module": lambda: setattr(module, "m", nn.Parameter(torch.zeros(1))),
        "buffer": lambda: module.register_buffer("b", torch.zeros(2)),
        "tensor over buffer": lambda: setattr(module, "b", torch.ones(3)),
        "number over buffer": lambda: setattr(module, "b", 3),
        "parameter over buffer": lambda: setattr(module, "b", nn.Parameter(torch.zeros(1))),
        "Buffer": lambda: setattr(module, "c", nn.Buffer(torch.zeros(1))),
        "Buffer again": lambda: setattr(module, "c", nn.Buffer(torch.ones(1), persistent=False)),
        "tensor over Buffer": lambda: setattr(module, "c", torch.full((2,), 3.0)),
        "Buffer over number": lambda: (setattr(module, "n", 1), setattr(module, "n", nn.Buffer(torch.zeros(1)))),
        "delete": lambda: (delattr(module, "c"), delattr(module, "m")),
    }.items():
        attempt(log, label, action)
        kinds = (module._parameters, module._buffers, module._modules)
        log([list(held) for held in kinds], sorted(module._non_persistent_buffers_set), list(module.state_dict()))


@cases
def registering_badly(torch, log):
    nn = torch.nn
    module = nn.Linear(1, 1)
    for label, action in {
        "buffer dot": lambda: module.register_buffer("a.b", torch.ones(1)),
        "buffer empty": lambda: module.register_buffer("", torch.ones(1)),
        "buffer number": lambda: module.register_buffer(3, torch.ones(1)),
        "buffer twice": lambda: module.register_buffer("weight", torch.ones(1)),
        "buffer kind": lambda: module.register_buffer("a", 3),
        "parameter dot": lambda: module.register_parameter("a.b", None),
        "parameter empty": lambda: module.register_parameter("", None),
        "parameter number": lambda: module.register_parameter(3, None),
        "parameter twice": lambda: module.register_parameter("training", None),
        "parameter kind": lambda: module.register_parameter("a", torch.ones(1)),
        "parameter kind 2": lambda: module.register_parameter("a", "b"),
        "module dot": lambda: module.add_module("a.b", nn.ReLU()),
        "module empty": lambda: module.add_module("", nn.ReLU()),
        "module number": lambda: module.add_module(3, nn.ReLU()),
        "module twice": lambda: module.add_module("weight", nn.ReLU()),
        "module kind": lambda: module.add_module("a", 3),
        "module tensor": lambda: module.add_module("a", torch.ones(1)),
        "train": lambda: module.train(3),
        "to int": lambda: module.to(torch.int64),
        "state dict": lambda: module.load_state_dict(3),
        "call": lambda: nn.Module()(),
        "arguments": lambda: nn.ReLU(False, True, 3),
    }.items():
        attempt(log, label, action)


@cases
def before_init(torch, log):
    nn = torch.nn

    def broken(action):
        class Broken(nn.Module):
            def __init__(self) -> None:
                action(self)

        return Broken

    for label, action in {
        "parameter": lambda self: setattr(self, "a", nn.Parameter(torch.ones(1))),
        "module": lambda self: setattr(self, "a", nn.ReLU()),
        "buffer": lambda self: self.register_buffer("a", torch.ones(1)),
        "register parameter": lambda self: self.register_parameter("a", None),
        "Buffer": lambda self: setattr(self, "a", nn.Buffer(torch.ones(1))),
    }.items():
        attempt(log, label, broken(action))


@cases
def call_super_init(torch, log):
    class Mixin:
        def __init__(self, tag: Any = None) -> None:
            self.tag = tag

    class Both(torch.nn.Module, Mixin):
        call_super_init = True

    log(Both("x").tag, Both(tag="y").tag)


@cases
def training_mode(torch, log):
    root = family(torch)
    log(root.training, root.eval() is root, [module.training for module in root.modules()])
    root.first.train()
    log([module.training for module in root.modules()], root.train(True) is root)


@cases
def casting(torch, log):
    root = family(torch)
    root.register_buffer("counts", torch.arange(3))
    root.scale.grad = torch.ones(2)
    before = [id(param) for param in root.parameters()]
    for cast in (
        lambda: root.double(), lambda: root.half(), lambda: root.bfloat16(), lambda: root.float(),
        lambda: root.to(torch.float64), lambda: root.to("cpu"), lambda: root.to("cpu", torch.float32),
        lambda: root.to(torch.ones(1, dtype=torch.float16)), lambda: root.to(device="cpu", dtype=torch.float64),
        lambda: root.type(torch.float32), lambda: root.cpu(), lambda: root.to(torch.float32, non_blocking=True),
        lambda: root.to(memory_format=torch.channels_last),
    ):  # fmt: skip
        log(cast() is root, [t.dtype for t in (*root.parameters(), *root.buffers())], root.scale.grad.dtype)
    log([id(param) for param in root.parameters()] == before, root.scale.is_leaf, root.scale.requires_grad)
    empty = torch.nn.Linear(2, 3).to_empty(device="cpu")
    log([tuple(param.shape) for param in empty.parameters()], empty.share_memory() is empty)


@cases
def requiring_gradients(torch, log):
    root = family(torch)
    log(root.requires_grad_(False) is root, [param.requires_grad for param in root.parameters()])
    root.first.requires_grad_()
    log([param.requires_grad for param in root.parameters()])


@cases
def zeroing_gradients(torch, log):
    layer = torch.nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    held = layer.weight.grad
    layer.zero_grad(set_to_none=False)
    log(layer.weight.grad is held, layer.weight.grad, layer.bias.grad)
    layer.zero_grad()
    log(layer.weight.grad, layer.bias.grad)
    (layer(torch.ones(1, 2)) ** 2).sum().backward(create_graph=True)
    log(layer.weight.grad.requires_grad)
    layer.zero_grad(False)
    log(layer.weight.grad, layer.weight.grad.requires_grad, layer.weight.grad.grad_fn)


@cases
def applying(torch, log):
    root = family(torch)
    log(root.apply(lambda module: log(type(module).__name__)) is root)

    def fill(module: Any) -> None:
        if isinstance(module, torch.nn.Linear):
            module.weight.data.fill_(0.5)

    root.apply(fill)
    log(root.first.weight)


@cases
def deep_copies(torch, log):
    root = family(torch)
    root.scale.grad = torch.ones(2)
    root.first.register_forward_hook(lambda *_: log("hook"))
    twin = copy.deepcopy(root)
    log(repr(twin), twin.state_dict(), twin.tied is twin.scale, twin.again is twin.first, twin.scale.grad)
    twin.first.weight.data.zero_()
    log(root.first.weight, len(twin.first._forward_hooks))
    twin.first(torch.ones(1, 2))
    shallow = copy.copy(root)
    log(shallow.first is root.first, shallow._parameters is root._parameters)


@cases
def pickles(torch, log):
    root = family(torch)
    twin = pickle.loads(pickle.dumps(root))
    log(repr(twin), twin.state_dict(), twin.tied is twin.scale, twin.again is twin.first, twin.training)
    log(type(twin.scale).__name__, twin.scale.requires_grad, sorted(twin._non_persistent_buffers_set))
    log(twin.first(torch.ones(1, 2)))
    parameter = pickle.loads(pickle.dumps(root.scale))
    log(type(parameter).__name__, parameter, parameter.requires_grad)


@cases
def extra_state(torch, log):
    class Counter(torch.nn.Module):
        count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            log("set", state)
            self.count = state["count"]

    one, other = torch.nn.Sequential(Counter()), torch.nn.Sequential(Counter())
    one[0].count = 3
    log(one.state_dict(), other.load_state_dict(one.state_dict()), other[0].count)
    attempt(log, "missing", lambda: other.load_state_dict({}))
    attempt(log, "unexpected", lambda: torch.nn.Sequential(torch.nn.ReLU()).load_state_dict(one.state_dict()))


@cases
def loading(torch, log):
    nn = torch.nn
    source, target = (
        nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)),
        nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)),
    )
    held = target[0].weight
    log(target.load_state_dict(source.state_dict()), target.state_dict(), target[0].weight is held)
    state = source.state_dict()
    del state["0.bias"]
    state["2.foo"], state["bar"] = torch.ones(1), 3
    attempt(log, "strict", lambda: target.load_state_dict(state))
    result = target.load_state_dict(state, strict=False)
    log(repr(result), result.missing_keys, result.unexpected_keys)
    state = source.state_dict()
    state["0.weight"] = torch.ones(3, 3)
    attempt(log, "shape", lambda: target.load_state_dict(state, strict=False))
    state["0.weight"] = "text"
    attempt(log, "kind", lambda: target.load_state_dict(state))
    state = source.state_dict()
    state["1.running_mean"] = torch.ones(3, dtype=torch.float64)
    target.load_state_dict(state)
    log(target[1].running_mean)
    other = source.state_dict(keep_vars=True)
    log(other["0.weight"] is source[0].weight, source.state_dict()["0.weight"].requires_grad)
    target.load_state_dict(source.state_dict(), assign=True)
    log(target[0].weight is held, type(target[0].weight).__name__, target[0].weight.requires_grad)
    log(target[0].weight.data_ptr() == source[0].weight.data_ptr())
    log(dict(source.state_dict(prefix="a.")), source.state_dict()._metadata)


@cases
def positional_state_dict(torch, log):
    into: dict[str, Any] = {}
    result = torch.nn.Linear(1, 1).state_dict(into, "p.", True)
    log(result is into, list(into), into["p.weight"].requires_grad)


@cases
def metadata_of_old_batch_norms(torch, log):
    norm = torch.nn.BatchNorm1d(2)
    norm(torch.randn(4, 2))
    state = dict(norm.state_dict())
    del state["num_batches_tracked"]
    log(norm.load_state_dict(state), norm.num_batches_tracked)
    instance = torch.nn.InstanceNorm1d(2)
    attempt(log, "old", lambda: instance.load_state_dict({"running_mean": torch.ones(2), "running_var": torch.ones(2)}))


@cases
def texts(torch, log):
    nn = torch.nn

    class Told(nn.Module):
        def __init__(self, text: str, *children: Any) -> None:
            super().__init__()
            self.text = text
            for place, child in enumerate(children):
                self.add_module(f"child{place}", child)

        def extra_repr(self) -> str:
            return self.text

    for module in (
        Told(""), Told("a=1"), Told("a=1\nb=2"), Told("", nn.ReLU()), Told("a", nn.ReLU()),
        Told("a\nb", Told("c\nd"), None),
        nn.Sequential(), nn.Sequential(nn.Sequential(nn.ReLU()), nn.ReLU()), nn.ModuleList(), nn.ModuleDict(),
    ):  # fmt: skip
        log(repr(module), str(module), module._get_name())


@cases
def parameters_and_buffers(torch, log):
    nn = torch.nn
    one = nn.Parameter(torch.arange(2.0))
    log(repr(one), one.requires_grad, one.is_leaf, isinstance(one, torch.Tensor), type(one * 2).__name__)
    log(repr(nn.Parameter()), repr(nn.Parameter(torch.ones(1), requires_grad=False)), type(one.data).__name__)
    log(type(one.detach()).__name__, type(one.clone()).__name__, type(one[0]).__name__, type(-one).__name__)
    log(isinstance(torch.ones(1), nn.Parameter), isinstance(nn.Buffer(torch.ones(1)), nn.Buffer))
    log(type(nn.Buffer(torch.ones(1))).__name__, nn.Buffer(torch.ones(1), persistent=False).persistent)
    attempt(log, "integers", lambda: nn.Parameter(torch.ones(2, dtype=torch.int64)))
    attempt(log, "whole numbers that do not learn", lambda: nn.Parameter(torch.ones(2, dtype=torch.int64), False))
    twin = copy.deepcopy(one)
    log(type(twin).__name__, twin, twin is one)
    base = torch.ones(2)
    shared = nn.Parameter(base)
    base.add_(1)
    log(shared, nn.Parameter(shared).requires_grad, hash(one) == id(one))


@cases
def parameters_that_conversions_replace_or_keep(torch, log):
    settings = torch.__future__
    log(settings.get_overwrite_module_params_on_conversion(), settings.get_swap_module_params_on_conversion())
    module = torch.nn.Linear(2, 2)
    module(torch.ones(2)).sum().backward()
    weight = module.weight
    try:
        settings.set_overwrite_module_params_on_conversion(True)
        log(module.double().weight is weight, weight.dtype, module.weight, module.weight.grad)
        settings.set_swap_module_params_on_conversion(True)
        weight = module.weight
        log(module.float().weight is weight, weight, weight.grad)
        state = {"weight": torch.zeros(2, 2), "bias": torch.ones(2)}
        module.load_state_dict(state, assign=True)
        log(module.weight is weight, weight, weight.grad)
    finally:
        settings.set_overwrite_module_params_on_conversion(False)
        settings.set_swap_module_params_on_conversion(False)


@cases
def gradients_and_buffers_that_conversions_keep(torch, log):
    module = torch.nn.Linear(2, 2)
    module(torch.ones(2)).sum().backward()
    grad = module.weight.grad
    log(module.double().weight.grad is grad, grad)
    norm = torch.nn.BatchNorm1d(2)
    mean = norm.running_mean
    try:
        torch.__future__.set_swap_module_params_on_conversion(True)
        norm.load_state_dict({key: value + 1 for key, value in norm.state_dict().items()}, assign=True)
        log(norm.running_mean is mean, mean)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    log(list(vars(module)))


@cases.test
def test_module_protocol(program: Any) -> None:
    agree(program, warns=True, raises=False)
