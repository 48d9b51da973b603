"""`utils.checkpoint`, both kinds: gradients, how often the function runs, random numbers, hooks and errors."""

from __future__ import annotations

import functools

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf, note

cases = Table()

KINDS = pytest.mark.parametrize("reentrant", [False, True], ids=["early stop", "reentrant"])


@cases.test
def test_checkpoint(program):
    agree(program)


def counted(torch, log, label="run"):
    def function(x):
        log(label, torch.is_grad_enabled(), x.requires_grad)
        return x.exp() * x.sin()

    return function


# --- both kinds ----------------------------------------------------------------------------------------------------------


@KINDS
def test_gradients_and_runs(reentrant):
    def program(torch, log):
        x = leaf(torch)
        y = torch.utils.checkpoint.checkpoint(counted(torch, log), x, use_reentrant=reentrant)
        log("forward", y)
        y.sum().backward()
        return x.grad

    agree(program)


@KINDS
def test_in_the_middle_of_a_graph(reentrant):
    def program(torch, log):
        x, w = leaf(torch), leaf(torch, 3.0, 4.0)

        def function(a, b):
            log("run")
            return (a * b).sin(), a + b

        a, b = torch.utils.checkpoint.checkpoint(function, x * 2, w.exp(), use_reentrant=reentrant)
        (a * b).sum().backward()
        return x.grad, w.grad

    agree(program)


@KINDS
def test_arguments_that_are_no_tensors(reentrant):
    def program(torch, log):
        x = leaf(torch)

        def function(a, number, text, nothing, items):
            log("run", number, text, nothing, items)
            return a * number, number, None

        result = torch.utils.checkpoint.checkpoint(function, x, 3, "text", None, [1, 2], use_reentrant=reentrant)
        log(result[1:], type(result).__name__)
        result[0].sum().backward()
        return x.grad

    agree(program)


@KINDS
def test_keyword_arguments(reentrant):
    def program(torch, log):
        x = leaf(torch)

        def function(a, *, scale=1.0):
            return a.exp() * scale

        attempt(
            log,
            "keyword",
            lambda: torch.utils.checkpoint.checkpoint(function, x, scale=3.0, use_reentrant=reentrant).sum().backward(),
        )
        return x.grad

    agree(program)


@KINDS
def test_random_numbers_are_drawn_again(reentrant):
    def program(torch, log):
        def function(a):
            noise = torch.rand(2)
            log("noise", noise)
            return a.exp() * noise

        x = leaf(torch)
        torch.manual_seed(3)
        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
        log("after forward", torch.rand(2))
        y.sum().backward()
        log("after backward", torch.rand(2), x.grad)

    agree(program)


@KINDS
def test_random_state_may_be_left_alone(reentrant):
    def program(torch, log):
        def function(a):
            noise = torch.rand(2)
            log("noise", noise)
            return a.exp() * noise

        x = leaf(torch)
        torch.manual_seed(3)
        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant, preserve_rng_state=False)
        y.sum().backward()
        log("after backward", torch.rand(2), x.grad)

    agree(program)


@KINDS
def test_nested(reentrant):
    def program(torch, log):
        def inner(a):
            log("inner")
            return a.sin().exp()

        def outer(a):
            log("outer")
            b = torch.utils.checkpoint.checkpoint(inner, a * 2, use_reentrant=reentrant)
            return (b * a).exp()

        x = leaf(torch)
        torch.utils.checkpoint.checkpoint(outer, x, use_reentrant=reentrant).sum().backward()
        return x.grad

    agree(program)


@KINDS
def test_second_backward(reentrant):
    def program(torch, log):
        x = leaf(torch)
        y = torch.utils.checkpoint.checkpoint(counted(torch, log), x, use_reentrant=reentrant).sum()
        y.backward(retain_graph=True)
        log("again")
        attempt(log, "retained", lambda: y.backward())
        attempt(log, "freed", lambda: y.backward())
        return x.grad

    agree(program)


@KINDS
def test_inputs_that_do_not_require_grad(reentrant):
    def program(torch, log):
        x, w = torch.ones(2), leaf(torch)

        def function(a):
            log("run")
            return (a * w).exp()

        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
        log(y.requires_grad)
        attempt(log, "backward", lambda: y.sum().backward())
        return w.grad

    agree(program)


@KINDS
def test_parameters_used_inside(reentrant):
    def program(torch, log):
        x, w = leaf(torch), leaf(torch, 3.0, 4.0)
        w.register_hook(note(log, "w"))
        y = torch.utils.checkpoint.checkpoint(lambda a: (a * w).exp(), x, use_reentrant=reentrant)
        y.sum().backward()
        return x.grad, w.grad

    agree(program)


@KINDS
def test_in_no_grad(reentrant):
    def program(torch, log):
        x = leaf(torch)
        with torch.no_grad():
            log(torch.utils.checkpoint.checkpoint(counted(torch, log), x, use_reentrant=reentrant))

    agree(program)


@KINDS
def test_grad_and_inputs(reentrant):
    def program(torch, log):
        x = leaf(torch)
        y = torch.utils.checkpoint.checkpoint(counted(torch, log), x, use_reentrant=reentrant).sum()
        attempt(log, "grad", lambda: torch.autograd.grad(y, x, retain_graph=True))
        attempt(log, "inputs", lambda: y.backward(inputs=[x]))

    agree(program)


@KINDS
def test_hooks(reentrant):
    def program(torch, log):
        def function(a):
            b = a.exp()
            b.register_hook(note(log, "inside", lambda g: g * 2)) if torch.is_grad_enabled() else None
            return b * 3

        x = leaf(torch)
        x.register_hook(note(log, "x"))
        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
        y.register_hook(note(log, "y"))
        y.sum().backward()
        return x.grad

    agree(program)


@KINDS
def test_an_exception_in_the_second_run(reentrant):
    def program(torch, log):
        runs = []

        def function(a):
            runs.append(1)
            if len(runs) == 2:
                raise ValueError("on purpose")
            return a.exp()

        x = leaf(torch)
        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant).sum()
        attempt(log, "backward", lambda: y.backward(retain_graph=True))
        attempt(log, "again", lambda: y.backward())
        log(x.grad, torch.is_grad_enabled())

    agree(program)


@KINDS
def test_double_backward(reentrant):
    def program(torch, log):
        x = leaf(torch)
        y = torch.utils.checkpoint.checkpoint(lambda a: (a**3).sin(), x, use_reentrant=reentrant)
        attempt(log, "first", lambda: y.sum().backward(create_graph=True))
        if x.grad is not None:
            first, x.grad = x.grad, None
            attempt(log, "second", lambda: first.sum().backward())
            log(x.grad)

    agree(program)


@KINDS
def test_sequential(reentrant):
    def program(torch, log):
        def step(index):
            def function(a):
                log("run", index)
                return (a * (index + 1)).sin()

            return function

        x = leaf(torch)
        functions = [step(index) for index in range(5)]
        y = torch.utils.checkpoint.checkpoint_sequential(functions, 2, x, use_reentrant=reentrant)
        log("forward")
        y.sum().backward()
        return x.grad

    agree(program)


@KINDS
def test_more_segments_than_functions(reentrant):
    def program(torch, log):
        run = torch.utils.checkpoint.checkpoint_sequential
        attempt(log, "five of two", lambda: run([torch.sin, torch.cos], 5, leaf(torch), use_reentrant=reentrant))
        attempt(log, "one of none", lambda: run([], 1, leaf(torch), use_reentrant=reentrant))

    agree(program)


@KINDS
def test_view_of_input_and_in_place_inside(reentrant):
    def program(torch, log):
        def function(a):
            b = a * 2
            b[0] = 5.0
            b.mul_(a)
            return b.view(2, 1)

        x = leaf(torch)
        torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant).sum().backward()
        return x.grad

    agree(program)


# --- only without reentry ------------------------------------------------------------------------------------------------


@cases
def stops_early(torch, log):
    def function(a):
        b = a.exp()
        log("after exp")
        c = b.sin()
        log("after sin")
        d = c + 1
        log("after +", torch.is_grad_enabled())
        return d

    x = leaf(torch)
    y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    log("forward done")
    y.sum().backward()
    log(x.grad)
    with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
        y.sum().backward()
    log(x.grad)


@cases
def runs_again_once_for_many_saved_values(torch, log):
    def function(a):
        log("run")
        return (a.exp().sin() * a).exp()

    x = leaf(torch)
    y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    z = y.sin()
    z.sum().backward()
    return x.grad


@cases
def nested_dictionaries_in_and_out(torch, log):
    def function(batch):
        return {"y": batch["x"].exp(), "pair": [batch["x"] * 2, 3]}

    x = leaf(torch)
    result = torch.utils.checkpoint.checkpoint(function, {"x": x}, use_reentrant=False)
    (result["y"] + result["pair"][0]).sum().backward()
    return x.grad, result


@cases
def determinism_is_checked(torch, log):
    runs = []

    def other_shape(a):
        runs.append(1)
        return (a if len(runs) % 2 else a[:1]).exp()

    def fewer_saved(a):
        runs.append(1)
        return a.exp().sin() if len(runs) % 2 else a + 1

    def more_saved(a):
        runs.append(1)
        return a.exp() if len(runs) % 2 else a.exp().sin()

    x = leaf(torch)
    for run in (other_shape, fewer_saved, more_saved):
        runs.clear()
        y = torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False)
        attempt(log, run.__name__, lambda: y.sum().backward())
    runs.clear()
    y = torch.utils.checkpoint.checkpoint(other_shape, x, use_reentrant=False, determinism_check="none")
    attempt(log, "unchecked", lambda: y.sum().backward(), words=0)


@cases
def context_functions(torch, log):
    class Noted:
        def __init__(self, label):
            self.label = label

        def __enter__(self):
            log("enter", self.label)

        def __exit__(self, *error):
            log("exit", self.label)

    x = leaf(torch)
    y = torch.utils.checkpoint.checkpoint(
        counted(torch, log), x, use_reentrant=False, context_fn=lambda: (Noted("forward"), Noted("again"))
    )
    y.sum().backward()
    return x.grad


@cases
def no_grad_inside(torch, log):
    def function(a):
        with torch.no_grad():
            scale = a.exp()
        return a * scale

    x = leaf(torch)
    torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False).sum().backward()
    return x.grad


@cases
def the_kind_should_be_chosen(torch, log):
    x = leaf(torch)
    attempt(log, "not given", lambda: torch.utils.checkpoint.checkpoint(torch.exp, x))
    attempt(log, "unknown option", lambda: torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=True, what=3))


@cases
def saved_tensor_hooks_around(torch, log):
    def function(a):
        return a.exp().sin()

    x = leaf(torch)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: log("pack", t) or t, lambda t: log("unpack", t) or t):
        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    log("backward")
    y.sum().backward()
    return x.grad


@cases
def deep_nesting_keeps_the_modes_around_it(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    x, packed = leaf(torch), []

    def nested(a, depth):
        return a.sin() if depth == 0 else checkpoint(nested, a * 1.1, depth - 1, use_reentrant=True) * a

    def pack(tensor):
        packed.append(1)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        nested(x, 40).sum().backward()
    return x.grad, len(packed)


@cases
def saved_tensors_are_recomputed_for_each_look_and_each_pass(torch, log):
    x = leaf(torch)

    def run(a):
        log("run")
        return a.sin() * a.cos()

    y = torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False)
    log(y.grad_fn._saved_self)
    log(y.grad_fn._saved_other)
    for retain in (True, True, False):
        y.sum().backward(retain_graph=retain)
        log(x.grad)


@cases
def saved_tensors_are_unpacked_once(torch, log):
    twice = function(
        torch,
        lambda ctx, a: (ctx.save_for_backward(a), a.sin())[1],
        lambda ctx, g: g * ctx.saved_tensors[0].cos() + 0 * ctx.saved_tensors[0],
    )
    for rest in (lambda a: a, lambda a: a.exp()):
        for retain in (True, False):
            run = functools.partial(lambda rest, a: rest(twice.apply(a)), rest)
            y = torch.utils.checkpoint.checkpoint(run, leaf(torch), use_reentrant=False)
            attempt(log, "backward", lambda y=y, retain=retain: y.sum().backward(retain_graph=retain))


@cases
def the_second_run_saves_more(torch, log):
    runs = []

    def run(a):
        runs.append(1)
        return a.sin() if len(runs) == 1 else a.sin().cos()

    y = torch.utils.checkpoint.checkpoint(run, leaf(torch), use_reentrant=False, early_stop=False)
    attempt(log, "backward", lambda: y.sum().backward())


@cases
def backward_passes_of_one_group_share_the_second_run(torch, log):
    runs = []

    def run(a):
        runs.append(1)
        return a.sin().exp(), a.cos().exp()

    from importlib import import_module

    group = import_module(torch.__name__ + ".utils.checkpoint").GraphExecGroup
    x = leaf(torch)
    y, z = torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False)
    with group():
        log(torch.autograd.grad(y.sum(), x), len(runs))
        log(torch.autograd.grad(z.sum(), x), len(runs))
    y, z = torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False)
    with group() as entered:
        log(torch.autograd.grad(y.sum(), x, retain_graph=True), entered is not None)
        attempt(log, "overlapping", lambda: torch.autograd.grad(y.sum(), x))
        attempt(log, "nested", lambda: group().__enter__(), words=4)
    log(torch.autograd.grad(y.sum(), x), len(runs))


@cases
def debug_lists_the_operators_of_both_runs(torch, log):
    runs = []

    def run(a):
        runs.append(1)
        b = a.sin()
        return b.exp() if len(runs) % 2 else b

    def texts(use):
        try:
            use()
        except RuntimeError as error:
            return [phrase in str(error) for phrase in (
                "Operations executed during the original forward:", "Operations executed during recomputation:",
                "$1: f32[2] = torch._ops.aten.sin.default($0)", "$2: f32[2] = torch._ops.aten.exp.default($1)",
                "(1 of 2 in original)", "(2 of 2 in original)", "in recompute)", "ERROR: Detected non-determinism",
                "return b.exp()" if torch.__name__ == "undertow" else "test_autograd_checkpoint.py",
            )]  # fmt: skip

    checkpoint = torch.utils.checkpoint.checkpoint
    log(texts(lambda: checkpoint(run, leaf(torch), use_reentrant=False, debug=True).sum().backward()))
    with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):
        log(texts(lambda: checkpoint(run, leaf(torch), use_reentrant=False).sum().backward()))
    with torch.utils.checkpoint.set_checkpoint_debug_enabled(False):
        log(texts(lambda: checkpoint(run, leaf(torch), use_reentrant=False, debug=True).sum().backward()))
    attempt(log, "context_fn", lambda: checkpoint(
        run, leaf(torch), use_reentrant=False, debug=True, context_fn=lambda: (1, 2)))  # fmt: skip
