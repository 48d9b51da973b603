"""Names that packages ask of PyTorch's corners: what they answer, and how they refuse."""

from __future__ import annotations

import gc
import io
from types import ModuleType
from typing import Any

import pytest

import undertow
from tests.oracle.harness import agree, without_cuda

NO_CUDA = """
cuda.graph(None) cuda.graph_pool_handle() cuda.is_current_stream_capturing() cuda.caching_allocator_alloc(3)
cuda._is_compiled() cuda.nccl.is_available([]) cuda.profiler.start() cuda._lazy_init() cuda.nvtx.range('a').__enter__()
accelerator.current_device_index() accelerator.synchronize() accelerator.memory_stats() accelerator.current_accelerator()
accelerator.device_index(0).__enter__() Stream() Event() Stream('cuda') backends.cusparselt.is_available()
utils.data._utils.pin_memory.pin_memory([torch.ones(1)])
""".split()

ABSENT_DEVICES = """
cuda.utilization() cuda._initialized cuda._utils._get_device_index('cuda:0')
cuda._utils._get_device_index(None,optional=True)
xpu.current_device() xpu.synchronize() xpu.memory_allocated() xpu.is_bf16_supported() xpu.get_rng_state_all()
xpu.set_rng_state_all([]) xpu.device(0).__enter__() xpu.Event() xpu.is_initialized() xpu.seed() xpu.get_arch_list()
mps.empty_cache() mps.synchronize() mps.current_allocated_memory() mps.get_rng_state() mps.manual_seed(1)
mtia.is_initialized() mtia.synchronize() mtia.empty_cache() mtia.memory_stats()
Stream('cpu').query() backends.kleidiai.is_available() backends.mha.get_fastpath_enabled()
""".split()

PRIVATE = """
_C._get_tracing_state() _C._get_privateuse1_backend_name() _C._get_accelerator() _C._nn._parse_to('cpu')
_C._are_functorch_transforms_active() _C._nn._parse_to(torch.float64,non_blocking=True) _C._nn._parse_to(3.5)
_C._nn._parse_to(torch.ones(1,dtype=torch.float16)) _C._nn._parse_to(memory_format=torch.channels_last)
_check(False) _check(False,lambda:'why') _check(False,'why') _check(torch.tensor(True)) _check(1) _check(True)
_check_index(False,lambda:'x') _check_value(False) _check_type(False) _check_not_implemented(False) _check_is_size(-1)
_check_tensor_all(torch.tensor([True,False]),lambda:'t') _check_tensor_all(torch.tensor([1,0]))
_check_with(KeyError,False,lambda:'k') _assert(False,'bad') _assert(True,'bad') _assert_async(torch.tensor(False))
_shape_as_tensor(torch.ones(2,3)) _has_compatible_shallow_copy_type(torch.ones(1),torch.ones(2))
_utils._get_device_index('cpu') _utils._get_device_index(3) _utils._element_size(torch.float32) _utils._element_size(3)
_utils._flatten_dense_tensors([torch.ones(2),torch.zeros(2,2)]) _utils._get_available_device_type()
_utils._unflatten_dense_tensors(torch.arange(6),[torch.ones(2),torch.zeros(2,2)])
quint4x2 uint4 int1 bits8 qint8.itemsize float4_e2m1fn_x2 int4.itemsize per_tensor_affine per_channel_symmetric
list(torch.Tag.__members__) hub._get_torch_home() utils.data._utils.HAS_NUMPY utils.deterministic.fill_uninitialized_memory
utils.data._utils.worker._generate_state(3,1)
distributions.utils._sum_rightmost(torch.ones(2,3),1) _tensor_str._str(torch.ones(2)) _guards.detect_fake_mode()
nn.functional._none_or_dtype(torch.ones(1)) nn.functional._none_or_dtype(3) nn.functional._pair(2) ones(1).__long__()
nn.functional._canonical_mask(torch.tensor([True,False]),'m',None,'',torch.float32) ones(2).__long__() ones(1)._nnz()
nn.functional._canonical_mask(torch.tensor([1]),'m',None,'',torch.float32) ones(1).__nonzero__()
_C._is_tracing() _C._get_default_device() _C._is_any_autocast_enabled() _C._is_torch_function_mode_enabled()
cond(torch.tensor(True),lambda*x:x[0]+1,lambda*x:x[0]-1,(torch.ones(1),)) cond(False,torch.sin,torch.cos,(torch.ones(1),))
while_loop(lambda*x:x[0]<3,lambda*x:(x[0]+1,x[1]*2),(torch.tensor(0),torch.ones(1))) autograd._profiler_enabled()
_is_all_true(torch.tensor([True])) _VF.relu(torch.ones(1))
jit.TracerWarning.__name__ classes.loaded_libraries ops.loaded_libraries ops.load_library('/nope.so')
""".split()


@pytest.mark.parametrize("text", without_cuda(NO_CUDA) + ABSENT_DEVICES + PRIVATE)
def test_answers(text: str) -> None:
    def program(torch: Any) -> Any:
        expression = text if text.startswith("list(") else f"torch.{text}"
        value = eval(expression, {"torch": torch})
        return value if isinstance(value, (torch.Tensor, tuple)) and "_parse" not in text else repr(value)

    agree(program, words=6)


def test_weak_mappings_tell_tensors_apart_by_identity() -> None:
    def program(torch: Any, log: Any) -> Any:
        mapping = torch.utils.weak.WeakTensorKeyDictionary()
        x, y = torch.ones(2), torch.ones(2)
        mapping[x], mapping[y] = "x", "y"
        log(mapping[x], mapping[y], len(mapping), x in mapping, torch.ones(2) in mapping)
        del x
        gc.collect()
        log(len(mapping), list(mapping.values()))
        del mapping[y]
        reference = torch.utils.weak.TensorWeakRef(y)
        log(reference() is y, len(mapping))

    agree(program)


def test_context_managers_decorate_functions_and_generators() -> None:
    def program(torch: Any, log: Any) -> Any:
        from_contextlib = torch.utils._contextlib._DecoratorContextManager

        class Noted(from_contextlib):  # type: ignore[misc, valid-type]
            def __enter__(self) -> None:
                log("enter")

            def __exit__(self, *exception: object) -> None:
                log("exit", exception[0] is None)

        @Noted()
        def double(x: int) -> int:
            return 2 * x

        @Noted()
        def count(to: int) -> Any:
            for number in range(to):
                got = yield number
                log("got", got)
            return "end"

        log(double(3))
        steps = count(2)
        log(next(steps), steps.send("a"))
        try:
            steps.send("b")
        except StopIteration as end:
            log(end.value)

    agree(program)


def test_records_of_a_checkpoint() -> None:
    def program(torch: Any) -> Any:
        file = io.BytesIO()
        torch.save({"x": torch.arange(3)}, file)
        file.seek(0)
        reader = torch._C.PyTorchFileReader(file)
        records = set(reader.get_all_records()) & {"data.pkl", "data/0", "version", "byteorder"}
        return records, reader.has_record("data/0"), reader.has_record("x"), reader.get_record("data/0")

    agree(program)


def test_exceptions_from_elsewhere_keep_their_class() -> None:
    def program(torch: Any, log: Any) -> Any:
        for error in (ValueError("bad"), KeyError("missing"), UnicodeDecodeError("utf-8", b"", 0, 1, "no")):
            try:
                raise error
            except Exception:
                wrapped = torch._utils.ExceptionWrapper(where="in a thread")
            try:
                wrapped.reraise()
            except Exception as again:
                log(type(again).__name__, str(again).split("\n")[0])

    agree(program)


def test_old_packages_find_words_of_torchscript() -> None:
    jit = undertow.jit
    assert issubclass(jit.TracerWarning, Warning) and jit._overload_method(len) is len
    with pytest.raises(NotImplementedError, match=r"undertow has no torch\.jit\.load"):
        jit.load("model.pt")


@pytest.mark.parametrize("same", ["qkv", "kv", "none"])
@pytest.mark.parametrize("bias", [True, False])
def test_projections_of_attention(same: str, bias: bool) -> None:
    def program(torch: Any) -> Any:
        functional = torch.nn.functional
        q, w = torch.randn(2, 3, 4), torch.randn(12, 4)
        b: Any = torch.randn(12) if bias else None
        k = q if same == "qkv" else torch.randn(2, 3, 4)
        v = torch.randn(2, 3, 4) if same == "none" else k
        parts = w.chunk(3), b.chunk(3) if bias else (None,) * 3
        return functional._in_projection_packed(q, k, v, w, b), functional._in_projection(q, k, v, *parts[0], *parts[1])

    agree(program, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("largest", [True, False, None])
@pytest.mark.parametrize("general", [True, False])
def test_lobpcg(largest: bool | None, general: bool) -> None:
    def program(torch: Any) -> Any:
        x = torch.randn(9, 9, dtype=torch.float64)
        a, b = x + x.T, x @ x.T + 5 * torch.eye(9, dtype=torch.float64)
        values, vectors = torch.lobpcg(a, k=2, B=b if general else None, largest=largest, niter=200, tol=1e-12)
        return values, vectors.abs()

    agree(program, rtol=1e-5, atol=1e-5)


def test_chained_datasets() -> None:
    def program(torch: Any, log: Any) -> Any:
        data = torch.utils.data

        class Numbers(data.IterDataPipe):  # type: ignore[name-defined]
            def __iter__(self) -> Any:
                yield from range(4)

        @data.functional_datapipe(f"doubled_by_{torch.__name__}")
        class Doubled(data.IterDataPipe):  # type: ignore[name-defined]
            def __init__(self, source: Any) -> None:
                self.source = source

            def __iter__(self) -> Any:
                for number in self.source:
                    yield 2 * number

        chain = getattr(Numbers(), f"doubled_by_{torch.__name__}")()
        log(list(chain), isinstance(chain, data.IterableDataset))
        try:
            chain.nothing()
        except AttributeError as error:
            log(str(error).split(" ")[-1])

    agree(program)


def test_members_by_name() -> None:
    def program(torch: Any, log: Any) -> Any:
        module = torch.nn.Sequential(torch.nn.Linear(1, 1))
        home = torch.nn.utils._named_member_accessor
        access = home.NamedMemberAccessor(module)
        calls = [
            lambda: access.get_tensor("0.weight"), lambda: access.get_tensor("0.nope"), lambda: access.get_tensor("1.w"),
            lambda: access.set_tensor("0.weight", 3), lambda: access.swap_tensor("0.nope", torch.ones(1)),
            lambda: access.swap_tensor("0.weight", torch.ones(1, 1)), lambda: module[0].weight,
            lambda: access.get_submodule("0"), lambda: home.swap_tensor(module[0], "x.y", torch.ones(1)),
            lambda: access.check_keys(["0.bias", "b"]), lambda: access.swap_tensor("0.bias", None),
            lambda: list(access.named_tensors()), lambda: access.swap_tensors_dict({"0.weight": torch.zeros(1, 1)}),
            lambda: access.swap_tensors_dict({"0.weight": torch.ones(1, 1), "0.w": torch.ones(1)}),
            lambda: module[0].weight, lambda: access.del_tensor("0.weight"), lambda: dict(module.named_parameters()),
        ]  # fmt: skip
        for call in calls:
            try:
                log(repr(call()))
            except Exception as error:
                log(type(error).__name__, str(error)[:40])

    agree(program)


def test_import_star_brings_what_it_brings_of_pytorch() -> None:
    ours: dict[str, Any] = {}
    exec("from undertow import *", ours)
    theirs: dict[str, Any] = {}
    exec("from torch import *", theirs)
    assert [name for name in theirs if hasattr(undertow, name) and name not in ours] == []
    assert [name for name, value in ours.items() if isinstance(value, ModuleType)] == []
