"""The only file that uses JAX's private distributed client and compiler: coordinator, store, devices, programs.

Each process makes a separate CPU client with JAX's Gloo collectives. JAX's default backend still knows one process only,
so `jax.devices()` and compiled steps are unaffected. Programs run in the calling thread (`asynchronous=False`); several
threads may run programs at once if their cliques differ. Each process has several devices, so that two groups of the
same ranks are two cliques; but only a few, because XLA uses at least one thread for each.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undertow._src.arrays.device.memory import import_jax
from undertow._src.distributed.leaving import at_exit
from undertow._src.distributed.relay import Relay

PART = 4 << 20  # bytes of an array that one program handles
_NEVER = 10**6  # seconds: JAX's heartbeats are not used, since a missed one ends the process; see world.py
_DEVICES = 4  # devices of each process
CHANNELS = _DEVICES**2  # cliques of the same ranks; the last is for messages between two ranks
_FOREVER_MS = 10**9

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # JAX's C++ code logs every lost connection


class StoreTimeout(Exception):
    """A key did not appear in time."""


class Unreachable(Exception):
    """The coordinator does not answer."""


def require_jax() -> None:
    """Raise an error that says what to install if JAX is missing."""
    try:
        importlib.import_module("jaxlib")
    except ModuleNotFoundError as error:
        if error.name != "jaxlib":
            raise
        raise ModuleNotFoundError(
            "several ranks need JAX, which is not installed. Install it with: pip install 'jax>=0.10'", name="jaxlib"
        ) from None


def serve(port: int, size: int) -> Any:
    """Start the coordinator in this process; return the service, which runs until `shutdown()`."""
    require_jax()
    from jaxlib import _jax  # type: ignore[attr-defined]

    return _jax.get_distributed_runtime_service(
        f"[::]:{port}", size, heartbeat_timeout=_NEVER, shutdown_timeout=1, recoverable=True
    )


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def address_towards(host: str, port: int) -> str:
    """Return this machine's address in the network of a host."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family[0], socket.SOCK_DGRAM) as probe:
        probe.connect(family[4])
        return probe.getsockname()[0]


class Runtime:
    """This process as a rank: its client of the coordinator, and the devices of all ranks."""

    def __init__(self, host: str, port: int, rank: int, size: int, timeout: float) -> None:
        require_jax()
        import_jax()  # with the program's draws kept, before anything below imports it
        from jaxlib import _jax  # type: ignore[attr-defined]

        self.rank, self.size = rank, size
        self.hostname = address_towards(host, port)
        self.lost = threading.Event()  # whether the coordinator is gone
        self.on_loss: Callable[[], object] = self.lost.is_set
        relay = Relay(host, port, timeout, self._lose)
        self._client = _jax.get_distributed_runtime_client(
            f"127.0.0.1:{relay.port}", rank, init_timeout=_NEVER, heartbeat_timeout=_NEVER, shutdown_timeout=1,
            shutdown_on_destruction=False, use_compression=False,
        )  # fmt: skip
        _leak(self._client)
        self._devices: list[list[Any]] = []
        for wait in (self._client.connect, self._connect):
            # JAX's own timeout would end the process. So a thread waits for the other ranks; later it is abandoned.
            errors: list[str] = []
            joining = threading.Thread(target=_call, args=(wait, errors), daemon=True)
            joining.start()
            joining.join(timeout)
            if joining.is_alive() or errors:
                at_exit(lambda: None, joining.is_alive)
                found = "not all ranks came" if relay.connected else "there is no coordinator"
                raise Unreachable(
                    f"rank {rank} could not join the {size} ranks at {host}:{port} within {timeout:g} s: "
                    f"{errors[0] if errors else found}"
                )

    def _lose(self) -> None:
        self.lost.set()
        self.on_loss()

    # --- the key-value store

    def set(self, key: str, value: bytes) -> None:
        self._answered(self._client.key_value_set_bytes, key, value, True)

    def claim(self, key: str) -> bool:
        """Set a key unless it is set; return whether this call set it."""
        try:
            self._answered(self._client.key_value_set_bytes, key, b"1", False)
        except FileExistsError:
            return False
        return True

    def get(self, key: str, timeout: float | None = None) -> bytes:
        """Return the value of a key, waiting for it to be set."""
        return self._answered(
            self._client.blocking_key_value_get_bytes, key, _FOREVER_MS if timeout is None else int(timeout * 1000)
        )

    def find(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""
        try:
            return self._answered(self._client.key_value_try_get_bytes, key)
        except KeyError:
            return None

    def below(self, prefix: str) -> dict[str, bytes]:
        """Return the keys with a prefix, and their values."""
        return dict(self._answered(self._client.key_value_dir_get_bytes, prefix))

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return its new value."""
        return self._answered(self._client.key_value_increment, key, amount)

    def delete(self, key: str) -> None:
        self._answered(self._client.key_value_delete, key)

    def _answered(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call a method of JAX's client; raise its errors as `StoreTimeout` or `Unreachable`."""
        if self.lost.is_set():
            raise Unreachable("the coordinator is gone")
        try:
            return call(*args)
        except Exception as error:
            text = str(error)
            for start, kind in (
                ("NOT_FOUND", KeyError), ("DEADLINE_EXCEEDED", StoreTimeout), ("ALREADY_EXISTS", FileExistsError)
            ):  # fmt: skip
                if text.startswith(start):
                    raise kind(args[0]) from None
            raise Unreachable(f"the coordinator does not answer: {text.splitlines()[0]}") from error

    # --- devices and programs

    def _connect(self) -> None:
        """Find the devices of every rank. This waits until all ranks have made their clients."""
        import jax
        from jax._src.lib import xla_client
        from jaxlib import _jax  # type: ignore[attr-defined]

        jax.config.update("jax_enable_x64", True)
        collectives = _jax.make_gloo_tcp_collectives(distributed_client=self._client, hostname=self.hostname)
        client = xla_client.make_cpu_client(
            asynchronous=False, distributed_client=self._client, node_id=self.rank, num_nodes=self.size,
            collectives=collectives, num_devices=_DEVICES,
        )  # fmt: skip
        _leak(client)
        self._devices = [[] for _ in range(self.size)]
        for device in sorted(client.devices(), key=lambda device: device.id):
            self._devices[device.process_index].append(device)

    def clique(self, ranks: Sequence[int], channel: int) -> Clique | LocalClique:
        """Return the clique of some ranks on one channel."""
        if len(ranks) == 1:
            return LocalClique()
        from jax.sharding import Mesh

        first, others = channel % _DEVICES, channel // _DEVICES
        devices = [each[others if place else first] for place, each in enumerate(map(self._devices.__getitem__, ranks))]
        index = list(ranks).index(self.rank)
        return Clique(Mesh(np.array(devices), ("ranks",)), devices[index], index)


class _Quiet:
    """Drop Gloo's output to stdout while ranks connect; pass on all other output."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._stdout = -1

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._stdout = os.dup(1)
                source, sink = os.pipe()
                os.dup2(sink, 1)
                os.close(sink)
                threading.Thread(target=_pass_on, args=(source, os.dup(self._stdout)), daemon=True).start()

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                os.dup2(self._stdout, 1)
                os.close(self._stdout)


quiet = _Quiet()


def _pass_on(source: int, target: int) -> None:
    """Copy lines from a pipe, except Gloo's."""
    rest = b""
    while text := os.read(source, 1 << 16):
        *lines, rest = (rest + text).split(b"\n")
        # Threads that connect at once may write into each other's lines.
        own = [line for line in lines if b"[Gloo] Rank " not in line and b"connected peer ranks is" not in line]
        kept = b"".join(line + b"\n" for line in own)
        if not b"[Gloo] Rank ".startswith(rest[:12]):
            kept, rest = kept + rest, b""
        if kept:
            os.write(target, kept)
    if rest:
        os.write(target, rest)
    os.close(source)
    os.close(target)


class Clique:
    """Ranks that run one program together. Its programs are cached by name, size and dtype.

    All of its ranks must run the same programs in the same order, one at a time.
    """

    def __init__(self, mesh: Any, own: Any, index: int) -> None:
        import jax
        from jax.sharding import NamedSharding, PartitionSpec

        self.size: int = mesh.devices.size
        self.index = index  # of this rank among them
        self._jax, self._mesh, self._own = jax, mesh, own
        self._replicated = NamedSharding(mesh, PartitionSpec())
        self._programs: dict[Any, Callable[[Any], Any]] = {}

    def run(
        self, name: str, array: np.ndarray[Any, Any], root: int = 0, out: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Run the program `name` (see PROGRAMS) on every rank's array and return this rank's result.

        A large array is sent in parts, so that XLA's buffers stay in the cache and one program serves many sizes. `out` may
        be the array itself.
        """
        if array.nbytes <= PART:
            result = self._run(name, array, root)
            if out is None:
                return result
            np.copyto(out, result)
            return out
        step = PART // array.itemsize // (len(array) if name == "exchange" else 1)
        if out is None:
            shape = (self.size, *array.shape) if name == "gather" else array.shape
            out = np.empty(shape, array.dtype)
        for start in range(0, array.shape[-1], step):
            part = (..., slice(start, start + step))
            out[part] = self._run(name, np.ascontiguousarray(array[part]), root)
        return out

    def gather(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return every rank's array, as rows. Two ranks swap their arrays, with one message instead of three."""
        if self.size != 2:
            return self.run("gather", array)
        rows = np.empty((2, *array.shape), array.dtype)
        rows[self.index] = array
        self.run("swap", array, out=rows[1 - self.index])
        return rows

    def compile(
        self, jitted: Any, values: Sequence[Any], options: dict[str, Any]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """Compile a jitted function that contains collectives; return a function of this rank's values."""
        return _compiled_for(list(self._mesh.devices), self._own, jitted, values, options)

    def _run(self, name: str, array: np.ndarray[Any, Any], root: int) -> np.ndarray[Any, Any]:
        jax = self._jax
        key = (name, array.shape, array.dtype, root)
        program = self._programs.get(key)
        value = jax.make_array_from_single_device_arrays(
            array.shape, self._replicated, [jax.device_put(array, self._own)]
        )
        if program is None:
            program = self._programs[key] = self._compiled(name, root)
            if len(self._programs) == 1:  # in its first run, the ranks connect to each other
                with quiet:
                    return np.asarray(program(value).addressable_data(0))
        return np.asarray(program(value).addressable_data(0))

    def _compiled(self, name: str, root: int) -> Callable[[Any], Any]:
        """Return the program, with values declared as replicated although each rank has its own."""
        jax, spec = self._jax, self._replicated.spec
        body = PROGRAMS[name]
        return jax.jit(
            jax.shard_map(
                lambda x: body(jax, x, self.size, root), mesh=self._mesh, in_specs=spec, out_specs=spec, check_vma=False
            )
        )


def _compiled_for(
    devices: Sequence[Any], own: Any, jitted: Any, values: Sequence[Any], options: dict[str, Any]
) -> Callable[[Sequence[Any]], list[Any]]:
    """Compile a jitted function as one of several replicas; return a function of this rank's values."""
    import jax
    from jax._src import compiler
    from jax._src.lib import xla_client

    lowering = jitted.lower(*values)._lowering
    given = lowering.compile_args
    executable = compiler.compile_or_get_cached(
        own.client,
        lowering.stablehlo(),
        np.array(devices),
        compiler.get_compile_options(
            num_replicas=len(devices), num_partitions=1, backend=own.client, env_options_overrides=options,
            device_assignment=np.array([[device.id] for device in devices]),
        ),
        given["host_callbacks"],
        xla_client.DeviceList(tuple(devices)),
    )  # fmt: skip
    tokens = [jax.device_put(np.zeros(0, np.bool_), own) for _ in given["ordered_effects"]]

    def execute(values: Sequence[Any]) -> list[Any]:
        here = [value if getattr(value, "device", None) is own else jax.device_put(value, own) for value in values]
        found = executable.execute_sharded([*tokens, *here]).disassemble_into_single_device_arrays()
        results = [each[0] for each in found[len(tokens) :]]
        jax.block_until_ready(results)
        return results

    execute.kept = given["keepalive"]  # type: ignore[attr-defined]  # functions that the program calls
    return execute


class LocalClique:
    """A clique of one rank: its programs return their input."""

    size, index = 1, 0

    def gather(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array[None].copy()

    def run(
        self, name: str, array: np.ndarray[Any, Any], root: int = 0, out: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        return out if out is not None else array[None].copy() if name == "gather" else array.copy()


class LocalRuntime:
    """A world of one process: a store in memory, and no JAX."""

    rank, size, hostname = 0, 1, "localhost"

    def __init__(self) -> None:
        self.lost = threading.Event()
        self.on_loss: Callable[[], object] = self.lost.is_set
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def claim(self, key: str) -> bool:
        with self._changed:
            if key in self._values:
                return False
            self._values[key] = b"1"
            return True

    def get(self, key: str, timeout: float | None = None) -> bytes:
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, timeout):
                raise StoreTimeout(key)
            return self._values[key]

    def find(self, key: str) -> bytes | None:
        return self._values.get(key)

    def below(self, prefix: str) -> dict[str, bytes]:
        with self._changed:
            return {key: value for key, value in self._values.items() if key.startswith(f"{prefix}/")}

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = int(self._values.get(key, b"0")) + amount
            self._values[key] = str(total).encode()
            self._changed.notify_all()
            return total

    def delete(self, key: str) -> None:
        with self._changed:
            self._values.pop(key, None)

    def clique(self, ranks: Sequence[int], channel: int) -> LocalClique:
        return LocalClique()


def _broadcast(jax: Any, x: Any, size: int, root: int) -> Any:
    if size == 2:
        moved = jax.lax.ppermute(x, "ranks", [(root, 1 - root)])
        return jax.numpy.where(jax.lax.axis_index("ranks") == root, x, moved)
    return jax.lax.psum(jax.numpy.where(jax.lax.axis_index("ranks") == root, x, jax.numpy.zeros_like(x)), "ranks")


# What a program computes from this rank's flat array. `gather`: every rank's array, as rows; `exchange`: the array's
# rows, one to each rank; `move`: the array of rank 0, on rank 1; `swap`: of two ranks, the other's array.
PROGRAMS: dict[str, Callable[[Any, Any, int, int], Any]] = {
    "gather": lambda jax, x, size, root: jax.lax.all_gather(x, "ranks"),
    "exchange": lambda jax, x, size, root: jax.lax.all_to_all(x, "ranks", 0, 0, tiled=True),
    "move": lambda jax, x, size, root: jax.lax.ppermute(x, "ranks", [(0, 1)]),
    "swap": lambda jax, x, size, root: jax.lax.ppermute(x, "ranks", [(0, 1), (1, 0)]),
    "broadcast": _broadcast,
    "sum": lambda jax, x, size, root: jax.lax.psum(x, "ranks"),
    "max": lambda jax, x, size, root: jax.lax.pmax(x, "ranks"),
    "min": lambda jax, x, size, root: jax.lax.pmin(x, "ranks"),
}


def _call(function: Callable[[], Any], errors: list[str]) -> None:
    """Call a function in a thread; append its error to a list."""
    try:
        function()
    except Exception as error:
        errors.append(str(error).splitlines()[0])


def _leak(held: Any) -> None:
    """Keep an object for ever: its destructor would wait for programs that can't end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
