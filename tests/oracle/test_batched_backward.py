"""A backward pass for many gradients at once: `is_grads_batched`, `jacrev`, `jacobian(vectorize=True)` and their like.

It is one pass: hooks fire once, and see one gradient that stands for all of them.
"""

from __future__ import annotations

import importlib

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


@cases.test
def test_batched_backward(program):
    agree(program)


def shape(value):
    return None if value is None else tuple(value.shape)


def numbers(torch, *size):
    count = 1
    for n in size:
        count *= n
    return (torch.arange(float(count)) * 0.37).sin().reshape(size)


def batched(torch, outputs, inputs, rows=3, **options):
    seeds = [numbers(torch, rows, *output.shape) + 0.5 for output in outputs]
    return torch.autograd.grad(outputs, inputs, seeds, is_grads_batched=True, **options)


# --- hooks


@cases
def tensor_and_node_hooks_fire_once(torch, log):
    x, w = numbers(torch, 3).requires_grad_(), numbers(torch, 4, 3).requires_grad_()
    y = w @ x
    z = y.sin()
    y.register_hook(lambda g: (log("y", shape(g), g.dtype, g.requires_grad), g * 2)[1])
    w.register_hook(lambda g: log("w", shape(g), g.dim(), g.numel()))
    x.register_hook(lambda g: log("x", shape(g)))
    w.register_post_accumulate_grad_hook(lambda leaf: log("never"))
    z.grad_fn.register_prehook(lambda gs: log("pre", shape(gs[0])))
    z.grad_fn.register_hook(lambda inputs, outputs: log("post", shape(inputs[0]), shape(outputs[0])))
    log(batched(torch, [z], (w, x), retain_graph=True))
    log(w.grad, x.grad)
    log(torch.autograd.grad(z, x, torch.ones(4)))


@cases
def hooks_replace_gradients(torch, log):
    x = numbers(torch, 3).requires_grad_()
    for hook in (
        lambda g: g.clamp(-0.5, 0.5),
        lambda g: g / (g.norm() + 1),
        lambda g: torch.ones(3),
        lambda g: torch.where(g > 0, g, g * 0.1),
        lambda g: g.mul_(2),
        lambda g: g - g.mean(),
        lambda g: g.cumsum(0).flip(0),
    ):
        y = x * 2
        y.register_hook(hook)
        log(batched(torch, [y.exp()], x))


@cases
def hooks_that_look_at_values_are_refused(torch, log):
    x = numbers(torch, 3).requires_grad_()
    for hook in (lambda g: log(g.sum().item()), lambda g: g if g.sum() > 0 else None, lambda g: g + torch.randn(3)):
        y = x * 2
        y.register_hook(hook)
        attempt(log, "looks", lambda y=y: batched(torch, [y], x), words=6)
    log(batched(torch, [x * 2], x), torch.rand(2).shape)


@cases
def full_backward_hooks_fire_once(torch, log):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x = numbers(torch, 3).requires_grad_()
    layers[0].register_full_backward_hook(lambda m, gi, go: log("full", [*map(shape, gi)], [*map(shape, go)]))
    layers[1].register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,))
    layers[2].register_full_backward_pre_hook(lambda m, go: log("before", [*map(shape, go)]))
    layers[2].register_full_backward_pre_hook(lambda m, go: (go[0] + 1,))
    log(batched(torch, [layers(x)], (x, *layers.parameters())))


@cases
def retained_and_several_outputs(torch, log):
    x = numbers(torch, 4).requires_grad_()
    y = x.exp()
    y.retain_grad()
    a, b = (y * y).split(2)
    a.register_hook(lambda g: log("a", shape(g)))
    log(batched(torch, [a, b.sum()], (x, y), retain_graph=True), shape(y.grad))
    log(batched(torch, [a], x))


@cases
def several_hooks_on_one_pass(torch, log):
    x = numbers(torch, 3).requires_grad_()
    y = x.sin()
    z = y * x
    torch.autograd.graph.register_multi_grad_hook((y, z), lambda gs: log([shape(g) for g in gs]))
    log(batched(torch, [z], (x, y)))


@cases
def saved_tensor_hooks(torch, log):
    x = numbers(torch, 3).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (log("pack"), t)[1], lambda t: (log("unpack"), t)[1]):
        y = x * x
    log(batched(torch, [y], x))


# --- graphs


@cases
def custom_functions_run_once(torch, log):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, unused):
            ctx.save_for_backward(x)
            return x * x, x + 1

        @staticmethod
        def backward(ctx, g, h):
            (x,) = ctx.saved_tensors
            log("backward", shape(g), shape(h))
            return g * 2 * x + h, None

    x = numbers(torch, 3).requires_grad_()
    square, more = Square.apply(x, 1)
    log(batched(torch, [square, more], x, retain_graph=True))
    log(batched(torch, [square], x))


@cases
def checkpoints(torch, log):
    checkpoint = importlib.import_module(torch.__name__ + ".utils.checkpoint").checkpoint
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(3, 4), numbers(torch, 2, 3).requires_grad_()
    out = checkpoint(lambda x: (log("forward"), layer(x).tanh())[1], x, use_reentrant=False)
    log(batched(torch, [out], (x, layer.weight)))


@cases
def written_tensors_and_views(torch, log):
    x = numbers(torch, 2, 3).requires_grad_()
    y = x * 1
    y[0] *= 2
    y[:, 1].mul_(x[:, 0])
    y.view(-1)[1:4].add_(x.reshape(-1)[:3])
    log(batched(torch, [y, y.t()[1]], x))


@cases
def leaves_of_different_kinds(torch, log):
    x, unused = numbers(torch, 2, 3).requires_grad_(), torch.ones(2, requires_grad=True)
    y = (x.double() * 2).to(torch.float16).float() + x.sum(0) + x[:, :1]
    log(batched(torch, [y], (x, unused), allow_unused=True, retain_graph=True))
    log(batched(torch, [y], (x, unused), materialize_grads=True, retain_graph=True))
    attempt(log, "unused", lambda: batched(torch, [y], (x, unused), retain_graph=True), words=5)
    none = torch.ones(0, 2, 3)
    attempt(log, "no rows", lambda: torch.autograd.grad(y, x, none, is_grads_batched=True, retain_graph=True), words=4)
    z = torch.complex(x, x * 2)
    attempt(log, "real", lambda: torch.autograd.grad(z, x, none + 1, is_grads_batched=True), words=3)
    log(torch.autograd.grad(z, x, torch.ones(2, 2, 3) * (1 + 2j), is_grads_batched=True))


@cases
def layers_of_every_kind(torch, log):
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    image, tokens = numbers(torch, 2, 3, 8, 8).requires_grad_(), torch.tensor([[1, 2, 0], [2, 2, 3]])
    cnn = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, groups=2),
        nn.GroupNorm(2, 4), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip
    log(batched(torch, [cnn(image)], (image, *cnn.parameters())))
    embedding, norm = nn.Embedding(5, 4), nn.LayerNorm(4)
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    h = norm(embedding(tokens))
    out = attention(h, h, h, need_weights=False)[0]
    loss = F.cross_entropy(out.reshape(-1, 4), tokens.reshape(-1), reduction="none")
    log(batched(torch, [loss], (embedding.weight, *norm.parameters(), *attention.parameters())))
    for kind in (nn.LSTM, nn.GRU):
        layer = kind(3, 4)
        x = numbers(torch, 5, 2, 3).requires_grad_()
        log(batched(torch, [layer(x)[0]], (x, *layer.parameters())))
    up = nn.ConvTranspose2d(3, 2, 2)
    log(batched(torch, [F.interpolate(up(image), scale_factor=2, mode="bilinear").mean(1)], (image, up.weight)))


@cases
def passes_that_are_recorded(torch, log):
    x, w = numbers(torch, 3).requires_grad_(), numbers(torch, 3, 3).requires_grad_()
    y = (w @ x).tanh() * x.exp()
    (g,) = batched(torch, [y], x, create_graph=True)
    log(g.requires_grad, torch.autograd.grad(g.pow(2).sum(), (x, w), retain_graph=True))
    (again,) = batched(torch, [g], w, create_graph=True)
    log(again, torch.autograd.grad(again.sum(), x))
    y = x.sin()
    y.register_hook(lambda g: (log(shape(g), g.requires_grad), g * x)[1])
    (g,) = batched(torch, [y], x, create_graph=True)
    log(g, torch.autograd.grad(g.sum(), x))


# --- Jacobians


@cases
def jacobians_of_functions(torch, log):
    func = torch.func
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.GELU(), torch.nn.Linear(4, 2))
    x, parameters = numbers(torch, 3), dict(model.named_parameters())
    fires = []

    def f(x):
        y = x.sin()
        if y.requires_grad:
            y.register_hook(lambda g: fires.append(shape(g)))
        return model(y)

    log(func.jacrev(f)(x), fires)
    log(func.jacfwd(f)(x), func.hessian(lambda x: f(x).sum())(x))
    log(func.jacrev(lambda p: func.functional_call(model, p, (x,)))(parameters))
    log(func.vmap(func.jacrev(model))(numbers(torch, 4, 3)), func.vmap(func.jacfwd(model))(numbers(torch, 4, 3)))
    log(func.jacrev(func.jacrev(model))(x))
    plain = torch.nn.Sequential(
        model[0], model[2]
    )  # PyTorch's second forward derivative of a layer norm is not the one that it goes back by
    log(func.jacfwd(func.jacfwd(plain))(x), func.jacrev(func.jacfwd(plain))(x))


@cases
def jacobians_of_nests(torch, log):
    func = torch.func
    a, b = numbers(torch, 2), numbers(torch, 2, 3)

    def f(a, b):
        return {"p": a.exp() * b.sum(1), "q": (b.cos() @ torch.ones(3, 1), a.prod())}

    for chunk in (None, 1, 2, 50):
        log(func.jacrev(f, argnums=(0, 1), chunk_size=chunk)(a, b))
    log(func.jacfwd(f, argnums=(0, 1))(a, b))
    log(func.jacrev(lambda a: (a.sum(), torch.ones(2)), has_aux=True)(a))
    log(func.jacrev(lambda a: torch.ones(2))(a), func.jacrev(lambda a: a[:0])(a), func.jacfwd(lambda a: a * 2)(a[:0]))


@cases
def products_inside_vmap(torch, log):
    func = torch.func
    x = numbers(torch, 3)
    value, pull = func.vjp(lambda x: (x.exp(), x.cumsum(0)), x)
    log(value, func.vmap(pull)((torch.eye(3), torch.ones(3, 3))))
    log(func.vmap(func.vmap(pull))((numbers(torch, 2, 4, 3), numbers(torch, 2, 4, 3))))
    log(func.vmap(lambda v: func.jvp(torch.sin, (x,), (v,)))(torch.eye(3)))
    _, push = func.linearize(lambda x: x.exp() * x[0], x)
    log(func.vmap(push)(torch.eye(3)))
    log(func.vmap(lambda y: func.vmap(func.vjp(lambda z: z * y, x)[1])(torch.eye(3)))(numbers(torch, 2, 3)))


@cases
def functional_jacobians(torch, log):
    functional = torch.autograd.functional
    x, y = numbers(torch, 2), numbers(torch, 2, 2).requires_grad_()

    def f(x, y):
        h = y @ x
        h.register_hook(lambda g: log("hook", shape(g)))
        return h.tanh(), (x * 2).sum()

    log(functional.jacobian(f, (x, y), vectorize=True), functional.jacobian(f, (x, y)))
    log(functional.jacobian(lambda x: torch.ones(2), x, vectorize=True))
    log(functional.jacobian(lambda x: x.exp().outer(x), x, vectorize=True, strategy="forward-mode"))
    log(functional.hessian(lambda x: (x.exp() * x.sum()).sum(), x, vectorize=True))
    made = functional.jacobian(lambda y: (y @ y).exp(), y, create_graph=True, vectorize=True)
    log(made, torch.autograd.grad(made.sum(), y))
