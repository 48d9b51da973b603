"""Copies: clone, detach, data, the copy module, pickle."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.snippets import agree_snippet, refuse_snippet

COPIES = [
    "x.clone(), g.clone(), (g * 2).clone()",
    "y = g.detach(); (y, y.requires_grad, y.data_ptr() == g.data_ptr())",
    "y = g.data; y.add_(1); (g, g._version, y._version)",
    "y = g.detach(); y.add_(1); (g, g._version, y._version)",
    "copy.copy(x)",
    "y = copy.copy(x); y.add_(1); x",
    "y = copy.copy(x); y.data_ptr() == x.data_ptr()",
    "copy.copy(g).requires_grad",
    "y = copy.deepcopy(x); y.add_(1); (x, y)",
    "y = copy.deepcopy(g); (y, y.is_leaf, y.requires_grad, y.grad)",
    "(g * 2).sum().backward(); y = copy.deepcopy(g); (y.grad, y.grad is g.grad, y.grad.data_ptr() == g.grad.data_ptr())",
    "y = copy.deepcopy(x.t()); (y, y.stride())",
    "y = copy.deepcopy(x[1:, ::2]); (y, y.stride(), y.storage_offset())",
    "y = copy.deepcopy({'a': x, 'b': x}); y['a'] is y['b']",
    "y = copy.deepcopy([x, x[0]]); y[0].zero_(); y[1]",
    "y = copy.deepcopy([x, x.t()]); y[0].add_(1); y",
    "x.tag = 'kept'; copy.deepcopy(x).tag",
    "x.tag = 'kept'; copy.copy(x).tag",
    "copy.deepcopy(i), copy.deepcopy(m), copy.deepcopy(z), copy.deepcopy(x.bfloat16()), copy.deepcopy(e), copy.deepcopy(s)",
    "copy.deepcopy(torch.nn.Parameter(x)), type(copy.deepcopy(torch.nn.Parameter(x))).__name__",
    "copy.deepcopy(x.expand(2, 3, 4)).stride()",
]

PICKLED = [
    "pickle.loads(pickle.dumps(x))",
    "pickle.loads(pickle.dumps(g)), pickle.loads(pickle.dumps(g)).is_leaf",
    "pickle.loads(pickle.dumps(x.t())).stride()",
    "y = pickle.loads(pickle.dumps(x[1:, ::2])); (y, y.stride(), y.storage_offset())",
    "[pickle.loads(pickle.dumps(v)) for v in (i, m, z, s, e, x.half(), x.bfloat16(), x.double(), i.byte())]",
    "pickle.loads(pickle.dumps({'a': [x, 1]}))",
    "y = pickle.loads(pickle.dumps([x, x])); y[0] is y[1]",
    "y = pickle.loads(pickle.dumps([x, x[0]])); y[0].zero_(); y[1]",
    "pickle.loads(pickle.dumps(x, protocol=2)), pickle.loads(pickle.dumps(x, protocol=5))",
    "pickle.loads(pickle.dumps(torch.nn.Parameter(x)))",
    "pickle.loads(pickle.dumps(x.detach().requires_grad_())).requires_grad",
    "x.tag = 'kept'; pickle.loads(pickle.dumps(x)).tag",
    "g.grad = x; pickle.loads(pickle.dumps(g)).grad",
    "pickle.loads(pickle.dumps([torch.float32, torch.Size([2]), torch.device('cpu'), torch.int64]))",
    "pickle.loads(pickle.dumps(x.shape)) == x.shape, type(pickle.loads(pickle.dumps(x.shape))).__name__",
]


@pytest.mark.parametrize("text", COPIES + PICKLED)
def test_copied(text: str) -> None:
    agree_snippet(text)


@pytest.mark.parametrize(
    "text",
    [
        "copy.deepcopy(g * 2)",
        "copy.deepcopy([g.t()])",
        "g.clone(5)",
        "x.detach(1)",
        "x.clone(memory_format=torch.float32)",
    ],
)
def test_refused(text: str) -> None:
    refuse_snippet(text)


def test_pickle_of_a_tensor_with_a_history_forgets_it() -> None:
    agree_snippet("y = pickle.loads(pickle.dumps(g * 2)); (y, y.requires_grad, y.is_leaf)", raises=None)


def test_copies_of_stretched_tensors_have_memory_of_their_own() -> None:
    def program(torch: Any, log: Any) -> Any:
        x = torch.arange(3.0)
        for copy in (x.repeat(2, 1), x.repeat(1), x[None].tile(2, 1), x.expand(2, 3).double(), x.expand(2, 3).long()):
            log(copy.stride(), copy.is_contiguous())
            copy[0] += 1
            log(copy)
        return x

    agree(program)
