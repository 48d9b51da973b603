"""DDP programs that every rank of a pool runs, on undertow and on PyTorch; each shows what must be equal on both.

Every section is one row of the table of DDP's semantics in docs/distributed.md.
"""

import copy
import importlib
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any


class Kit:
    """What the programs share: modules, hooks that show what they see, and a communication hook that does."""

    def __init__(self, torch: Any, show: Callable[..., None]) -> None:
        self.torch, self.show, self.nn, self.dist = torch, show, torch.nn, torch.distributed
        self.rank, self.size = self.dist.get_rank(), self.dist.get_world_size()
        self.ddp = torch.nn.parallel.DistributedDataParallel
        self.keep: list[Any] = []

    def x(self, count: int = 1) -> Any:
        return self.torch.full((count,), float(self.rank + 1))

    def chain(self, count: int = 2, skip: tuple[int, ...] = (), gate: Any = None) -> Any:
        """A module that multiplies its input by each of its parameters."""
        torch: Any = self.torch
        show = self.show

        class Chain(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for number in range(count):
                    setattr(self, "abcdefgh"[number], torch.nn.Parameter(torch.ones(1)))
                self.skip = skip

            def forward(self, x: Any) -> Any:
                for number, param in enumerate(self.parameters()):
                    if number not in self.skip:
                        x = x * param
                        if number == 0 and x.requires_grad:
                            x.register_hook(lambda g: show("activation", v(g)))
                return x

        return Chain()

    def hook(self, module: Any, tag: str) -> None:
        """Register every kind of hook on every parameter."""
        show = self.show
        for name, param in module.named_parameters():
            param.register_hook(lambda g, n=name, p=param: show(tag, "tensor", n, v(g), "grad", v(p.grad)))
            param.register_post_accumulate_grad_hook(lambda p, n=name: show(tag, "post_accumulate", n, v(p.grad)))
            node = param.view_as(param).grad_fn.next_functions[0][0]
            self.keep.append(node)
            node.register_prehook(lambda gs, n=name: show(tag, "node pre", n, v(gs[0])))
            node.register_hook(lambda gi, go, n=name, p=param: show(tag, "node post", n, v(p.grad)))

    def comm(self) -> Callable[[Any, Any], Any]:
        """A communication hook that shows its bucket."""

        def averaged(state, bucket):  # type: ignore[no-untyped-def]
            self.show("comm", bucket.index(), bucket.is_last(), v(bucket.buffer()), [v(g) for g in bucket.gradients()])
            future = self.dist.all_reduce(bucket.buffer() / self.size, async_op=True).get_future()
            return future.then(lambda done: done.value()[0])

        return averaged

    def grads(self, module: Any) -> list[Any]:
        return [v(param.grad) for param in module.parameters()]

    def outcome(self, call: Callable[[], Any], words: int = 5) -> None:
        """Show a call's result, or the class and first words of its error."""
        try:
            self.show(call())
        except Exception as error:
            self.show(type(error).__name__, " ".join(str(error).split()[:words]))


def v(tensor: Any) -> Any:
    return None if tensor is None else [round(float(x), 4) + 0.0 for x in tensor.detach().reshape(-1)[:4]]


def _order(kit: Kit, comm: bool = True, hooked: str = "both", **options: Any) -> None:
    show, module = kit.show, kit.chain()
    if hooked in ("both", "before"):
        kit.hook(module, "before")
    model = kit.ddp(module, bucket_cap_mb=1e-7, **options)
    if hooked in ("both", "after"):
        kit.hook(module, "after")
    module.register_forward_pre_hook(lambda m, i: show("inner forward pre"))
    module.register_forward_hook(lambda m, i, o: show("inner forward"))
    model.register_forward_pre_hook(lambda m, i: show("forward pre"))
    model.register_forward_hook(lambda m, i, o: show("forward"))
    module.register_full_backward_hook(lambda m, gi, go: show("inner full backward", v(gi[0]), v(go[0])))
    model.register_full_backward_hook(lambda m, gi, go: show("full backward", v(gi[0]), v(go[0])))
    model.register_full_backward_pre_hook(lambda m, go: show("full backward pre", v(go[0])))
    if comm:
        model.register_comm_hook(None, kit.comm())
    engine = kit.torch.autograd.Variable._execution_engine
    module.a.register_hook(lambda g: engine.queue_callback(lambda: show("callback", kit.grads(module))))
    for number in range(3):
        show("iteration", number)
        model(kit.x().requires_grad_()).sum().backward()
        show(kit.grads(module))


def order(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    for hooked in ("both", "before", "after", "none"):
        for comm in (True, False):
            _order(kit, comm, hooked)


def order_with_options(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    _order(kit, gradient_as_bucket_view=True)
    _order(kit, static_graph=True)
    _order(kit, comm=False, static_graph=True)
    _order(kit, find_unused_parameters=True)
    _order(kit, hooked="after", gradient_as_bucket_view=True, static_graph=True)


def buckets(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)

    class Dtypes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for number, (name, count) in enumerate((("a", 1), ("b", 1), ("c", 2), ("d", 1), ("e", 3))):
                dtype = torch.float64 if number in (1, 3) else torch.float32
                setattr(self, name, torch.nn.Parameter(torch.ones(count, dtype=dtype)))

        def forward(self, x: Any) -> Any:
            return ((x * self.a).double() * self.b * self.d).sum() * self.c.sum() * self.e.sum()

    def noting(names: dict[int, str]) -> Any:
        def hook(state, bucket):  # type: ignore[no-untyped-def]
            shapes = [tuple(g.shape) for g in bucket.gradients()]
            show(bucket.index(), bucket.is_last(), bucket.buffer().numel(), shapes)
            show([names[id(p)] for p in bucket.parameters()])
            future = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        return hook

    big = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        (Dtypes, kit.x(), options)
        for options in ({}, {"bucket_cap_mb": 1e-7}, {"find_unused_parameters": True}, {"bucket_cap_mb": 8 / 2**20})
    ]
    cases += [
        (lambda: copy.deepcopy(big), torch.ones(1, 256), options)
        for options in ({}, {"find_unused_parameters": True}, {"bucket_cap_mb": 0.3}, {"bucket_cap_mb_list": [1, 2]})
    ]
    for make, x, options in cases:
        show(options)
        module = make()
        model = kit.ddp(module, **options)
        model.register_comm_hook(None, noting({id(p): n for n, p in module.named_parameters()}))
        for number in range(2):
            show("iteration", number)
            model(x).sum().backward()


def hooks_that_change(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    for view in (False, True):
        module = kit.chain()
        model = kit.ddp(module, gradient_as_bucket_view=view)
        module.a.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(100 * (kit.rank + 1)), None)[1])
        module.b.register_hook(lambda g: g * 10 * (kit.rank + 1))
        for _ in range(2):
            model(kit.x()).sum().backward()
            show(kit.grads(module))

        def step(param: Any) -> None:
            with torch.no_grad():
                param.sub_(param.grad)
            param.grad = None

        module = kit.chain()
        model = kit.ddp(module, gradient_as_bucket_view=view)
        module.a.register_post_accumulate_grad_hook(step)
        model(kit.x()).sum().backward()
        show(v(module.a), kit.grads(module))


def no_sync(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    for view in (False, True):
        module = kit.chain()
        kit.hook(module, "")
        model = kit.ddp(module, gradient_as_bucket_view=view)
        with model.no_sync():
            model(kit.x()).sum().backward()
        show("local", kit.grads(module))
        model(kit.x()).sum().backward()
        show("synced", kit.grads(module))
    module = kit.chain()
    model = kit.ddp(module)
    with model.no_sync():
        out = model(kit.x()).sum()
        with model.no_sync():
            pass
        show(model.require_backward_grad_sync)
    out.backward()
    show("forward inside", kit.grads(module))
    module = kit.chain()
    model = kit.ddp(module)
    out = model(kit.x()).sum()
    with model.no_sync():
        out.backward()
    show("backward inside", kit.grads(module))


def unused(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    for options in ({}, {"find_unused_parameters": True}, {"static_graph": True}):
        for view in (False, True):
            show(options, view)
            module = kit.chain(3, skip=(1,))
            kit.hook(module, "")
            model = kit.ddp(module, gradient_as_bucket_view=view, **options)

            def iterations() -> None:
                for number in range(3):
                    model(kit.x()).sum().backward()
                    show(number, kit.grads(module))
                    module.zero_grad()

            kit.outcome(iterations, 8)

    class Returns(torch.nn.Linear):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return super().forward(x), self.scale

    for options in ({}, {"find_unused_parameters": True}):
        module = Returns(2, 2)
        module.scale = torch.nn.Parameter(torch.ones(2))
        model = kit.ddp(module, **options)

        def returned(model: Any = model) -> Any:
            out, scale = model(torch.ones(1, 2))
            (out.sum() + scale.sum() * kit.rank).backward()
            return v(model.module.scale.grad)

        kit.outcome(returned)


def used_elsewhere(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    last = kit.size - 1
    for view in (False, True):
        module = kit.chain(3, skip=(2,))
        kit.hook(module, "")
        model = kit.ddp(module, find_unused_parameters=True, gradient_as_bucket_view=view)
        model(kit.x()).sum().backward()
        show("nowhere", kit.grads(module))
        module.zero_grad()
        module.skip = () if kit.rank == last else (2,)
        model(kit.x()).sum().backward()
        show("on one rank", kit.grads(module))
        if view:
            continue
        module.zero_grad(set_to_none=False)
        module.skip = (2,)
        model(kit.x()).sum().backward()
        module.c.grad.fill_(7.0)
        model(kit.x()).sum().backward()
        show("nowhere, with a gradient", kit.grads(module))
        module.c.grad.fill_(7.0 + kit.rank)
        module.skip = () if kit.rank == last else (2,)
        model(kit.x()).sum().backward()
        show("on one rank, with a gradient", kit.grads(module))
    module = kit.chain(3, skip=() if kit.rank == last else (2,))
    model = kit.ddp(module, static_graph=True)
    for _ in range(3):
        model(kit.x()).sum().backward()
        show("static", kit.grads(module))


def past_the_wrapper(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    module = kit.chain()
    model = kit.ddp(module)
    show([v(g) for g in torch.autograd.grad(model(kit.x()).sum(), list(module.parameters()))], kit.grads(module))
    model(kit.x()).sum().backward()
    show("then backward", kit.grads(module))
    module = kit.chain()
    model = kit.ddp(module)
    module(kit.x()).sum().backward()
    show("inner", kit.grads(module))
    module = kit.chain()
    model = kit.ddp(module)
    out = model(kit.x()).sum()
    out.backward(retain_graph=True)
    show("first", kit.grads(module))
    out.backward()
    show("second", kit.grads(module))
    module = kit.chain()
    model = kit.ddp(module)
    (model(kit.x()) + model(kit.x())).sum().backward()
    show("two forwards", kit.grads(module))
    module = kit.chain()
    model = kit.ddp(module)
    (model(kit.x()) + module(kit.x())).sum().backward()
    show("wrapper and inner", kit.grads(module))
    module = kit.chain()
    model = kit.ddp(module)
    model(kit.x()).sum().backward(inputs=[module.a])
    show("inputs", kit.grads(module))
    module.b.requires_grad_(False)
    kit.outcome(lambda: model(kit.x()).sum().backward(), 8)


def several_backwards(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(torch.ones(1))
            self.b = torch.nn.Parameter(torch.ones(1))

        def forward(self, x: Any) -> Any:
            return x * self.a, {"y": x * self.b}

    module = Two()
    model = kit.ddp(module)
    y, z = model(kit.x())
    y.sum().backward()
    show("one half", kit.grads(module))
    z["y"].sum().backward()
    show("both", kit.grads(module))
    y, z = model(kit.x())
    y.sum().backward(retain_graph=True)
    kit.outcome(lambda: (y + z["y"]).sum().backward(), 8)

    class Recomputed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

        def forward(self, x: Any) -> Any:
            from_start = torch.utils.checkpoint.checkpoint
            for layer in (self.a, self.b, self.a):
                x = from_start(layer, x, use_reentrant=True)
            return x

    def train(**options: Any) -> None:
        torch.manual_seed(0)
        module = Recomputed()
        model = kit.ddp(module, **options)
        for _ in range(3):
            model(torch.full((1, 1), kit.rank + 1.0, requires_grad=True)).sum().backward()
            show(kit.grads(module))

    kit.outcome(train, 8)
    kit.outcome(lambda: train(static_graph=True), 8)
    kit.outcome(lambda: train(find_unused_parameters=True), 8)


def create_graph(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    module = kit.chain(3)
    model = kit.ddp(module)
    for name, param in module.named_parameters():
        param.register_hook(lambda g, n=name: show("tensor", n, v(g)))
        param.register_post_accumulate_grad_hook(lambda p, n=name: show("post_accumulate", n))
    kit.outcome(lambda: (model(kit.x()) ** 2).sum().backward(create_graph=True), 0)


def static_graph_changes(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    for first, later in (((), (1,)), ((1,), ())):
        module = kit.chain(3, skip=first)
        model = kit.ddp(module, static_graph=True)
        model(kit.x()).sum().backward()
        module.skip = later
        kit.outcome(lambda: [model(kit.x()).sum().backward() for _ in range(2)], 7)
        show(kit.grads(module))


def buffers(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    nn = torch.nn
    module = nn.BatchNorm1d(1)
    model = kit.ddp(module)

    def differ() -> None:
        with torch.no_grad():
            module.running_mean.fill_(kit.rank + 5.0)

    x = torch.full((2, 1), float(kit.rank))
    differ()
    model.eval()(x)
    show("eval", v(module.running_mean))
    differ()
    model.train()(x)
    show("train", v(module.running_mean), module.num_batches_tracked)
    with model.no_sync():
        model(x)
        show("no_sync", v(module.running_mean))
        model(x)
        show("no_sync again", v(module.running_mean))
    model(x)
    show("after no_sync", v(module.running_mean))
    model(x)
    show("next", v(module.running_mean))
    differ()
    with torch.no_grad():
        model(x)
        show("no_grad", v(module.running_mean))
        differ()
        model(x)
        show("no_grad again", v(module.running_mean))
    for options in ({"broadcast_buffers": False}, {"forward_sync_buffers": False}):
        module = nn.BatchNorm1d(1)
        differ()
        model = kit.ddp(module, **options)
        show(options, v(module.running_mean), model.broadcast_buffers)
        model(x)
        show(v(module.running_mean))
    module = nn.BatchNorm1d(2)
    model = kit.ddp(module)
    y = model(torch.ones(2, 2)) + model(torch.ones(2, 2) * 2)
    kit.outcome(lambda: y.sum().backward())
    module.eval()
    z = model(torch.ones(2, 2)) + model(torch.ones(2, 2) * 2)
    kit.outcome(lambda: z.sum().backward())


def construction(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    nn = torch.nn
    module = kit.chain()
    with torch.no_grad():
        module.a.fill_(kit.rank + 10.0)
        module.b.fill_(kit.rank + 20.0)
    model = kit.ddp(module)
    show([v(p) for p in module.parameters()], list(model.state_dict()), [n for n, _ in model.named_parameters()])
    with torch.no_grad():
        module.a.fill_(kit.rank + 10.0)
    kit.ddp(module, init_sync=False)
    show(v(module.a))
    for options in ({}, {"device_ids": ()}, {"output_device": 0}):  # type: ignore[var-annotated]
        model = kit.ddp(kit.chain(), **options)
        show(model.device_ids, model.output_device, model.dim, model.device, model.device_type, model.static_graph)
        show(model.bucket_bytes_cap, model.require_backward_grad_sync, model.find_unused_parameters)
    show(str(model).replace("\n", "|"))
    kit.outcome(lambda: kit.ddp(nn.ReLU()), 6)
    kit.outcome(lambda: kit.ddp(kit.chain(), device_ids=[0]), 7)
    kit.outcome(lambda: kit.ddp(kit.chain(), device_ids=[0, 1]), 7)
    kit.outcome(lambda: kit.ddp(nn.LazyLinear(2)), 6)
    kit.outcome(lambda: kit.ddp(3), 0)
    kit.outcome(lambda: kit.ddp(nn.Sequential(*[nn.Linear(2, 2) for _ in range(2 + kit.rank)])), 7)
    module = torch.nn.Sequential(kit.chain(3))
    kit.ddp._set_params_and_buffers_to_ignore_for_model(module, ["0.b"])
    model = kit.ddp(module)
    model(kit.x()).sum().backward()
    show(kit.grads(module))
    shared = kit.chain(2)
    shared.c = shared.a
    model = kit.ddp(shared)
    model(kit.x()).sum().backward()
    show(kit.grads(shared))


def copies(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    torch.manual_seed(kit.rank)
    module = torch.nn.Linear(2, 1)
    model = kit.ddp(module, find_unused_parameters=True)
    x = torch.ones(1, 2) * (kit.rank + 1)
    model(x).sum().backward()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    loaded = kit.ddp(torch.nn.Linear(2, 1))
    loaded.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        other.zero_grad()
        other(x).sum().backward()
        show(other.find_unused_parameters, v(other.module.weight), kit.grads(other), kit.grads(module))


def comm_hooks(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    dist = torch.distributed

    def ready(value: Any) -> Any:
        future = torch.futures.Future()
        future.set_result(value)
        return future

    def typed(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[no-untyped-def, name-defined]
        return ready(bucket.buffer() * state)

    def replaced(state, bucket):  # type: ignore[no-untyped-def]
        bucket.set_buffer(torch.full_like(bucket.buffer(), 9.0))
        show(v(bucket.buffer()), [v(g) for g in bucket.gradients()])
        return ready(bucket.buffer())

    def twice(state, bucket):  # type: ignore[no-untyped-def]
        def again(done: Any) -> Any:
            total = done.value()[0]
            dist.all_reduce(total)
            return total

        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(again)

    def failing(state, bucket):  # type: ignore[no-untyped-def]
        raise ValueError("no")

    def wrong(state, bucket: int): ...  # type: ignore[no-untyped-def]

    def wrong_result(state, bucket) -> int: ...  # type: ignore[no-untyped-def, empty-body]

    def train(state: Any, hook: Any, **options: Any) -> Any:
        module = kit.chain(3)
        model = kit.ddp(module, **options)
        model.register_comm_hook(state, hook)
        for _ in range(2):
            model(kit.x()).sum().backward()
        return kit.grads(module)

    for view in (False, True):
        kit.outcome(lambda: train(kit.rank + 2.0, typed, gradient_as_bucket_view=view))
        kit.outcome(lambda: train(None, replaced, gradient_as_bucket_view=view))
    kit.outcome(lambda: train(None, twice))
    for hook in (3, failing, wrong, wrong_result, lambda s, b: None, lambda s, bucket: ready([bucket.buffer()])):
        kit.outcome(lambda: train(None, hook), 3)
    model = kit.ddp(kit.chain())
    model.register_comm_hook(1.0, typed)
    kit.outcome(lambda: model.register_comm_hook(1.0, typed), 7)
    model = kit.ddp(kit.chain())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    model(kit.x()).sum().backward()
    show(kit.grads(model))


def built_in_hooks(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    base = torch.__name__ + ".distributed.algorithms.ddp_comm_hooks"
    default = importlib.import_module(base + ".default_hooks")
    power = importlib.import_module(base + ".powerSGD_hook")
    debugging = importlib.import_module(base + ".debugging_hooks")
    hooks = [
        (None, default.allreduce_hook), (None, default.fp16_compress_hook),
        (None, lambda state, bucket: default.bf16_compress_hook(state, bucket)),  # PyTorch wants NCCL for it by name
        (None, default.fp16_compress_wrapper(default.allreduce_hook)), (None, debugging.noop_hook),
        (power.PowerSGDState(None, start_powerSGD_iter=2), power.powerSGD_hook),
        (power.PowerSGDState(None, 2, 2, warm_start=False), power.powerSGD_hook),
        (power.PowerSGDState(None, 4, 2, use_error_feedback=False), power.powerSGD_hook),
    ]  # fmt: skip
    for state, hook in hooks:
        torch.manual_seed(1)
        module = torch.nn.Sequential(torch.nn.Linear(24, 16), torch.nn.Tanh(), torch.nn.Linear(16, 24))
        model = kit.ddp(module)
        model.register_comm_hook(state, hook)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for number in range(5):
            torch.manual_seed(10 * number + kit.rank)
            optimizer.zero_grad()
            (model(torch.randn(8, 24)) ** 2).mean().backward()
            optimizer.step()
        show([round(float(p.sum()), 3) for p in module.parameters()])
        show([[round(float(g), 4) for g in p.grad.reshape(-1)[:3]] for p in module.parameters()])
        if state is not None:
            show(state.iter, [round(float(x), 2) for x in state.compression_stats()])
    kit.outcome(lambda: power.PowerSGDState(None, start_powerSGD_iter=1), 7)


def local_sgd(torch: Any, show: Any) -> None:
    """Gradients that are averaged in a group, and parameters that are averaged every few steps."""
    kit = Kit(torch, show)
    name = torch.__name__ + ".distributed."
    hooks = importlib.import_module(name + "algorithms.ddp_comm_hooks.post_localSGD_hook")
    averagers = importlib.import_module(name + "algorithms.model_averaging.averagers")
    optimizers = importlib.import_module(name + "optim")
    alone = kit.dist.new_subgroups(group_size=1)[0]
    for reduces in (True, False):
        module = kit.chain(2)
        model = kit.ddp(module)
        state = hooks.PostLocalSGDState(None, alone, 2, post_local_gradient_allreduce=reduces)
        model.register_comm_hook(state, hooks.post_localSGD_hook)
        averager = averagers.PeriodicModelAverager(period=2, warmup_steps=1)
        optimizer = optimizers.PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), 0.01), averager)
        for _ in range(5):
            optimizer.zero_grad()
            model(kit.x()).sum().backward()
            optimizer.step()
            show(state.iter, kit.grads(module), [v(param) for param in module.parameters()])
        saved = optimizer.state_dict()
        show(sorted(saved), saved["step"], averager.step)
        averager.step = 0
        optimizer.load_state_dict(saved)
        show(averager.step, optimizer.param_groups[0]["lr"])
    for options in ((0, 0), (2, -1)):
        kit.outcome(lambda options=options: averagers.PeriodicModelAverager(*options))


def batched_power(torch: Any, show: Any) -> None:
    """PowerSGD with as many columns as rows is exact; run on undertow alone, as PyTorch's own fails on the CPU."""
    from undertow.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    kit = Kit(torch, show)
    for columns in (8, 1):
        torch.manual_seed(1)
        module = torch.nn.Linear(8, 7)
        plain = copy.deepcopy(module)
        model = kit.ddp(module)
        model.register_comm_hook(power.PowerSGDState(None, columns, 2), power.batched_powerSGD_hook)
        for _ in range(4):
            x = torch.randn(2 * kit.size, 8)
            model.zero_grad()
            plain.zero_grad()
            (model(x[2 * kit.rank : 2 * kit.rank + 2]) ** 2).sum().backward()
            (plain(x) ** 2).sum().div(kit.size).backward()
        pairs = zip(module.parameters(), plain.parameters(), strict=True)
        show(all(torch.allclose(p.grad, q.grad, atol=1e-4) for p, q in pairs))


def sparse(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    torch.manual_seed(0)
    nn = torch.nn
    module = nn.Sequential(nn.Embedding(5, 2, sparse=True), nn.Linear(2, 1))
    model = kit.ddp(module)
    for _ in range(2):
        model(torch.tensor([kit.rank, 1, 1])).sum().backward()
        show(module[0].weight.grad.is_sparse, v(module[0].weight.grad.to_dense()), kit.grads(module[1]))
        module.zero_grad()


def join(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    batches = 2 + 2 * kit.rank
    for options in ({}, {"divide_by_initial_world_size": False}):
        for wrap in ({}, {"find_unused_parameters": True}, {"bucket_cap_mb": 1e-7}):
            module = torch.nn.Sequential(kit.chain(), torch.nn.BatchNorm1d(1))
            model = kit.ddp(module, **wrap)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            with model.join(**options):
                for number in range(batches):
                    optimizer.zero_grad()
                    (model(torch.tensor([[1.0], [3.7 + kit.rank]])) ** 2).sum().backward()
                    optimizer.step()
                    show(number, kit.grads(module), v(module[1].running_mean))
            show([v(p) for p in module.parameters()], v(module[1].running_mean))
    module = kit.chain()
    model = kit.ddp(module)

    def throwing() -> None:
        with model.join(throw_on_early_termination=True):
            for _ in range(batches):
                model(kit.x()).sum().backward()

    kit.outcome(throwing, 4)


def sync_batch_norm(torch: Any, show: Any) -> None:
    """SyncBatchNorm against batch norm on all ranks' batches; PyTorch has it on GPUs only."""
    kit = Kit(torch, show)
    nn = torch.nn
    torch.manual_seed(3)
    plain = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2))
    module = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
    show([type(layer).__name__ for layer in module])
    model = kit.ddp(module)
    counts = [2 + rank for rank in range(kit.size)]
    begin = sum(counts[: kit.rank])
    for number in range(3):
        whole = torch.randn(sum(counts), 2, 4, 4).requires_grad_()
        mine = whole.detach()[begin : begin + counts[kit.rank]].requires_grad_()
        out, expected = model(mine), plain(whole)
        (out**2).sum().backward()
        (expected**2).sum().backward()
        close = lambda a, b: bool(torch.allclose(a, b, atol=1e-5))
        show(number, close(out, expected[begin : begin + counts[kit.rank]]))
        show(close(mine.grad, whole.grad[begin : begin + counts[kit.rank]]))
        show([close(p.grad * kit.size, q.grad) for p, q in zip(module.parameters(), plain.parameters(), strict=True)])
        show([close(p, q) for p, q in zip(module.buffers(), plain.buffers(), strict=True)])
        model.zero_grad()
        plain.zero_grad()
    show(close(model.eval()(whole), plain.eval()(whole)))
    for options in ({"affine": False}, {"track_running_stats": False}, {"momentum": None}):
        layer, other = nn.SyncBatchNorm(2, **options), nn.BatchNorm1d(2, **options)
        whole = torch.randn(3 * kit.size, 2).requires_grad_()
        mine = whole.detach()[3 * kit.rank : 3 * kit.rank + 3].requires_grad_()
        layer(mine).pow(3).sum().backward()
        other(whole).pow(3).sum().backward()
        show(close(mine.grad, whole.grad[3 * kit.rank : 3 * kit.rank + 3]))
        show([close(p, q) for p, q in zip(layer.buffers(), other.buffers(), strict=True)])


def sampler(torch: Any, show: Any) -> None:
    kit = Kit(torch, show)
    data = torch.utils.data
    dataset = data.TensorDataset(torch.arange(23.0))
    for options in ({}, {"shuffle": False}, {"drop_last": True}, {"seed": 7}):
        chosen = data.distributed.DistributedSampler(dataset, **options)
        show(len(chosen), chosen.num_replicas, chosen.rank, list(chosen))
        chosen.set_epoch(3)
        show(list(chosen))
    loader = data.DataLoader(dataset, batch_size=4, sampler=data.DistributedSampler(dataset))
    show([batch[0].tolist() for batch in loader])
    kit.outcome(lambda: data.DistributedSampler(dataset, 2, 2), 4)


def training(torch: Any, show: Any) -> None:
    """A hundred steps: the ranks' parameters stay bit-equal, and the losses are PyTorch's."""
    kit = Kit(torch, show)
    nn = torch.nn
    torch.manual_seed(kit.rank)
    module = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 3))
    model = kit.ddp(module, bucket_cap_mb=3e-4, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    torch.manual_seed(100 + kit.rank)
    for number in range(100):
        optimizer.zero_grad()
        x = torch.randn(8, 6)
        loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if number % 20 == 0:
            show(number, round(float(loss), 3))
    flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    everywhere = [torch.zeros_like(flat) for _ in range(kit.size)]
    kit.dist.all_gather(everywhere, flat)
    show([bool(torch.equal(each, flat)) for each in everywhere])


def warned(torch: Any, show: Any) -> None:
    """What undertow says where PyTorch is silent; run on undertow alone."""
    kit = Kit(torch, lambda *values: None)
    from undertow._src.base.sites import Once

    def told(call: Callable[[], Any]) -> None:
        Once.given.clear()
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            for _ in range(2):
                call()
        show([f"{str(each.message)[:80]} | {each.filename.rpartition('/')[2]}" for each in given])

    def stepping() -> None:
        module = kit.chain()

        def step(param: Any) -> None:
            with torch.no_grad():
                param.sub_(param.grad)

        module.a.register_post_accumulate_grad_hook(step)
        model = kit.ddp(module)
        model(kit.x()).sum().backward()

    def inner() -> None:
        model = kit.ddp(kit.chain())
        model.module(kit.x()).sum().backward()

    def second() -> None:
        model = kit.ddp(kit.chain())
        out = model(kit.x()).sum()
        out.backward(retain_graph=True)
        out.backward()

    def unused() -> None:
        model = kit.ddp(kit.chain(3, skip=(1,)))
        model(kit.x()).sum().backward()

    def healthy() -> None:
        module = kit.chain()
        model = kit.ddp(module)
        with model.no_sync():
            model(kit.x()).sum().backward()
        model(kit.x()).sum().backward()
        module.zero_grad()
        with torch.no_grad():
            module.a.mul_(2.0)
        model(kit.x()).sum().backward()
        several_backwards_of_halves()

    def several_backwards_of_halves() -> None:
        class Two(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a = torch.nn.Parameter(torch.ones(1))
                self.b = torch.nn.Parameter(torch.ones(1))

            def forward(self, x: Any) -> Any:
                return x * self.a, x * self.b

        model = kit.ddp(Two())
        y, z = model(kit.x())
        y.sum().backward()
        z.sum().backward()

    for call in (stepping, inner, second, unused, healthy):
        told(call)
