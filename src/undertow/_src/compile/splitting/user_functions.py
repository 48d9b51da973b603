"""The functions of the user that ran in the traces of a step, by their keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType

Key = tuple[str, int, str]  # of a function: its file, line and name


def key_of(code: CodeType) -> Key:
    """Return the key of a function's code, which stays the same if the code is rewritten."""
    return code.co_filename, code.co_firstlineno, code.co_name


@dataclass
class UserFunctions:
    """Functions of the user that traces ran: read for hooks, unread, and found to be harmless; see `unread_calls`."""

    read: set[Key] = field(default_factory=set)
    unread: set[Key] = field(default_factory=set)
    harmless: set[Key] = field(default_factory=set)
