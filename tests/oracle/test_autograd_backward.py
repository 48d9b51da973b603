"""`backward` and `grad`: accumulation, graphs that are kept or freed, unused inputs, gradients that are given."""

from __future__ import annotations

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf

cases = Table()


@cases.test
def test_backward(program):
    agree(program, graph=True, warns=True)


# --- accumulation --------------------------------------------------------------------------------------------------------


@cases
def grad_is_accumulated_in_place(torch, log):
    x = leaf(torch)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    log(x.grad is first, first, first._version)


@cases
def grad_is_a_new_tensor_after_none(torch, log):
    x = leaf(torch)
    (x * 2).sum().backward()
    first = x.grad
    x.grad = None
    (x * 3).sum().backward()
    log(x.grad is first, first, x.grad)


@cases
def grad_is_a_new_tensor_under_create_graph(torch, log):
    x = leaf(torch)
    (x**2).sum().backward()
    first = x.grad
    (x**3).sum().backward(create_graph=True)
    log(x.grad is first, first, x.grad)
    second = x.grad
    (x**2).sum().backward()
    log(x.grad is second, second, x.grad)


@cases
def zeroing_keeps_the_tensor(torch, log):
    x = leaf(torch)
    (x * 2).sum().backward()
    first = x.grad
    x.grad.zero_()
    (x * 3).sum().backward()
    log(x.grad is first, x.grad)


@cases
def grad_does_not_alias_other_gradients(torch, log):
    x, w = leaf(torch), leaf(torch)
    (x + w).sum().backward()
    x.grad.mul_(100)
    log(x.grad, w.grad)
    given = torch.ones(2)
    y = x.clone()
    x.grad = None
    y.backward(given)
    x.grad.mul_(5)
    log(x.grad, given)
    x.grad = None
    x.backward(given)
    log(x.grad is given)
    x.grad.mul_(5)
    log(given)


@cases
def grad_is_contiguous_like_its_tensor(torch, log):
    x = torch.ones(2, 3, requires_grad=True)
    x.t().contiguous().sum().backward()
    log(x.grad.stride(), x.grad.is_contiguous())
    x.grad = None
    (x.sum() * 2).backward()
    log(x.grad.stride())


# --- the graph -----------------------------------------------------------------------------------------------------------


@cases
def second_backward_fails(torch, log):
    x = leaf(torch)
    root = (x * x).sum()
    root.backward()
    attempt(log, "second", lambda: root.backward())
    attempt(log, "grad", lambda: torch.autograd.grad(root, x))
    return x.grad


@cases
def second_backward_without_saved_values_works(torch, log):
    x = leaf(torch)
    root = (x + 1).sum()
    root.backward()
    attempt(log, "second", lambda: root.backward())
    return x.grad


@cases
def which_graphs_survive_a_backward(torch, log):
    functions = {
        "mul by a number": lambda x: x * 2,
        "neg": lambda x: -x,
        "view": lambda x: x.view(2, 1),
        "slice": lambda x: x[:1],
        "cat": lambda x: torch.cat([x, x]),
        "clone": lambda x: x.clone(),
        "mean": lambda x: x.mean(),
        "div by a number": lambda x: x / 2,
        "exp": lambda x: x.exp(),
        "pow 2": lambda x: x**2,
        "relu": lambda x: x.relu(),
        "mul by a plain tensor": lambda x: x * torch.ones(2),
        "index": lambda x: x[torch.tensor([0])],
        "where": lambda x: torch.where(torch.tensor([True, False]), x, 0.0),
        "cumsum": lambda x: x.cumsum(0),
        "max": lambda x: x.max(),
    }
    for label, function in functions.items():
        x = leaf(torch)
        y = function(x)
        y.backward(torch.ones_like(y))
        attempt(log, label, lambda: y.backward(torch.ones_like(y)))


@cases
def retained_graph_can_be_used_again(torch, log):
    x = leaf(torch)
    root = (x * x).sum()
    root.backward(retain_graph=True)
    log(torch.autograd.grad(root, x, retain_graph=True))
    root.backward()
    attempt(log, "after", lambda: root.backward())
    return x.grad


@cases
def part_of_the_graph_is_freed(torch, log):
    x = leaf(torch)
    shared = x.exp()
    first, second = shared.sum(), (shared * shared).sum()
    first.backward()
    attempt(log, "the shared part is gone", lambda: second.backward())
    log(x.grad)


@cases
def grad_frees_only_what_it_ran(torch, log):
    x = leaf(torch)
    y = x.exp()
    root = y.sin().sum()
    log(torch.autograd.grad(root, y))
    attempt(log, "exp is not freed", lambda: torch.autograd.grad(y.sum(), x))
    attempt(log, "sin is", lambda: torch.autograd.grad(root, y))


@cases
def create_graph_keeps_the_graph(torch, log):
    x = leaf(torch)
    root = (x**3).sum()
    (g,) = torch.autograd.grad(root, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(h.sum(), x)
    log(g, h, third)
    log(torch.autograd.grad(root, x))


@cases
def create_graph_without_retaining(torch, log):
    x = leaf(torch)
    root = (x**3).sum()
    (g,) = torch.autograd.grad(root, x, create_graph=True, retain_graph=False)
    attempt(log, "first graph", lambda: torch.autograd.grad(root, x))
    attempt(log, "second graph", lambda: torch.autograd.grad(g.sum(), x))


@cases
def saved_value_overwritten(torch, log):
    x = leaf(torch)
    y = x * 1
    z = y.sin()
    y.add_(1)
    attempt(log, "input", lambda: z.sum().backward(), words=8)
    y = x.exp()
    y.add_(1)
    attempt(log, "output", lambda: y.sum().backward(), words=8)
    w = leaf(torch)
    product = w * x
    with torch.no_grad():
        w.add_(1)
    attempt(log, "leaf", lambda: product.sum().backward(), words=8)
    log(x.grad)


# --- who may be differentiated -------------------------------------------------------------------------------------------


@cases
def roots_of_the_wrong_kind(torch, log):
    x = leaf(torch)
    attempt(log, "vector", lambda: (x * 2).backward())
    attempt(log, "plain", lambda: torch.ones(()).backward())
    attempt(log, "detached", lambda: x.sum().detach().backward())
    attempt(log, "integer", lambda: x.argmax().backward())
    attempt(log, "one element", lambda: x[:1].backward())
    attempt(log, "grad of plain", lambda: torch.autograd.grad(torch.ones(()), x))
    attempt(log, "grad of vector", lambda: torch.autograd.grad(x * 2, x))
    attempt(log, "nothing", lambda: torch.autograd.backward([]))
    attempt(log, "complex", lambda: torch.tensor(1j, requires_grad=True).backward())
    log(x.grad)


@cases
def backward_of_a_leaf(torch, log):
    x = torch.tensor(3.0, requires_grad=True)
    x.backward()
    x.backward(torch.tensor(5.0))
    return x.grad


@cases
def given_gradients(torch, log):
    x = leaf(torch)
    for label, gradient in {
        "right": torch.tensor([1.0, 10.0]),
        "longer": torch.ones(3),
        "scalar": torch.tensor(2.0),
        "broadcastable": torch.ones(1),
        "more dimensions": torch.ones(1, 2),
        "float64": torch.ones(2, dtype=torch.float64),
        "int64": torch.ones(2, dtype=torch.int64),
        "complex": torch.ones(2, dtype=torch.complex64),
        "number": 1.0,
        "list": [1.0, 1.0],
        "none": None,
    }.items():
        x.grad = None
        attempt(log, ("backward", label), lambda gradient=gradient: (x * 2).backward(gradient))
        log(x.grad)
        attempt(log, ("grad", label), lambda gradient=gradient: torch.autograd.grad(x * 2, x, gradient))


@cases
def given_gradient_for_a_scalar_root(torch, log):
    x = leaf(torch)
    x.sum().backward(torch.tensor(3.0))
    log(x.grad)
    attempt(log, "one element", lambda: x.sum().backward(torch.ones(1)))


@cases
def several_roots(torch, log):
    x = leaf(torch)
    torch.autograd.backward([(x * 2).sum(), (x * 3).sum()])
    log(x.grad)
    torch.autograd.backward((x * 2, x.sum()), (torch.ones(2), None))
    log(x.grad)
    log(torch.autograd.grad([x * 2, x.exp()], [x], [torch.ones(2), torch.ones(2)]))
    attempt(log, "too few", lambda: torch.autograd.backward([x * 2, x * 3], [torch.ones(2)]))
    attempt(log, "too many", lambda: torch.autograd.grad(x * 2, x, [torch.ones(2), torch.ones(2)]))
    attempt(log, "scalars and vectors", lambda: torch.autograd.backward([x.sum(), x * 2]))


@cases
def given_gradient_that_requires_grad(torch, log):
    x, v = leaf(torch), leaf(torch, 3.0, 4.0)
    (g,) = torch.autograd.grad(x * x, x, v, create_graph=True)
    log(g)
    g.sum().backward()
    log(x.grad, v.grad)


@cases
def deprecated_names(torch, log):
    x = leaf(torch)
    attempt(log, "both", lambda: torch.autograd.backward(x.sum(), torch.tensor(1.0), grad_variables=torch.tensor(1.0)))


# --- inputs --------------------------------------------------------------------------------------------------------------


@cases
def unused_inputs(torch, log):
    x, w = leaf(torch), leaf(torch)
    attempt(log, "refused", lambda: torch.autograd.grad((x * 2).sum(), [x, w]))
    attempt(log, "first", lambda: torch.autograd.grad((x * 2).sum(), w))
    log(torch.autograd.grad((x * 2).sum(), [w, x], allow_unused=True))
    log(torch.autograd.grad((x * 2).sum(), [w, x], materialize_grads=True))
    log(torch.autograd.grad((x * 2).sum(), [w, x], allow_unused=True, materialize_grads=True))
    attempt(
        log,
        "contradiction",
        lambda: torch.autograd.grad((x * 2).sum(), [w, x], allow_unused=False, materialize_grads=True),
    )


@cases
def inputs_that_do_not_require_grad(torch, log):
    x = leaf(torch)
    attempt(log, "plain", lambda: torch.autograd.grad((x * 2).sum(), torch.ones(2)))
    attempt(log, "integer", lambda: torch.autograd.grad((x * 2).sum(), torch.tensor([1, 2])))
    attempt(log, "allowed", lambda: torch.autograd.grad((x * 2).sum(), [x, torch.ones(2)], allow_unused=True))
    attempt(log, "empty", lambda: torch.autograd.grad((x * 2).sum(), []))
    attempt(log, "number", lambda: torch.autograd.grad((x * 2).sum(), 3))


@cases
def the_same_input_twice(torch, log):
    x = leaf(torch)
    log(torch.autograd.grad((x * x).sum(), [x, x]))


@cases
def grad_does_not_touch_grad(torch, log):
    x, w = leaf(torch), leaf(torch)
    torch.autograd.grad((x * w).sum(), x)
    log(x.grad, w.grad)


@cases
def inputs_cut_the_graph(torch, log):
    x = leaf(torch)
    y = x * 2
    z = y.exp()
    log(torch.autograd.grad(z.sum(), [y, z, x]))


@cases
def input_created_after_use_is_another_tensor(torch, log):
    x = leaf(torch)
    y = (x * 2).sum()
    attempt(log, "a new view", lambda: torch.autograd.grad(y, x.view(2)))
    attempt(log, "a clone", lambda: torch.autograd.grad(y, x.clone()))


@cases
def batched_gradients(torch, log):
    x = leaf(torch)
    basis = torch.eye(2)
    log(torch.autograd.grad(x * x, x, basis, is_grads_batched=True))
    log(torch.autograd.grad((x.sin() * x), x, torch.ones(3, 2), is_grads_batched=True))
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    log(torch.autograd.grad([matrix @ x], [matrix, x], [basis], is_grads_batched=True))
    attempt(log, "wrong shape", lambda: torch.autograd.grad(x * x, x, torch.ones(2, 3), is_grads_batched=True))


@cases
def functions_without_derivatives(torch, log):
    x = leaf(torch)
    for label, function in {
        "sign": lambda: x.sign(),
        "round": lambda: x.round(),
        "floor": lambda: x.floor(),
        "comparison": lambda: x > 1,
        "isnan": lambda: x.isnan(),
        "argsort": lambda: x.argsort(),
        "floor_divide": lambda: x // 2,
        "nonzero": lambda: x.nonzero(),
    }.items():
        y = function()
        log(label, y.requires_grad)
        if y.requires_grad:
            attempt(log, label, lambda: torch.autograd.grad(y.sum(), x))


@cases
def one_name_rebound_many_times(torch, log):
    x = leaf(torch)
    y = x
    for step in range(5):
        y = y * x + step
    y.sum().backward()
    return x.grad
