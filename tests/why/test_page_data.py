"""The data of the page: the graph of a pass, its boxes, lost ways, hooks in order, gradients over steps."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.why.engines import both, line_here
from undertow import why
from undertow.why.page.data import page_data
from undertow.why.page.groups import MOST_ON_A_LEVEL
from undertow.why.page.recorder import MOST_STEPS, StepSamples, Thinned


def data_of(seen: why.watch) -> dict[str, Any]:
    assert not seen.trace.problems, seen.trace.problems[0]
    data = page_data(seen.trace, list(seen.findings()), seen._recorder)
    json.dumps(data, allow_nan=False)
    return data


def named(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Nodes of the last pass: leaves by their tensor, others by their name."""
    return {node["tensor"] if "row" in node else node["name"]: node for node in data["passes"][-1]["nodes"]}


def box_of(data: dict[str, Any], node: dict[str, Any]) -> list[str]:
    """The labels of the boxes around a node, innermost first."""
    groups = data["passes"][-1]["groups"]
    found, current = [], node["group"]
    while current:
        found.append(groups[current]["label"])
        current = groups[current]["parent"]
    return found


def make_net(torch: Any) -> Any:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
            self.head = torch.nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            return self.head(self.body(x)).exp()

    torch.manual_seed(0)
    return Net()


@both
def test_nodes_stand_in_the_modules_that_made_them(torch: Any) -> None:
    net = make_net(torch)
    with why.watch(net) as seen:
        loss = net(torch.ones(2, 3)).sum()
        made = line_here() - 1
        loss.backward()
    data = data_of(seen)
    (graph,) = data["passes"]
    nodes = named(data)
    assert graph["title"] == f"backward() at line {made + 2}" and graph["value"] == pytest.approx(loss.item(), rel=1e-5)
    assert box_of(data, nodes["SumBackward0"]) == []
    assert box_of(data, nodes["ExpBackward0"]) == ["net"]
    assert box_of(data, nodes["ReluBackward0"]) == ["1", "body", "net"]
    assert box_of(data, nodes["net.head.weight"]) == ["head", "net"]
    assert nodes["SumBackward0"]["line"] == made and nodes["SumBackward0"]["tensor"] == "loss"
    assert (
        data["files"][nodes["SumBackward0"]["file"]]["lines"][made - 1].strip() == "loss = net(torch.ones(2, 3)).sum()"
    )
    assert graph["roots"] == [nodes["SumBackward0"]["id"]] and nodes["SumBackward0"]["received"] == 1
    assert nodes["net.head.weight"]["received"] == pytest.approx(net.head.weight.grad.norm().item(), rel=1e-5)
    assert nodes["ExpBackward0"]["shape"] == [2, 1] and nodes["ExpBackward0"]["saved"] == 8
    assert graph["saved"] == sum(node["saved"] for node in graph["nodes"])
    orders = sorted(node["order"] for node in graph["nodes"])
    assert orders == list(range(1, len(orders) + 1)) and nodes["SumBackward0"]["order"] == 1
    for edge in graph["edges"]:
        assert edge["state"] == "ok" and edge["norm"] > 0
    used = {box["id"] for box in graph["groups"][1:]}
    assert used == {group for node in graph["nodes"] for group in _around(graph, node["group"])}  # none is empty


def _around(graph: dict[str, Any], group: int) -> list[int]:
    return [] if not group else [group, *_around(graph, graph["groups"][group]["parent"])]


@both
def test_the_way_that_was_cut_is_drawn(torch: Any) -> None:
    net = make_net(torch)
    with why.watch(net) as seen:
        features = net.body(torch.ones(2, 3))
        loss = net.head(features.detach()).sum()
        cut = line_here() - 1
        loss.backward()
        gradient = net.body[0].weight.grad
    assert gradient is None
    data = data_of(seen)
    (finding,) = data["findings"]
    assert (finding["code"], finding["line"]) == ("detached", cut)
    (graph,) = data["passes"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    own, focus, *others = graph["findings"]["0"]
    assert [nodes[id]["tensor"] for id in (own, *others)] == finding["subjects"]
    assert nodes[focus]["op"] == "detach" and nodes[focus]["cut"] and nodes[focus]["line"] == cut
    lost = {edge["to"]: edge["from"] for edge in graph["edges"] if edge["state"] == "lost"}
    leaf = next(node["id"] for node in graph["nodes"] if node["kind"] == "lost-leaf")
    way = [leaf]
    while way[-1] in lost:
        way.append(lost[way[-1]])
    assert [nodes[id]["op"] for id in way] == [None, "linear", "relu", "detach", "linear"]
    assert nodes[way[-1]]["state"] == "ok"  # here it joins the graph


@both
def test_of_several_layers_on_one_line_the_one_that_is_meant_is_marked(torch: Any) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sigmoid(), torch.nn.Linear(3, 1), torch.nn.ReLU())
    kept: list[Any] = []
    net[1].register_forward_hook(lambda module, args, output: kept.append(output))
    with why.watch(engine=torch) as seen:
        net(torch.ones(4, 2)).sum().backward()
        with warnings.catch_warnings(action="ignore"):
            print(kept[0].grad)
    (graph,) = data_of(seen)["passes"]
    assert [node["op"] for node in graph["nodes"] if node["id"] in graph["findings"]["0"]] == ["sigmoid"]


@both
def test_a_findings_own_parameter_comes_first_then_its_cause(torch: Any) -> None:
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with why.watch(net) as seen:
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(4, 3)).round().mean().backward()
            optimizer.step()
    data = data_of(seen)
    (finding,) = data["findings"]
    assert (finding["code"], finding["subjects"]) == ("zero-by-math", ["net.weight", "net.bias"])
    (graph,) = data["passes"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    own, cause, other = (nodes[id] for id in graph["findings"]["0"])
    assert (own["tensor"], cause["op"], other["tensor"]) == ("net.weight", "round", "net.bias")


@both
def test_a_finding_of_an_earlier_step_marks_the_same_op_of_the_pass_that_is_shown(torch: Any) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Softmax(dim=1))
    with why.watch(net) as seen:
        for _ in range(3):
            torch.nn.functional.cross_entropy(net(torch.ones(2, 3)), torch.tensor([0, 1])).backward()
            net.zero_grad()
    data = data_of(seen)
    (finding,) = data["findings"]
    assert (finding["code"], finding["kind"]) == ("probabilities-as-logits", "note")
    (graph,) = data["passes"]
    assert [node["op"] for node in graph["nodes"] if node["id"] in graph["findings"]["0"]] == ["softmax"]


@both
def test_the_nodes_of_backward_hooks_stand_in_their_module(torch: Any) -> None:
    net = make_net(torch)
    net.body.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    with why.watch(net) as seen:
        net(torch.ones(2, 3, requires_grad=True)).sum().backward()
    data = data_of(seen)
    wrapped = [node for node in data["passes"][0]["nodes"] if "BackwardHookFunction" in node["name"]]
    assert [box_of(data, node) for node in wrapped] == [["body", "net"]] * 2


@both
def test_a_gradient_that_is_one_number_has_a_norm(torch: Any) -> None:
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    with why.watch(engine=torch) as seen:
        (0.1 * x.mean()).backward()
    assert named(data_of(seen))["MeanBackward0"]["received"] == pytest.approx(0.1)


@both
def test_without_a_backward_pass_nothing_is_judged(torch: Any) -> None:
    with why.watch(engine=torch) as seen:
        torch.ones(2).sum()
    program = data_of(seen)["program"]
    assert not program["judged"] and not program["healthy"] and program["verdict"].startswith("Nothing was judged")


@both
def test_a_pass_without_a_graph_shows_what_made_its_root(torch: Any) -> None:
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError), why.watch(engine=torch) as seen:
        with torch.no_grad():
            loss = (w * 2).sum()
        loss.backward()
    data = data_of(seen)
    assert data["program"]["error"]["type"] == "RuntimeError"
    (graph,) = data["passes"]
    assert {node["op"]: "cut" in node for node in graph["nodes"]} == {"sum": False, "mul": True}
    assert [next(n for n in graph["nodes"] if n["id"] == id)["op"] for id in graph["findings"]["0"]] == ["mul"]


@both
def test_a_leaf_that_is_its_own_root_is_not_lost(torch: Any) -> None:
    x = torch.tensor(2.0, requires_grad=True)
    with why.watch(engine=torch) as seen:
        x.backward()
    data = data_of(seen)
    assert data["passes"][0]["nodes"] == [] and [row["samples"][0][0] for row in data["flow"]["rows"]] == ["ok"]


@both
def test_states_of_gradients(torch: Any) -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with why.watch(engine=torch) as seen:
        (x.sqrt() * torch.tensor([0.0, 1.0])).sum().backward()
    nodes = named(data_of(seen))
    assert (
        nodes["SqrtBackward0"]["state"] == "born" and nodes["x"]["state"] == "nan" and nodes["x"]["received"] == "nan"
    )
    with why.watch(engine=torch) as seen:
        torch.relu(x - 10).sum().backward()
    nodes = named(data_of(seen))
    assert nodes["ReluBackward0"]["state"] == "stop" and nodes["x"]["state"] == "zero"


@both
@pytest.mark.parametrize("dtype", ["complex64", "bfloat16", "float16"])
def test_norms_of_other_dtypes(torch: Any, dtype: str) -> None:
    x = torch.tensor([3.0, 4.0], dtype=getattr(torch, dtype), requires_grad=True)
    with why.watch(engine=torch) as seen:
        (x * x).abs().sum().backward()
    node = named(data_of(seen))["x"]
    assert node["received"] == pytest.approx(10, rel=1e-2) and node["dtype"] == dtype


@both
def test_hooks_in_the_order_in_which_they_fired(torch: Any) -> None:
    net = make_net(torch)
    with why.watch(net) as seen:
        parameter = net.head.weight
        parameter.register_hook(lambda grad: grad * 0.5)
        registered = line_here() - 1
        net.body.register_full_backward_hook(lambda module, grad_input, grad_output: None)
        out = net(torch.ones(2, 3, requires_grad=True))
        out.grad_fn.register_hook(lambda grad_input, grad_output: None)
        out.sum().backward()
    data = data_of(seen)
    hooks = data["hooks"]
    fired = [(hooks["registered"][call["hook"]]["kind"], call["order"], call["pass"]) for call in hooks["fired"]]
    assert [kind for kind, _, _ in fired] == ["node", "tensor", "full-backward"]
    assert [order for _, order, _ in fired] == [1, 2, 3] and {number for _, _, number in fired} == {0}
    halved = hooks["fired"][1]
    assert halved["changed"] and halved["after"] == pytest.approx(halved["before"] / 2, rel=1e-4)
    assert hooks["registered"][halved["hook"]]["at"]["line"] == registered
    assert {hook["on"] for hook in hooks["registered"]} >= {"net.head.weight", "net.body"}
    assert not hooks["fired"][2]["changed"] and hooks["total"] == 3
    assert named(data)["net.head.weight"]["hooks"] == [halved["hook"]]
    body = next(box for box in data["passes"][0]["groups"] if box["label"] == "body")
    assert body["hooks"] == [hooks["fired"][2]["hook"]]


@both
def test_gradients_over_steps(torch: Any) -> None:
    net = make_net(torch)
    net.body[0].bias.requires_grad_(False)
    spare = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD([*net.parameters(), *spare.parameters()], lr=0.01)
    with why.watch(net, spare) as seen:
        net.head.bias.register_hook(lambda grad: grad * 2)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    flow = data_of(seen)["flow"]
    rows = {row["name"]: row for row in flow["rows"]}
    assert flow["unit"] == "step" and flow["total"] == 3 and [step["step"] for step in flow["steps"]] == [1, 2, 3]
    assert all(step["value"] > 0 for step in flow["steps"])
    assert [sample[0] for sample in rows["net.head.weight"]["samples"]] == ["ok"] * 3
    assert rows["net.head.weight"]["samples"][-1][1] == pytest.approx(net.head.weight.grad.norm().item(), rel=1e-3)
    assert [sample[0] for sample in rows["net.body[0].bias"]["samples"]] == ["frozen"] * 3
    assert [sample[0] for sample in rows["spare.weight"]["samples"]] == ["none"] * 3
    assert [sample[3] for sample in rows["net.head.bias"]["samples"]] == [1] * 3
    assert rows["net.head.weight"]["owner"] == "net.head" and rows["net.head.weight"]["type"] == "Linear"


def test_without_an_optimizer_passes_are_the_steps() -> None:
    import undertow as torch

    w = torch.ones(2, requires_grad=True)
    with why.watch(engine=torch) as seen:
        for _ in range(2):
            (w * 3).sum().backward()
    flow = data_of(seen)["flow"]
    assert flow["unit"] == "pass" and [[s[1] for s in row["samples"]] for row in flow["rows"]] == [
        [pytest.approx(3 * 2**0.5, rel=1e-3), pytest.approx(6 * 2**0.5, rel=1e-3)]
    ]


def test_long_runs_are_thinned_and_the_page_says_so() -> None:
    steps = Thinned(8)
    for number in range(1, 101):
        if steps.count_next():
            steps.add(StepSamples(number, None, None, None))
    kept = [entry.step for entry in steps.kept]
    assert len(kept) < 8 and kept[0] == 1 and steps.total == 100
    assert {after - before for before, after in pairwise(kept)} == {steps.stride}
    import undertow as torch

    w = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.0)
    with why.watch(engine=torch) as seen:
        for _ in range(MOST_STEPS + 5):
            (w * 1).sum().backward()
            optimizer.step()
    data = data_of(seen)
    assert len(data["flow"]["steps"]) <= MOST_STEPS
    assert any("every 2nd is shown" in text for text in data["limits"])


def test_optimizers_that_take_turns_are_thinned_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    import undertow as torch

    monkeypatch.setattr("undertow.why.page.recorder.MOST_STEPS", 8)
    one, other = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    optimizers = [torch.optim.SGD([one], lr=0.0), torch.optim.SGD([other], lr=0.0)]
    with why.watch(engine=torch) as seen:
        for _ in range(20):
            for optimizer in optimizers:
                (one * other).sum().backward()
                optimizer.step()
    flow = data_of(seen)["flow"]
    assert flow["total"] == 40 and flow["stride"] == 4
    assert {step["optimizer"] for step in flow["steps"]} == {0, 1}
    assert [step["step"] for step in flow["steps"]] == sorted(step["step"] for step in flow["steps"])
    for row in flow["rows"]:
        assert sum(sample is not None for sample in row["samples"]) == len(flow["steps"]) // 2


def test_crowded_levels_are_put_into_parts() -> None:
    import undertow as torch

    w = torch.ones(1, requires_grad=True)
    with why.watch(engine=torch) as seen:
        h = w
        for _ in range(1500):
            h = h * 1.0
        h.sum().backward()
    (graph,) = data_of(seen)["passes"]
    assert len(graph["nodes"]) == 1502
    inside: dict[int, int] = {}
    for node in graph["nodes"]:
        inside[node["group"]] = inside.get(node["group"], 0) + 1
    for box in graph["groups"][1:]:
        inside[box["parent"]] = inside.get(box["parent"], 0) + 1
    assert max(inside.values()) <= MOST_ON_A_LEVEL and set(inside) == {box["id"] for box in graph["groups"]}
    parts = {node["id"]: _around(graph, node["group"]) for node in graph["nodes"]}
    crossings = {
        (parts[edge["from"]][-1], parts[edge["to"]][-1])
        for edge in graph["edges"]
        if parts[edge["from"]][-1] != parts[edge["to"]][-1]
    }
    assert not any((to, start) in crossings for start, to in crossings)  # gradients go one way between parts


def test_each_line_that_calls_backward_has_its_last_pass() -> None:
    import undertow as torch

    w = torch.ones(1, requires_grad=True)
    with why.watch(engine=torch) as seen:
        for _ in range(3):
            (w * 2).sum().backward()
            w.exp().sum().backward()
    graphs = data_of(seen)["passes"]
    assert [graph["title"].partition(", ")[2] for graph in graphs] == ["pass 3 of 3"] * 2
    assert {node["name"] for node in graphs[1]["nodes"]} == {"SumBackward0", "ExpBackward0", "AccumulateGrad"}


def test_saved_values_are_not_unpacked_by_looking() -> None:
    import undertow as torch

    calls: list[str] = []

    def note(call: str) -> Any:
        def called(tensor: Any) -> Any:
            calls.append(call)
            return tensor

        return called

    w = torch.ones(1, requires_grad=True)
    with why.watch(engine=torch) as seen:
        with torch.autograd.graph.saved_tensors_hooks(note("pack"), note("unpack")):
            loss = w.exp().sum()
        loss.backward()
    assert calls == ["pack", "unpack"]
    assert data_of(seen)["passes"]


def test_a_page_of_a_block_is_written(tmp_path: Path) -> None:
    import undertow as torch

    net = make_net(torch)
    with why.watch(net) as seen:
        net(torch.ones(2, 3)).sum().backward()
    seen.save_html(str(tmp_path / "seen.html"), title="a block")
    text = (tmp_path / "seen.html").read_text(encoding="utf-8")
    assert "<title>a block · undertow why</title>" in text and text.count("<script") == 2
