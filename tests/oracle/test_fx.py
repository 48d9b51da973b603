"""torch.fx: the graphs of traced programs, the code written from them, and what can be done with both."""

from __future__ import annotations

import copy
import importlib
import math
import operator
import pickle
from types import ModuleType
from typing import Any, List, Optional  # noqa: UP035

import pytest
import torch.fx as real_fx  # noqa: F401  PyTorch imports it late

import undertow.fx
from tests.oracle.harness import Log, agree, agree_error


def net(torch: ModuleType) -> Any:
    class Net(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lin = torch.nn.Linear(3, 4)
            self.p = torch.nn.Parameter(torch.ones(4))
            self.seq = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2))
            self.each = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
            self.register_buffer("b", torch.ones(2))
            self.plain = torch.ones(2)

        def forward(self, x: Any, y: int = 3, *, z: Any = None) -> Any:
            h = torch.nn.functional.relu(self.lin(x) + self.p) * 2 - 1
            h = self.seq(h)
            for layer in self.each:
                h = layer(h)
            first, second = h.shape
            q = torch.cat([h, h], dim=1)[:, :2]
            r = h.view(first, second).sum(dim=1, keepdim=True)
            return {"k": r + self.b, "l": [q, (y, -h + self.plain)], "s": self.p.shape}

    Net.forward.__annotations__ = {"y": int}
    return Net()


def test_a_module_is_traced() -> None:
    def program(torch: ModuleType, log: Log) -> Any:
        traced = torch.fx.symbolic_trace(net(torch))
        log(traced.code, str(traced.graph), str(traced), list(traced.state_dict()), type(traced).__name__)
        for node in traced.graph.nodes:
            log(node.op, node.name, str(node.args), str(node.kwargs), sorted(user.name for user in node.users))
            log([each.name for each in node.all_input_nodes], node.prev.name, node.next.name, node.format_node())
        log(traced.print_readable(print_output=False))
        result = traced(torch.ones(2, 3))
        result["k"].sum().backward()
        return result, traced.lin.weight.grad

    agree(program, graph=True)


FUNCTIONS = """
lambda x, n: x[n] @ x.T - 3 * x / 2 + x**2 + (x > 1) + ~x + abs(x) + 2 // x
lambda x: x + torch.ones(2) * torch.tensor(3)
lambda x, n=5: x + n
lambda x, *args, **kw: x + args[0] + kw["u"]
lambda x: x.to(torch.float64, device=torch.device("cpu")) + x[..., None, 1 : x.y]
lambda x: (t + x, t.add(x), torch.add(t, x), x.add(t), t * x, t @ x, t[x], 2 - x, x.T.mean(), x.foo(3), x == 1)
lambda x: F.gelu(F.linear(x, x)) + torch.einsum("ij->i", x) + torch.einsum("ij,jk", [x, x]) + F.dropout(x) + F.conv2d(x, x)
lambda x: (math.sqrt(x), math.floor(2.5), torch.split(x, 2), torch.relu_(x), torch.linalg.norm(x), torch.fft.fft(x))
lambda x: (torch.stack([x, x]), {"a": x, "b": (x,)}, slice(x, 1), [x.size(0)], torch.zeros(x.size(0)), float("inf") * x)
lambda x, y: x.masked_fill(y, float("-inf")).softmax(dim=-1).transpose(-2, -1).contiguous().view(-1, 2)
""".strip().splitlines()


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_are_traced(text: str) -> None:
    def program(torch: ModuleType) -> Any:
        scope = {"torch": torch, "F": torch.nn.functional, "t": torch.ones(2), "math": math}
        traced = torch.fx.symbolic_trace(eval(text, scope))
        return traced.code, str(traced.graph), [name for name, _ in traced.named_buffers()]

    agree(program)


def test_arguments_of_known_value() -> None:
    def program(torch: ModuleType) -> Any:
        return torch.fx.symbolic_trace(lambda x, n=5: x + n, concrete_args={"n": 7}).code

    agree(program)


def test_annotations() -> None:
    def program(torch: ModuleType) -> Any:
        def function(x: Any, y: Any = None, z: Any = ()) -> Any:
            return x

        kinds: dict[str, Any] = {"x": torch.Tensor, "y": Optional[int], "z": List[int], "return": torch.Tensor}  # noqa: UP006, UP045
        function.__annotations__ = kinds
        traced = torch.fx.symbolic_trace(function)
        return traced.code, str(traced.graph)

    agree(program)


@pytest.mark.parametrize(
    "text", ["x if x.sum() > 0 else -x", "[v for v in x]", "len(x)", "int(x)", "bool(x)", "dict(**x)", "x + object()"]
)
def test_what_cannot_be_traced(text: str) -> None:
    agree_error(lambda torch: torch.fx.symbolic_trace(eval(f"lambda x: {text}")))


def test_a_graph_made_and_changed_by_hand() -> None:
    def program(torch: ModuleType, log: Log) -> Any:
        graph = torch.fx.Graph()
        x, y = graph.placeholder("x", type_expr=torch.Tensor), graph.placeholder("y", default_value=2)
        relu = graph.call_method("relu", (graph.call_function(torch.add, (x, y)),))
        w = graph.get_attr("w")
        item = graph.call_function(operator.getitem, (graph.call_module("m", (relu,)), 0))
        graph.call_function(math.sqrt, (4,))
        graph.output((graph.call_function(torch.nn.functional.gelu, (item,), {"approximate": "none"}), w))
        log(str(graph), graph.python_code("self").src, len(graph.nodes), [n.name for n in reversed(graph.nodes)])
        root = torch.nn.Module()
        root.m, root.w = torch.nn.Identity(), torch.nn.Parameter(torch.ones(2))
        module = torch.fx.GraphModule(root, graph, "Made")
        graph.lint()
        log(str(module), module(torch.ones(3)), graph.eliminate_dead_code())
        with graph.inserting_after(relu):
            added = graph.call_function(torch.neg, (relu,))
        log([n.name for n in relu.replace_all_uses_with(added, lambda user: user is not added)])
        with graph.inserting_before(relu):
            graph.call_function(print, (x,))
        log(graph.eliminate_dead_code(), module.recompile().src, module(torch.ones(3)))
        relu.update_arg(0, x)
        added.kwargs = {"out": None}
        log(module.recompile().src, [n.name for n in graph.find_nodes(op="call_function", target=torch.neg)])
        log(
            added < relu,
            relu < added,
            relu.is_impure(),
            x.is_impure(),
            module.add_submodule("new.sub", torch.nn.ReLU()),
        )
        log(repr(module).split("def")[0], module.delete_submodule("new.sub"), module.delete_submodule("nope"))
        made = torch.fx.GraphModule({"m": torch.nn.Tanh(), "w": torch.ones(1)}, copy.deepcopy(graph))
        return module(torch.ones(3)), [n for n, _ in made.named_buffers()], made.code == module.code

    agree(program)


REFUSED = """
g.erase_node(x)
g.create_node("bad", "x")
g.call_function("x")
g.call_method(3)
torch.fx.GraphModule({}, h)
torch.fx.GraphModule(3, g)
g.call_function(torch.add, ([x],)).args[0].append(1)
torch.fx.Interpreter(torch.fx.symbolic_trace(lambda x: x + 1)).run()
torch.fx.wrap(3)
h.inserting_before(x)
""".strip().splitlines()


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    def program(torch: ModuleType) -> Any:
        g, h = torch.fx.Graph(), torch.fx.Graph()
        x = g.placeholder("x")
        g.call_function(torch.neg, (x,))
        h.get_attr("w")
        return eval(text, {"g": g, "h": h, "x": x, "torch": torch})

    agree_error(program, words=6)


def test_tracers_interpreters_and_transformers() -> None:
    def program(torch: ModuleType, log: Log) -> Any:
        class Deep(torch.fx.Tracer):  # type: ignore[name-defined]
            def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
                return isinstance(m, torch.nn.ReLU)

        class Noting(torch.fx.Interpreter):  # type: ignore[name-defined]
            def run_node(self, n: Any) -> Any:
                log(n.name)
                return super().run_node(n)

        class Tanh(torch.fx.Transformer):  # type: ignore[name-defined]
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                if target is torch.nn.functional.relu:
                    target, kwargs = torch.tanh, {}
                return super().call_function(target, args, kwargs)

        module = net(torch)
        log(str(Deep().trace(module)))
        traced = torch.fx.symbolic_trace(module)
        log(Noting(traced).run(torch.ones(2, 3)), Tanh(traced).transform().code)
        copied, loaded = copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))
        return (
            copied.code == traced.code,
            loaded.code == traced.code,
            loaded(torch.ones(2, 3)),
            list(copied.state_dict()),
        )

    agree(program)


def test_patterns_are_replaced() -> None:
    def program(torch: ModuleType) -> Any:
        traced = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1) * 2 + torch.relu(x) * 2)
        found = torch.fx.replace_pattern(traced, lambda x: torch.relu(x) * 2, lambda x: torch.sigmoid(x))
        pairs = [(one.name, other.name) for one, other in found[0].nodes_map.items()]
        return traced.code, len(found), found[0].anchor.name, pairs, traced(torch.ones(2))

    agree(program)


def test_wrapped_functions_are_one_call() -> None:
    code = """
def leaf(x): return len(x)
torch.fx.wrap("leaf")
torch.fx.wrap("len")
f = lambda x: leaf(x) + len(x) + leaf([1])
"""

    def program(torch: ModuleType) -> Any:
        scope: dict[str, Any] = {"torch": torch, "__name__": "wrapped_leaves"}
        exec(compile(code, "wrapped_leaves.py", "exec"), scope)
        traced = torch.fx.symbolic_trace(scope["f"])
        return traced.code, traced(torch.ones(3)), scope["leaf"].__name__, "len" in scope

    agree(program)
    assert undertow.nn.Module.__call__.__name__ == "_call_impl"  # nothing is left behind


def test_names_of_nodes() -> None:
    def program(torch: ModuleType) -> Any:
        graph = torch.fx.Graph()
        words = ["x", "x", "x_1", "a.b", "1st", "sum", "class", "self", "Camel", "_p", "x_5", "x"]
        return [graph.placeholder(word).name for word in words], [graph.get_attr(word).name for word in words]

    agree(program)


def test_an_insertion_point_acts_without_a_with_block() -> None:
    def program(torch: ModuleType, log: Log) -> None:
        traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        relu = next(node for node in traced.graph.nodes if node.op == "call_function")
        traced.graph.inserting_after(relu)
        traced.graph.call_function(torch.neg, (relu,))
        log([str(node) for node in traced.graph.nodes])
        with traced.graph.inserting_before(relu):
            traced.graph.call_function(torch.abs, (relu.args[0],))
        traced.graph.call_function(torch.exp, (relu,))
        log([str(node) for node in traced.graph.nodes])

    agree(program)


def test_shapes_are_noted_in_nodes() -> None:
    def program(torch: Any, log: Log) -> None:
        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.conv, self.norm = torch.nn.Conv2d(1, 4, 1), torch.nn.BatchNorm2d(4)

            def forward(self, x: Any) -> Any:
                y = self.norm(self.conv(x)).relu()
                return y.split(2, 1), y.flatten(1).t() + 1, y.to(memory_format=torch.channels_last)

        traced = torch.fx.symbolic_trace(Net())
        shape_prop = importlib.import_module(torch.__name__ + ".fx.passes.shape_prop")
        shape_prop.ShapeProp(traced).propagate(torch.ones(2, 1, 3, 3))
        for node in traced.graph.nodes:
            log(node.name, node.meta["type"].__name__, str(node.meta.get("tensor_meta")))

    agree(program)


def test_a_sequence_of_modules_says_nothing_of_types() -> None:
    def program(torch: ModuleType) -> Any:
        traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
        return traced.code, str(traced.graph)

    agree(program)
