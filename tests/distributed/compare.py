"""Compare what a program shows on undertow with what it shows on PyTorch, rank by rank and line by line."""

from __future__ import annotations

import re

from tests.distributed.pools import pool

_DECIMAL = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def assert_same(program: str, size: int = 2) -> None:
    """Run a program (`module:function`) on both, with a world of this size; fail with the first lines that differ."""
    theirs, ours = pool("torch", size).run(program), pool("undertow", size).run(program)
    assert all(theirs), f"{program} shows nothing"
    for rank, (expected, found) in enumerate(zip(theirs, ours, strict=True)):
        different = [
            f"  torch:    {line}\n  undertow: {own}"
            for line, own in zip(expected + [""] * len(found), found + [""] * len(expected), strict=True)
            if line != own and not _is_rounding(line, own)
        ]
        assert not different, f"{program}, rank {rank}:\n" + "\n".join(different[:5])


def _is_rounding(line: str, own: str) -> bool:
    """Whether two lines differ only in the last of the decimals that programs show, four or five of them."""
    if _DECIMAL.sub("", line) != _DECIMAL.sub("", own):
        return False
    pairs = zip(map(float, _DECIMAL.findall(line)), map(float, _DECIMAL.findall(own)), strict=True)
    return all(abs(one - other) <= 1.5e-4 for one, other in pairs)
