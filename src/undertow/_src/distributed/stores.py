"""PyTorch's stores. The default group's is JAX's key-value store; the others live in memory or in a file."""

from __future__ import annotations

import fcntl
import json
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from undertow._src.distributed.errors import DistStoreError
from undertow._src.distributed.runtime import LocalRuntime, Runtime, StoreTimeout

_DEFAULT = timedelta(seconds=300)


def _raw(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store:
    """Keys and values that processes share."""

    __module__ = "torch._C._distributed_c10d"

    def __init__(self) -> None:
        self._timeout = _DEFAULT

    # What a store defines:

    def _put(self, key: str, value: bytes) -> None:
        raise NotImplementedError

    def _find(self, key: str) -> bytes | None:
        raise NotImplementedError

    def _drop(self, key: str) -> None:
        raise NotImplementedError

    def _await(self, key: str, seconds: float) -> bytes:
        raise NotImplementedError

    def _increase(self, key: str, amount: int) -> int:
        raise NotImplementedError

    def _keys(self) -> list[str]:
        raise NotImplementedError

    # What programs call:

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
        """Set a key if it has the expected value, or is missing and an empty one was expected; return its value."""
        found, expected = self._find(key), _raw(expected_value)
        if found is None and expected:
            return expected
        if found == expected or found is None:
            self._put(key, _raw(desired_value))
            return _raw(desired_value)
        return found

    def append(self, key: str, value: str | bytes) -> None:
        """Append to a key's value."""
        self._put(key, (self._find(key) or b"") + _raw(value))

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

    def __init__(self, runtime: Runtime | LocalRuntime, prefix: str = "store") -> None:
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

    def _await(self, key: str, seconds: float) -> bytes:
        return self._runtime.get(self._at(key), seconds)

    def _increase(self, key: str, amount: int) -> int:
        return self._runtime.add(self._at(key), amount)

    def _keys(self) -> list[str]:
        start = len(self._prefix) + 1
        return [key[start:] for key in self._runtime.below(self._prefix)]


class HashStore(RuntimeStore):
    """A store in this process's memory, for its threads."""

    def __init__(self) -> None:
        super().__init__(LocalRuntime())


class PrefixStore(Store):
    """A store whose keys are those of another store that begin with a prefix."""

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
