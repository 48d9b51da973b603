"""`import torch` answered by undertow, in a block or for a whole program, and nothing left behind."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch as real_torch

import undertow
from undertow._src.base.lazy_table import LACKING_METHODS
from undertow.pretend import FOR_CHILDREN, pretend_torch
from undertow.torch_version import TorchVersion


def snapshot() -> Any:
    modules = {name: id(module) for name, module in sys.modules.items() if name.partition(".")[0] == "torch"}
    return modules, list(sys.meta_path), list(sys.path), undertow.__version__, undertow.version.__version__


def test_imports_are_answered() -> None:
    with undertow.pretend_torch():
        import torch
        import torch.nn.functional as functional
        import torch.optim
        import torch.utils.data
        from torch import nn
        from torch.nn import Linear, Parameter
        from torch.nn.modules.module import Module
        from torch.utils.data import DataLoader

        assert torch is undertow
        assert functional is undertow.nn.functional and nn is undertow.nn
        assert (Linear, Parameter) == (undertow.nn.Linear, undertow.nn.Parameter)
        assert Module is undertow.nn.modules.module.Module
        assert DataLoader is undertow.utils.data.DataLoader
        assert importlib.import_module("torch.serialization") is undertow.serialization
        assert sys.modules["torch.nn"] is undertow.nn
        assert torch.nn.__name__ == "undertow.nn"
        assert importlib.util.find_spec("torch") is not None


def test_a_module_first_imported_by_the_name_of_torch_is_loaded_once() -> None:
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        import undertow
        undertow.pretend_torch()
        import torch.nn.functional as functional, torch.optim.lr_scheduler as schedulers
        for name in ("nn.functional", "optim.lr_scheduler"):
            assert sys.modules["torch." + name] is sys.modules["undertow." + name], name
        assert functional is sys.modules["undertow.nn.functional"]
        try:
            functional.nonexistent
        except AttributeError as error:
            print(error)
    """
    source = str(Path(undertow.__file__).parent.parent)
    answer = subprocess.run([sys.executable, "-c", code, source], capture_output=True, text=True)
    assert answer.stdout == "module 'torch.nn.functional' has no attribute 'nonexistent' in undertow\n", answer.stderr


def test_classes_say_that_they_are_torch_s_while_it_lasts() -> None:
    with undertow.pretend_torch():
        import torch

        assert torch.__name__ == "torch" and torch.torch is torch
        assert str(torch.nn.Linear) == "<class 'torch.nn.modules.linear.Linear'>"
        pickled = pickle.dumps(torch.nn.Linear(2, 2))
        errors = importlib.import_module("undertow._src.compile.errors")
        assert errors.CompileError.__module__ == "undertow._src.compile.errors"  # PyTorch has nothing like it
    assert str(undertow.nn.Linear) == "<class 'undertow.nn.modules.linear.Linear'>"
    assert undertow.__name__ == "undertow" and not hasattr(undertow, "torch")
    assert b"torch.nn.modules.linear" in pickled


def test_afterwards_all_is_as_it_was() -> None:
    before = snapshot()
    spec, getter = undertow.nn.__spec__, vars(undertow)["__getattr__"]
    inner_getter = vars(undertow.nn.functional).get("__getattr__")
    with pretend_torch():
        import torch.nn.modules.linear  # noqa: F401

        assert sys.modules["torch"] is undertow
    assert snapshot() == before
    assert sys.modules["torch"] is real_torch
    assert undertow.nn.__spec__ is spec
    assert vars(undertow)["__getattr__"] is getter
    assert vars(undertow.nn.functional).get("__getattr__") is inner_getter


def test_an_exception_ends_it_too() -> None:
    before = snapshot()
    with pytest.raises(ZeroDivisionError), pretend_torch():
        raise ZeroDivisionError
    assert snapshot() == before


def test_as_a_function_and_nested() -> None:
    before = snapshot()
    outer = pretend_torch()
    with pretend_torch():
        assert sys.modules["torch"] is undertow
    assert sys.modules["torch"] is undertow
    outer.stop()
    outer.stop()
    assert snapshot() == before


def test_without_a_real_torch() -> None:
    program = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        import undertow
        with undertow.pretend_torch():
            import torch
            assert torch is undertow
        assert "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", program, str(Path(undertow.__file__).parent.parent)], check=True)


MISSING = [
    "torch.nonsense", "torch.nn.Nonsense", "torch.nn.functional.nonsense", "torch.utils.data.Nonsense",
    "torch.serialization.nonsense",
]  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_name_is_reported_in_python_s_words(name: str) -> None:
    module, _, last = name.rpartition(".")
    with pretend_torch():
        with pytest.raises(AttributeError) as use:
            eval(name, {"torch": sys.modules["torch"]})
        assert str(use.value) == f"module {module!r} has no attribute {last!r} in undertow"
        with pytest.raises(ImportError) as imported:
            exec(f"from {module} import {last}")
        assert str(imported.value) == f"cannot import name {last!r} from {module!r} in undertow"
        assert not isinstance(imported.value, ModuleNotFoundError)
        assert not hasattr(sys.modules[module], last)
        assert getattr(sys.modules[module], last, "default") == "default"


@pytest.mark.parametrize("name", ["torch.nonsense", "torch.nn.nonsense", "torch.nonsense.deep"])
def test_a_missing_module_is_reported_in_python_s_words(name: str) -> None:
    missing = name.removesuffix(".deep")
    with pretend_torch(), pytest.raises(ModuleNotFoundError) as refusal:
        importlib.import_module(name)
    assert str(refusal.value) == f"No module named {missing!r} in undertow"
    assert refusal.value.name == missing


def test_parts_of_large_areas_can_be_imported_and_are_refused_when_used() -> None:
    importlib.import_module("undertow.distributed.fsdp")  # which undertow has
    before = dict(vars(undertow.distributed))
    with pretend_torch():
        import torch.distributed.fsdp.wrap as wrapping
        from torch import TensorType, sparse_csr_tensor
        from torch.distributed import ProcessGroupUCC
        from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel
        from torch.distributed.pipelining.multiprocessing.api import PContext  # Python has a module of this name, too
        from torch.export import ExportedProgram

        class Exported(ExportedProgram):
            kinds = list[CPUOffload | None]

        assert not isinstance(3, (CPUOffload, ProcessGroupUCC)) and issubclass(Exported, ExportedProgram)
        used = {
            "torch.TensorType": TensorType,
            "torch.sparse_csr_tensor": lambda: sparse_csr_tensor([0, 1], [0], [1.0]),
            "torch.distributed.pipelining.multiprocessing.api.PContext": PContext,
            "torch.export.ExportedProgram": Exported,
            "torch.distributed.fsdp.wrap.size_based_auto_wrap_policy": lambda: wrapping.size_based_auto_wrap_policy(),
            "torch.distributed.fsdp.CPUOffload.enabled": lambda: 1 if CPUOffload.enabled else 2,
            "torch.distributed.ProcessGroupUCC": lambda: list(ProcessGroupUCC),
        }
        for name, use in used.items():
            with pytest.raises(NotImplementedError, match=f"^undertow has no {name}$"):
                use()
        assert undertow.distributed.ProcessGroupNCCL.__name__ == "ProcessGroupNCCL"  # as an annotation says it
        with pytest.raises(NotImplementedError, match=r"^undertow has no FullyShardedDataParallel: use .*fully_shard"):
            FullyShardedDataParallel(undertow.nn.Linear(1, 1))
        assert not hasattr(undertow, "sparse_csr_tensor")  # as programs ask whether there are such tensors
        with pytest.raises(
            AttributeError, match=r"module 'torch\.distributed' has no attribute 'Nonsense' in undertow"
        ):
            undertow.distributed.Nonsense  # noqa: B018
    assert vars(undertow.distributed).keys() == before.keys()


NEIGHBOURS = """
torch.optim.lr_scheduler Optimizer Tensor inf
torch.optim.sgd Optimizer Tensor torch _default_to_fused_or_foreach
torch.nn.functional Tensor has_torch_function handle_torch_function boolean_dispatch _list_with_default
torch.nn.modules.conv torch Tensor UninitializedParameter
torch.nn.modules.module RemovableHandle Tensor device dtype
torch.nn.modules.activation xavier_uniform_ NonDynamicallyQuantizableLinear
torch.nn.init Tensor
torch.autograd.functional _grad_preprocess _grad_postprocess _tuple_postprocess _as_tuple_nocheck _vmap
torch.distributions.normal Tensor _standard_normal
torch.distributions.kl Normal Gamma
torch.distributions.transforms constraints broadcast_all softplus F
torch.utils.data.dataloader ExceptionWrapper IterDataPipe
torch.utils.data.distributed Dataset dist
torch.nn.parallel.distributed Module gather
""".strip().splitlines()


@pytest.mark.parametrize("line", NEIGHBOURS)
def test_names_that_torch_s_modules_import_can_be_taken_from_there(line: str) -> None:
    module, *names = line.split()
    assert all(hasattr(importlib.import_module(module), name) for name in names)
    with undertow.pretend_torch():
        answering = importlib.import_module(module)
        for name in names:
            assert getattr(answering, name) is not None
        assert not hasattr(answering, "nonexistent")


def test_programs_look_through_whole_modules() -> None:
    """As pyro does: it makes a class of its own for each distribution that it finds in the module."""
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        import undertow
        with undertow.pretend_torch():
            import torch
            kinds = [kind for kind in torch.distributions.__dict__.values() if isinstance(kind, type)]
            print(sum(issubclass(kind, torch.distributions.Distribution) for kind in kinds))
            print(vars(torch.optim)["Adam"].__name__, torch.nn.__dict__["Linear"].__name__, "dir" not in vars(torch.func))
            print(torch.__dict__["sin"](torch.zeros(1)), type(torch).__name__)
        print(type(undertow).__name__, type(undertow.optim).__name__, undertow.optim.SGD.__name__)
    """
    source = str(Path(undertow.__file__).parent.parent)
    answer = subprocess.run([sys.executable, "-c", code, source], capture_output=True, text=True)
    assert answer.stdout.split("\n")[:-1] == [
        str(sum(isinstance(kind, type) and issubclass(kind, real_torch.distributions.Distribution)
                for kind in vars(real_torch.distributions).values())),
        "Adam Linear True", "tensor([0.]) WholeModule", "module module SGD",
    ], answer.stderr  # fmt: skip


def test_tensors_that_pickle_itself_wrote_are_read() -> None:
    tensors = {
        "a": real_torch.arange(6.0).reshape(2, 3),
        "b": real_torch.tensor([True]),
        "c": real_torch.ones(2).double(),
    }
    data = pickle.dumps(tensors)
    with undertow.pretend_torch():
        read = pickle.loads(data)
        assert all(type(tensor) is undertow.Tensor for tensor in read.values())
    assert {key: (str(tensor.dtype), tensor.tolist()) for key, tensor in read.items()} == {
        key: (str(tensor.dtype), tensor.tolist()) for key, tensor in tensors.items()
    }


def test_a_package_lives_without_its_compiled_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchvision does: it catches the refusal of its library and goes on to describe the operators that were in it."""
    monkeypatch.setattr("undertow._ops.refused_libraries", set())
    with undertow.pretend_torch():
        import torch
        import torch._custom_ops
        from torch.onnx import register_custom_op_symbolic
        from torch.onnx.symbolic_helper import parse_args

        with pytest.raises(RuntimeError, match="operator itsown::nms does not exist"):
            torch.library.register_fake("itsown::nms")
        with pytest.raises(OSError, match="Could not load this library: /its/own"):
            torch.ops.load_library("/its/own.so")
        shapes = torch.library.register_fake("itsown::nms")(lambda boxes: boxes)
        assert shapes(3) == 3 and parse_args("v")(shapes) is shapes
        register_custom_op_symbolic("itsown::nms", shapes, 11)
        with pytest.raises(AttributeError):
            torch.ops.itsown.nms  # noqa: B018


def test_a_program_that_is_prepared_is_told_that_a_name_is_lacking() -> None:
    with pretend_torch():
        found = []
        try:
            import torch.distributed.launcher
        except ImportError:
            found.append("module")
        try:
            from torch.distributed import ProcessGroupUCC  # noqa: F401
        except ImportError:
            found.append("name")
        import torch.distributed.pipelining

        try:
            from torch.distributed.pipelining import stage  # noqa: F401
        except ImportError:
            found.append("name of a module that lacks all")
        assert found == ["module", "name", "name of a module that lacks all"]
        assert torch.distributed.pipelining.stage is torch.distributed.pipelining.stage
        assert importlib.util.find_spec("torch.distributed") is not None
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("torch.distributed.launcher")


def test_the_usual_questions_about_a_module_still_work() -> None:
    with pretend_torch():
        import torch

        assert torch.__file__ == undertow.__file__
        assert not hasattr(torch.nn.functional, "__path__")
        assert not hasattr(torch.nn.functional, "__wrapped__")
        assert "relu" in dir(torch)


def test_lacking_parts_may_be_base_classes() -> None:
    with pretend_torch():
        import torch.distributed as distributed
        from torch import NumberType

        assert not isinstance(3, NumberType)

        class Backend(distributed.ProcessGroupGloo):
            pass

        with pytest.raises(NotImplementedError, match=r"undertow has no torch.distributed.ProcessGroupGloo"):
            Backend("here")


def test_a_name_that_every_object_has_been_given_is_still_the_modules() -> None:
    """As nnsight gives one to `object`. In a process of its own: there is no taking it back."""
    program = (
        "import ctypes, gc, io, undertow\n"
        "with undertow.pretend_torch():\n"
        "    import torch\n"
        "    gc.get_referents(object.__dict__)[0]['save'] = lambda self: 'given'\n"
        "    ctypes.pythonapi.PyType_Modified(ctypes.py_object(object))\n"
        "    memory = io.BytesIO()\n"
        "    torch.save(torch.ones(2), memory)\n"
        "    memory.seek(0)\n"
        "    print((3).save(), torch.load(memory), hasattr(torch.nn, 'save'), torch.save.__name__)\n"
        "    torch.save = 3\n"
        "    print(torch.save)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "given tensor([1., 1.]) False save\n3\n"


def test_the_version_is_the_reference() -> None:
    with pretend_torch():
        import torch

        assert torch.__version__.startswith("2.13.0")
        assert torch.__version__ >= "2.9" and torch.__version__ > (2, 12) and torch.__version__ < "3"
        assert torch.version.__version__ == torch.__version__
        assert importlib.metadata.version("torch") == torch.__version__
    assert undertow.__version__ == "0.1.0"


@pytest.mark.parametrize(
    "other", ["1.9", "2.13", "2.13.0", "2.13.1", "2.14", "3.0a1", "2.9.1+cu121", (2, 13), (2, 13, 1)]
)
def test_versions_compare_as_torch_compares_them(other: Any) -> None:
    ours, theirs = TorchVersion("2.13.0"), real_torch.torch_version.TorchVersion("2.13.0")
    for compare in ("__lt__", "__le__", "__eq__", "__ge__", "__gt__"):
        assert getattr(ours, compare)(other) == getattr(theirs, compare)(other), compare


def test_a_package_written_for_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "for_torch.py").write_text(
        "import torch\nfrom torch import Tensor\n\n"
        "class Twice(torch.nn.Module):\n    def forward(self, x: Tensor) -> Tensor:\n        return x * 2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pretend_torch():
        package: Any = importlib.import_module("for_torch")
        assert package.Twice()(undertow.ones(2)).tolist() == [2.0, 2.0]
        assert pickle.loads(pickle.dumps(undertow.nn.Parameter(undertow.ones(1)))).tolist() == [1.0]
    del sys.modules["for_torch"]


def test_the_stand_in_is_a_package_named_torch() -> None:
    assert (Path(FOR_CHILDREN) / "torch" / "__init__.py").is_file()
    assert FOR_CHILDREN not in sys.path


def test_methods_of_tensors_that_are_lacking_are_named() -> None:
    lacking = {name for name in dir(real_torch.Tensor) if not hasattr(undertow.Tensor, name) and name[0] != "_"}
    assert lacking == set(LACKING_METHODS.split()) and lacking.isdisjoint(dir(undertow.Tensor))
    for name in lacking:
        assert not hasattr(undertow.ones(1), name)
        with pytest.raises(AttributeError, match=rf"object has no attribute '{name}' in undertow"):
            getattr(undertow.ones(1), name)
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'nonsense'"):
        _ = undertow.ones(1).nonsense


def test_threads_that_import_at_once() -> None:
    """An import that another thread needs to end its own is not waited for."""
    program = """
import threading
import undertow
undertow.pretend_torch()
lines = ["from torch.distributions import Normal", "import torch.distributions.transforms",
         "from torch.distributions.kl import kl_divergence", "import torch.distributions as d; d.Beta",
         "from torch.distributions.constraints import real"] * 3
barrier = threading.Barrier(len(lines))
threads = [threading.Thread(target=lambda line=line: (barrier.wait(), exec(line, {}))) for line in lines]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr
