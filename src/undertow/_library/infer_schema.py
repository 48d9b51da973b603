"""Schemas from annotations; `infer_schema` is in `library.py`."""

from __future__ import annotations

import typing

from undertow.library import infer_schema as infer_schema


def tuple_to_list(tuple_type: typing.Any) -> typing.Any:
    """Return `list[int]` for `tuple[int, int]`, because schemas have no tuples."""
    inner = typing.get_args(tuple_type)
    if inner in ((), ((),)):
        return list
    kinds = inner[:1] if inner[-1] is Ellipsis else inner
    return list[typing.Union[kinds]]  # type: ignore[valid-type]  # noqa: UP007
