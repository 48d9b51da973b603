"""Whole objects (modules, optimizers, schedulers, distributions) in files that the other library reads, and in pickles."""

from __future__ import annotations

import inspect
import io
import pickle
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import torch as real_torch

import undertow

AREAS = "nn nn.utils.rnn nn.utils.prune optim optim.lr_scheduler optim.swa_utils utils.data distributions amp".split()


@pytest.mark.parametrize("area", AREAS)
def test_classes_say_that_they_live_where_pytorch_has_them(area: str) -> None:
    theirs, ours = import_module(f"torch.{area}"), import_module(f"undertow.{area}")
    homes = {
        name: (there.__module__.replace("torch", "undertow", 1), getattr(ours, name).__module__)
        for name, there in vars(theirs).items()
        if inspect.isclass(there) and there.__module__.startswith("torch") and hasattr(ours, name)
    }
    homes = {name: home for name, home in homes.items() if find_spec(home[0]) is not None}
    assert homes
    # Parameters and tensors say that they live in torch, which their own way of pickling makes good.
    moved = {name: home for name, home in homes.items() if home[0] != home[1].replace("torch", "undertow", 1)}
    assert moved == {}


MADE = """
nn.MultiheadAttention(4, 2)
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)
nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Dropout(0.2))
nn.ModuleDict({'a': nn.Conv2d(1, 2, 3), 'b': nn.Embedding(3, 2)})
nn.ParameterList([torch.ones(2), torch.zeros(1)])
nn.LSTM(2, 3)
nn.CrossEntropyLoss(weight=torch.ones(3))
torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1), 2)
torch.optim.lr_scheduler.OneCycleLR(torch.optim.Adam([torch.ones(1, requires_grad=True)]), 0.1, total_steps=9)
torch.optim.Adafactor([torch.ones(1, requires_grad=True)])
torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2))
torch.distributions.Normal(torch.zeros(2), torch.ones(2))
torch.distributions.AffineTransform(1.0, 2.0)
torch.utils.data.TensorDataset(torch.ones(3))
torch.amp.GradScaler('cpu')
"""


@pytest.mark.parametrize("text", MADE.strip().split("\n"))
def test_whole_objects_pass_both_ways(text: str) -> None:
    def made(torch: Any) -> Any:
        return eval(text, {"torch": torch, "nn": torch.nn})

    def passed(writer: Any, reader: Any) -> Any:
        file = io.BytesIO()
        writer.save(made(writer), file)
        file.seek(0)
        return reader.load(file, weights_only=False)

    for writer, reader in ((undertow, real_torch), (real_torch, undertow)):
        read, own = passed(writer, reader), passed(reader, reader)
        assert type(read) is type(own) is type(made(reader))
        assert read.__dict__.keys() == own.__dict__.keys()


@pytest.mark.parametrize("text", MADE.strip().split("\n"))
def test_whole_objects_pickle(text: str) -> None:
    whole = eval(text, {"torch": undertow, "nn": undertow.nn})
    assert type(pickle.loads(pickle.dumps(whole))) is type(whole)


@pytest.mark.parametrize(
    "area", ["", ".nn.functional", ".special", ".linalg", ".fft", ".nn.init", ".nn.utils", ".func"]
)
def test_functions_pickle(area: str) -> None:
    """A module that holds one goes to other processes."""
    home = import_module("undertow" + area)
    functions = {name: value for name, value in vars(home).items() if inspect.isfunction(value) and name[0] != "_"}
    assert functions
    for function in functions.values():
        assert pickle.loads(pickle.dumps(function)) is function


def test_methods_pickle() -> None:
    """As do what is applied to lists, and the method of a tensor, with the tensor."""
    for name in dir(undertow.Tensor):
        method = getattr(undertow.Tensor, name)
        if inspect.isfunction(method):
            assert pickle.loads(pickle.dumps(method)) is method, name
    for name in dir(undertow):
        if name.startswith("_foreach_"):
            assert pickle.loads(pickle.dumps(getattr(undertow, name))) is getattr(undertow, name)
    assert pickle.loads(pickle.dumps(undertow.ones(2).add))(1).tolist() == [2, 2]
