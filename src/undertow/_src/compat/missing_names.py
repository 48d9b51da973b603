"""Names of PyTorch's that undertow lacks, while it stands in for torch: they can be imported, but not used.

A package that runs its models on one machine still says `from torch.distributed.fsdp import FullyShardedDataParallel`
at its top. In the areas listed here such an import gets a stand-in: a class that can be named in annotations, passed to
`isinstance` and used as a base. Calling it, or using its truth value or its items, raises an error that names it in
full.

A program that is prepared for the absence of a name (its import is in a `try` block) gets the ImportError at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from opcode import opmap
from types import CodeType, FrameType, ModuleType
from typing import Any, NoReturn

# What programs for one machine import and rarely use: distributed training, other compilers, formats and layouts.
AREAS = tuple(
    "torch." + area
    for area in (
        "_C _awaits _custom_op _custom_ops _decomp _dispatch _dynamo _export _functorch _guards _higher_order_ops "
        "_inductor _lazy _library _logging _meta_registrations _numpy _ops _prims _prims_common _python_dispatcher "
        "_refs _streambase _subclasses _tensor_docs _torch_docs accelerator ao backends contrib cuda distributed "
        "export fake_quantize_per_channel_affine fake_quantize_per_tensor_affine func._random fx jit library masked "
        "monitor mps mtia nested nn.attention nn.backends nn.cpp nn.intrinsic nn.qat nn.quantizable nn.quantized "
        "nn.utils._expanded_weights onnx optim._multi_tensor package profiler quantization quantize_per_channel "
        "quantize_per_tensor quantize_per_tensor_dynamic sparse sparse_bsc_tensor sparse_bsr_tensor "
        "sparse_compressed_tensor sparse_csc_tensor sparse_csr_tensor testing utils.ThroughputBenchmark "
        "utils._appending_byte_serializer utils._cpp_extension_versioner utils._debug_mode utils._helion "
        "utils._pallas utils._python_dispatch utils._runtime_estimation utils._strobelight utils._sympy utils._triton "
        "utils._zip utils.backend_registration utils.benchmark utils.bundled_inputs utils.cpp_extension "
        "utils.data.backward_compatibility utils.data.datapipes utils.data.graph utils.debug_log utils.file_baton "
        "utils.hipify utils.jit utils.mkldnn utils.mobile_optimizer utils.model_dump utils.show_pickle "
        "utils.throughput_benchmark utils.viz xpu"
    ).split()
)

# Names that appear as attributes in annotations and defaults.
_TYPES_OF_SCRIPTS = (
    "AnyType Argument Block BoolType ClassType Code ComplexType ConcreteModuleType DictType DispatchKey DispatchKeySet "
    "DeviceObjType EnumType ErrorReport FloatType FunctionSchema FutureType Gradient Graph IODescriptor IntType "
    "InterfaceType JITException ListType LiteScriptModule Node NoneType NumberType OptionalType PyObjectType StringType "
    "RRefType ScriptClass ScriptDict ScriptList ScriptMethod ScriptObject StreamObjType TensorType TracingState TupleType "
    "Type UnionType Use Value"
)
MENTIONED = {
    "torch": f"{_TYPES_OF_SCRIPTS} export",
    "torch._C": f"{_TYPES_OF_SCRIPTS} _ExcludeDispatchKeyGuard",
    "torch.distributed": "GradBucket ProcessGroupGloo ProcessGroupNCCL elastic pipelining",
}


def is_mentioned(module: str, name: str) -> bool:
    """Whether a missing name gets a stand-in also where it is read as an attribute."""
    return name in MENTIONED.get(module, "").split()


def may_stand_in(name: str) -> bool:
    """Whether a name is in an area whose missing parts may be imported."""
    return any(name == area or name.startswith(f"{area}.") for area in AREAS)


class Lacking(type):
    """The metaclass of stand-ins for missing names."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        base = next(base for base in cls.__mro__ if "_lacks" in vars(base))
        raise NotImplementedError(f"undertow has no {vars(base)['_lacks']}")

    def __bool__(cls) -> bool:
        cls()

    def __iter__(cls) -> Iterator[Any]:
        cls()

    def __len__(cls) -> int:
        cls()

    def __enter__(cls) -> Any:
        cls()

    def __exit__(cls, *exception: object) -> None:
        cls()

    def __getitem__(cls, parameters: Any) -> Any:
        return cls

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        lacks = vars(cls).get("_lacks")
        if lacks is None:  # a subclass, which only lacks this attribute
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return stand_in(f"{lacks}.{name}")


def stand_in(name: str) -> Any:
    """Return a stand-in class for the object of this full name.

    >>> from undertow._src.compat.missing_names import stand_in
    >>> isinstance(3, stand_in("torch.distributed.fsdp.FullyShardedDataParallel"))
    False
    """
    module, _, last = name.rpartition(".")
    return Lacking(last, (), {"_lacks": name, "__module__": module, "__doc__": f"undertow has no {name}."})


class LackingModule(ModuleType):
    """A missing module; its names are stand-ins."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        frame = sys._getframe(1)
        if in_import_from(frame) and is_prepared(frame):
            raise ImportError(f"cannot import name {name!r} from {self.__name__!r} in undertow", name=self.__name__)
        made: dict[str, Any] = self.__dict__.setdefault("_made", {})
        if name not in made:
            made[name] = stand_in(f"{self.__name__}.{name}")
        return made[name]


class LackingLoader(Loader):
    """Makes a `LackingModule`."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return LackingModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


# --- inspecting the importing code


def in_import_from(frame: FrameType) -> bool:
    """Whether a frame is executing `from … import name`, which hides the message of an AttributeError."""
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def in_import_system(frame: FrameType) -> bool:
    """Whether a frame belongs to Python's import system."""
    return frame.f_code.co_filename.startswith("<frozen importlib")


def importing_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame whose `import` statement is running; None if a name of a from-list is being looked up."""
    while frame is not None and in_import_system(frame):
        if frame.f_code.co_name == "_handle_fromlist":
            return None
        frame = frame.f_back
    return frame if frame and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_NAME"] else None


def is_prepared(frame: FrameType) -> bool:
    """Whether an exception at a frame's current instruction would reach an `except` or `finally` of the same frame."""
    code, place, seen = frame.f_code.co_code, frame.f_lasti, set[int]()
    while (handler := _handler(frame.f_code, place)) is not None and handler not in seen:
        seen.add(handler)
        catches = code[handler] == opmap["PUSH_EXC_INFO"]
        if catches and code[handler + 2] != opmap["WITH_EXCEPT_START"]:
            return True
        place = handler + 2 * catches  # the end of a `with` block, or a clean-up: try the enclosing handler
    return False


def _handler(code: CodeType, place: int) -> int | None:
    """Return where a code object continues after an exception (Objects/exception_handling_notes.txt of CPython)."""
    numbers = _numbers(code.co_exceptiontable)
    for start, length, target, _depth in zip(numbers, numbers, numbers, numbers):
        if 2 * start <= place < 2 * (start + length):
            return 2 * target
    return None


def _numbers(table: bytes) -> Iterator[int]:
    value = 0
    for byte in table:
        value = value << 6 | byte & 0x3F
        if not byte & 0x40:
            yield value
            value = 0
