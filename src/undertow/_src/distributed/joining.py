"""Joining and leaving groups: `init_process_group` with the environment that it reads, and `destroy_process_group`."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qs, urlsplit

from undertow._src.distributed import coordinator
from undertow._src.distributed.errors import NO_GROUP, DistNetworkError
from undertow._src.distributed.recorder import user_line
from undertow._src.distributed.runtime import LocalRuntime, Runtime, Unreachable, address_towards, free_port
from undertow._src.distributed.state import default_group, make_group, member, seconds, state
from undertow._src.distributed.world import World

HOSTED = "UNDERTOW_COORDINATOR"  # set by the launcher: host:port of the coordinator that it hosts
BACKENDS = ("gloo", "nccl", "mpi", "ucc", "xccl", "fake")
_joined: dict[tuple[str, int, int, int], World] = {}  # worlds of this process, by host, port, rank and size


def is_available() -> bool:
    """Whether process groups are supported: if JAX is installed."""
    return find_spec("jaxlib") is not None


def is_initialized() -> bool:
    """Whether this process has a default group."""
    return state.default is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: Any = None,
) -> None:
    """Join the default group. All ranks call this; it returns when all have.

    The name of any backend is accepted: JAX's Gloo collectives are used for each.
    """
    if state.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    name = backend_name(backend)
    limit = seconds(timeout)
    if store is not None:
        if init_method is not None:
            raise AssertionError("Cannot specify both init_method and store.")
        if world_size <= 0 or rank < 0:
            raise AssertionError("world_size must be positive and rank non-negative if a store is used")
        address = _meet_in_store(store, rank, world_size)
    else:
        address, rank, world_size = _rendezvous(init_method or "env://", rank, world_size, limit)
    try:
        world = _join(*address, rank, world_size, limit)
    except Unreachable as error:
        raise DistNetworkError(f"{error}, in init_process_group() at {user_line()}") from None
    state.world = world
    made = make_group(range(world_size), limit, name, description="default_pg")
    assert made is not None
    state.default = made
    try:
        made.start("init_process_group", "", "", made.exchange).wait()
    except BaseException:
        _forget()
        raise


class Backend(str):
    """A backend's name. JAX's collectives are used for every backend."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_capability = {
        GLOO: ["cpu", "cuda"], NCCL: ["cuda"], XCCL: ["xpu"], UCC: ["cpu", "cuda"], MPI: ["cpu", "cuda"],
        FAKE: ["cpu", "cuda", "hpu", "xpu"],
    }  # fmt: skip

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}")
        return str.__new__(cls, name.lower())


def is_backend_available(backend: str) -> bool:
    """Whether a backend is available: Gloo is, with JAX."""
    return backend.lower() == "gloo" and is_available()


def get_default_backend_for_device(device: Any) -> str:
    """Return the backend that PyTorch uses for a device."""
    return Backend.default_device_backend_map.get(str(device).partition(":")[0], Backend.GLOO)


def get_backend_config(group: Any = None) -> str:
    """Return a group's backend for each type of device."""
    name = get_backend(group)
    return name if ":" in name else f"cpu:{name},cuda:{name}"


def backend_name(backend: str | None) -> str:
    """Return a backend's name in lower case, `gloo` if none is given; raise if PyTorch has no such backend."""
    if backend is None:
        return "gloo"
    if not isinstance(backend, str):
        raise ValueError(f"Backend name must be a string, but got: {backend!r}")
    name = backend.lower()
    for part in name.split(","):
        if part.rpartition(":")[2] not in BACKENDS:
            raise AssertionError(f"Unknown backend type {part}: undertow knows {', '.join(BACKENDS)}")
    return name


def _join(host: str, port: int, rank: int, size: int, timeout: float) -> World:
    """Return the world at an address; a world that this process has left is used again."""
    key = (host, port, rank, size)
    if key not in _joined:
        _joined[key] = World(LocalRuntime() if size == 1 else Runtime(host, port, rank, size, timeout))
    return _joined[key]


# --- where the coordinator is


def _rendezvous(method: str, rank: int, size: int, timeout: float) -> tuple[tuple[str, int], int, int]:
    """Return the coordinator's address, the rank and the number of ranks; rank 0 starts a coordinator if none runs."""
    parts = urlsplit(method)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if parts.scheme == "env":
        rank = rank if rank >= 0 else int(query.get("rank") or _variable("RANK"))
        size = size if size > 0 else int(query.get("world_size") or _variable("WORLD_SIZE"))
        if HOSTED in os.environ:
            host, _, port = os.environ[HOSTED].rpartition(":")
            return (host, int(port)), rank, size
        address = (_variable("MASTER_ADDR"), int(_variable("MASTER_PORT")))
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            address = (address[0], address[1] + 1)  # PyTorch's agent has the port itself
        return _hosted(address, rank, size), rank, size
    rank = rank if rank >= 0 else int(_asked(query, "rank", method))
    size = size if size > 0 else int(_asked(query, "world_size", method))
    if parts.scheme == "tcp":
        if parts.hostname is None or parts.port is None:
            raise ValueError(f"Error initializing torch.distributed using tcp:// rendezvous: no host or port: {method}")
        return _hosted((parts.hostname, parts.port), rank, size), rank, size
    if parts.scheme == "file":
        return _meet_in_file(parts.path, rank, size, timeout), rank, size
    raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but "
            "not set. Start the program with `undertow run --nproc-per-node N`, which sets it."
        )
    return value


def _asked(query: dict[str, str], name: str, method: str) -> str:
    if name not in query:
        shown = "rank" if name == "rank" else "world size"
        kind = method.partition(":")[0]
        raise ValueError(f"Error initializing torch.distributed using {kind}:// rendezvous: {shown} parameter missing")
    return query[name]


def _hosted(address: tuple[str, int], rank: int, size: int) -> tuple[str, int]:
    if rank == 0 and size > 1 and (*address, rank, size) not in _joined:
        coordinator.start(address[1], size)
    return address


def _meet_in_file(path: str, rank: int, size: int, timeout: float) -> tuple[str, int]:
    """Return the address that rank 0 wrote to a file."""
    if size == 1:
        return (path, 0)
    if rank == 0:
        port = free_port()
        coordinator.start(port, size)
        with open(f"{path}.new", "w") as file:
            file.write(f"{address_towards('8.8.8.8', 53)}:{port}")
        os.replace(f"{path}.new", path)
        return (address_towards("8.8.8.8", 53), port)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if os.path.exists(path) and (text := open(path).read()):
            host, _, port_text = text.rpartition(":")
            return (host, int(port_text))
        time.sleep(0.02)
    raise DistNetworkError(f"rank {rank}: rank 0 wrote no address to {path} within {timeout:g} s")


def _meet_in_store(store: Any, rank: int, size: int) -> tuple[str, int]:
    """Return the address that rank 0 put into a store."""
    if size == 1:
        return ("", id(store))
    if rank == 0:
        port = free_port()
        coordinator.start(port, size)
        store.set("undertow/coordinator", f"{address_towards('8.8.8.8', 53)}:{port}")
    host, _, port_text = bytes(store.get("undertow/coordinator")).decode().rpartition(":")
    return (host, int(port_text))


# --- leaving


def destroy_process_group(group: Any = None) -> None:
    """Destroy a group; with the default group, destroy all groups."""
    if group is None and state.default is None:
        raise AssertionError("Process group cannot be None")
    left = member(group)
    if left is None:
        return
    if left is not state.default:
        del state.groups[left]
        return
    _forget()


def _forget() -> None:
    state.default = state.world = None
    state.groups.clear()
    state.channels.clear()


def get_rank(group: Any = None) -> int:
    """Return this process's rank in a group, -1 if it is not in it."""
    found = _group(group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """Return the number of ranks in a group, -1 if this process is not in it."""
    found = _group(group)
    return -1 if found is None else found.size()


def get_backend(group: Any = None) -> str:
    """Return the name of a group's backend."""
    found = _group(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return state.groups[found]


def _group(group: Any) -> Any:
    if state.default is None:
        raise ValueError(NO_GROUP)
    return default_group() if group is None else member(group)
