"""Random keys and random chains of views and writes, against torch: values, node names, gradients, second gradients.

A key or a step is source text, so that a failing example reads as the program it is.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.oracle.facts import opening
from tests.oracle.harness import Log, agree
from tests.oracle.programs import names

ONE_RUN = settings(
    max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
SHAPES = [(3,), (2, 3), (2, 3, 4), (3, 1, 2), (2, 2, 3, 2), (0, 3)]

# --- keys ----------------------------------------------------------------------------------------------------------------


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> str:
    """The text of something that may stand in square brackets behind a tensor of this shape."""
    entries: list[str] = []
    dim = 0
    while dim < len(shape) and len(entries) < 6:
        n = shape[dim]
        kind = draw(
            st.sampled_from(["int", "slice", "slice", "none", "tensor", "list", "column", "mask", "bool", "stop"])
        )
        places = st.integers(-n, n - 1) if n else st.nothing()
        if kind == "stop":
            break
        if kind in ("int", "tensor", "list", "column") and not n:
            kind = "slice"
        if kind == "int":
            entries.append(str(draw(places)))
        elif kind == "slice":
            ends = st.one_of(st.none(), st.integers(-n - 1, n + 1))
            entries.append(f"slice({draw(ends)}, {draw(ends)}, {draw(st.sampled_from([None, 1, 2]))})")
        elif kind == "none":
            entries.append("None")
            continue
        elif kind == "bool":
            entries.append(str(draw(st.booleans())))
            continue
        elif kind == "mask":
            entries.append(f"torch.tensor({[draw(st.booleans()) for _ in range(n)]}, dtype=torch.bool)")
        elif kind == "column":
            entries.append(f"torch.tensor({[[draw(places)], [draw(places)]]})")
        else:
            listed = str([draw(places), draw(places)])
            entries.append(listed if kind == "list" else f"torch.tensor({listed})")
        dim += 1
    if draw(st.booleans()) and len(entries) < 6:
        entries.insert(draw(st.integers(0, len(entries))), "Ellipsis")
    return f"({', '.join(entries)},)" if entries else "()"


def leaf(torch: ModuleType, shape: tuple[int, ...]) -> Any:
    numbers = np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape) / 3 + 0.3
    return torch.tensor(numbers, requires_grad=True)


def note_gradients(torch: ModuleType, log: Log, result: Any, leaves: list[Any]) -> None:
    """Of a sum of cubes, so that the second gradient is not zero."""
    if not result.requires_grad:
        return
    firsts = torch.autograd.grad((result**3).sum(), leaves, create_graph=True, allow_unused=True)
    log("first", [None if first is None else first.detach() for first in firsts])
    curved = [first for first in firsts if first is not None and first.requires_grad]
    if curved:
        seconds = torch.autograd.grad(sum((first**2).sum() for first in curved), leaves, allow_unused=True)
        log("second", [None if second is None else second.detach() for second in seconds])


@ONE_RUN
@given(st.sampled_from(SHAPES).flatmap(lambda shape: st.tuples(st.just(shape), keys(shape))))
def test_reading(case: tuple[tuple[int, ...], str]) -> None:
    shape, key = case

    def program(torch: ModuleType, log: Log) -> None:
        x = leaf(torch, shape)
        y = x * 1
        part = y[eval(key, {"torch": torch})]
        log(part, names(part.grad_fn, 8), part._is_view(), part._base is y)
        note_gradients(torch, log, part, [x])

    agree(program, graph=True)


VALUES = {
    "number": lambda torch, part, w: 2.5,
    "scalar": lambda torch, part, w: w[0],
    "whole": lambda torch, part, w: torch.ones(part.shape, dtype=torch.float64) * w[1],
    "row": lambda torch, part, w: torch.ones(part.shape[-1:], dtype=torch.float64) * w[1],
}


@ONE_RUN
@given(
    st.sampled_from(SHAPES).flatmap(lambda shape: st.tuples(st.just(shape), keys(shape))),
    st.sampled_from(sorted(VALUES)),
)
def test_writing(case: tuple[tuple[int, ...], str], value: str) -> None:
    shape, key = case

    def program(torch: ModuleType, log: Log) -> None:
        x, w = leaf(torch, shape), torch.tensor([1.5, 2.5], dtype=torch.float64, requires_grad=True)
        y = x * 1
        where = eval(key, {"torch": torch})
        y[where] = VALUES[value](torch, y.detach()[where], w)
        log(y, y._version, names(y.grad_fn, 3))
        note_gradients(torch, log, y, [x, w])

    agree(program, graph=True)


# --- chains of views and writes ------------------------------------------------------------------------------------------

VIEWS = """v[0] v[-1] v[:,1] v[...,0] v[1:] v[:,::2] v[None] v.t() v.transpose(0,-1) v.view(-1) v.reshape(-1) v.unsqueeze(1)
v.squeeze() v.squeeze(0) v.narrow(0,0,1) v.diagonal() v.diagonal(0,-2,-1) v.unfold(0,2,2) v.as_strided((2,),(1,))
v.flatten() v.unflatten(0,(1,-1)) v.movedim(0,-1) v.select(-1,0) v.chunk(2)[0] v.unbind()[1] v.split(1)[0] v.detach()
v[...] v.mT v.swapaxes(0,1) v.tensor_split(2)[0] v[()]""".split()
WRITES = """v.mul_(2) v.add_(w[0]) v.mul_(w[1]) v.zero_() v.fill_(3.) v.fill_(w[0]) v.copy_(w[0]) v.sin_() v.exp_()
v.__setitem__(0,w[0]) v.__setitem__(...,w[1]) v.masked_fill_(v.detach()>2,w[0]) v.index_fill_(0,torch.tensor([0]),2.)
v.index_put_((torch.tensor([0,0]),),w[0],accumulate=True) v.__setitem__(v.detach()>3,w[1]) v.clamp_(0,5) v.div_(w[0])
v.sub_(v.detach()) v.pow_(2) v.neg_()""".split()


@ONE_RUN
@given(
    st.sampled_from([(2, 3), (3, 3), (2, 3, 4), (4,), (1, 3)]),
    st.lists(st.sampled_from(VIEWS + WRITES), min_size=1, max_size=5),
    st.booleans(),
)
def test_views_and_writes(shape: tuple[int, ...], steps: list[str], recorded: bool) -> None:
    def program(torch: ModuleType, log: Log) -> None:
        x, w = leaf(torch, shape), torch.tensor([1.5, 2.5], dtype=torch.float64, requires_grad=True)
        held = [x * 1 if recorded else x.detach().clone()]
        for step in steps:
            try:
                made = eval(step, {"torch": torch, "v": held[-1], "w": w})
            except Exception as error:
                log(step, "raises", opening(str(error), 6))
                continue
            if step in VIEWS:
                held.append(made)
            log(step, held[-1], held[-1]._version)
        total = torch.zeros((), dtype=torch.float64)
        for number, tensor in enumerate(held):
            try:
                total = total + (tensor * (number + 1)).sum()
            except Exception as error:
                log(number, "raises", opening(str(error), 6))
        note_gradients(torch, log, total, [x, w])

    agree(program)
