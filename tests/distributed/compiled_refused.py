"""Steps that can't be compiled on ranks, or not on one of them."""

import importlib
from collections.abc import Callable
from typing import Any

from tests.distributed.compiled_programs import v
from tests.distributed.ddp_programs import Kit


def refused(torch: Any, show: Any) -> None:
    """What can't be compiled is refused, on every rank; run on undertow alone."""
    kit = Kit(torch, lambda *values: None)
    dist = kit.dist

    def attempt(step: Callable[..., Any], *args: Any) -> None:
        try:
            show("ran", (step if hasattr(step, "programs") else torch.compile(step))(*args))
        except Exception as error:
            show(type(error).__name__, str(error).replace("\n", " | "))

    def trained(model: Any) -> Callable[[Any], None]:
        def step(x: Any) -> None:
            model(x).sum().backward()

        return step

    attempt(trained(kit.ddp(kit.chain(3, skip=(1,)))), kit.x())

    def halved(state, bucket):  # type: ignore[no-untyped-def]
        return dist.all_reduce(bucket.buffer() / 2, async_op=True).get_future().then(lambda done: done.value()[0])

    chain = kit.chain(3, skip=(kit.rank,))
    attempt(trained(kit.ddp(chain, find_unused_parameters=True, bucket_cap_mb=1e-7)), kit.x())
    model = kit.ddp(chain, find_unused_parameters=True)
    model.register_comm_hook(None, halved)
    attempt(trained(model), kit.x())
    model = kit.ddp(chain, find_unused_parameters=True)
    model.register_comm_hook(None, kit.comm())
    attempt(trained(model), kit.x())
    chain.skip = (1,)
    run = torch.compile(trained(kit.ddp(chain, static_graph=True)))
    run(kit.x())
    chain.skip = ()
    attempt(run, kit.x())
    powers = importlib.import_module(torch.__name__ + ".distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
    model = kit.ddp(kit.chain())
    model.register_comm_hook(powers.PowerSGDState(None), powers.powerSGD_hook)
    attempt(trained(model), kit.x())
    model = kit.ddp(kit.chain(), bucket_cap_mb=1e-7)
    model.register_comm_hook(None, halved)
    attempt(trained(model), kit.x())
    trained(model)(kit.x())
    trained(model)(kit.x())
    attempt(trained(model), kit.x())
    model = kit.ddp(kit.chain())
    attempt(lambda x: model(x).sum(), kit.x())
    attempt(lambda x: dist.barrier(), kit.x())

    def receives(x: Any, y: Any) -> Any:
        if kit.rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(y, 0)
        return y * 2

    def told(x: Any) -> Any:
        objects = [kit.rank + 5]
        dist.broadcast_object_list(objects, src=0)
        return x * objects[0]

    attempt(receives, kit.x(), kit.x())
    attempt(told, kit.x())

    def differs(x: Any) -> Any:
        x = x + 1
        dist.all_reduce(x)
        if kit.rank == 0:
            dist.all_reduce(x, op=dist.ReduceOp.MAX)
        else:
            dist.broadcast(x, src=0)
        return x

    attempt(differs, kit.x())
    options = {"late": False}

    def raises(x: Any) -> Any:
        x = x + 1
        dist.all_reduce(x)
        if options["late"]:
            raise ValueError("only here")
        return x

    run = torch.compile(raises)
    run(kit.x())
    options["late"] = kit.rank == 1
    try:
        run(kit.x())
    except Exception as error:
        show(type(error).__name__, str(error).replace("\n", " | "))
    again = kit.x()
    dist.all_reduce(again)
    show(v(again))
