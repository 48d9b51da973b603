"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


@cases
def sequential(torch, log):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    log(repr(model), len(model), repr(model[1]), repr(model[-1]), repr(model[1:]), repr(model[::2]))
    named = nn.Sequential(OrderedDict([("a", nn.Linear(2, 2)), ("b", nn.Tanh())]))
    log(repr(named), repr(named.a), repr(named[1]), named(torch.ones(1, 2)))
    model[1] = nn.Tanh()
    del model[0]
    log(repr(model), list(model.state_dict()))
    model.append(nn.ReLU())
    model.insert(1, nn.Sigmoid())
    model.insert(-1, nn.Identity())
    model.extend(nn.Sequential(nn.ELU()))
    log(repr(model), repr(model.pop(0)), repr(model))
    log(repr(model + nn.Sequential(nn.SELU())), repr(model * 2))
    model += nn.Sequential(nn.GELU())
    model *= 2
    log(repr(model), [type(m).__name__ for m in model], "0" in dir(model))
    del named[0]
    log(repr(named))
    for label, action in {
        "index": lambda: model[50],
        "text": lambda: model["a"],
        "number": lambda: nn.Sequential(3),
        "add": lambda: model + 3,
        "times": lambda: model * "a",
        "zero": lambda: model * 0,
        "insert": lambda: model.insert(99, nn.ReLU()),
        "insert number": lambda: model.insert(0, 3),
        "two arguments": lambda: nn.Sequential(nn.ReLU())(1, 2),
    }.items():
        attempt(log, label, action, words=6)


@cases
def module_list(torch, log):
    nn = torch.nn
    listed = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)] + [nn.ReLU()])
    log(repr(listed), len(listed), repr(listed[-1]), repr(listed[1:3]), list(listed.state_dict()))
    listed.append(nn.Tanh())
    listed.extend([nn.Tanh(), nn.Tanh()])
    listed.insert(0, nn.Sigmoid())
    listed += [nn.ELU()]
    listed[0] = nn.GELU()
    del listed[1]
    del listed[-2:]
    log(repr(listed), repr(listed.pop(1)), repr(listed + [nn.SELU()]), [type(m).__name__ for m in listed])
    log(repr(nn.ModuleList()), repr(nn.ModuleList([nn.ModuleList([nn.ReLU()]), nn.ModuleList([nn.ReLU()])])))
    log(nn.ReLU() in listed, listed[0] in listed)
    for label, action in {
        "index": lambda: listed[50],
        "number": lambda: nn.ModuleList([3]),
        "extend": lambda: listed.extend(3),
        "call": lambda: listed(1),
        "negative": lambda: listed[-50],
    }.items():
        attempt(log, label, action, words=6)


@cases
def module_dict(torch, log):
    nn = torch.nn
    held = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ReLU()})
    held["c"] = nn.Tanh()
    held.update([["d", nn.ELU()], ("a", nn.Identity())])
    held.update({"e": nn.GELU()})
    held.update(nn.ModuleDict({"f": nn.SELU()}))
    log(repr(held), list(held), list(held.keys()), [repr(v) for v in held.values()], [k for k, _ in held.items()])
    log(len(held), "a" in held, "z" in held, repr(held["b"]), repr(held.pop("b")), list(held))
    del held["c"]
    log(list(held))
    held.clear()
    log(repr(held), repr(nn.ModuleDict([["conv", nn.ReLU()]])))
    for label, action in {
        "missing": lambda: held["z"],
        "number": lambda: held.update(3),
        "short": lambda: held.update([["a"]]),
        "not a pair": lambda: held.update([3]),
        "taken": lambda: nn.ModuleDict({"training": nn.ReLU()}),
        "dotted": lambda: nn.ModuleDict({"a.b": nn.ReLU()}),
        "not a module": lambda: nn.ModuleDict({"a": 3}),
        "number key": lambda: nn.ModuleDict({3: nn.ReLU()}),
    }.items():
        attempt(log, label, action, words=6)


@cases
def parameter_list(torch, log):
    nn = torch.nn
    held = nn.ParameterList([nn.Parameter(torch.ones(2)), torch.zeros(3, 2), "text"])
    log(repr(held), len(held), held[0], held[-1], list(held.state_dict()), [type(v).__name__ for v in held])
    held.append(torch.ones(1))
    held.extend([nn.Parameter(torch.ones(())), 5])
    held[0] = torch.full((2,), 7.0)
    held += [nn.Parameter(torch.ones(4))]
    log(repr(held), [n for n, _ in held.named_parameters()], repr(held[1:3]), len(list(held.parameters())))
    log(repr(nn.ParameterList()), repr(nn.ParameterList(torch.ones(2) for _ in range(2))))
    for label, action in {
        "index": lambda: held[50],
        "extend": lambda: held.extend(torch.ones(2)),
        "extend number": lambda: held.extend(3),
        "call": lambda: held(1),
    }.items():
        attempt(log, label, action, words=6)


@cases
def parameter_dict(torch, log):
    nn = torch.nn
    held = nn.ParameterDict({"a": nn.Parameter(torch.ones(2)), "b": torch.zeros(1), "c": "text"})
    log(repr(held), list(held), len(held), list(held.state_dict()), held["a"], "b" in held, held.get("z", 5))
    held["d"] = torch.ones(3, 3)
    held.update({"e": torch.ones(1)})
    held.update([("f", torch.ones(1))])
    log(
        held.setdefault("a", None), held.setdefault("g", torch.ones(2)), list(held.keys()), [k for k, _ in held.items()]
    )
    log(held.pop("f"), list(reversed(held)), list(held.copy()), held.popitem(), len(list(held.values())))
    log(list(held.fromkeys(["x", "y"], 3)), list(held | nn.ParameterDict({"z": torch.ones(1)})))
    held |= nn.ParameterDict({"w": torch.ones(1)})
    del held["a"]
    log(list(held), [n for n, _ in held.named_parameters()])
    held.clear()
    log(len(held), repr(held))
    held.update({"z": 1, "y": 2})  # a dict's keys are sorted, an OrderedDict's and pairs are not
    held.update(OrderedDict(v=1, u=2))
    held.update([("t", 1), ("s", 2)])
    log(list(held), list(nn.ParameterDict({"b": 1, "a": 2})), list(nn.ParameterDict(held)))
    held.clear()
    for label, action in {
        "missing": lambda: held["z"],
        "number key": lambda: held.__setitem__(3, torch.ones(1)),
        "update": lambda: held.update(3),
        "call": lambda: held(1),
        "short": lambda: held.update([["a"]]),
    }.items():
        attempt(log, label, action, words=6)


@cases
def nested_containers_learn(torch, log):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
            self.heads = nn.ModuleDict({"x": nn.Linear(2, 1), "y": nn.Linear(2, 1)})
            self.scales = nn.ParameterList([torch.ones(1), torch.ones(1)])
            self.named = nn.ParameterDict({"shift": torch.zeros(1)})

        def forward(self, x: Any) -> Any:
            for layer, scale in zip(self.layers, self.scales, strict=True):
                x = layer(x) * scale
            return {name: head(x) + self.named["shift"] for name, head in self.heads.items()}

    net = Net()
    out = net(torch.ones(1, 2))
    (out["x"] * out["y"]).sum().backward()
    log(repr(net), out, {name: parameter.grad for name, parameter in net.named_parameters()})


@cases
def old_container(torch, log):
    log(repr(torch.nn.Container(a=torch.nn.ReLU())))


@cases.test
def test_containers(program: Any) -> None:
    agree(program, warns=True, raises=False)
