"""What random programs found: each a small program on which the two libraries once differed."""

from __future__ import annotations

from typing import Any

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf

cases = Table()


@cases
def gradient_of_another_dtype_and_size(torch: Any, log: Any) -> None:
    x = leaf(torch).double().detach().requires_grad_()
    attempt(log, "both", lambda: setattr(x, "grad", torch.ones(7)))
    attempt(log, "size", lambda: setattr(x, "grad", torch.ones(7).double()))


@cases
def marked_dirty_though_a_leaf(torch: Any, log: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    made = function(torch, forward, lambda ctx, g: g)
    attempt(log, "leaf", lambda: made.apply(leaf(torch)))
    attempt(log, "leaf that is a view", lambda: made.apply(torch.ones(4).reshape(2, 2).requires_grad_()))


@cases
def freed_nodes_without_a_gradient(torch: Any, log: Any) -> None:
    """A node whose saved values are gone refuses a second pass, also if no gradient arrives there."""
    x = leaf(torch)
    freed = x.sin().exp()
    freed.sum().backward()
    made = function(torch, lambda ctx, a, b: a * 2, lambda ctx, g: (g, None))
    attempt(log, "again", lambda: made.apply(leaf(torch), freed).sum().backward())


@cases
def results_never_grow_what_they_are_made_of(torch: Any, log: Any) -> None:
    x = torch.tensor(1.0)
    attempt(log, "grows", lambda: torch.add(x, torch.ones(2, 2), out=x))
    attempt(log, "fits", lambda: torch.add(x, torch.tensor(2.0), out=x))


@cases
def no_warning_before_the_roots_are_known(torch: Any, log: Any) -> None:
    attempt(log, "constant", lambda: torch.ones(2).backward(torch.ones(2), create_graph=True))


@cases
def similarity_of_two_precisions(torch: Any, log: Any) -> None:
    x = torch.tensor([[0.46, 0.91], [-1.24, -0.01]], dtype=torch.float64)
    log(torch.nn.functional.cosine_similarity(x, torch.tensor([[0.52], [0.55]]), dim=-1))
    attempt(log, "complex", lambda: torch.nn.functional.cosine_similarity(x, torch.complex(x, x)))


@cases
def zeros_in_place_of_unused_gradients(torch: Any, log: Any) -> None:
    x, y = leaf(torch), leaf(torch)
    for create in (False, True):
        log(torch.autograd.grad(x.sum(), [x, y], create_graph=create, materialize_grads=True)[1])


@cases
def gradients_of_complex_functions(torch: Any, log: Any) -> None:
    x = torch.ones(2, dtype=torch.complex64)
    attempt(log, "complex", lambda: torch.func.grad(lambda x: (x * x).sum())(x))
    log(torch.func.grad(lambda x: (x * x.conj()).sum().real)(x))


@cases
def jacobians_of_complex_functions(torch: Any, log: Any) -> None:
    x, jacobian = torch.tensor([0.5 + 1j, -0.25 + 0.5j]), torch.autograd.functional.jacobian
    attempt(log, "rows", lambda: jacobian(lambda x: x * x.cos(), x))
    log(jacobian(lambda x: x * x.cos(), x, vectorize=True))


@cases
def written_views_where_nothing_is_recorded(torch: Any, log: Any) -> None:
    same = function(torch, lambda ctx, x: x, lambda ctx, g: g)
    square = function(torch, lambda ctx, x: x * x, lambda ctx, g: g)
    base = leaf(torch) * 2
    view = same.apply(base)
    base.neg_()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            log(square.apply(view))
    attempt(log, "recorded", lambda: square.apply(view))


@cases
def memory_of_another(torch: Any, log: Any) -> None:
    x = leaf(torch).sin()
    x.set_(torch.ones(2))
    log(x.grad_fn.name(), x.requires_grad)
    attempt(log, "backward", lambda: x.sum().backward())


@cases
def order_of_refusals(torch: Any, log: Any) -> None:
    """Whether a tensor may be written to is asked before shapes are; seeds are made before roots are looked at."""
    attempt(log, "leaf", lambda: torch.ones(2, 2, requires_grad=True).index_copy_(0, torch.tensor([0]), torch.ones(1)))
    attempt(log, "dims", lambda: torch.ones(2, 2).index_copy_(0, torch.tensor([0]), torch.ones(1).double()))
    attempt(log, "view", lambda: torch.ones(4, requires_grad=True).view(2, 2).lerp_(torch.ones(1).double(), 0.5))
    attempt(log, "diagonal", lambda: torch.tensor(1.0, requires_grad=True).fill_diagonal_(0.1))
    attempt(log, "size", lambda: torch.ones(2, requires_grad=True).resize_as_(torch.ones(3)))
    attempt(log, "scalar", lambda: torch.tensor(1.0).index_select(0, torch.tensor([0, 0])))
    attempt(log, "cdist", lambda: torch.cdist(torch.ones(1, 2).cfloat(), torch.ones(1, 2)))
    x = leaf(torch)
    attempt(log, "seeds", lambda: torch.autograd.grad((torch.ones(2), x * 2), [x], (torch.ones(2), None)))
    attempt(log, "roots", lambda: torch.autograd.grad((x * 2, torch.ones(2)), [x], (torch.ones(2), torch.ones(2))))
    attempt(log, "jacrev", lambda: torch.func.jacrev(torch.sin)(torch.ones(1).cfloat()))
    attempt(log, "jacfwd", lambda: torch.func.jacfwd(torch.sin)(torch.ones(1).cfloat()))
    attempt(log, "jacrev's result", lambda: torch.func.jacrev(lambda x: torch.complex(x, x))(torch.ones(1)))
    attempt(log, "jacfwd's result", lambda: torch.func.jacfwd(lambda x: torch.complex(x, x))(torch.ones(1)))
    attempt(log, "bernoulli_", lambda: torch.ones(2).cfloat().bernoulli_(0.5))


@cases
def marked_dirty_and_not_recorded(torch: Any, log: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    made, x = function(torch, forward, lambda ctx, g: g), leaf(torch)
    with torch.no_grad():
        y = made.apply(x)
    log(y, y is x, x._version, y.requires_grad)


@cases
def nodes_of_backward_hooks(torch: Any, log: Any) -> None:
    module = torch.nn.Linear(2, 2)
    module.register_full_backward_hook(lambda *_: None)
    log(repr(module(torch.ones(2)).grad_fn).split(" object")[0])


@cases
def initialisers_in_a_function_mode(torch: Any, log: Any) -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.__name__ != "__get__":
                log(func.__name__, len(args), sorted(kwargs or {}))
            return func(*args, **(kwargs or {}))

    with Mode():
        torch.nn.init.kaiming_uniform_(torch.ones(2, 2))
        torch.nn.init.constant_(torch.ones(2), 0.5)


@cases
def derivatives_in_inference_mode(torch: Any, log: Any) -> None:
    weight = torch.tensor([0.5, 2.0])
    with torch.inference_mode():
        x, inside = torch.tensor([1.0, -0.5]), torch.tensor([3.0, 4.0])
        log(torch.func.grad(lambda x: (x.sin() * weight * inside).sum())(x))
        log(torch.func.vjp(torch.sin, x)[1](inside), torch.func.jvp(torch.sin, (x,), (inside,)))
        log(torch.func.jacrev(torch.sin)(x), torch.func.jacfwd(torch.sin)(x), torch.func.hessian(lambda x: x.prod())(x))
        log(torch.func.vmap(torch.func.grad(lambda x: x * x))(x), torch.is_inference_mode_enabled())
    log(x[:1]._is_view(), x.view(2, 1)._is_view(), weight[:1]._is_view())


@cases
def refused_draws(torch: Any, log: Any) -> None:
    """Nothing is drawn for a tensor that may not be written to."""
    for name, given in (("bernoulli_", (0.5,)), ("uniform_", ()), ("normal_", ()), ("random_", ()), ("cauchy_", ())):
        attempt(log, name, lambda: getattr(leaf(torch), name)(*given))
    log(torch.rand(1))


@cases
def arithmetic_with_eight_bits(torch: Any, log: Any) -> None:
    """Such numbers are kept, moved and compared; they are computed with after a cast."""
    a = torch.ones(2).to(torch.float8_e4m3fn)
    calls = (
        "a + a;a * 2;a - a;a / a;-a;a.sin();a > 0;a ** 2;a.clone().mul_(2);torch.maximum(a, a);a.clamp(0, 1);a.isinf()"
    )
    for call in calls.split(";"):
        attempt(log, call, lambda: eval(call, {"a": a, "torch": torch}))
    for call in "a == a;a.abs().float();torch.cat([a, a]).float();a[1:].float();a.isnan();(a.float() + 1)".split(";"):
        log(eval(call, {"a": a, "torch": torch}))


@cases.test
def test_findings(program: Any) -> None:
    forward = program in (derivatives_in_inference_mode, order_of_refusals)  # of which torch warns by its own means
    agree(program, graph=True, warns=not forward)
