"""The engine's handle and private names: execution order, the log of a pass, versions, and what nodes show."""

from __future__ import annotations

import logging
import re

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf

cases = Table()


@cases.test
def test_engine(program):
    agree(program, graph=True)


@cases
def execution_order(torch, log):
    def order():
        return [node.name() for node in torch._C._current_graph_task_execution_order()]

    x, w = leaf(torch), leaf(torch)
    a = x * 2
    b = a.exp()
    total = (b * a.sin() * w).sum()
    attempt(log, "outside", order)
    total.register_hook(lambda g: attempt(log, "inside", order))
    total.backward(retain_graph=True)
    with torch.autograd.set_multithreading_enabled(False):
        total.backward(retain_graph=True)
        torch.autograd.grad(total, x, retain_graph=True)
        torch.autograd.grad(total, [a], retain_graph=True)
        total.backward(inputs=[w])


@cases
def whether_a_pass_keeps_its_graph(torch, log):
    keeps = torch._C._autograd._get_current_graph_task_keep_graph
    y = leaf(torch) * 2
    y.register_hook(lambda g: log(keeps()))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    log(keeps())


@cases
def engine_handle(torch, log):
    engine = torch.autograd.Variable._execution_engine
    x = leaf(torch)
    log(engine.is_checkpoint_valid())
    engine.run_backward((x.sum(),), (torch.ones(()),), False, False, (), allow_unreachable=True, accumulate_grad=True)
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: log(engine.is_checkpoint_valid()))
    torch.autograd.grad(y.sum(), x)
    return x.grad


@cases
def every_pass_is_logged(torch, log):
    logger, lines = logging.getLogger("torch.autograd.graph"), []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(re.sub(" at 0x[0-9a-f]*", "", record.getMessage()))
    before, spreads = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        x = leaf(torch)
        x.sin().exp().sum().backward()
        torch.autograd.grad((x * 2).sum(), x)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = spreads
    log(lines)


@cases
def versions_are_kept_and_set(torch, log):
    x, y = torch.ones(2), torch.ones(2)
    x.add_(1)
    with torch.autograd._unsafe_preserve_version_counter((x, y)):
        x.add_(1)
        y.add_(1)
    log(x._version, y._version, type(torch.autograd._unsafe_preserve_version_counter(x)).__name__)
    torch._C._autograd._unsafe_set_version_counter((x, y), (5, 6))
    log(x._version, y._version)


@cases
def nodes_show_what_was_not_given_as_none(torch, log):
    x = torch.ones(2, 3, requires_grad=True)
    spreads = [x.std(), x.var(), x.std(0), x.std(unbiased=True), x.var(dim=None, keepdim=True), x.std((0, 1))]
    spreads += [torch.var_mean(x)[0], x.var(1, correction=0), x.std(dim=0, correction=None)]
    log([(y.grad_fn._saved_dim, y.grad_fn._saved_correction) for y in spreads])
    norms = [torch.linalg.norm(x), torch.linalg.vector_norm(x, 3, dim=0), x.norm()]
    log([y.grad_fn._saved_dim for y in norms])
    log([x.as_strided((2,), (1,), *offset).grad_fn._saved_storage_offset for offset in ((), (0,), (1,))])


@cases
def raw_saved_lists_are_tuples(torch, log):
    x = leaf(torch)
    y = x[torch.tensor([0, 0])]
    raw = y.grad_fn._raw_saved_indices
    log(type(raw).__name__, [type(part).__name__ for part in raw])
    raw[0].register_hooks(lambda t: (log("pack", t), t)[1], lambda t: (log("unpack", t), t)[1])
    y.sum().backward()
    return x.grad


@cases
def a_sparse_gradient_of_a_dense_tensor(torch, log):
    x = torch.ones(3, 3, requires_grad=True)
    one = torch.eye(3).to_sparse()
    x.backward(one)
    x.backward(one)
    log(x.grad.layout, x.grad.to_dense())
    x.backward(torch.ones(3, 3))
    log(x.grad.layout, x.grad)
    attempt(log, "another size", lambda: x.backward(torch.eye(2).to_sparse()))
    log(torch.autograd.grad(x, x, one)[0].to_dense())


@cases
def a_gradient_on_a_different_device_is_refused(torch, log):
    x = leaf(torch)
    moved = function(torch, lambda ctx, x: x * 2, lambda ctx, g: g.to("meta"))
    attempt(log, "moved", lambda: moved.apply(x).sum().backward())
    attempt(log, "begun", lambda: (x * 2).backward(torch.ones(2, device="meta")))
    there = torch.ones(2, device="meta", requires_grad=True)
    (there * 2).backward(torch.ones(2, device="meta"))
    function(torch, lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply(there).sum().backward()
    log(there.grad.device, there.grad.shape)


@cases
def forward_mode_settings(torch, log):
    forward = torch.autograd.forward_ad
    log(forward._current_level, forward._is_fwd_grad_enabled())
    with forward.dual_level():
        log(forward._current_level)
        x = forward.make_dual(torch.ones(2), torch.ones(2))

        class ToInteger(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def jvp(ctx, tangent):
                return tangent.long()

        try:
            ToInteger.apply(x)
        except RuntimeError as error:
            log("Expected both tensor and its forward grad to be floating point or complex" in str(error))


@cases
def a_named_part_may_be_entered_and_left(torch, log):
    with torch.autograd.profiler.profile() as seen:
        part = torch.autograd._record_function_with_args_enter("part", 1, None, leaf(torch))
        leaf(torch).sin()
        torch.autograd._record_function_with_args_exit(part)
    log("part" in [event.name for event in seen.function_events])


@cases
def saved_values_of_images_and_random_numbers(torch, log):
    """What a node shows of its op: PyTorch's names and values, and none that undertow needs for itself."""
    resize, made = torch.nn.functional.interpolate, []
    modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}
    for rank, own in modes.items():
        x = torch.rand(1, 2, *(4,) * rank, requires_grad=True)
        for mode in ("nearest", "nearest-exact", *own):
            made += [resize(x, 3, mode=mode), resize(x, scale_factor=2, mode=mode)]
    x = torch.rand(3, 4, requires_grad=True)
    made += [x.bernoulli(), x.clone().normal_(), x.clone().uniform_(), torch.normal(x, x), torch.poisson(x)]
    made += [torch.binomial(x, x), x.clone().copy_(x), torch.complex(x, x).real, torch.complex(x, x).conj().imag]
    made += [torch.addbmm(x, torch.rand(2, 3, 2, requires_grad=True), torch.rand(2, 2, 4))]
    for y in made:
        node = y.grad_fn
        names = [name for name in dir(node) if name.startswith("_saved_")]
        values = [getattr(node, name) for name in names]
        log(node.name(), names, [tuple(v.shape) if isinstance(v, torch.Tensor) else v for v in values])
