"""torch.distributed.checkpoint: programs for one process, and programs that every rank of a pool runs."""

from __future__ import annotations

import importlib
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any


class Kit:
    """What the programs share: modules, a model, and short descriptions of tensors."""

    def __init__(self, torch: Any, show: Any) -> None:
        def module(name: str) -> Any:
            return importlib.import_module(f"{torch.__name__}.distributed.{name}")

        self.torch, self.show, self.dist = torch, show, torch.distributed
        self.dcp, self.states = module("checkpoint"), module("checkpoint.state_dict")
        self.T, self.F, self.meshes = module("tensor"), module("fsdp"), module("device_mesh")
        self.Zero = module("optim").ZeroRedundancyOptimizer
        self.Options = self.states.StateDictOptions

    def v(self, value: Any) -> Any:
        """Describe a tensor, or what has tensors in it."""
        if isinstance(value, self.T.DTensor):
            return (value.placements, tuple(value.shape), self.v(value.to_local()))
        if isinstance(value, self.torch.Tensor):
            return (tuple(value.shape), [round(float(x), 4) + 0.0 for x in value.detach().reshape(-1)[:6].float()])
        if isinstance(value, dict):
            return {key: self.v(each) for key, each in value.items()}
        return [self.v(each) for each in value] if isinstance(value, (list, tuple)) else value

    def outcome(self, call: Any) -> None:
        """Show a call's result, or its error: of a failed save or load, each rank's class and first words."""
        try:
            found = call()
            self.show(
                "ok", sorted(found.state_dict_metadata) if hasattr(found, "state_dict_metadata") else self.v(found)
            )
        except self.dcp.CheckpointException as error:
            self.show({rank: _words(each) for rank, (each, _) in error.failures.items()}, str(error).splitlines()[0])
        except Exception as error:
            self.show(_words(error))

    def shared_folder(self) -> str:
        """Return a new folder, the same on every rank."""
        given = [tempfile.mkdtemp() if self.dist.get_rank() == 0 else None]
        self.dist.broadcast_object_list(given)
        return str(given[0])

    def model(self, seed: int = 0) -> Any:
        self.torch.manual_seed(seed)
        nn = self.torch.nn
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1, bias=False))

    def sharded(self, seed: int = 0, steps: int = 1) -> tuple[Any, Any]:
        """Return a model with `fully_shard` and its optimizer, after some steps."""
        model = self.model(seed)
        self.F.fully_shard(model[0])
        self.F.fully_shard(model)
        optimizer = self.torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(steps):
            model(self.torch.linspace(-1, 1, 6).reshape(2, 3)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return model, optimizer


def _words(error: BaseException) -> str:
    return f"{type(error).__name__} {' '.join(str(error).replace('.', ' ').replace(':', '').split()[:5])}"


# --- one process


class Counter:
    """An object with a state of its own."""

    def __init__(self, n: int, torch: Any) -> None:
        self.n, self.torch = n, torch

    def state_dict(self) -> dict[str, Any]:
        return {"n": self.n, "twice": self.torch.full((2,), 2.0 * self.n)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.n = state["n"] + int(state["twice"].sum())


def one_process(torch: Any, show: Any, folder: str) -> None:
    """Show what is saved of nested entries, what loading changes, and the errors."""
    kit = Kit(torch, show)
    dcp, t = kit.dcp, torch.ones
    saved = {
        "a": [1, 2], "b": [{"x": t(2)}, 3], "c": [{"x": 1}], "d": {"e": []}, "f": (t(1),), "g": {"h": {}}, "j": [[t(1)]],
        "k": None, "l": {1: {2: t(1)}}, "m": {1: 5}, "n.o": t(4)[1:3], "p": torch.nn.Parameter(t(3)), "q": torch.float32,
        "r": torch.tensor(2.5), "s": t(2, 3).t(), "z": torch.zeros(0, 3), "bf": t(2, dtype=torch.bfloat16),
        "counter": Counter(3, torch),
    }  # fmt: skip
    kit.outcome(lambda: dcp.save(saved, checkpoint_id=folder))
    metadata = dcp.FileSystemReader(folder).read_metadata()
    show(metadata.planner_data, metadata.version)
    show(metadata.state_dict_metadata["s"])
    into = {
        "a": 0, "b": [{"x": t(2) * 0}, 0], "f": 0, "j": [[t(1) * 0]], "l": {1: {2: t(1) * 0}}, "m": {1: 6}, "n.o": t(2) * 0,
        "p": torch.nn.Parameter(t(3) * 0), "q": 0, "s": torch.zeros(3, 2, dtype=torch.float64), "bf": t(2),
        "counter": Counter(0, torch),
    }  # fmt: skip
    parameter = into["p"]
    kit.outcome(lambda: dcp.load(into, checkpoint_id=folder))
    show(
        kit.v({key: value for key, value in into.items() if key != "counter"}),
        into["counter"].n,
        parameter is into["p"],
    )
    for given in ({"zz": 0}, {"s": torch.zeros(4)}, {"s": 5}, {}):
        kit.outcome(lambda given=given: dcp.load(given, checkpoint_id=folder))
    partly = {"zz": t(1), "r": t(())}
    kit.outcome(lambda: dcp.load(partly, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=True)))
    show(kit.v(partly))
    kit.outcome(lambda: dcp.load({}))
    kit.outcome(lambda: dcp.save({"a.b": 1, "a": {"b": 2}}, checkpoint_id=folder))
    kit.outcome(lambda: dcp.save({"a": 1}, storage_writer=dcp.FileSystemWriter(folder, overwrite=False)))
    kit.outcome(lambda: dcp.save({"a": t(1, device="meta")}, checkpoint_id=folder))
    kit.outcome(lambda: dcp.async_save({"x": t(2)}, checkpoint_id=folder).result())
    formats = importlib.import_module(f"{torch.__name__}.distributed.checkpoint.format_utils")
    formats.dcp_to_torch_save(folder, f"{folder}/whole.pt")
    show(kit.v(torch.load(f"{folder}/whole.pt")))
    formats.torch_save_to_dcp(f"{folder}/whole.pt", f"{folder}/again")
    show(sorted(path.name for path in Path(folder, "again").iterdir()))
    planners(kit, folder)


def planners(kit: Kit, folder: str) -> None:
    """Show the calls that subclasses of the planners get."""
    dcp, show = kit.dcp, kit.show

    class Saving(dcp.DefaultSavePlanner):  # type: ignore[name-defined,misc]
        def transform_object(self, write_item: Any, object: Any) -> Any:
            show("transform", write_item.index.fqn, write_item.type.name, type(object).__name__)
            return super().transform_object(write_item, object)

    class Loading(dcp.DefaultLoadPlanner):  # type: ignore[name-defined,misc]
        def load_bytes(self, read_item: Any, value: Any) -> None:
            show("bytes", read_item.dest_index.fqn, type(value).__name__)
            super().load_bytes(read_item, value)

        def commit_tensor(self, read_item: Any, tensor: Any) -> None:
            show("commit", read_item.dest_index.fqn, read_item.lengths, tensor.shape)

    into = {"t": kit.torch.zeros(2), "n": 0}
    kit.outcome(lambda: dcp.save({"t": kit.torch.ones(2), "n": 1}, checkpoint_id=folder, planner=Saving()))
    kit.outcome(lambda: dcp.load(into, checkpoint_id=folder, planner=Loading()))
    show(kit.v(into))


# --- ranks


def entries(torch: Any, show: Any) -> None:
    """Show which rank writes what, and what each rank loads."""
    kit = Kit(torch, show)
    dcp, t, rank, size = kit.dcp, torch.ones, kit.dist.get_rank(), kit.dist.get_world_size()
    folder, mesh = kit.shared_folder(), kit.meshes.init_device_mesh("cpu", (size,))
    rows = kit.T.distribute_tensor(torch.arange(15.0).reshape(5, 3), mesh, [kit.T.Shard(0)])
    state: dict[str, Any] = {
        "a": t(100), "b": t(10), "c": t(50) * rank, "d": {"x": rank, "y": t(7)}, "e": rows,
        "r": kit.T.distribute_tensor(torch.arange(4.0), mesh, [kit.T.Replicate()]),
    }  # fmt: skip
    if rank == 1:
        state |= {"only 1": "z", "t1": t(3)}
    metadata = dcp.save(state, checkpoint_id=folder)
    show(
        sorted(
            (index.fqn, index.offset, index.index, info.relative_path) for index, info in metadata.storage_data.items()
        )
    )
    show(sorted(path.name for path in Path(folder).iterdir()))
    columns = kit.T.distribute_tensor(torch.zeros(5, 3), mesh, [kit.T.Shard(1)])
    into = {"c": t(50), "d": {"x": 5, "y": t(7) * 0}, "e": columns}
    kit.outcome(lambda: dcp.load(into, checkpoint_id=folder))
    show(kit.v(into))
    whole = {"e": torch.zeros(5, 3)} if rank == 0 else {"b": torch.zeros(10)}
    kit.outcome(lambda: dcp.load(whole, checkpoint_id=folder))
    show(kit.v(whole))
    kit.outcome(lambda: dcp.load({"a": t(100)} if rank == 0 else {"zz": 1}, checkpoint_id=folder))
    terms = kit.T.DTensor.from_local(t(2), mesh, [kit.T.Partial()])
    kit.outcome(lambda: dcp.save({"x": terms}, checkpoint_id=f"{folder}/2"))
    future = dcp.async_save(state, checkpoint_id=f"{folder}/3")
    kit.outcome(future.result)

    class Writer(dcp.FileSystemWriter):  # type: ignore[misc, name-defined]
        def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
            show("coordinator", is_coordinator)
            super().set_up_storage_writer(is_coordinator, *args, **kwargs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kit.outcome(lambda: dcp.save_state_dict({"a": t(2)}, Writer(f"{folder}/old"), coordinator_rank=1))
    lowest = dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=True)
    metadata = dcp.save(state, checkpoint_id=f"{folder}/4", planner=lowest)
    show(sorted((index.fqn, info.relative_path) for index, info in metadata.storage_data.items()))
    group = kit.dist.new_group([1])
    if rank == 1:
        kit.outcome(lambda: dcp.save({"x": t(2)}, checkpoint_id=f"{folder}/5", process_group=group))
    kit.dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)


def state_dicts(torch: Any, show: Any) -> None:
    """Show the state dicts of sharded and of wrapped models under each option, and load them."""
    kit = Kit(torch, show)
    S, Options = kit.states, kit.Options
    model, optimizer = kit.sharded()
    for options in (
        None, Options(full_state_dict=True), Options(full_state_dict=True, cpu_offload=True), Options(cpu_offload=True),
        Options(flatten_optimizer_state_dict=True), Options(ignore_frozen_params=True),
    ):  # fmt: skip
        show(kit.v(S.get_model_state_dict(model, options=options)))
        show(kit.v(S.get_optimizer_state_dict(model, optimizer, options=options)))
    full = Options(full_state_dict=True)
    whole, state = S.get_state_dict(model, optimizer, options=full)
    other, its = kit.sharded(1, 0)
    kit.outcome(lambda: S.set_model_state_dict(other, whole, options=full))
    kit.outcome(lambda: S.set_optimizer_state_dict(other, its, state, options=full))
    show(kit.v(other.state_dict()), kit.v(its.state_dict()))
    with torch.device("meta"):
        empty = kit.model()
    kit.F.fully_shard(empty)
    kit.outcome(lambda: S.set_model_state_dict(empty, whole, options=full))
    show(kit.v(empty.state_dict()))
    for given, options in (({}, full), ({"x": 1}, None), ({"x": 1}, full)):
        kit.outcome(lambda g=given, o=options: S.set_model_state_dict(model, g, options=o))
    kit.outcome(lambda: S.set_optimizer_state_dict(model, optimizer, {}))
    wrapped = torch.nn.parallel.DistributedDataParallel(kit.model())
    sgd = torch.optim.SGD(wrapped.parameters(), lr=0.1, momentum=0.9)
    wrapped(torch.ones(1, 3)).sum().backward()
    sgd.step()
    found = S.get_state_dict(wrapped, sgd)
    show(kit.v(found))
    kit.outcome(lambda: S.set_state_dict(wrapped, sgd, model_state_dict=found[0], optim_state_dict=found[1]))


def from_rank_0(torch: Any, show: Any) -> None:
    """Show models and optimizers that get what only rank 0 has. PyTorch's ranks sometimes wait for each other here."""
    kit = Kit(torch, show)
    S, is_root = kit.states, kit.dist.get_rank() == 0
    options = kit.Options(full_state_dict=True, broadcast_from_rank0=True)
    model, optimizer = kit.sharded()
    whole, state = S.get_state_dict(model, optimizer, options=kit.Options(full_state_dict=True, cpu_offload=True))
    other, its = kit.sharded(1, 0)
    wrapped = torch.nn.parallel.DistributedDataParallel(kit.model(2))
    S.set_model_state_dict(other, whole, options=options)
    S.set_optimizer_state_dict(other, its, state, options=options)
    S.set_model_state_dict(wrapped, whole, options=options)
    show(
        kit.v(model.state_dict()) == kit.v(other.state_dict()),
        kit.v(whole) in ({}, kit.v(S.get_model_state_dict(wrapped))),
    )
    show(kit.v(its.state_dict()) == kit.v(optimizer.state_dict()), bool(whole) == is_root)
    kit.outcome(lambda: S.set_model_state_dict(other, {}, options=options))


def save_sharded(torch: Any, show: Any, folder: str) -> None:
    """Save a sharded model and its optimizer, and show both as whole tensors."""
    kit = Kit(torch, show)
    model, optimizer = kit.sharded(steps=2)
    parts = kit.states.get_state_dict(model, optimizer)
    kit.dcp.save({"model": parts[0], "optim": parts[1], "epoch": 7}, checkpoint_id=folder)
    show(kit.v(kit.states.get_state_dict(model, optimizer, options=kit.Options(full_state_dict=True))))


def load_sharded(torch: Any, show: Any, folder: str) -> None:
    """Load a sharded model and its optimizer, show both as whole tensors, and take a step."""
    kit = Kit(torch, show)
    model, optimizer = kit.sharded(1, 0)
    load_into(kit, model, optimizer, folder)
    show(kit.v(kit.states.get_state_dict(model, optimizer, options=kit.Options(full_state_dict=True))))


def load_into(kit: Kit, model: Any, optimizer: Any, folder: str) -> None:
    """Load a model and its optimizer as programs do."""
    parts = kit.states.get_state_dict(model, optimizer)
    state = {"model": parts[0], "optim": parts[1], "epoch": 0}
    kit.dcp.load(state, checkpoint_id=folder)
    assert state["epoch"] == 7
    kit.states.set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])


def save_zero(torch: Any, show: Any, folder: str) -> None:
    """Save a model and its ZeroRedundancyOptimizer; show its state."""
    kit = Kit(torch, show)
    model, optimizer = _zero(kit, 0)
    model(torch.linspace(-1, 1, 6).reshape(2, 3)).square().sum().backward()
    optimizer.step()
    parts = kit.states.get_state_dict(model, optimizer)
    kit.dcp.save({"model": parts[0], "optim": parts[1], "epoch": 7}, checkpoint_id=folder)
    show(kit.v(parts))


def load_zero(torch: Any, show: Any, folder: str) -> None:
    """Load a model and its ZeroRedundancyOptimizer; show its state, and whether a rank has that of its own parameters."""
    kit = Kit(torch, show)
    model, optimizer = _zero(kit, 1)
    load_into(kit, model, optimizer, folder)
    show(kit.v(kit.states.get_state_dict(model, optimizer)))
    own = {param for group in optimizer.optim.param_groups for param in group["params"]}
    show(own == set(optimizer.optim.state))


def _zero(kit: Kit, seed: int) -> tuple[Any, Any]:
    model = kit.model(seed)
    return model, kit.Zero(model.parameters(), optimizer_class=kit.torch.optim.Adam, lr=0.1)


def failed_on_one_rank(torch: Any, show: Any, folder: str) -> None:
    """Show that a save that fails on one rank raises on all, and leaves the earlier checkpoint and no other files."""
    kit = Kit(torch, show)
    rank = kit.dist.get_rank()
    kit.dcp.save({"t": torch.ones(2), "r": rank}, checkpoint_id=folder)
    before = sorted(path.name for path in Path(folder).iterdir())

    class Failing(kit.dcp.DefaultSavePlanner):  # type: ignore[name-defined,misc]
        def resolve_data(self, write_item: Any) -> Any:
            if rank == 1:
                raise OSError("the disk is full")
            return super().resolve_data(write_item)

    mesh = kit.meshes.init_device_mesh("cpu", (kit.dist.get_world_size(),))
    rows = kit.T.distribute_tensor(torch.zeros(4), mesh, [kit.T.Shard(0)])
    kit.outcome(lambda: kit.dcp.save({"t": torch.zeros(2), "rows": rows}, checkpoint_id=folder, planner=Failing()))
    into = {"t": torch.zeros(2)}
    kit.dcp.load(into, checkpoint_id=folder)
    show(kit.v(into), before == sorted(path.name for path in Path(folder).iterdir()))
    kit.dcp.save({"t": torch.zeros(2)}, checkpoint_id=folder)
    kit.dcp.load(into, checkpoint_id=folder)
    show(kit.v(into), len(list(Path(folder).iterdir())))


def saved_while_communicating(torch: Any, show: Any, folder: str) -> None:
    """Show that a program may change tensors and communicate while a checkpoint is being saved."""
    kit = Kit(torch, show)
    given = {"t": torch.ones(1000), "n": {"l": [torch.ones(2), 3], "s": {1}}}
    future = kit.dcp.async_save(given, checkpoint_id=folder)
    given["n"]["s"].add(2)
    for _ in range(20):
        given["t"].mul_(2)
        kit.dist.all_reduce(torch.ones(3))
    future.result()
    into = {"t": torch.zeros(1000), "n": {"l": [torch.zeros(2), 0], "s": set()}}
    kit.dcp.load(into, checkpoint_id=folder)
    show(kit.v(into))
