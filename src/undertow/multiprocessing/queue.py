"""`torch.multiprocessing.queue`: Python's queues between processes, and connections that carry tensors."""

from __future__ import annotations

import io
import pickle
from multiprocessing.queues import Queue, SimpleQueue
from multiprocessing.reduction import ForkingPickler
from typing import Any

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue"]


class ConnectionWrapper:
    """A connection whose `send` and `recv` handle everything that multiprocessing can pickle."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn

    def send(self, obj: Any) -> None:
        buffer = io.BytesIO()
        ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(obj)
        self.send_bytes(buffer.getvalue())

    def recv(self) -> Any:
        return pickle.loads(self.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        if name == "conn":
            raise AttributeError(f"'{type(self).__name__}' object has no attribute 'conn'")
        return getattr(self.conn, name)
