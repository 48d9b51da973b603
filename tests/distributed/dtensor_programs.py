"""Distributed tensors: programs that every rank of a pool runs, on undertow and on PyTorch."""

from __future__ import annotations

import copy
import importlib
from typing import Any
from unittest.mock import patch


class Kit:
    """What the programs share: the modules, a mesh, and short descriptions of tensors."""

    def __init__(self, torch: Any, show: Any) -> None:
        self.torch, self.show, self.dist = torch, show, torch.distributed
        self.T = importlib.import_module(f"{torch.__name__}.distributed.tensor")
        self.meshes = importlib.import_module(f"{torch.__name__}.distributed.device_mesh")
        self.rank, self.size = self.dist.get_rank(), self.dist.get_world_size()
        self.mesh = self.meshes.init_device_mesh("cpu", (self.size,))
        self.S, self.R, self.P = self.T.Shard, self.T.Replicate(), self.T.Partial

    def v(self, value: Any) -> Any:
        """Describe a tensor: placements, shapes and values, rounded."""
        if isinstance(value, self.T.DTensor):
            return (value.placements, tuple(value.shape), value.stride(), self.v(value.to_local()))
        if isinstance(value, self.torch.Tensor):
            return tuple(value.shape), [round(float(x), 4) + 0.0 for x in value.detach().reshape(-1)[:6]]
        if isinstance(value, (list, tuple)):
            return [self.v(each) for each in value]
        return round(value, 4) if isinstance(value, float) else value

    def outcome(self, call: Any, words: int = 5) -> None:
        """Show a call's result, or the class and first words of its error."""
        try:
            self.show(self.v(call()))
        except Exception as error:
            self.show(type(error).__name__, " ".join(str(error).replace(":", "").split()[:words]))


def layouts(torch: Any, show: Any) -> None:
    """Distribute, redistribute and gather tensors of even and uneven sizes."""
    kit = Kit(torch, show)
    T, mesh = kit.T, kit.mesh
    S, R, P = kit.S, kit.R, kit.P
    show(repr(S(1)), str(S(1)), R, repr(R), P(), repr(P("avg")), S(0) == S(0), S(0) == S(1), hash(S(1)) == hash(S(1)))
    show(S(0).is_shard(), S(0).is_shard(1), R.is_replicate(), P().is_partial(), R.is_partial(), P().reduce_op)
    for shape in ((5, 3), (4, 2), (1, 6), (3,)):
        whole = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        choices = [[S(0)], [R], [S(-1)]]
        for before in choices:
            tensor = T.distribute_tensor(whole, mesh, before)
            show(tensor)
            kit.outcome(lambda tensor=tensor: (tensor, tensor.full_tensor()))
            for after in (*choices, [P()]):
                kit.outcome(lambda tensor=tensor, after=after: tensor.redistribute(mesh, after))
    for op in ("sum", "avg", "max", "min", "product"):
        terms = T.DTensor.from_local(torch.ones(3, 2) * (kit.rank + 1), mesh, [P(op)])
        kit.outcome(lambda: (terms.full_tensor(), terms.redistribute(placements=[S(0)]), terms))
    for make in (T.ones, T.zeros):
        for placements in ([S(0)], [R], None):
            kit.outcome(lambda: make(5, 3, device_mesh=mesh, placements=placements))
            kit.outcome(lambda: make((2, 2), dtype=torch.int64, device_mesh=mesh, placements=placements))
    kit.outcome(lambda: T.full((5,), 3.0, device_mesh=mesh, placements=[S(0)], requires_grad=True))
    kit.outcome(lambda: tuple(T.empty((5, 2), device_mesh=mesh, placements=[S(0)]).to_local().shape))
    kit.outcome(lambda: T.distribute_tensor(torch.ones(4), mesh, [S(2)]))
    kit.outcome(lambda: T.distribute_tensor(torch.ones(4), mesh, [S(0), S(0)]))
    kit.outcome(lambda: T.distribute_tensor(torch.ones(4, requires_grad=True) * 2, mesh, [S(0)]))
    kit.outcome(lambda: T.DTensor.from_local(torch.ones(4), mesh, [S(3)]))
    kit.outcome(lambda: T.DTensor.from_local(torch.ones(3 - kit.rank), mesh, [S(0)], shape=(5,), stride=(1,)))
    kit.outcome(lambda: T.DTensor.from_local(torch.ones(2, 3), mesh))
    made = T.DTensor.from_local(torch.ones(2, 3), mesh, [S(1)])
    show(made.size(), made.stride(), made.numel(), made.dtype, made.device, made.is_leaf, made._spec, made.device_mesh)
    again = copy.deepcopy(made)
    show(again, again.placements, again._local_tensor is made._local_tensor, len(made), made.ndim)


def meshes(torch: Any, show: Any) -> None:
    """Meshes of two dims, nested splits included; for four ranks."""
    kit = Kit(torch, show)
    T, S, R, P = kit.T, kit.S, kit.R, kit.P
    mesh = kit.meshes.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    whole = torch.arange(35.0).reshape(7, 5)
    choices = [[S(0), S(0)], [S(0), S(1)], [S(1), S(0)], [R, S(0)], [S(0), R], [R, R], [S(1), S(1)]]
    for before in choices:
        tensor = T.distribute_tensor(whole, mesh, before)
        kit.outcome(lambda: (tensor, tensor.full_tensor()))
        for after in choices:
            kit.outcome(lambda: tensor.redistribute(placements=after))
        kit.outcome(lambda: (tensor + tensor * 2, tensor.sum(1), tensor.t()))
        kit.outcome(lambda: tensor.sum().full_tensor())
        kit.outcome(lambda: (tensor @ tensor.t()).full_tensor())
    terms = T.DTensor.from_local(torch.ones(2, 2) * (kit.rank + 1), mesh, [P(), S(0)])
    kit.outcome(lambda: (terms, terms.full_tensor(), terms.redistribute(placements=[S(1), R])))
    inner = T.distribute_tensor(whole, mesh["tp"], [S(0)])
    kit.outcome(lambda: (inner, inner.full_tensor()))


def operators(torch: Any, show: Any) -> None:
    """Operators on equal and different placements, and what comes out of them."""
    kit = Kit(torch, show)
    T, mesh, S, R, P = kit.T, kit.mesh, kit.S, kit.R, kit.P
    x = torch.arange(24.0).reshape(6, 4) / 10
    a, b, c = (T.distribute_tensor(x, mesh, placements) for placements in ([S(0)], [S(1)], [R]))
    p = T.DTensor.from_local(torch.ones(2, 4) * (kit.rank + 1), mesh, [P()])
    row = T.distribute_tensor(torch.arange(4.0), mesh, [R])
    split_row = T.distribute_tensor(torch.arange(4.0), mesh, [S(0)])
    F, vector_norm = torch.nn.functional, torch.linalg.vector_norm
    for call in (
        lambda: a + a, lambda: a + b, lambda: a + c, lambda: c + b, lambda: a * 2 + 1, lambda: a + row,
        lambda: b + split_row,
        lambda: row + b, lambda: a + torch.ones(6, 4), lambda: a + torch.tensor(2.0), lambda: a.exp(),
        lambda: a.clamp(0.5, 1),
        lambda: a**2, lambda: a > 1, lambda: torch.where(a > 1, a, a * 0), lambda: F.gelu(a), lambda: F.silu(b),
        lambda: a.lerp(b, 0.5), lambda: torch.addcmul(a, b, c), lambda: a.to(torch.float64), lambda: a.clone(),
        lambda: a.detach(), lambda: torch.ones_like(a), lambda: torch.zeros_like(p), lambda: torch.full_like(b, 3.0),
        lambda: p * 2, lambda: p + p, lambda: p * p, lambda: -p, lambda: p / 2, lambda: p.relu(), lambda: p.exp(),
        lambda: p * c[:2],
        lambda: a.sum(), lambda: a.sum(0), lambda: a.sum(1), lambda: a.sum(0, keepdim=True), lambda: b.sum(-1),
        lambda: p.sum(),
        lambda: a.mean(), lambda: a.mean(0), lambda: b.mean(0), lambda: a.max(), lambda: a.amax(0), lambda: a.min(),
        lambda: a.prod(0), lambda: a.norm(), lambda: vector_norm(a), lambda: vector_norm(b, 1),
        lambda: vector_norm(a).full_tensor(),
        lambda: vector_norm(a, float("inf")), lambda: a.std(), lambda: a.var(0), lambda: a.argmax(), lambda: a.sum().item(),
        lambda: a.t(), lambda: a.permute(1, 0), lambda: a.transpose(0, 1), lambda: a.unsqueeze(0),
        lambda: a.unsqueeze(0).squeeze(0),
        lambda: a.view(6, 2, 2), lambda: a.reshape(24), lambda: b.view(2, 3, 4), lambda: a.flatten(),
        lambda: row.expand(6, 4),
        lambda: a[0], lambda: a[:, 0], lambda: a[1:3], lambda: a.chunk(2, 1), lambda: a.split(4), lambda: torch.cat([a, a]),
        lambda: torch.stack([a, a]), lambda: a @ b.t(), lambda: a.t() @ a, lambda: a @ c.t(), lambda: c @ b.t(),
        lambda: b @ b.t(),
        lambda: p @ c.t(), lambda: torch.addmm(row[:1], a, c.t()), lambda: torch.bmm(a.unsqueeze(0), c.t().unsqueeze(0)),
        lambda: F.linear(c, a), lambda: F.linear(a, c, T.distribute_tensor(torch.ones(6), mesh, [R])),
        lambda: F.linear(c, a, T.distribute_tensor(torch.ones(6), mesh, [S(0)])), lambda: F.linear(b, b, None),
        lambda: a.softmax(1), lambda: a.softmax(0), lambda: a.log_softmax(-1), lambda: F.layer_norm(a, (4,)),
        lambda: a.cumsum(0),
        lambda: a.cumsum(1), lambda: a.topk(1), lambda: a.sort(0), lambda: F.mse_loss(a, a * 2), lambda: torch.equal(a, a),
        lambda: torch.equal(a.sum(), torch.tensor(2.0)), lambda: torch.equal(a.sum(), a.sum().full_tensor()),
        lambda: a.t().contiguous(), lambda: a.full_tensor().shape,
        lambda: torch.equal(a, a + 1), lambda: bool(a.sum() > 1), lambda: a.clone().add_(1), lambda: a.clone().add_(b),
        lambda: a.clone().fill_(3), lambda: a.clone().zero_(), lambda: a.clone().copy_(b), lambda: a.tolist(),
        lambda: a.numpy(), lambda: a.roll(1, 0), lambda: a.tril(),
        lambda: F.embedding(T.distribute_tensor(torch.tensor([0, 2]), mesh), b),
    ):  # fmt: skip
        kit.outcome(call)


def gradients(torch: Any, show: Any) -> None:
    """Gradients through from_local, to_local, redistribute and full_tensor, and of operators."""
    kit = Kit(torch, show)
    T, mesh, S, R, P = kit.T, kit.mesh, kit.S, kit.R, kit.P
    weights = torch.arange(1.0, 13) * (kit.rank + 1)
    choices = [[S(0)], [R], [P()]]
    for before in choices:
        for after in choices:

            def through(end: Any, before: Any = before) -> Any:
                x = torch.arange(4.0).add(kit.rank).requires_grad_()
                out = end(T.DTensor.from_local(x, mesh, before))
                (out * weights[: out.numel()]).sum().backward()
                return x.grad

            kit.outcome(lambda after=after: through(lambda d: d.redistribute(mesh, after).to_local()))
        kit.outcome(lambda: through(lambda d: d.full_tensor()))
        kit.outcome(lambda: through(lambda d: d.full_tensor(grad_placements=[P()])))
        kit.outcome(lambda: through(lambda d: d.to_local(grad_placements=[R])))
    for placements in choices[:2]:
        p = torch.nn.Parameter(T.distribute_tensor(torch.arange(4.0), mesh, placements))
        show(p, isinstance(p, torch.nn.Parameter), type(p).__name__, p.requires_grad)
        for loss in (
            lambda: (p * p).sum(), lambda: (p * 2).sum().full_tensor(), lambda: p.to_local().sum(),
            lambda: p.to_local().mul(3).sum(),
            lambda: (p.exp() / p.sum()).mean().full_tensor(), lambda: p.softmax(0).square().sum(),
            lambda: p.view(2, 2).t()[0].sum(),
        ):  # fmt: skip
            p.grad = None
            kit.outcome(lambda: (loss().backward(), p.grad)[1].full_tensor())
            kit.outcome(lambda: (loss().backward(), p.grad)[1].full_tensor())
    p = torch.nn.Parameter(T.distribute_tensor(torch.arange(4.0), mesh, [S(0)]))
    p.register_hook(lambda g: show("hook", kit.v(g)))
    p.register_post_accumulate_grad_hook(lambda q: show("post", kit.v(q.grad)))
    (p * p).sum().backward()
    kit.outcome(lambda: torch.autograd.grad((p * p).sum(), p)[0])


def modules(torch: Any, show: Any) -> None:
    """Modules with distributed parameters, and optimizers that update them."""
    kit = Kit(torch, show)
    T, mesh, S = kit.T, kit.mesh, kit.S

    def split(name: str, module: Any, mesh: Any) -> None:
        for key, param in list(module.named_parameters(recurse=False)):
            module.register_parameter(key, torch.nn.Parameter(T.distribute_tensor(param, mesh, [S(0)])))

    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    torch.manual_seed(0)
    for param in plain.parameters():
        torch.nn.init.normal_(param)
    whole = T.distribute_module(copy.deepcopy(plain), mesh)
    show([(name, param.placements) for name, param in whole.named_parameters()])
    out = whole(T.distribute_tensor(torch.ones(2, 4), mesh, [S(0)]))
    show(kit.v(out))
    out.sum().full_tensor().backward()
    show([kit.v(param.grad.full_tensor()) for param in whole.parameters()])
    for name, options in (
        ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}), ("Adam", {"lr": 0.01}),
        ("AdamW", {"lr": 0.01, "foreach": True}),
        ("Adagrad", {"lr": 0.01}), ("RMSprop", {"lr": 0.01}), ("Adamax", {"lr": 0.01}), ("NAdam", {"lr": 0.01}),
        ("RAdam", {"lr": 0.01}), ("Adadelta", {"lr": 0.01}), ("ASGD", {"lr": 0.01}),
    ):  # fmt: skip
        model = T.distribute_module(
            copy.deepcopy(plain), mesh, split,
            input_fn=lambda module, inputs, mesh: T.DTensor.from_local(inputs[0], mesh, [kit.R]),
            output_fn=lambda module, output, mesh: output.full_tensor(),
        )  # fmt: skip
        optimizer = getattr(torch.optim, name)(model.parameters(), **options)
        for step in range(3):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4) + step).square().mean() / 50
            loss.backward()
            optimizer.step()
        show(name, kit.v(loss), [kit.v(param) for param in model.parameters()])
        show({key: kit.v(value) for key, value in optimizer.state[model[0].weight].items()})
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    show(kit.v(norm), [kit.v(param.grad.full_tensor()) for param in model.parameters()])
    show([(key, kit.v(value)) for key, value in model.state_dict().items()])


def communication(torch: Any, show: Any) -> None:
    """Which collectives redistribution and styles of tensor parallelism call, in forward and backward."""
    kit = Kit(torch, show)
    P = importlib.import_module(f"{torch.__name__}.distributed.tensor.parallel")
    nn, mesh, S, R = torch.nn, kit.mesh, kit.S, kit.R

    def counted(call: Any) -> Any:
        if torch.__name__ == "torch":
            with importlib.import_module("torch.distributed.tensor.debug").CommDebugMode() as mode:
                result = call()
            ops = [str(op).rpartition(".")[2] for op, count in mode.get_comm_counts().items() for _ in range(count)]
        else:
            ops = []
            groups = importlib.import_module("undertow._src.distributed.groups").ProcessGroup
            start = groups.start

            def counting(self: Any, op: str, *args: Any, **kwargs: Any) -> Any:
                ops.append(op)
                return start(self, op, *args, **kwargs)

            with patch.object(groups, "start", counting):
                result = call()
        show("  calls", sorted(op.replace("_into_tensor", "").replace("_tensor", "") for op in ops))
        return result

    whole = torch.arange(20.0).view(5, 4)
    for before in (S(0), S(1), R, kit.P(), kit.P("max")):
        for after in (S(0), S(1), R):
            tensor = _placed(kit, whole, before).requires_grad_()
            moved = counted(lambda: tensor.redistribute(mesh, [after]))
            show(before, after, kit.v(moved))
            counted(lambda: moved.to_local().sum().backward())
        tensor = _placed(kit, whole, before)
        show("cat", before, kit.v(counted(lambda: torch.cat([tensor, tensor], 1))))
    column, row, x = P.ColwiseParallel, P.RowwiseParallel, torch.arange(32.0).view(2, 4, 4).div(10)
    for layers, plan in (
        ((nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)), {"0": column(), "2": row()}),
        ((nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)), {"0": column(input_layouts=S(1)), "2": row(output_layouts=S(1))}),
        ((nn.Embedding(5, 4),), {"0": row(input_layouts=R)}),
        (
            (nn.Embedding(5, 4), nn.LayerNorm(4)),
            {"0": row(input_layouts=R, output_layouts=S(1)), "1": P.SequenceParallel()},
        ),
    ):  # fmt: skip
        for layer in layers:
            for param in layer.parameters():
                nn.init.constant_(param, 0.5) if param.dim() == 1 else nn.init.normal_(
                    param, generator=torch.Generator().manual_seed(1)
                )
        model = P.parallelize_module(nn.Sequential(*layers), mesh, plan)
        given = torch.tensor([[0, 4, 2, 3]]) if isinstance(layers[0], nn.Embedding) else x.clone().requires_grad_()
        out = counted(lambda: model(given))
        counted(lambda: out.square().sum().backward())
        show(kit.v(out), kit.v(given.grad), [kit.v(param.grad) for param in model.parameters()])


def _placed(kit: Kit, whole: Any, placement: Any) -> Any:
    """Return a distributed tensor whose parts are those of `whole`, or whose terms are."""
    if placement.is_partial():
        return kit.T.DTensor.from_local(whole + kit.rank, kit.mesh, [placement])
    return kit.T.distribute_tensor(whole, kit.mesh, [placement])


def parallel_styles(torch: Any, show: Any) -> None:
    """Tensor parallelism of a block: split layers, sequences, inputs and outputs."""
    kit = Kit(torch, show)
    P = importlib.import_module(f"{torch.__name__}.distributed.tensor.parallel")
    nn, mesh, S, R = torch.nn, kit.mesh, kit.S, kit.R

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(4)
            self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x: Any, scale: Any = None) -> Any:
            return self.down(self.up(self.norm(x)).relu()) * (1 if scale is None else scale)

    def made() -> Any:
        torch.manual_seed(0)
        return nn.ModuleDict({"emb": nn.Embedding(6, 4), "one": Block(), "two": Block(), "head": nn.Linear(4, 6)})

    def run(model: Any) -> list[Any]:
        x = model["emb"](torch.tensor([[0, 1, 2, 3], [5, 4, 1, 0]]))
        out = model["head"](model["two"](model["one"](x)))
        out.square().mean().backward()
        return [kit.v(out), *[(key, kit.v(param.grad)) for key, param in model.named_parameters()]]

    column, row = P.ColwiseParallel, P.RowwiseParallel
    show(run(made()))
    show(run(P.parallelize_module(made(), mesh, {
        "emb": column(output_layouts=R), "*.up": column(), "*.down": row(), "head": column(output_layouts=R),
    })))  # fmt: skip
    sequence = P.parallelize_module(made(), mesh, {
        "*.norm": P.SequenceParallel(), "*.up": column(input_layouts=S(1)), "*.down": row(output_layouts=S(1)),
        "one": P.PrepareModuleInput(input_layouts=(R,), desired_input_layouts=(S(1),), use_local_output=True),
        "two": P.PrepareModuleOutput(output_layouts=S(1), desired_output_layouts=R),
    })  # fmt: skip
    show(run(sequence))
    alone = P.parallelize_module(made()["one"], mesh, {"up": column(), "down": row(use_local_output=False)})
    show(kit.v(alone(torch.ones(2, 4))))
    kit.outcome(lambda: P.parallelize_module(nn.ReLU(), mesh, column()), 4)
    kit.outcome(lambda: P.parallelize_module(nn.Linear(2, 2), mesh, 3), 2)
    kit.outcome(lambda: P.PrepareModuleInput(input_layouts=(R,)), 3)
