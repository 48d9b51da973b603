"""Classes that say they live in torch are pickled by name; devices that are not here, and out= of methods, are refused."""

from __future__ import annotations

import copy
import functools
import pickle
import subprocess
import sys
from typing import Any

import pytest

import undertow
from tests.oracle.harness import agree, agree_error

CLASSES = """
Tensor Size dtype device layout memory_format qscheme Generator finfo iinfo Storage UntypedStorage TypedStorage
FloatTensor LongTensor FloatStorage nn.Module nn.Parameter nn.Linear optim.SGD autograd.Function nn.Buffer
cuda.FloatTensor sparse.FloatTensor distributions.Normal nn.utils.rnn.PackedSequence utils.data.TensorDataset
""".split()


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_found_again(name: str, protocol: int) -> None:
    cls = functools.reduce(getattr, name.split("."), undertow)
    assert pickle.loads(pickle.dumps(cls, protocol)) is cls is copy.deepcopy(cls) is copy.copy(cls)


class Shape(undertow.Size):
    """A class of a program's own is pickled as any other."""


def test_a_class_made_from_one() -> None:
    assert pickle.loads(pickle.dumps(Shape)) is Shape
    assert pickle.loads(pickle.dumps([undertow.Size([1, 2]), Shape([3])])) == [undertow.Size([1, 2]), Shape([3])]


def test_in_another_process_without_torch() -> None:
    data = pickle.dumps([undertow.Size, undertow.float32, undertow.device, undertow.FloatTensor, undertow.Size([2])])
    code = f"import sys; sys.modules['torch'] = None; import pickle; print(pickle.loads({data!r}))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    wanted = (
        "[<class 'torch.Size'>, torch.float32, <class 'torch.device'>, <class 'torch.FloatTensor'>, torch.Size([2])]"
    )
    assert printed.strip() == wanted


@pytest.mark.parametrize(
    "device", ["mps", "fpga", "ipu", "ve", "vulkan", "maia", "lazy", "hpu", "privateuseone", "xpu"]
)
@pytest.mark.parametrize(
    "call",
    ["torch.randn(2, device=d)", "torch.empty(2, device=d)", "torch.ones(2).to(d)", "torch.tensor([1], device=d)"],
)
def test_devices_that_are_not_here(device: str, call: str) -> None:
    def program(torch: Any) -> Any:
        return eval(call, {"torch": torch, "d": device})

    agree_error(program)


@pytest.mark.parametrize(
    "call",
    ["x.exp(out=y)", "x.add(1, out=y)", "x.sub(1, out=y)", "x.mul(2, out=y)", "x.atan2(x, out=y)", "x.sum(out=y)",
     "x.cumsum(0, out=y)", "torch.Tensor.neg(x, out=y)"],
)  # fmt: skip
def test_methods_take_no_out(call: str) -> None:
    def program(torch: Any) -> Any:
        return eval(call, {"torch": torch, "x": torch.ones(2), "y": torch.empty(2)})

    agree_error(program, words=1)
    agree(lambda torch: torch.exp(torch.ones(2), out=torch.empty(2)))
