"""The server of `TCPStore`, and a connection to it. A request is a line of JSON, and so is its answer."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from typing import Any

from undertow._src.distributed.runtime import LocalRuntime, StoreTimeout

_METHODS = ("set", "get", "find", "below", "add", "delete", "claim")


class _Handler(socketserver.StreamRequestHandler):
    """Answers one process's requests, in order."""

    def handle(self) -> None:
        values: LocalRuntime = self.server.values  # type: ignore[attr-defined]
        for line in self.rfile:
            method, arguments = json.loads(line)
            try:
                if method not in _METHODS:
                    raise ValueError(method)
                answer = {"result": _packed(getattr(values, method)(*map(_unpacked, arguments)))}
            except StoreTimeout:
                answer = {"timeout": True}
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    """Keys and values in this process's memory, for all processes."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("", port), _Handler)
        self.values = LocalRuntime()
        self.port: int = self.socket.getsockname()[1]
        threading.Thread(target=self.serve_forever, name="undertow store", daemon=True).start()


_hosted: dict[int, Server] = {}


def host(port: int, shared: bool) -> Server:
    """Host a store. If several processes share one, another may host it already."""
    if shared and port in _hosted:
        return _hosted[port]
    server = _hosted[port] = Server(port)
    return server


class Connection:
    """A store in a different process; its methods are those of `LocalRuntime`."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        end = time.monotonic() + timeout
        while True:
            try:
                self._socket = socket.create_connection((host, port))
                break
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)  # the server may start later
        self._file = self._socket.makefile("rwb")
        self._lock = threading.Lock()

    def _ask(self, method: str, *arguments: Any) -> Any:
        with self._lock:
            self._file.write(json.dumps([method, list(map(_packed, arguments))]).encode() + b"\n")
            self._file.flush()
            line = self._file.readline()
        if not line:
            raise ConnectionError("the process that hosts the store is gone")
        answer = json.loads(line)
        if "timeout" in answer:
            raise StoreTimeout(arguments[0])
        return _unpacked(answer["result"])

    def set(self, key: str, value: bytes) -> None:
        self._ask("set", key, value)

    def get(self, key: str, timeout: float | None = None) -> bytes:
        return self._ask("get", key, timeout)

    def find(self, key: str) -> bytes | None:
        return self._ask("find", key)

    def below(self, prefix: str) -> dict[str, bytes]:
        return self._ask("below", prefix)

    def add(self, key: str, amount: int) -> int:
        return self._ask("add", key, amount)

    def delete(self, key: str) -> None:
        self._ask("delete", key)

    def claim(self, key: str) -> bool:
        return self._ask("claim", key)


def _packed(value: Any) -> Any:
    """Return a value for JSON: bytes become a list with one string."""
    if isinstance(value, bytes):
        return [value.decode("latin-1")]
    if isinstance(value, dict):
        return {key: _packed(item) for key, item in value.items()}
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return value[0].encode("latin-1")
    if isinstance(value, dict):
        return {key: _unpacked(item) for key, item in value.items()}
    return value
