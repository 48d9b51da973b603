"""autocast and GradScaler against torch: which functions change precision, what nests how, and every step of scaling."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch as real_torch

import undertow
from tests.oracle.harness import agree, agree_error
from tests.oracle.programs import Table, attempt

autocasts, scalers = Table(), Table()
HALF: dict[str, Any] = {"rtol": 3e-2, "atol": 2e-2}


@autocasts
def lower_precision(torch, log):
    F = torch.nn.functional
    x, w = torch.randn(3, 4), torch.randn(4, 4)
    image, kernel = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    with torch.autocast("cpu"):
        log(x @ w, x.mm(w), torch.matmul(x, w[0]), F.linear(x, w), torch.addmm(x, x, w), torch.bmm(x[None], w[None]))
        log(F.conv2d(image, kernel), F.conv_transpose2d(image, kernel.transpose(0, 1)), F.prelu(x, w[0, :1]))
        log(F.scaled_dot_product_attention(x[None], x[None], x[None]))
        log(torch.einsum("ij,jk->ik", x, w), torch.einsum("ij,ij->ij", x, x), torch.tensordot(x, w, 1))
        log(torch.mv(w, w[0]), torch.dot(w[0], w[0]), torch.outer(w[0], w[0]), x + x, torch.exp(x))
        log(torch.linalg.multi_dot([x, w, w]), torch.baddbmm(x[None], x[None], w[None]), torch.kron(x, w).dtype)


@autocasts
def full_precision(torch, log):
    F = torch.nn.functional
    x = torch.rand(3, 4).bfloat16()
    y = torch.rand(3, 4).bfloat16()
    labels = torch.tensor([0, 1, 3])
    with torch.autocast("cpu"):
        log(F.mse_loss(x, y), F.cross_entropy(x, labels), F.binary_cross_entropy_with_logits(x, y), x.prod(), x.prod(1))
        log(F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.kl_div(x, y, reduction="sum"), F.nll_loss(x, labels))
        log(torch.cdist(x, y), x[:, :3].trace(), torch.quantile(x, 0.5), torch.linalg.inv(x[:, :3]))
        log(F.pad(x[None], (1, 1), mode="reflect"), F.pad(x, (1, 1)), F.avg_pool3d(x[None, None], 1))
        log(torch.softmax(x, 1).dtype, x.sum().dtype, x.mean().dtype, F.gelu(x).dtype, F.layer_norm(x, (4,)).dtype)


@autocasts
def promotion(torch, log):
    x, y, z = torch.randn(2), torch.randn(2).bfloat16(), torch.randn(2).double()
    with torch.autocast("cpu"):
        log(torch.cat([x, y]), torch.stack([x, y]), torch.stack([y, y]), torch.cat([x, z]), x + y)
        log(torch.index_copy(x, 0, torch.tensor([0]), y[:1]))


@autocasts
def doubles_and_integers_stay(torch, log):
    x = torch.randn(3, 3).double()
    with torch.autocast("cpu"):
        log(x @ x, torch.arange(4).view(2, 2) @ torch.arange(4).view(2, 2))
        attempt(log, "mixed", lambda: x @ x.float())
        log(torch.matmul(x.float(), x.bfloat16()).dtype, torch.matmul(x.half(), x.bfloat16()).dtype)


@autocasts
def half(torch, log):
    x = torch.randn(3, 3)
    with torch.autocast("cpu", dtype=torch.float16):
        log(x @ x, torch.get_autocast_dtype("cpu"))


@autocasts
def nesting(torch, log):
    x = torch.randn(2, 2)
    with torch.autocast("cpu"):
        log((x @ x).dtype)
        with torch.autocast("cpu", enabled=False):
            log((x @ x).dtype, torch.is_autocast_enabled("cpu"))
            with torch.autocast("cpu", dtype=torch.float16):
                log((x @ x).dtype)
        log(
            (x @ x).dtype,
            torch.is_autocast_enabled("cpu"),
            torch.is_autocast_enabled(),
            torch.is_autocast_enabled("cuda"),
        )
    log((x @ x).dtype, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))


@autocasts
def a_raised_error_turns_it_off(torch, log):
    try:
        with torch.autocast("cpu"):
            raise ValueError
    except ValueError:
        log(torch.is_autocast_enabled("cpu"))


@autocasts
def decorator(torch, log):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(x):
        """Documented."""
        return x @ x

    log(forward(torch.ones(2, 2)), forward.__name__, forward.__doc__, torch.is_autocast_enabled("cpu"))


@autocasts
def not_in_place_and_not_out(torch, log):
    x = torch.randn(2, 2)
    with torch.autocast("cpu"):
        log(torch.zeros(2, 2).addmm_(x, x), torch.mm(x, x, out=torch.empty(2, 2)))


@autocasts
def weights_are_cast_once(torch, log):
    x, w = torch.randn(2, 2), torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        one, two = x @ w, x @ w
        log(one.grad_fn.next_functions[1][0] is two.grad_fn.next_functions[1][0])
        log(one.grad_fn.next_functions[1][0].name())
        torch.clear_autocast_cache()
        log(one.grad_fn.next_functions[1][0] is (x @ w).grad_fn.next_functions[1][0])
        with torch.autocast("cpu", cache_enabled=False):
            log((x @ w).grad_fn.next_functions[1][0] is (x @ w).grad_fn.next_functions[1][0])
            log(torch.is_autocast_cache_enabled())
        with torch.no_grad():
            log((x @ w).requires_grad)
        log((x @ w).requires_grad)
    (one + two).sum().backward()
    return w.grad


@autocasts
def a_network(torch, log):
    nn = torch.nn
    net = nn.Sequential(
        nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
    )
    x, y = torch.randn(5, 6), torch.randint(3, (5,))
    with torch.autocast("cpu"):
        out = net(x)
        loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    log(out, loss)
    return [p.grad for p in net.parameters()]


@autocasts
def a_convolutional_network(torch, log):
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(2, 4), nn.Flatten(),
        nn.Linear(36, 2),
    )  # fmt: skip
    x = torch.randn(2, 1, 8, 8)
    with torch.autocast("cpu"):
        out = net(x)
        loss = nn.functional.mse_loss(out, torch.zeros_like(out))
    loss.backward()
    log(out, loss)
    return [p.grad.dtype for p in net.parameters()]


@autocasts
def attention_and_recurrence(torch, log):
    nn = torch.nn
    x = torch.randn(5, 2, 4)
    with torch.autocast("cpu"):
        log(nn.MultiheadAttention(4, 2)(x, x, x))
        for layer in (nn.GRU(4, 3), nn.RNN(4, 3)):
            out, state = layer(x)
            log(type(layer).__name__, out, state)
        log(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)(x).dtype, nn.Embedding(3, 4)(torch.tensor([1])).dtype)


@autocasts
def settings(torch, log):
    log(torch.get_autocast_dtype("cpu"), torch.get_autocast_dtype("cuda"), torch.amp.is_autocast_available("cpu"))
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        log((torch.ones(1, 1) @ torch.ones(1, 1)).dtype, torch.is_autocast_enabled("cpu"))
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
    log(torch.autocast_increment_nesting(), torch.autocast_decrement_nesting())
    for wrong in ("foo", "meta"):
        attempt(log, wrong, lambda: torch.autocast(wrong))
    attempt(log, "int", lambda: torch.autocast(3))
    attempt(log, "dtype", lambda: torch.get_autocast_dtype("meta"))


@autocasts
def custom_functions(torch, log):
    class Cast(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, a, b):
            log("forward", a, b, torch.is_autocast_enabled("cpu"))
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            log("backward", g, torch.is_autocast_enabled("cpu"))
            a, b = ctx.saved_tensors
            return g @ b.t(), a.t() @ g

    class Follow(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, a, b):
            log("forward", a.dtype, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            log("backward", g.dtype, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
            a, b = ctx.saved_tensors
            return g.to(b.dtype) @ b.t(), a.t() @ g.to(a.dtype)

    x = torch.randn(2, 2, requires_grad=True)
    for made in (Cast, Follow):
        with torch.autocast("cpu", dtype=torch.float16):
            out = made.apply(x, torch.randn(2, 2).bfloat16() if made is Cast else torch.randn(2, 2))
        out.sum().backward()
        made.apply(x, torch.randn(2, 2)).sum().backward()
    return x.grad


@autocasts
def checkpointing_repeats_it(torch, log):
    from importlib import import_module

    checkpoint = import_module(torch.__name__ + ".utils.checkpoint").checkpoint
    layer = torch.nn.Linear(3, 3)
    for reentrant in (False, True):
        x = torch.randn(2, 3, requires_grad=True)

        def forward(x):
            log("forward", torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
            return layer(x).relu()

        with torch.autocast("cpu", dtype=torch.float16):
            out = checkpoint(forward, x, use_reentrant=reentrant)
        out.float().sum().backward()
        log(out, x.grad, torch.is_autocast_enabled("cpu"))


@autocasts.test
def test_autocast(program: Any) -> None:
    agree(program, **HALF)


@pytest.mark.parametrize("text", ["torch.autocast('cuda')", "torch.autocast('cpu', dtype=torch.float64)",
                                  "torch.autocast('cpu', dtype=torch.float32)", "torch.amp.GradScaler()",
                                  "torch.cuda.amp.GradScaler()", "torch.cuda.amp.autocast()",
                                  "torch.cpu.amp.autocast()", "torch.cpu.amp.GradScaler()"])  # fmt: skip
def test_warnings(text: str) -> None:
    """What can't be had is switched off with a word of warning; old names are deprecated."""

    def program(torch: Any) -> Any:
        made = eval(text, {"torch": torch})
        return made._enabled

    agree(program, warns=True)


def test_lstm_under_autocast() -> None:
    """On a CPU with kernels for bfloat16 torch's LSTM gives that, as undertow's does everywhere; on others, float32."""

    def program(torch: Any) -> Any:
        layer, x = torch.nn.LSTM(4, 3), torch.randn(5, 2, 4)
        with torch.autocast("cpu"):
            out, (hidden, cell) = layer(x)
        if torch is undertow:
            assert (out.dtype, hidden.dtype, cell.dtype) == (torch.bfloat16,) * 3
        return out.float(), hidden.float(), cell.float()

    before = real_torch._C._get_mkldnn_enabled()
    real_torch._C._set_mkldnn_enabled(False)  # the library with those kernels
    try:
        agree(program, **HALF)
    finally:
        real_torch._C._set_mkldnn_enabled(before)


# --- GradScaler


def _problem(torch, **options):
    param = torch.tensor([1.0, -2.0], requires_grad=True)
    return param, torch.optim.SGD([param], lr=0.1), torch.amp.GradScaler("cpu", **options)


@scalers
def the_four_steps(torch, log):
    param, optimizer, scaler = _problem(torch)
    for _ in range(3):
        optimizer.zero_grad()
        loss = scaler.scale((param**2).sum())
        loss.backward()
        log(loss, param.grad, scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        log(param, param.grad, scaler.state_dict())


@scalers
def infinite_gradients_skip_the_step(torch, log):
    param, optimizer, scaler = _problem(torch, init_scale=8.0, growth_interval=2)
    for bad in (False, True, False, False, False, True):
        optimizer.zero_grad()
        scaler.scale((param**2).sum()).backward()
        if bad:
            param.grad[0] = float("inf") if param.grad[1] < 0 else float("nan")
        log(scaler.step(optimizer), param)
        scaler.update()
        log(scaler.get_scale(), scaler.state_dict())


@scalers
def unscale_then_clip(torch, log):
    param, optimizer, scaler = _problem(torch)
    scaler.scale((param**3).sum()).backward()
    scaler.unscale_(optimizer)
    log(param.grad)
    torch.nn.utils.clip_grad_norm_([param], 1.0)
    attempt(log, "again", lambda: scaler.unscale_(optimizer))
    scaler.step(optimizer)
    log(param)
    attempt(log, "step again", lambda: scaler.step(optimizer))
    attempt(log, "unscale after step", lambda: scaler.unscale_(optimizer))
    attempt(log, "pickle", lambda: pickle.dumps(scaler))
    scaler.update()


@scalers
def used_in_the_wrong_order(torch, log):
    param, optimizer, scaler = _problem(torch)
    attempt(log, "update", scaler.update)
    attempt(log, "unscale", lambda: scaler.unscale_(optimizer))
    attempt(log, "step", lambda: scaler.step(optimizer))
    scaler.scale(param.sum())
    attempt(log, "nothing to check", lambda: scaler.step(optimizer))
    attempt(log, "nothing recorded", scaler.update)
    attempt(log, "closure", lambda: scaler.step(optimizer, closure=lambda: None))
    attempt(log, "not tensors", lambda: scaler.scale(3))
    attempt(log, "nested", lambda: scaler.scale([param.sum(), (param.sum(),)]))


@scalers
def half_gradients(torch, log):
    param = torch.ones(2, dtype=torch.float16, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([param], lr=0.1), torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(param.sum()).backward()
    attempt(log, "unscale", lambda: scaler.unscale_(optimizer))


@scalers
def setting_the_scale(torch, log):
    _, _, scaler = _problem(torch)
    scaler.scale(torch.ones(()))
    scaler.update(5.0)
    log(scaler.get_scale())
    scaler.update(torch.tensor(3.0))
    log(scaler.get_scale())
    attempt(log, "two", lambda: scaler.update(torch.tensor([1.0, 2.0])))
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(7)
    log(scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval(), scaler.state_dict())


@scalers
def state_goes_round(torch, log):
    param, optimizer, scaler = _problem(torch, init_scale=16.0)
    scaler.scale(param.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    log(other.state_dict(), other.scale(param.sum()))
    scaler.load_state_dict(other.state_dict() | {"scale": 2.0})
    log(scaler.scale(torch.ones(())))
    attempt(log, "empty", lambda: scaler.load_state_dict({}))


@scalers
def disabled(torch, log):
    param, optimizer, _ = _problem(torch)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    scaler.scale(param.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    return param, scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()


@scalers.test
def test_scaler(program: Any) -> None:
    agree(program)


def test_pickled_between_iterations() -> None:
    def program(torch: Any) -> Any:
        param, optimizer, scaler = _problem(torch, init_scale=16.0)
        scaler.scale(param.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        state = scaler.__getstate__()
        again = torch.amp.GradScaler.__new__(torch.amp.GradScaler)
        again.__setstate__(state)
        return again.state_dict(), again.scale(param.sum())

    agree(program)


@pytest.mark.parametrize("options", ["growth_factor=1.0", "backoff_factor=1.0"])
def test_bad_factors(options: str) -> None:
    agree_error(lambda torch: eval(f"torch.amp.GradScaler('cpu', {options})", {"torch": torch}))
