"""What a node says of the gradients it takes (`_input_metadata`), and gradient edges."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree, agree_error


def taken(node):
    return [(list(part.shape), part.dtype, part.device, part.is_nested_tensor) for part in node._input_metadata]


RESULTS = {
    "elementwise": lambda torch, x: x * 2,
    "reduced": lambda torch, x: x.sum(0),
    "one of several": lambda torch, x: x.split(2)[1],
    "values and indices": lambda torch, x: x.max(0).values,
    "factors": lambda torch, x: torch.linalg.qr(x)[0],
    "converted": lambda torch, x: x.double(),
    "view": lambda torch, x: x.t(),
}


@pytest.mark.parametrize("result", RESULTS)
def test_of_a_result(result):
    agree(lambda torch: taken(RESULTS[result](torch, torch.ones(3, 4, requires_grad=True)).grad_fn))


def test_along_a_chain():
    def program(torch):
        x = torch.ones(3, 4, requires_grad=True)
        node, found = ((x.exp() + 1).sum(0) * torch.ones(2, 1)).mean().grad_fn, []
        while node is not None:
            found.append((node.name(), taken(node)))
            node = node.next_functions[0][0] if node.next_functions else None
        return found

    agree(program)


def test_of_a_custom_function():
    def program(torch):
        class Several(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.sum(), x * 2

            @staticmethod
            def backward(ctx, g, h):
                return g + h

        return taken(Several.apply(torch.ones(2, requires_grad=True))[0].grad_fn)

    agree(program)


def test_edges_of_one_tensor_are_equal():
    def program(torch):
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        edge = torch.autograd.graph.get_gradient_edge
        return edge(y) == edge(y), hash(edge(y)) == hash(edge(y)), edge(y).ownership_token, edge(x) == edge(x)

    agree(program)


def test_an_edge_made_by_hand_starts_a_backward():
    def program(torch):
        x = torch.ones(2, requires_grad=True)
        total = (x * 3).sum()
        torch.autograd.backward(torch.autograd.graph.GradientEdge(total.grad_fn, 0))
        return x.grad

    agree(program)


def test_only_inputs_is_no_more():
    def program(torch):
        x = torch.ones(2, requires_grad=True)
        return torch.autograd.grad(x.sum(), x, only_inputs=False)

    agree(program)


@pytest.mark.parametrize("call", [
    lambda torch, x: torch.autograd.grad(x.sum(), [1]),
    lambda torch, x: torch.autograd.grad(x.sum(), "a"),
    lambda torch, x: x.sum().backward(inputs=[1]),
    lambda torch, x: torch.autograd.backward([1]),
    lambda torch, x: torch.autograd.backward(1),
])  # fmt: skip
def test_what_is_no_tensor_is_refused(call):
    agree_error(lambda torch: call(torch, torch.ones(2, requires_grad=True)))
