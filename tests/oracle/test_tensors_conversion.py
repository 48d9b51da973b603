"""Leaving and entering: numbers, lists, NumPy, DLPack, dtypes, iteration, formatting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import agree, without_cuda
from tests.oracle.snippets import agree_snippet, refuse_snippet

PYTHON = [
    "s.item(), type(s.item())",
    "i[2].item(), type(i[2].item())",
    "m[0, 0].item(), type(m[0, 0].item())",
    "z[0].item(), x[1:2, 2:3].item()",
    "g[0, 1].item()",
    "torch.tensor(0.1).item(), torch.tensor(0.1, dtype=torch.float16).item()",
    "torch.tensor(0.1, dtype=torch.bfloat16).item()",
    "x.tolist(), i.tolist(), m.tolist(), z.tolist(), s.tolist(), e.tolist(), x.t().tolist()",
    "torch.zeros(2, 0).tolist(), torch.tensor([0.1], dtype=torch.float64).tolist(), g.tolist()",
    "type(x.tolist()[0][0]), type(i.tolist()[0]), type(m.tolist()[0][0])",
    "float(s), int(s), bool(s), complex(s)",
    "float(i[3]), int(i[3]), bool(i[0]), operator.index(i[3])",
    "int(torch.tensor(-2.7)), int(torch.tensor([[5]])), bool(torch.tensor([0.0])), bool(torch.tensor(False))",
    "float(g[0, 1]), int(g[0, 1]), bool(g[0, 1])",
    "math.floor(s), math.ceil(s)",
    "math.sqrt(s), math.exp(torch.tensor(1.0)), max(i).item(), min(i).item(), sum(i)",
    "len(x), len(c), len(e), len(x.t())",
    "list(i)",
    "list(x)",
    "[float(v) for v in i]",
    "[row.shape for row in c]",
    "a, b, d = x; (a, b, d)",
    "[v for v in x.t()]",
    "list(reversed(i))",
    "list(enumerate(i))[2]",
    "list(zip(i, i))[1]",
    "dict(zip('abc', x))['b']",
    "[*i]",
    "max(x[0]), min(x[0]), sorted(i, reverse=True)[0]",
    "3 in i, 9 in i, 2.5 in x, s in x, torch.tensor(3) in i, 11 in x",
    "[5, 6, 7][i[1]]",
    "list(range(i[2], i[5]))",
    "'abc'[i[1]]",
    "range(5)[i[2]]",
    "bytes(torch.tensor([65, 66], dtype=torch.uint8).tolist())",
    "any(i), all(i), any(m[0]), all(torch.ones(2))",
    "if_true = 1 if s > 2 else 0; if_true",
    "s and 5, s or 5, not s",
    "isinstance(s.item(), float), s.__index__ is not None",
    "x.__len__(), x.__contains__(3), x.__bool__ is not None",
    "hasattr(x, '__iter__'), callable(x.__getitem__)",
]

FORMATTED = [
    "f'{s:.3f}'",
    "f'{i[3]:5d}'",
    "f'{s:e}'",
    "f'{x}'",
    "f'{x!r}' == repr(x)",
    "f'{s}'",
    "f'{g[0, 1]:.2f}'",
    "f'{m[0, 0]}'",
    "'{}'.format(i)",
    "'%s' % s",
    "'%.2f' % s",
    "'%d' % i[3]",
    "str(x), repr(i), str(e), str(m), str(z), str(s)",
    "str(g), repr(g * 2), repr(g.sum()), repr(g[0]), repr(g.t()), repr(g.detach())",
    "repr(x.double()), repr(x.half()), repr(i.int()), repr(x.bfloat16()), repr(torch.zeros(2, dtype=torch.uint8))",
    "repr(torch.tensor([1.0, math.nan, math.inf])), repr(torch.tensor([1e-8, 1.0])), repr(torch.tensor(1e10))",
    "repr(torch.zeros(0)), repr(torch.zeros(2, 0)), repr(torch.zeros(0, dtype=torch.int64)), repr(torch.arange(2000))",
    "repr(torch.arange(30.0)), repr(c), repr(torch.randn(3, 3)), repr(torch.tensor(True)), repr(torch.tensor(-1.5))",
    "repr(g.double() + 1), repr((g + 1).relu()), repr(torch.softmax(g, 1)), repr(torch.nn.functional.linear(g, g))",
    "t = g * 2; t[0] = 0; repr(t)",
    "t = g * 2; t.add_(1); repr(t), repr(t.t())",
    "repr([x[0], s]), repr((s,)), repr({'a': s})",
    "repr(torch.nn.Parameter(x[0]))",
    "repr(x.shape), repr(x.dtype), repr(x.device), str(x.stride())",
    "repr(x.max(0)), repr(x.sort(1))",
    "repr(x.to(torch.complex64)), repr(z), repr(z * 1e5)",
]

NUMPY = [
    "x.numpy()",
    "x.numpy().dtype, i.numpy().dtype, m.numpy().dtype, z.numpy().dtype, x.half().numpy().dtype",
    "x.t().numpy().strides, x[1:, ::2].numpy().strides, s.numpy().shape, e.numpy().shape",
    "a = x.numpy(); a[0, 0] = 99; x",
    "a = x.numpy(); x[0, 0] = 99; a",
    "a = x[1:, ::2].numpy(); a += 100; x",
    "t = torch.from_numpy(n); t[0, 0] = 99; n",
    "t = torch.from_numpy(n); n[0, 0] = 99; t",
    "torch.from_numpy(n.T).stride(), torch.from_numpy(n[:, ::2]).stride(), torch.from_numpy(n[1])",
    "torch.from_numpy(np.arange(3)), torch.from_numpy(np.array(5.0)), torch.from_numpy(np.zeros((0, 2)))",
    "torch.from_numpy(np.array([True])), torch.from_numpy(np.array([1j])), torch.from_numpy(np.arange(3, dtype='int8'))",
    "torch.from_numpy(np.arange(3, dtype='uint8')), torch.from_numpy(np.arange(3, dtype='float16'))",
    "torch.as_tensor(n).data_ptr() == n.ctypes.data, torch.tensor(n).data_ptr() == n.ctypes.data",
    "x.data_ptr() == x.numpy().ctypes.data",
    "g.detach().numpy()",
    "g.numpy(force=True)",
    "x.numpy(force=True)",
    "np.asarray(x)",
    "np.array(x)",
    "np.array(x, dtype='int32')",
    "np.asarray(x, dtype=np.float64)",
    "np.array(x)[0, 0], np.asarray(x) is x.numpy()",
    "a = np.asarray(x); a[0, 0] = 99; x",
    "a = np.array(x); a[0, 0] = 99; x",
    "np.sin(x)",
    "type(np.sin(x))",
    "np.exp(s)",
    "np.add(x, 1)",
    "np.concatenate([x, x])",
    "np.stack([s, s])",
    "np.array([s, s])",
    "np.allclose(x, x.numpy())",
    "np.testing.assert_array_equal(x, x.numpy())",
    "x + n[:, :1].T[:, :1].item()",
    "torch.from_numpy(n) + n",
    "type(torch.from_numpy(n) * n)",
    "x[0] + np.float64(1.5)",
    "x[0] * np.float32(2)",
    "i + np.int64(3)",
    "i + np.float64(0.5)",
    "i / np.int32(2)",
    "x[0] > np.float64(1.5)",
    "np.float64(2) * s",
    "type(np.float64(2) * x[0])",
    "np.float64(2) * x[0]",
    "x.numpy().flags.writeable",
    "x.__array__()",
    "x.__array__(np.float64).dtype",
    "x.__array_priority__",
    "torch.tensor(np.float64(0.1)) + 1",
    "x == x.numpy()",
    "n == torch.ones(2, 3)",
    "type(n == torch.ones(2, 3))",
]

DLPACK = [
    "np.from_dlpack(x)",
    "a = np.from_dlpack(i); i[0] = 99; a",
    "torch.from_dlpack(n)",
    "t = torch.from_dlpack(n); n[0, 0] = 99; t",
    "torch.from_dlpack(x)",
    "t = torch.from_dlpack(x); t[0, 0] = 99; x",
    "x.__dlpack_device__()[1]",
    "torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))",
    "np.from_dlpack(x.t()).strides, np.from_dlpack(x[1:, ::2])",
    "torch.from_dlpack(np.arange(3, dtype='int16'))",
]

CAST = [
    "x.to(torch.float64)",
    "x.to(dtype=torch.int32)",
    "x.to('cpu') is x, x.to(torch.float32) is x, x.to(x) is x",
    "x.to(torch.device('cpu'), torch.float16)",
    "x.to(i), i.to(x)",
    "x.to(torch.float32, copy=True) is x",
    "x.to('cpu', torch.float64, non_blocking=True)",
    "x.double(), x.float() is x, x.half(), x.bfloat16(), x.int(), x.long(), x.short(), x.char(), x.byte(), x.bool()",
    "z.cfloat() is z, z.cdouble(), x.cfloat()",
    "x.type(torch.float64), x.type('torch.LongTensor'), x.type(torch.IntTensor), x.type(torch.float32) is x",
    "x.type_as(i), i.type_as(x), x.type_as(x) is x",
    "x.cpu() is x, x.to() is x",
    "torch.tensor([1.7, -1.7, 2.5]).to(torch.int64)",
    "torch.tensor([0.0, 0.1, math.nan, -0.0]).bool()",
    "torch.tensor([255, 256, -1]).to(torch.uint8)",
    "torch.tensor([127, 128, -129]).to(torch.int8)",
    "torch.tensor([1e5, 7e4, 1e-8]).half()",
    "torch.tensor([1.001, 3.14159, 1e38]).bfloat16()",
    "torch.tensor([1.0, 1.00390625, 1.01171875, 0.1]).bfloat16().float()",
    "torch.tensor([1.0 + 2**-24, 0.1], dtype=torch.float64).float()",
    "torch.tensor([True, False]).to(torch.float16), m.long().sum(), m.to(torch.uint8)",
    "torch.tensor([2**53 + 1]).double()",
    "x.to(torch.complex64)",
    "g.to(torch.float64), g.double().requires_grad, g.int().requires_grad, g.bool().grad_fn",
    "torch.autograd.grad(g.double().pow(2).sum(), g)",
    "torch.autograd.grad((g.half() * 2).sum(), g)",
    "torch.autograd.grad(g.to(torch.complex128).abs().sum(), g)",
    "x.t().to(torch.float64).stride(), x.t().half().stride(), x[:, ::2].to(torch.float64).stride()",
    "x.t().to(torch.float64, memory_format=torch.contiguous_format).stride()",
    "x.requires_grad_().double().is_leaf",
]


@pytest.mark.parametrize("text", PYTHON + NUMPY + DLPACK + CAST)
def test_converted(text: str) -> None:
    agree_snippet(text)


@pytest.mark.parametrize("text", FORMATTED)
def test_formatted(text: str) -> None:
    agree_snippet(text)


def test_complex_to_real_warns() -> None:
    agree_snippet("z.to(torch.float32)", warns=True)
    agree_snippet("z.double()", warns=True)


def test_writable_warning_for_a_read_only_array() -> None:
    agree_snippet("n.setflags(write=False); torch.from_numpy(n)", warns=True)


def test_number_of_a_tensor_that_requires_grad_warns() -> None:
    agree_snippet("float(g.sum()), int(g.sum()), complex(g.sum())", warns=True)
    agree_snippet("math.sqrt(g.sum())", warns=True)


@pytest.mark.parametrize(
    "text",
    [
        "x.item()",
        "e.item()",
        "bool(x)",
        "bool(e)",
        "float(x)",
        "int(x)",
        "complex(x)",
        "float(e)",
        "float(z[0])",
        "int(z[0])",
        "operator.index(s)",
        "operator.index(i)",
        "operator.index(m)",
        "int(torch.tensor(math.nan))",
        "int(torch.tensor(math.inf))",
        "[1, 2][s]",
        "range(s)",
        "len(s)",
        "iter(s)",
        "list(s)",
        "a, b = x",
        "for _ in s: pass",
        "'a' in x",
        "None in x",
        "x and 5",
        "not x",
        "if x: pass",
        "while x > 3: pass",
        "f'{x:.2f}'",
        "f'{x:5}'",
        "f'{s:d}'",
        "'%d' % x",
        "g.numpy()",
        "(g * 2).numpy()",
        "np.asarray(g)",
        "np.sin(g)",
        "x.bfloat16().numpy()",
        "z.conj().numpy()",
        "torch.from_numpy(x)",
        "torch.from_numpy(np.array(['a']))",
        "torch.from_numpy(n[::-1])",
        "torch.from_numpy(n.astype('>f4'))",
        "torch.from_dlpack(5)",
        "g.__dlpack__()",
        "x.to('nowhere')",
        *without_cuda(["x.to(5)"]),
        "round(s)",
        "math.trunc(s)",
        "np.sum(x)",
        "n * torch.ones(2, 3)",
        "n @ torch.ones(3)",
        "x.to(torch.float32, torch.float64)",
        "x.type('torch.NoTensor')",
        "x.type(5)",
        "x.double(5)",
        "x.tolist(5)",
        "hash(x.tolist())",
        "float('x') + x",
        "x < 'a'",
        "pickle.dumps(lambda: x)",
    ],
)
def test_refused(text: str) -> None:
    refuse_snippet(text)


@pytest.mark.parametrize("text", ["p.numpy()", "np.asarray(p)", "(p * 2).numpy()", "y.numpy()", "np.sin(p)"])
@pytest.mark.parametrize("block", ["no_grad", "inference_mode", "enable_grad"])
def test_numpy_of_what_requires_grad(text: str, block: str) -> None:
    """Only while gradients are recorded is it refused."""

    def program(torch: Any) -> Any:
        p = torch.ones(2, requires_grad=True)
        names = {"torch": torch, "np": np, "p": p, "y": p * 2}
        with getattr(torch, block)():
            return eval(text, names)

    agree(program)
