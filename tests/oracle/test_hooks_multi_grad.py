"""`torch.autograd.graph.register_multi_grad_hook` in both modes."""

from __future__ import annotations

import threading

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, note

cases = Table()


@cases.test
def test_multi_grad_hooks(program):
    agree(program, graph=True)


def leaves(torch, count):
    return [torch.tensor([float(i + 1), 1.0], requires_grad=True) for i in range(count)]


@cases
def all_fires_once_with_every_gradient(torch, log):
    a, b, c = leaves(torch, 3)
    torch.autograd.graph.register_multi_grad_hook([a, b, c], note(log, "all"))
    (a * b * c).sum().backward()


@cases
def all_with_an_unused_tensor(torch, log):
    a, b, c = leaves(torch, 3)
    torch.autograd.graph.register_multi_grad_hook((c, a, b), note(log, "all"))
    (a * b).sum().backward()
    (b * c).sum().backward()
    c.sum().backward()


@cases
def all_with_nothing_used(torch, log):
    a, b, c = leaves(torch, 3)
    torch.autograd.graph.register_multi_grad_hook([a, b], note(log, "all"))
    c.sum().backward()


@cases
def all_over_several_backwards(torch, log):
    a, b = leaves(torch, 2)
    handle = torch.autograd.graph.register_multi_grad_hook([a, b], note(log, "all"))
    root = (a * b).sum()
    for _ in range(3):
        root.backward(retain_graph=True)
    handle.remove()
    root.backward()


@cases
def all_with_a_tensor_that_does_not_require_grad(torch, log):
    a, b = leaves(torch, 2)
    plain = torch.ones(2)

    def register():
        torch.autograd.graph.register_multi_grad_hook([a, plain, b], note(log, "all"))

    attempt(log, "register", register)
    (a * b).sum().backward()


@cases
def all_with_the_same_tensor_twice(torch, log):
    a, b = leaves(torch, 2)
    torch.autograd.graph.register_multi_grad_hook([a, b, a], note(log, "all"))
    (a * b).sum().backward()


@cases
def all_on_non_leaves(torch, log):
    a, b = leaves(torch, 2)
    y, z = a * 2, b.exp()
    torch.autograd.graph.register_multi_grad_hook([y, z, a], note(log, "all"))
    for name, tensor in {"a": a, "b": b, "y": y, "z": z}.items():
        tensor.register_hook(lambda g, name=name: log(name))
    (y * z).sum().backward()


@cases
def all_on_parts_of_one_node(torch, log):
    x = torch.ones(3, 2, requires_grad=True)
    parts = x.unbind()
    torch.autograd.graph.register_multi_grad_hook(parts, note(log, "all"))
    (parts[0] + parts[2] * 3).sum().backward()


@cases
def all_sees_gradients_replaced_by_earlier_hooks(torch, log):
    a, b = leaves(torch, 2)
    a.register_hook(lambda g: g * 10)
    torch.autograd.graph.register_multi_grad_hook([a, b], note(log, "all"))
    a.register_hook(lambda g: g * 100)
    (a * b).sum().backward()
    return a.grad, b.grad


@cases
def all_ignores_the_result(torch, log):
    a, b = leaves(torch, 2)
    torch.autograd.graph.register_multi_grad_hook([a, b], lambda grads: 7)
    attempt(log, "backward", lambda: (a * b).sum().backward())
    return a.grad, b.grad


@cases
def any_fires_with_the_first_gradient(torch, log):
    a, b, c = leaves(torch, 3)
    torch.autograd.graph.register_multi_grad_hook([a, b, c], note(log, "any"), mode="any")
    root = (a.exp() * b * c).sum()
    root.backward(retain_graph=True)
    root.backward()


@cases
def any_with_an_unused_tensor(torch, log):
    a, b, c = leaves(torch, 3)
    handle = torch.autograd.graph.register_multi_grad_hook([c, b, a], note(log, "any"), mode="any")
    (a * b).sum().backward()
    c.sum().backward()
    handle.remove()
    c.sum().backward()


@cases
def any_may_replace_the_gradient_or_not(torch, log):
    a, b = leaves(torch, 2)
    torch.autograd.graph.register_multi_grad_hook([a, b], note(log, "any", lambda g: g * 100), mode="any")
    attempt(log, "backward", lambda: (a * b).sum().backward())
    return a.grad, b.grad


@cases
def unknown_mode(torch, log):
    a, b = leaves(torch, 2)
    attempt(log, "mode", lambda: torch.autograd.graph.register_multi_grad_hook([a, b], print, mode="some"))


@cases
def with_nothing(torch, log):
    for mode in ("all", "any"):
        attempt(
            log, mode, lambda mode=mode: torch.autograd.graph.register_multi_grad_hook([], print, mode=mode).remove()
        )


@cases
def handle_is_a_removable_one(torch, log):
    a, b = leaves(torch, 2)
    handle = torch.autograd.graph.register_multi_grad_hook([a, b], note(log, "all"))
    log(isinstance(handle, torch.utils.hooks.RemovableHandle))
    with handle:
        (a * b).sum().backward()
    (a * b).sum().backward()
    handle.remove()


@cases
def a_hook_that_raises_can_be_called_again(torch, log):
    a, b = leaves(torch, 2)

    def hook(grads):
        log("called", grads)
        raise ValueError("on purpose")

    torch.autograd.graph.register_multi_grad_hook([a, b], hook)
    attempt(log, "first", lambda: (a * b).sum().backward())
    attempt(log, "second", lambda: (a + b).sum().backward())
    log(a.grad, b.grad)


@cases
def with_grad_and_inputs(torch, log):
    a, b, c = leaves(torch, 3)
    torch.autograd.graph.register_multi_grad_hook([a, b, c], note(log, "all"))
    root = (a * b).sum()
    root.backward(inputs=[b], retain_graph=True)
    attempt(log, "grad of leaves is refused", lambda: torch.autograd.grad(root, [a, b]))


@cases
def with_grad_on_non_leaves(torch, log):
    a, b = leaves(torch, 2)
    y, z = a * 2, b * 3
    torch.autograd.graph.register_multi_grad_hook([y, z], note(log, "all"))
    root = (y * z).sum()
    log(torch.autograd.grad(root, [a, b], retain_graph=True))
    log(torch.autograd.grad(root, [b], retain_graph=True))
    log(torch.autograd.grad(root, [y, z]))


@cases
def under_create_graph(torch, log):
    a, b = leaves(torch, 2)
    torch.autograd.graph.register_multi_grad_hook([a, b], lambda grads: log([g.requires_grad for g in grads], grads))
    (a * a * b).sum().backward(create_graph=True)
    (a.grad * b.grad).sum().backward()


@cases
def two_multi_grad_hooks_that_overlap(torch, log):
    a, b, c = leaves(torch, 3)
    torch.autograd.graph.register_multi_grad_hook([a, b], note(log, "ab"))
    torch.autograd.graph.register_multi_grad_hook([b, c], note(log, "bc"))
    torch.autograd.graph.register_multi_grad_hook([a, b, c], note(log, "any"), mode="any")
    (a * b * c).sum().backward()


@cases
def each_thread_counts_its_own_backward(torch, log):
    a, b = leaves(torch, 2)
    calls = []
    torch.autograd.graph.register_multi_grad_hook([a, b], lambda grads: calls.append(threading.get_ident()))
    threads = [threading.Thread(target=lambda: (a * b).sum().backward()) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log(len(calls), a.grad, b.grad)


# --- passes that reach only some of the tensors

REACHES = {"a": "a", "b": "b", "product": "product", "both": "product a", "elsewhere": "c"}
WATCHED = (
    "product",
    "product a",
    "product b",
    "a",
    "a b",
    "product c",
    "product doubled c",
    "doubled",
    "doubled a",
    "c",
)


@pytest.mark.parametrize("root", ["sum", "doubled", "a"])
@pytest.mark.parametrize("wanted", REACHES)
@pytest.mark.parametrize("watched", WATCHED)
def test_with_grad_of_some(watched, wanted, root):
    """A leaf that the pass does not end in is no hindrance; the only root does not count as reached."""

    def program(torch, log):
        names = {name: torch.ones(2, requires_grad=True) for name in "abc"}
        names["product"] = names["a"] * names["b"]
        names["doubled"] = names["product"] * 2
        names["sum"] = names["doubled"].sum()
        torch.autograd.graph.register_multi_grad_hook([names[name] for name in watched.split()], log)
        end = names[root]
        inputs = [names[name] for name in REACHES[wanted].split()]
        torch.autograd.grad(end, inputs, torch.ones_like(end), allow_unused=True)

    agree(program)


@pytest.mark.parametrize("mode", ["all", "any"])
@pytest.mark.parametrize("roots", [1, 2])
def test_on_a_root(roots, mode):
    def program(torch, log):
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        torch.autograd.graph.register_multi_grad_hook([y], log, mode=mode)
        torch.autograd.graph.register_multi_grad_hook([x, y], log, mode=mode)
        torch.autograd.backward([y, x.sum()][:roots], [torch.ones(2), None][:roots])

    agree(program)


@pytest.mark.parametrize("mode", ["all", "any"])
def test_on_tensors_without_gradient(mode):
    def program(torch, log):
        x = torch.ones(2, requires_grad=True)
        torch.autograd.graph.register_multi_grad_hook([x, torch.ones(2)], log, mode=mode)
        x.sum().backward()

    agree(program)
