"""What PyTorch's compiled core tells about the backward pass at work, about views, and about memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree, agree_error

PASSES = {
    "backward": lambda torch, a, c, x: c.backward(),
    "grad": lambda torch, a, c, x: torch.autograd.grad(c, a),
    "inputs": lambda torch, a, c, x: c.backward(inputs=[x]),
    "two_roots": lambda torch, a, c, x: torch.autograd.backward([c, a.sum()]),
}


@pytest.mark.parametrize("kind", PASSES)
def test_a_pass_seen_from_a_hook(kind: str) -> None:
    def program(torch: Any, log: Any) -> Any:
        core = torch._C
        x = torch.ones(2, requires_grad=True)
        a = x * 2
        b = a.exp()
        c = b.sum()
        numbers = []

        def hook(g: Any) -> None:
            numbers.append(core._current_graph_task_id())
            log([core._will_engine_execute_node(t.grad_fn) for t in (a, b, c)])
            log(core._current_autograd_node() is b.grad_fn)

        b.register_hook(hook)
        x.register_hook(lambda g: log(core._current_autograd_node().name()))
        PASSES[kind](torch, a, c, x)
        log(core._current_graph_task_id(), core._current_autograd_node(), numbers[0] >= 0)

    agree(program)


@pytest.mark.parametrize("text", ["_will_engine_execute_node(n)", "_will_engine_execute_node(3)"])
def test_outside_of_a_pass(text: str) -> None:
    def program(torch: Any) -> Any:
        n = torch.ones(2, requires_grad=True).exp().grad_fn
        return eval("core." + text, {"core": torch._C, "n": n})

    agree_error(program)


VIEWS = (
    """
y.view(6); y[0]; y[:, 1:]; y.t(); y[None].expand(2, 2, 3); y.t()[1:].unsqueeze(0); y.split(1)[0]; y.diagonal()
y.as_strided((2,), (1,)); y.unbind()[1]
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("text", [text.strip() for text in VIEWS])
def test_views_of_another_base(text: str) -> None:
    def program(torch: Any, log: Any) -> Any:
        y = torch.arange(6.0).reshape(2, 3).requires_grad_() * 1
        view = eval(text, {"torch": torch, "y": y})
        other = view._base.detach() * 10
        log(view._view_func(other), view._view_func_unsafe(other), view._view_func(torch.ones(3, 3)), y._view_func(y))
        log(view._view_func(other)._is_view(), str(torch._C._autograd._get_creation_meta(view)))
        view._rev_view_func_unsafe(view)

    agree(program)


def test_creation_meta_and_memory() -> None:
    def program(torch: Any, log: Any) -> Any:
        core, autograd = torch._C, torch._C._autograd
        x = torch.ones(2, requires_grad=True)
        with torch.no_grad():
            view = x.view(2, 1)
        log(str(autograd._get_creation_meta(view)), list(autograd.CreationMeta.__members__))
        autograd._set_creation_meta(view, autograd.CreationMeta.DEFAULT)
        log(str(autograd._get_creation_meta(view)), core._is_alias_of(x, view), core._is_alias_of(x, x + 1))
        t = torch.ones(2)
        core._increment_version([t])
        before = autograd._get_sequence_nr()
        x * 2
        log(t._version, core._has_storage(t), autograd._get_sequence_nr() - before)
        log(autograd._top_saved_tensors_default_hooks(True))
        with torch.autograd.graph.saved_tensors_hooks(id, len):
            log(autograd._top_saved_tensors_default_hooks(True) == (id, len))
        log(core._get_autograd_fallback_mode())
        autograd._get_creation_meta(x)

    agree(program, words=2)


def test_functions_of_the_core() -> None:
    def program(torch: Any, log: Any) -> Any:
        functions = torch._C._functions
        x = torch.ones(2, requires_grad=True)
        y = functions.UndefinedGrad()(x)
        log(y.requires_grad, y)
        (y.sum() + (x * 3).sum()).backward()
        log(x.grad)
        z = functions.DelayedError("too late", 1)(x)
        log(z.requires_grad)
        z.sum().backward()

    agree(program)
