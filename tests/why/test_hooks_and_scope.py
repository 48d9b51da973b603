"""`why.hooks` lists and removes hooks, `why.scope` leaves none behind; the same on undertow and on PyTorch."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.why.engines import both, line_here
from undertow import why


def keep(*_: Any) -> None:
    """A hook that does nothing."""


def network(torch: Any) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))


@both
def test_every_kind_of_hook_is_listed_with_its_owner(torch: Any) -> None:
    net = network(torch)
    net.register_forward_pre_hook(keep)
    net[0].register_forward_hook(keep, with_kwargs=True)
    net[0].register_full_backward_pre_hook(keep)
    net[0].register_full_backward_hook(keep)
    net[1].register_backward_hook(keep)
    net[2].register_state_dict_pre_hook(keep)
    net[2].register_load_state_dict_post_hook(keep)
    net[2].weight.register_hook(keep)
    net[2].bias.register_post_accumulate_grad_hook(keep)
    everywhere = torch.nn.modules.module.register_module_forward_hook(keep)
    try:
        found = why.hooks(net)
    finally:
        everywhere.remove()
    assert [(entry.kind, entry.owner) for entry in found] == [
        ("forward-pre", "(Sequential)"),
        ("forward", "0"),
        ("full-backward-pre", "0"),
        ("full-backward", "0"),
        ("backward", "1"),
        ("state-dict-pre", "2"),
        ("load-state-dict-post", "2"),
        ("tensor", "2.weight"),
        ("post-accumulate", "2.bias"),
        ("global forward", "every module"),
    ]
    code = keep.__code__
    for entry in found:
        assert entry.name == "keep"
        assert entry.defined is not None
        assert (entry.defined.file, entry.defined.line) == (code.co_filename, code.co_firstlineno)
        assert entry.fired is None
        if torch.__name__ == "undertow":  # whose hooks know who registered them
            assert entry.registered is not None and entry.registered.file == __file__
        else:
            assert entry.registered is None
    assert "not known" in str(found)


@both
def test_methods_partials_and_objects_have_names(torch: Any) -> None:
    class Counter:
        def __call__(self, *_: Any) -> None: ...

        def method(self, *_: Any) -> None: ...

    layer = torch.nn.Linear(1, 1)
    for hook in (Counter(), Counter().method, functools.partial(keep, 1), print):
        layer.register_forward_hook(hook)
    found = list(why.hooks(layer))
    assert [entry.name for entry in found] == ["Counter", "Counter.method", "keep", "print"]
    assert [entry.defined is None for entry in found] == [False, False, False, True]


@both
def test_removal_by_owner_takes_what_is_below_it(torch: Any) -> None:
    net = torch.nn.Sequential(network(torch), network(torch))
    called = []
    for module in net.modules():
        module.register_forward_hook(lambda module, *_, **__: called.append(module), with_kwargs=True)
    net[0][0].weight.register_hook(keep)
    removed = why.hooks(net).remove(owner="0")
    assert [entry.owner for entry in removed] == ["0", "0.0", "0.1", "0.2", "0.0.weight"]
    assert len(why.hooks(net).remove(owner=net[1][1])) == 1
    net(torch.zeros(1, 2))
    assert called == [net[1][0], net[1][2], net[1], net]
    assert not net[0]._forward_hooks_with_kwargs
    assert len(why.hooks(net).remove(owner=net)) == 4
    net.register_forward_hook(keep)
    why.hooks(net).remove_all()
    assert len(why.hooks(net)) == 0
    assert str(why.hooks(net)) == "0 hooks"


@both
def test_hooks_of_a_graph(torch: Any) -> None:
    x = torch.ones(2, requires_grad=True)
    x.register_hook(keep)
    with why.scope():
        doubled = x * 2
        doubled.register_hook(keep)
        registered = line_here() - 1
        loss = doubled.sum()
        found = why.hooks(loss)
        assert sorted(entry.kind for entry in found) == ["tensor", "tensor"]
        (inner,) = [entry for entry in found if "MulBackward0" in entry.owner]
        assert inner.registered is not None and inner.registered.line == registered
        loss.grad_fn.register_hook(keep)
        assert len(why.hooks(loss)) == (3 if torch.__name__ == "undertow" else 2)  # PyTorch does not tell
    assert len(why.hooks(loss)) == 1


@both
def test_hooks_of_an_optimizer(torch: Any) -> None:
    optimizer = torch.optim.SGD(network(torch).parameters(), lr=0.1)
    optimizer.register_step_pre_hook(keep)
    optimizer.register_step_post_hook(keep)
    assert [(entry.kind, entry.owner) for entry in why.hooks(optimizer)] == [("step-pre", "SGD"), ("step-post", "SGD")]


def test_strangers_are_refused() -> None:
    with pytest.raises(TypeError, match="modules, tensors, optimizers"):
        why.hooks(3)


@both
def test_a_scope_leaves_nothing_behind(torch: Any) -> None:
    net, seen = network(torch), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    note = lambda *_: seen.append(1)

    def step() -> Any:
        loss = net(torch.ones(1, 2)).sum()
        loss.backward()
        optimizer.step()
        return loss

    with pytest.raises(KeyError), why.scope() as scope:
        net.register_forward_hook(note)
        net[0].register_forward_pre_hook(note)
        net[2].register_full_backward_hook(note)
        net[2].weight.register_hook(note)
        net[2].bias.register_post_accumulate_grad_hook(note)
        torch.nn.modules.module.register_module_forward_hook(note)
        optimizer.register_step_post_hook(note)
        step().grad_fn.register_hook(note)
        raise KeyError
    assert len(seen) == 10  # the global hook fires for each of the four modules
    net.zero_grad()
    step()
    assert len(seen) == 10
    assert [row["kind"] for row in scope.removed] == [
        "forward", "forward-pre", "full-backward", "tensor", "post-accumulate", "global forward", "step-post",
    ]  # fmt: skip  # the graph of the step is gone, and its hook with it
    net[2].register_backward_hook(keep)  # the scope leaves the choice of kinds as it was


@both
def test_a_backward_hook_wired_inside_a_scope_does_not_fire_after_it(torch: Any) -> None:
    layer, fired = torch.nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda *_: fired.append("before"))
    with why.scope():
        layer.register_full_backward_hook(lambda *_: fired.append("inside"))
        loss = layer(torch.ones(1, 2, requires_grad=True)).sum()
        loss.backward(retain_graph=True)
    assert fired == ["before", "inside"]
    loss.backward()
    assert fired == ["before", "inside", "before"]


@both
def test_scopes_nest_and_keep_hooks_from_before(torch: Any) -> None:
    x, seen = torch.ones(1, requires_grad=True), []
    x.register_hook(lambda g: seen.append("before"))
    with why.scope() as outer:
        x.register_hook(lambda g: seen.append("outer"))
        with why.scope() as inner:
            x.register_hook(lambda g: seen.append("inner"))
            x.sum().backward()
        x.sum().backward()
    x.sum().backward()
    assert seen == ["before", "outer", "inner", "before", "outer", "before"]
    assert (len(outer.removed), len(inner.removed)) == (1, 1)


@both
def test_hooks_added_by_a_forward_are_hooks_of_the_scope(torch: Any) -> None:
    fired = []

    class Inner(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            output = super().forward(x)
            output.register_hook(lambda grad: fired.append(1))
            return output

    net = torch.nn.Sequential(Inner(2, 2))
    net.register_full_backward_hook(keep)
    with why.scope() as scope:
        loss = net(torch.ones(1, 2, requires_grad=True)).sum()
    loss.backward()
    assert not fired and [row["kind"] for row in scope.removed] == ["tensor"]


def test_reports_show_and_escape() -> None:
    import undertow as torch

    layer = torch.nn.Linear(1, 1)
    layer.register_forward_hook(lambda *_: None)
    report = why.hooks(layer)
    assert "&lt;lambda&gt;" in report._repr_html_() and "<lambda>" not in report._repr_html_()
    (row,) = report.data()["rows"]
    assert row["hook"] == "<lambda>" and row["defined"]["file"] == __file__ and row["fired"] is None
    lines = str(report).splitlines()
    assert lines[0] == "1 hook"
    assert lines[1].split() == ["kind", "owner", "hook", "defined", "registered", "fired"]
