"""PyTorch's stores. The default group's is JAX's key-value store; the others are in memory or in a file."""

from __future__ import annotations

import fcntl
import json
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from undertow._src.distributed import store_server
from undertow._src.distributed.errors import DistNetworkError, DistStoreError
from undertow._src.distributed.runtime import LocalRuntime, Runtime, StoreTimeout

_DEFAULT = timedelta(seconds=300)


def _raw(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class _Unset(bytes):
    """A value to return without setting it."""


def _compared(found: bytes | None, expected: bytes, desired: bytes) -> bytes:
    if found is None:
        return _Unset(expected) if expected else desired
    return desired if found == expected else found


class Store:
    """Keys and values that processes share."""

    __module__ = "torch._C._distributed_c10d"

    def __init__(self) -> None:
        self._timeout = _DEFAULT

    # A subclass defines these:

    def _put(self, key: str, value: bytes) -> None:
        raise NotImplementedError

    def _find(self, key: str) -> bytes | None:
        raise NotImplementedError

    def _drop(self, key: str) -> None:
        raise NotImplementedError

    def _claim(self, key: str) -> bool:
        """Set a key unless it is set; return whether this call set it."""
        raise NotImplementedError

    def _await(self, key: str, seconds: float) -> bytes:
        raise NotImplementedError

    def _increase(self, key: str, amount: int) -> int:
        raise NotImplementedError

    def _keys(self) -> list[str]:
        raise NotImplementedError

    # Programs call these:

    @property
    def timeout(self) -> timedelta:
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait for a key."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Set a key."""
        self._put(key, _raw(value))

    def get(self, key: str) -> bytes:
        """Return a key's value, waiting until it is set."""
        return self._waited(key, self._timeout)

    def _waited(self, key: str, timeout: timedelta) -> bytes:
        try:
            return self._await(key, timeout.total_seconds())
        except StoreTimeout:
            shown = round(timeout.total_seconds() * 1000)
            raise DistStoreError(f"wait timeout after {shown}ms, keys: /{key}") from None

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are set."""
        for key in keys:
            self._waited(key, timeout or self._timeout)

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return its new value."""
        return self._increase(key, amount)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are set."""
        return all(self._find(key) is not None for key in keys)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set a key if it has the expected value, or is missing and the expected value is empty; return its value."""
        expected, desired = _raw(expected_value), _raw(desired_value)
        return self._change(key, lambda found: _compared(found, expected, desired))

    def append(self, key: str, value: str | bytes) -> None:
        """Append to a key's value."""
        self._change(key, lambda found: (found or b"") + _raw(value))

    def _change(self, key: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Set a key to a function of its value, under a lock; return the new value.

        The function may return `_Unset(value)`: then the key stays as it is, and the value is returned.
        """
        while not self._claim(f"{key}.changing"):
            time.sleep(0.002)
        try:
            made = change(self._find(key))
            if not isinstance(made, _Unset):
                self._put(key, made)
            return bytes(made)
        finally:
            self._drop(f"{key}.changing")

    def delete_key(self, key: str) -> bool:
        """Remove a key; return whether it was set."""
        found = self._find(key) is not None
        self._drop(key)
        return found

    def num_keys(self) -> int:
        """Return how many keys are set."""
        return len(self._keys())

    def list_keys(self) -> list[str]:
        """Return the keys."""
        return self._keys()

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys, waiting for each."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return True


class RuntimeStore(Store):
    """The key-value store of a world, below a prefix."""

    def __init__(self, runtime: Runtime | LocalRuntime | store_server.Connection, prefix: str = "store") -> None:
        super().__init__()
        self._runtime, self._prefix = runtime, prefix

    def _at(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def _put(self, key: str, value: bytes) -> None:
        self._runtime.set(self._at(key), value)

    def _find(self, key: str) -> bytes | None:
        return self._runtime.find(self._at(key))

    def _drop(self, key: str) -> None:
        self._runtime.delete(self._at(key))

    def _claim(self, key: str) -> bool:
        return self._runtime.claim(self._at(key))

    def _await(self, key: str, seconds: float) -> bytes:
        return self._runtime.get(self._at(key), seconds)

    def _increase(self, key: str, amount: int) -> int:
        return self._runtime.add(self._at(key), amount)

    def _keys(self) -> list[str]:
        start = len(self._prefix) + 1
        return [key[start:] for key in self._runtime.below(self._prefix)]


class TCPStore(RuntimeStore):
    """A store that one process hosts and others reach by its address."""

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _DEFAULT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        self._server = store_server.host(port, multi_tenant) if is_master else None
        self.host, self.port = host_name, port if self._server is None else self._server.port
        try:
            super().__init__(store_server.Connection(host_name, self.port, timeout.total_seconds()))
        except OSError as error:
            raise DistNetworkError(
                f"The client socket has failed to connect to any network address of ({host_name}, {port}): {error}"
            ) from None
        self._timeout = timeout
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._await_workers(world_size)

    def _await_workers(self, size: int) -> None:
        """Wait until all processes have joined."""
        if self._runtime.add("init/count", 1) == size:
            self._runtime.set("init/ready", b"1")
        try:
            self._runtime.get("init/ready", self._timeout.total_seconds())
        except StoreTimeout:
            raise DistStoreError(f"Timed out after waiting for {size} processes to join the store") from None

    @property
    def libuvBackend(self) -> bool:
        return False


class HashStore(RuntimeStore):
    """A store in this process's memory, for its threads."""

    def __init__(self) -> None:
        super().__init__(LocalRuntime())


class PrefixStore(Store):
    """The keys of another store that begin with a prefix, as a store."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix, self._store = prefix, store
        self._timeout = store.timeout

    @property
    def underlying_store(self) -> Store:
        return self._store

    def _at(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def _put(self, key: str, value: bytes) -> None:
        self._store._put(self._at(key), value)

    def _find(self, key: str) -> bytes | None:
        return self._store._find(self._at(key))

    def _drop(self, key: str) -> None:
        self._store._drop(self._at(key))

    def _claim(self, key: str) -> bool:
        return self._store._claim(self._at(key))

    def _await(self, key: str, seconds: float) -> bytes:
        return self._store._await(self._at(key), seconds)

    def _increase(self, key: str, amount: int) -> int:
        return self._store._increase(self._at(key), amount)

    def _keys(self) -> list[str]:
        return self._store._keys()


class FileStore(Store):
    """A store in a file that all processes can reach: a log of writes, locked while it is read or written."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path = file_name
        self._size = world_size
        self._lock = threading.Lock()

    @property
    def path(self) -> str:
        return self._path

    def _locked(self, change: Any) -> Any:
        """Read the file, apply a change to its values, write them back, and return what the change returns."""
        with self._lock, open(self._path, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            values = json.loads(text) if text else {}
            before = dict(values)
            result = change(values)
            if values != before:
                file.seek(0)
                file.truncate()
                file.write(json.dumps(values))
            return result

    def _put(self, key: str, value: bytes) -> None:
        self._locked(lambda values: values.__setitem__(key, value.decode("latin-1")))

    def _find(self, key: str) -> bytes | None:
        found = self._locked(lambda values: values.get(key))
        return None if found is None else found.encode("latin-1")

    def _drop(self, key: str) -> None:
        self._locked(lambda values: values.pop(key, None))

    def _claim(self, key: str) -> bool:
        def change(values: dict[str, str]) -> bool:
            is_new = key not in values
            values.setdefault(key, "1")
            return is_new

        return self._locked(change)

    def _await(self, key: str, seconds: float) -> bytes:
        end = time.monotonic() + seconds
        while (found := self._find(key)) is None:
            if time.monotonic() > end:
                raise StoreTimeout(key)
            time.sleep(0.01)
        return found

    def _increase(self, key: str, amount: int) -> int:
        def change(values: dict[str, str]) -> int:
            total = int(values.get(key, "0")) + amount
            values[key] = str(total)
            return total

        return self._locked(change)

    def _keys(self) -> list[str]:
        return self._locked(list)
