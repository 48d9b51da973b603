"""Small functions that packages take from PyTorch's utilities: shapes of trees as text, versions, settings."""

from __future__ import annotations

import importlib
import io
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from types import ModuleType
from typing import Any

import pytest

from tests.oracle.harness import agree, agree_error

Point = namedtuple("Point", "a")

TREES: list[Any] = [
    [1], (1, 2), {"b": 1, "a": [2, None]}, OrderedDict(z=1), defaultdict(list, a=1), deque([1, 2], maxlen=3), 5, [],
    [1, (2, {"a": 3})],
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: type(tree).__name__)
def test_shapes_of_trees_as_text(tree: Any) -> None:
    def program(torch: ModuleType) -> Any:
        pytree = torch.utils._pytree
        spec = pytree.tree_structure(tree)
        text = pytree.treespec_dumps(spec)
        again = pytree.treespec_loads(text)
        return text, again == spec, repr(again), isinstance(spec, pytree.PyTreeSpec)

    agree(program)


@pytest.mark.parametrize(
    "text",
    [
        "treespec_loads('[9, {}]')",
        'treespec_loads(\'[1, {"type": "zz.q", "context": null, "children_spec": []}]\')',
        "treespec_dumps(3)",
        "treespec_dumps(pytree.tree_structure([1]), protocol=7)",
        "treespec_dumps(pytree.tree_structure(point))",
    ],
)
def test_texts_that_are_refused(text: str) -> None:
    def program(torch: ModuleType) -> Any:
        return eval(f"pytree.{text}", {"pytree": torch.utils._pytree, "point": Point(1)})

    agree_error(program, words=6)


def test_bytes_of_storages_may_be_left_out() -> None:
    def program(torch: ModuleType) -> Any:
        empty, full = io.BytesIO(), io.BytesIO()
        with torch.serialization.skip_data():
            torch.save({"a": torch.arange(4.0)}, empty)
        torch.save({"a": torch.arange(4.0)}, full)
        with torch.serialization.skip_data():
            shape = torch.load(io.BytesIO(full.getvalue()))["a"].shape
        return torch.load(io.BytesIO(empty.getvalue())), shape, torch.load(io.BytesIO(full.getvalue()))

    agree(program)


NAMES = """
s.check_module_version_greater_or_equal(m, (1, 2)), s.check_module_version_greater_or_equal(m, (2,))
s.check_module_version_greater_or_equal(bad, (1,), False)
s.normalize_storage_type(torch.FloatStorage).__name__, s.SourceChangeWarning.__mro__[1], str(s.StorageType("FloatStorage"))
torch.utils.checkpoint.DefaultDeviceType.get_device_type()
""".strip().splitlines()


@pytest.mark.parametrize("text", NAMES)
def test_small_functions(text: str) -> None:
    def program(torch: ModuleType) -> Any:
        good = types.SimpleNamespace(__name__="mm", __version__="1.2.3")
        bad = types.SimpleNamespace(__name__="mm", __version__="x.y")
        return eval(text, {"torch": torch, "s": torch.serialization, "m": good, "bad": bad})

    agree(program, warns=True)


def test_sets_of_dispatch_keys() -> None:
    def program(torch: ModuleType) -> Any:
        keys, of = torch._C.DispatchKey, torch._C.DispatchKeySet
        both = of(keys.AutocastCUDA) | of(keys.AutocastCPU)
        numbers = [
            (name, int(getattr(keys, name))) for name in ("CPU", "SparseXLA", "AutogradMeta", "Autograd", "Python")
        ]
        return (
            repr(both), both.has(keys.CPU), both == of(keys.AutocastCPU).add(keys.AutocastCUDA), str(keys.CPU), numbers,
            repr(both & of(keys.AutocastCPU)), repr(both - of(keys.AutocastCPU)), repr(both.remove(keys.AutocastCUDA)),
        )  # fmt: skip

    agree(program)


def test_progress_bars_of_downloads() -> None:
    def program(torch: ModuleType) -> Any:
        with torch.hub.tqdm(total=4, disable=True) as bar:
            bar.update(3)
        return bar.total, bar.disable

    agree(program)


@pytest.mark.parametrize("create_graph", [False, True])
def test_steps_of_jacobians(create_graph: bool) -> None:
    def program(torch: ModuleType) -> Any:
        if torch.__name__ == "torch":
            steps = torch.autograd.functional
        else:
            steps = importlib.import_module("undertow._src.compat.functional_steps")
        x = torch.arange(3.0, requires_grad=True)
        before = steps._grad_preprocess((x, torch.ones(2)), create_graph, True)
        after = steps._grad_postprocess(((before[0] * 2,), (before[1],)), create_graph)
        forms = [
            steps._tuple_postprocess(((1, 2), (3, 4)), form) for form in (True, False, (True, False), (False, True))
        ]
        return before, after, forms, steps._as_tuple_nocheck(1), steps._as_tuple_nocheck([1, 2])

    agree(program)
