"""`grad_fn` as an object: names, edges, and gradients taken at a `GradientEdge`."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, names, note

cases = Table()


@cases.test
def test_nodes_and_edges(program):
    agree(program, graph=True)


# --- the graph as it can be walked ---------------------------------------------------------------------------------------


@cases
def names_of_a_small_graph(torch, log):
    x, w = leaf(torch), leaf(torch)
    log(names(((x * w).exp() + x).sum().grad_fn))


@cases
def plain_tensors_have_empty_edges(torch, log):
    x = leaf(torch)
    log(names((x * torch.ones(2)).grad_fn), names((torch.ones(2) - x).grad_fn), names((x * 2).grad_fn))
    log(names(torch.cat([torch.ones(2), x]).grad_fn))


@cases
def output_numbers(torch, log):
    x = torch.ones(3, requires_grad=True)
    a, b, c = x.unbind()
    log(names((a + c * b).grad_fn), [part.output_nr for part in (a, b, c)])
    values, indices = x.sort()
    log(values.output_nr, indices.output_nr, indices.grad_fn)


@cases
def graph_of_a_linear_layer_and_loss(torch, log):
    x = torch.ones(2, 3)
    weight, bias = torch.ones(4, 3, requires_grad=True), torch.ones(4, requires_grad=True)
    functional = torch.nn.functional
    log(names(functional.linear(x, weight, bias).relu().mean().grad_fn))
    log(names(functional.linear(x, weight).grad_fn))
    log(names(functional.cross_entropy(functional.linear(x, weight, bias), torch.tensor([0, 1])).grad_fn))
    log(names(functional.mse_loss(functional.linear(x, weight, bias), torch.zeros(2, 4)).grad_fn))


@cases
def graph_of_composed_functions(torch, log):
    x = torch.ones(2, 3, requires_grad=True)
    v = torch.ones(3, requires_grad=True)
    log(names((3 / x).grad_fn), names((x - 1).grad_fn), names((1 - x).grad_fn), names((-x).grad_fn))
    log(names((x @ v).grad_fn), names((v @ v).grad_fn), names((x @ x.t()).grad_fn))
    log(names(x[0, 1].grad_fn), names(x[:, 1:].grad_fn), names(x[..., None].grad_fn), names(x[x > 0].grad_fn))
    log(names(x.mean(0).grad_fn), names(x.std().grad_fn), names(x.flatten().grad_fn), names(x.T.grad_fn))
    log(names(x.mT.grad_fn), names(x.reshape(3, 2).grad_fn), names(x.t().reshape(6).grad_fn))


@cases
def repr_of_a_node_and_of_its_tensor(torch, log):
    x = leaf(torch)
    y = x * 2
    log(repr(y.grad_fn).split(" at ")[0], type(y.grad_fn).__name__)
    log(repr(y), repr(x), repr(y.detach()), repr(y.sum()))
    accumulate = y.grad_fn.next_functions[0][0]
    log(repr(accumulate).split(" at ")[0])
    y[0] = 5
    log(repr(y), repr(y[0]))


@cases
def nodes_know_their_class(torch, log):
    x = leaf(torch)
    nodes = torch.autograd.graph.Node
    for tensor in (x * 2, x.view(2), x.exp()):
        log(isinstance(tensor.grad_fn, nodes))
    log(isinstance((x * 2).grad_fn.next_functions[0][0], nodes), isinstance(3, nodes), isinstance(x, nodes))


@cases
def a_node_cannot_be_made_or_called_like_this(torch, log):
    x = leaf(torch)
    node = (x * 3).grad_fn
    log(node(torch.ones(2)))
    attempt(log, "wrong count", lambda: node(torch.ones(2), torch.ones(2)))
    attempt(log, "make", lambda: type(node)())


@cases
def sequence_numbers_grow(torch, log):
    x = leaf(torch)
    a = x * 2
    b = a.exp()
    c = a + b
    numbers = [tensor.grad_fn._sequence_nr() for tensor in (a, b, c)]
    log([number - numbers[0] for number in numbers])
    log(c.grad_fn.next_functions[0][0]._sequence_nr() == numbers[0])
    log(a.grad_fn.next_functions[0][0]._sequence_nr())


@cases
def nothing_is_counted_without_a_graph(torch, log):
    x = leaf(torch)
    first = (x * 2).grad_fn._sequence_nr()
    with torch.no_grad():
        x.exp()
    x.detach().exp()
    torch.ones(3).exp()
    log((x * 2).grad_fn._sequence_nr() - first)


# --- GradientEdge --------------------------------------------------------------------------------------------------------


@cases
def edge_of_a_tensor(torch, log):
    x = leaf(torch)
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    log(type(edge).__name__, edge.node is y.grad_fn, edge.output_nr, tuple(edge)[:2] == (y.grad_fn, 0))
    of_leaf = torch.autograd.graph.get_gradient_edge(x)
    log(of_leaf.node.name(), of_leaf.output_nr)
    part = torch.ones(3, requires_grad=True).unbind()[2]
    log(torch.autograd.graph.get_gradient_edge(part).output_nr)


@cases
def edge_of_a_plain_tensor(torch, log):
    attempt(log, "plain", lambda: torch.autograd.graph.get_gradient_edge(torch.ones(2)))


@cases
def grad_with_respect_to_an_edge(torch, log):
    x = leaf(torch)
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    root = y.exp().sum()
    log(torch.autograd.grad(root, edge, retain_graph=True))
    del y
    log(torch.autograd.grad(root, (edge, x)))


@cases
def edge_of_a_tensor_before_an_in_place_op(torch, log):
    x = leaf(torch)
    y = x * 2
    before = torch.autograd.graph.get_gradient_edge(y)
    y.mul_(5)
    after = torch.autograd.graph.get_gradient_edge(y)
    log(before.node is after.node)
    log(torch.autograd.grad(y.exp().sum(), [before, after, x]))


@cases
def edge_of_a_leaf(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    edge = torch.autograd.graph.get_gradient_edge(x)
    log(torch.autograd.grad((x * 3).sum(), edge))


@cases
def backward_from_an_edge(torch, log):
    x = leaf(torch)
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    del y
    torch.autograd.backward(edge, torch.tensor([1.0, 10.0]))
    return x.grad


@cases
def backward_from_an_edge_without_gradient(torch, log):
    x = leaf(torch)
    edge = torch.autograd.graph.get_gradient_edge(x * 2)
    attempt(log, "vector", lambda: torch.autograd.backward(edge))
    attempt(log, "scalar", lambda: torch.autograd.backward(torch.autograd.graph.get_gradient_edge((x * 2).sum())))
    return x.grad


@cases
def grad_from_an_edge(torch, log):
    x = leaf(torch)
    edge = torch.autograd.graph.get_gradient_edge((x * x).sum())
    log(torch.autograd.grad(edge, x, torch.tensor(3.0)))


@cases
def backward_into_an_edge(torch, log):
    x = leaf(torch)
    y = x * 2
    root = y.exp().sum()
    attempt(log, "leaf", lambda: root.backward(inputs=torch.autograd.graph.get_gradient_edge(x), retain_graph=True))
    log(x.grad)
    attempt(log, "non-leaf", lambda: root.backward(inputs=[torch.autograd.graph.get_gradient_edge(y)]))


@cases
def edge_that_is_unused(torch, log):
    x, w = leaf(torch), leaf(torch)
    edge = torch.autograd.graph.get_gradient_edge(w * 2)
    attempt(log, "unused", lambda: torch.autograd.grad((x * 2).sum(), edge))
    log(torch.autograd.grad((x * 2).sum(), [x, edge], allow_unused=True))


@cases
def increment_version(torch, log):
    x = leaf(torch)
    y = x * 1
    z = y.sin()
    torch.autograd.graph.increment_version(y)
    log(y._version)
    attempt(log, "backward", lambda: z.sum().backward())
