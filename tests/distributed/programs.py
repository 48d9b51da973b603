"""Programs that every rank of a pool runs, on undertow and on PyTorch; each shows what must be equal on both."""

from __future__ import annotations

import importlib
from typing import Any

FLOATS = ("float32", "float64", "bfloat16", "float16")
DTYPES = (*FLOATS, "int64", "int32", "bool", "uint8", "int8")


def _outcome(show: Any, title: str, call: Any) -> None:
    """Show a call's result, or the class of its error."""
    try:
        show(title, call())
    except Exception as error:
        show(title, type(error).__name__)


def all_reduce(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank = dist.get_rank()
    x = torch.arange(4.0) + rank
    version = x._version
    show(dist.all_reduce(x), x, x._version - version)
    for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
        for dtype in DTYPES:
            for count in (2, 5000):

                def reduced(op: str = op, dtype: str = dtype, count: int = count) -> Any:
                    y = (torch.ones(count) * (rank + 2)).to(getattr(torch, dtype))
                    dist.all_reduce(y, op=getattr(dist.ReduceOp, op))
                    return y[:2], y[-1], y.dtype

                _outcome(show, f"{op} {dtype} {count}", reduced)
    for count in (2, 5000):
        huge = torch.full((count,), 3e38)
        dist.all_reduce(huge)
        show(huge[-1])
    for tensor in (torch.ones(2, 3).t(), torch.ones(()), torch.ones(0), torch.ones(2) * (1 + 2j)):
        dist.all_reduce(tensor)
        show(tensor)


def work_handles(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank = dist.get_rank()
    x = torch.full((3,), float(rank))
    work = dist.all_reduce(x, async_op=True)
    show(work.wait(), work.is_completed(), x, work.get_future().wait())
    later = dist.all_reduce(x, async_op=True).get_future().then(lambda future: future.value()[0] * 10)
    show(later.wait(), x)
    works = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(20)]
    show([work.wait() for work in works])
    show(dist.barrier(), type(dist.barrier(async_op=True).wait()))


def gather_and_broadcast(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (3, 3000):
        for dtype in DTYPES:
            parts = [torch.zeros(count, dtype=getattr(torch, dtype)) for _ in range(size)]
            dist.all_gather(parts, torch.full((count,), rank + 1).to(getattr(torch, dtype)))
            show([part[-2:] for part in parts])
        for source in range(size):
            value = torch.full((count,), float(rank))
            dist.broadcast(value, source)
            show(value[-1])
    _outcome(show, "short list", lambda: dist.all_gather([torch.zeros(2)], torch.ones(2)))
    _outcome(show, "other size", lambda: dist.all_gather([torch.zeros(3)] * size, torch.ones(2)))
    _outcome(show, "no tensor", lambda: dist.all_reduce([1]))
    _outcome(show, "no op", lambda: dist.all_reduce(torch.ones(1), op="sum"))


def groups(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    show(dist.is_available(), dist.is_initialized(), size, dist.get_backend(), dist.get_process_group_ranks(None))
    for ranks in ([0], [1], [1, 0], None):
        group = dist.new_group(ranks)
        show(group == dist.GroupMember.NON_GROUP_MEMBER, dist.get_rank(group), dist.get_world_size(group))
        x = torch.full((2,), float(rank + 1))
        dist.all_reduce(x, group=group)
        show(x)
        if rank in (ranks or range(size)):
            show(dist.get_process_group_ranks(group), dist.get_global_rank(group, 0), dist.get_group_rank(group, rank))
    _outcome(show, "twice", lambda: dist.init_process_group("gloo"))
    _outcome(show, "no such rank", lambda: dist.new_group([0, 7]))


def scattering(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (2, 3000):
        for dtype in DTYPES:
            kind = getattr(torch, dtype)
            rows = [torch.full((count,), rank + 1 + number).to(kind) for number in range(size)]
            output, outputs = torch.zeros(count, dtype=kind), [torch.zeros(count, dtype=kind) for _ in range(size)]
            dist.reduce_scatter(output, rows)
            show("reduce_scatter", output[-2:])
            dist.reduce_scatter_tensor(output, torch.cat(rows), op=dist.ReduceOp.MAX)
            show("reduce_scatter_tensor", output[-2:])
            whole = torch.zeros(count * size, dtype=kind)
            dist.all_gather_into_tensor(whole, rows[0])
            show("all_gather_into_tensor", whole[:1], whole[-1:])
            for root in range(size):
                dist.gather(rows[1], outputs if rank == root else None, root)
                show("gather", [part[-1] for part in outputs])
                dist.scatter(output, rows if rank == root else None, root)
                show("scatter", output[-1])
                total = rows[0].clone()
                dist.reduce(total, root, op=dist.ReduceOp.PRODUCT)
                show("reduce", total[-1] if rank == root else None)
            dist.all_to_all(outputs, rows)
            show("all_to_all", [part[-1] for part in outputs])
            dist.all_to_all_single(whole, torch.cat(rows))
            show("all_to_all_single", whole[:1], whole[-1:])
    given = [[1, 3], [2, 2]][rank]
    uneven = torch.zeros(sum([1, 2] if rank == 0 else [3, 2]), 2)
    dist.all_to_all_single(uneven, torch.arange(8.0).reshape(4, 2) + 10 * rank, [[1, 2], [3, 2]][rank], given)
    show("splits", uneven)
    work = dist.all_gather_into_tensor(whole, rows[0], async_op=True)
    show(work.wait(), dist.reduce_scatter_tensor(output, whole, async_op=True).wait())
    _outcome(show, "no list at the root", lambda: dist.gather(output, None, rank))
    _outcome(show, "no list at the source", lambda: dist.scatter(output, None, rank))
    _outcome(show, "a list elsewhere", lambda: dist.gather(output, outputs, 1 - rank))
    _outcome(show, "wrong size", lambda: dist.all_gather_into_tensor(torch.zeros(5), torch.zeros(2)))


def messages(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank = dist.get_rank()
    other = 1 - rank
    for count in (3, 3000):
        x, y, z = torch.full((count,), float(rank)), torch.zeros(count), torch.zeros(count)
        if rank == 0:
            dist.send(x + 7, 1)
            show(dist.recv(y, 1), y[-1])
        else:
            show(dist.recv(y, 0), y[-1])
            dist.send(x + 8, 0)
        works = [dist.isend(x, other), dist.irecv(y, other)]
        show([work.wait() for work in works], y[-1])
        works = [dist.isend(x, other, tag=5), dist.isend(x + 10, other, tag=6)]
        works += [dist.irecv(z, other, tag=6), dist.irecv(y, other, tag=5)]
        show([work.wait() for work in works], y[-1], z[-1])
        ops = [dist.P2POp(dist.isend, x * 3, other), dist.P2POp(dist.irecv, y, other)]
        show([work.wait() for work in dist.batch_isend_irecv(ops)], y[-1])
        sent = dist.isend(x + 20, other)
        show(dist.recv(z), z[-1], sent.wait())
    group = dist.new_group([0, 1])
    works = [dist.isend(x, other, group=group), dist.irecv(y, other, group=group)]
    show([work.wait() for work in works], y[-1])
    _outcome(show, "to itself", lambda: dist.send(x, rank))
    _outcome(show, "from itself", lambda: dist.recv(x, rank))
    _outcome(show, "bad op", lambda: dist.P2POp(print, x, other))
    _outcome(show, "no ops", lambda: dist.batch_isend_irecv([]))


def objects(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (1, 5000):
        found: list[Any] = [None] * size
        dist.all_gather_object(found, {"rank": rank, "x": [rank] * count * rank})
        show(found[1]["rank"], len(found[1]["x"]), found[0])
        shared = ["a" * count, {1: torch.ones(2)}] if rank == 0 else [None, None]
        dist.broadcast_object_list(shared, 0)
        show(len(shared[0]), shared[1])
        dist.gather_object(("x", rank), found if rank == 1 else None, 1)
        show(found[0] if rank == 1 else None)
        part: list[Any] = [None]
        dist.scatter_object_list(part, ["p" * count, "q"] if rank == 0 else None, 0)
        show(len(part[0]), part[0][0])
        if rank == 0:
            dist.send_object_list(["hi", 3], 1)
        else:
            received = [None, None]
            show(dist.recv_object_list(received, 0), received)
    show(dist.monitored_barrier())


def coalesced(torch: Any, show: Any) -> None:
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    a, b = torch.ones(2), torch.ones(3) * rank
    show(dist.all_reduce_coalesced([a, b]), a, b)
    lists = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
    show(dist.all_gather_coalesced(lists, [a * rank, b]), lists)
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(a)
        dist.all_reduce(b)
    show(manager.wait(), a, b)


def with_gradients(torch: Any, show: Any) -> None:
    dist = torch.distributed
    functional = __import__(f"{torch.__name__}.distributed.nn.functional", fromlist=["all_reduce"])
    rank, size = dist.get_rank(), dist.get_world_size()

    def both(title: str, call: Any) -> None:
        x = torch.arange(1.0, 3.0).requires_grad_()
        result = call(x * (rank + 1))
        parts = result if isinstance(result, tuple) else (result,)
        weights = [torch.arange(1.0, 3.0) * (rank + 2 + number) for number in range(len(parts))]
        torch.autograd.backward(parts, weights)
        show(title, result, x.grad)

    both("all_reduce", functional.all_reduce)
    both("all_reduce max", lambda x: functional.all_reduce(x, dist.ReduceOp.MAX))
    for root in range(size):
        both("broadcast", lambda x, root=root: functional.broadcast(x, root))
        both("reduce", lambda x, root=root: functional.reduce(x.clone(), root) * (rank == root))
        both("gather", lambda x, root=root: functional.gather(x, root))
        both("scatter", lambda x, root=root: functional.scatter([x * 2, x * 3], root))
    both("all_gather", functional.all_gather)
    both("reduce_scatter", lambda x: functional.reduce_scatter(torch.zeros(2), [x * 2, x * 3]))
    both("all_to_all", lambda x: functional.all_to_all([torch.zeros(2), torch.zeros(2)], [x * 2, x * 3]))
    both("all_to_all_single", lambda x: functional.all_to_all_single(torch.zeros(2), x * 2))


def stores(torch: Any, show: Any) -> None:
    from datetime import timedelta

    dist = torch.distributed
    rank = dist.get_rank()
    ports: list[Any] = [None]
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
        ports = [store.port]
    dist.broadcast_object_list(ports, 0)
    if rank == 1:
        store = dist.TCPStore("127.0.0.1", ports[0], 2, False, wait_for_workers=False)
        store.set("from 1", b"\x00\xff")
    store.add("count", rank + 1)
    dist.barrier()
    show(store.get("from 1"), store.add("count", 0), store.check(["count"]), store.check(["no", "count"]), store.host)
    if rank == 0:
        show(store.compare_set("key", "", "a"), store.compare_set("key", "b", "c"), store.compare_set("key", "a", "d"))
        show(store.compare_set("missing", "expected", "x"), store.check(["missing"]), store.delete_key("key"))
        show(store.delete_key("key"))
    dist.barrier()
    prefixed = dist.PrefixStore("p", store)
    prefixed.set(f"k{rank}", str(rank))
    show(prefixed.get(f"k{1 - rank}"), store.get(f"p/k{rank}"))
    store.append("log", "x")
    dist.barrier()
    show(store.get("log"), store.multi_get(["log", "count"]))
    _outcome(show, "wait", lambda: store.wait(["never"], timedelta(milliseconds=50)))
    store.set_timeout(timedelta(milliseconds=50))
    _outcome(show, "get", lambda: store.get("never"))
    memory = dist.HashStore()
    memory.set("a", "b")
    show(
        memory.get("a"), memory.num_keys(), memory.delete_key("a"), memory.add("c", 2), memory.get("c"), memory.timeout
    )


def meshes(torch: Any, show: Any) -> None:
    dist = torch.distributed
    module = __import__(f"{torch.__name__}.distributed.device_mesh", fromlist=["init_device_mesh"])
    rank = dist.get_rank()
    mesh = module.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    show(mesh, mesh.mesh, mesh.get_rank(), mesh.get_local_rank(), mesh.size(), mesh.ndim, mesh.shape, mesh["dp"])
    x = torch.ones(1) * rank
    dist.all_reduce(x, group=mesh.get_group())
    show(x, mesh.get_group("dp") is mesh.get_group(0), mesh.get_coordinate())
    mesh = module.init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))
    show(mesh, mesh["a"], mesh["b"], mesh["a", "b"], mesh.get_coordinate(), mesh["a"].size(), mesh._flatten())
    for dim in ("a", "b"):
        show(dist.get_process_group_ranks(mesh.get_group(dim)), mesh[dim].mesh, mesh.get_local_rank(dim))
    show(module.DeviceMesh("cpu", [0, 1]) == module.init_device_mesh("cpu", (2,)), mesh == mesh["a"])
    _outcome(show, "no such dim", lambda: mesh["c"])
    _outcome(show, "which dim", lambda: mesh.get_group())
    _outcome(show, "too large", lambda: module.init_device_mesh("cpu", (3,)))
    _outcome(show, "names", lambda: module.init_device_mesh("cpu", (2, 1), mesh_dim_names=("a",)))
    _outcome(show, "same names", lambda: module.init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "a")))


def functional(torch: Any, show: Any) -> None:
    """Show the collectives that return new tensors, their gradients, and the forms of a group."""
    dist = torch.distributed
    collectives = importlib.import_module(f"{torch.__name__}.distributed._functional_collectives")
    rank, world = dist.get_rank(), dist.group.WORLD
    mesh = importlib.import_module(f"{torch.__name__}.distributed.device_mesh").init_device_mesh("cpu", (2,))
    for group in (world, mesh, (mesh, 0), [0, 1]):
        show(collectives.all_reduce(torch.ones(2) * (rank + 1), "sum", group) + 0)
    for op in ("avg", "max", "min", "product", "SUM", "other"):
        _outcome(show, op, lambda op=op: collectives.all_reduce(torch.ones(2) * (rank + 1), op, world) + 0)
    x = torch.arange(8.0).reshape(2, 4) + rank
    for dim in (0, 1):
        show(
            collectives.all_gather_tensor(x, dim, world) + 0,
            collectives.reduce_scatter_tensor(x, "sum", dim, world) + 0,
        )
    _outcome(show, "uneven", lambda: collectives.reduce_scatter_tensor(torch.ones(3), "sum", 0, world))
    sizes = [1, 2] if rank == 0 else [2, 1]
    show(collectives.all_to_all_single(torch.arange(3.0) + 10 * rank, sizes, sizes, world) + 0)
    show(collectives.broadcast(x, 1, world) + 0, x)
    for run in (
        lambda y: collectives.all_gather_tensor_autograd(y, 0, world),
        lambda y: collectives.reduce_scatter_tensor_autograd(y, "sum", 0, world),
        lambda y: collectives.all_to_all_single_autograd(y, [2, 2], [2, 2], world),
        lambda y: collectives.all_reduce(y, "sum", world),
    ):
        leaf = torch.ones(4, requires_grad=True)
        result = run(leaf * (rank + 1))
        (result * torch.arange(float(len(result))) * (rank + 1)).sum().backward()
        show(leaf.grad)


def first_words(torch: Any, show: Any) -> None:
    """Show how the errors of wrong calls begin, and the sum of sparse tensors."""
    dist = torch.distributed
    ones, size = torch.ones(1), dist.get_world_size()
    for call in (
        lambda: dist.all_gather([ones], ones),
        lambda: dist.all_gather([torch.ones(2)] * size, ones),
        lambda: dist.broadcast(ones, 9),
        lambda: dist.reduce(ones, 9),
        lambda: dist.new_group([0, 5]),
        lambda: dist.new_group([0, 0]),
        lambda: dist.new_group(backend="none"),
        lambda: dist.all_gather([ones, ones.long()], ones),
        lambda: dist.reduce_scatter(ones, [ones.long()] * size),
        lambda: dist.all_to_all_single(torch.zeros(2), torch.zeros(2).long()),
        lambda: dist.scatter(ones, [ones] * 3, src=dist.get_rank()),
        lambda: dist.gather(ones, [ones] * 3, dst=dist.get_rank()),
    ):
        try:
            call()
        except Exception as error:
            show(type(error).__name__, " ".join(str(error).split()[:3]).rstrip("."))
    sparse = torch.sparse_coo_tensor([[0, 2]], [1.0 + dist.get_rank(), 2.0], (4,))
    dist.all_reduce(sparse)
    show(sparse.to_dense())
