"""A relay between JAX's client and the coordinator, inside each rank.

JAX's client ends the process with SIGABRT as soon as its connection to the coordinator breaks. So it connects to this
relay instead, which keeps its connection open. If the coordinator ends, the client does not notice, and undertow raises
errors.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

_RETRY = 0.05  # seconds between attempts to reach a coordinator that is about to start


class Relay:
    """Passes bytes between connections to a local port and the coordinator."""

    def __init__(self, host: str, port: int, timeout: float, on_loss: Callable[[], None]) -> None:
        self._target, self._end = (host, port), time.monotonic() + timeout
        self._on_loss = on_loss
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connected = False
        _spawn(self._accept)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            _spawn(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        server = self._reach()
        if server is None:
            client.detach()  # and left open: JAX's client ends the process if its connection is closed
            return
        self.connected = True
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Plain descriptors: Python would close sockets when it finalizes, while JAX still uses them.
        inner, outer = client.detach(), server.detach()
        _spawn(_copy, inner, outer)
        _copy(outer, inner)
        self._on_loss()

    def _reach(self) -> socket.socket | None:
        while True:
            try:
                return socket.create_connection(self._target)
            except OSError:
                if time.monotonic() > self._end:
                    return None
                time.sleep(_RETRY)


def _spawn(body: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=body, args=arguments, name="undertow relay", daemon=True).start()


def _copy(source: int, target: int) -> None:
    """Copy bytes until the source ends."""
    try:
        while data := os.read(source, 1 << 16):
            while data:
                data = data[os.write(target, data) :]
    except OSError:
        pass
