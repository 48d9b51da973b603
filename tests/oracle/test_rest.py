"""What is not a function of tensors: storages, rare methods, settings of the process, and gradients torch gets wrong."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch as real_torch
import torch.nn.attention
import torch.utils.benchmark

import undertow
from tests.oracle.harness import agree, agree_error, without_cuda
from tests.oracle.programs import attempt
from undertow._src.tensor import typed_storage

STORAGES = """
len(x.storage())
x.storage()[1], x.storage()[-1]
x.storage().tolist(), list(x[1].storage())
x.storage().dtype, x.storage().device.type, x.storage().size(), x.storage().nbytes(), x.storage().element_size()
x.storage().data_ptr() == x.data_ptr()
x.storage().type(), x.storage().pickle_storage_type(), x.storage_type().__name__
x.storage().double().tolist(), x.storage().int().tolist(), x.storage().half().dtype
x.storage().untyped().tolist()
repr(x.storage()), repr(torch.DoubleStorage([1, 2])), repr(torch.FloatStorage())
x.storage().is_cuda, x.storage().is_shared(), x.storage().is_pinned(), x.storage().is_sparse, bool(x.storage())
x.storage().clone().tolist(), x.storage().cpu().tolist()
(x.storage().fill_(3).tolist(), x)
(x.storage().copy_(torch.ones(6).storage()).tolist(), x)
(x.storage().__setitem__(0, 7), x)
(x.storage().__setitem__(slice(0, 2), 5), x)
[(a == b, hash(a) == hash(b), a in {a}) for a, b in [(x.storage(), x.storage())]]
isinstance(x.storage(), torch.FloatStorage), isinstance(x.storage(), torch.DoubleStorage)
isinstance(x.storage(), torch.TypedStorage), isinstance(x.storage(), torch.Storage)
torch.Storage.__name__, torch.FloatStorage.dtype, str(torch.FloatStorage), str(torch.TypedStorage)
len(torch.FloatStorage(3)), torch.FloatStorage([1, 2, 3]).tolist(), torch.FloatStorage((1, 2)).tolist()
len(torch.TypedStorage(3, dtype=torch.float64)), torch.TypedStorage([1, 2], dtype=torch.int64).tolist()
torch.TypedStorage(wrap_storage=x.untyped_storage(), dtype=torch.float32).tolist()
torch.FloatStorage(wrap_storage=x.untyped_storage()).tolist()
torch.is_storage(x.storage()), torch.is_storage(x.untyped_storage()), torch.is_storage(x)
torch.tensor([1]).storage_type().__name__, torch.tensor([1], dtype=torch.uint16).storage_type()
torch.tensor([1 + 1j]).storage().tolist(), torch.tensor([True]).storage().tolist()
torch.tensor([1.5], dtype=torch.bfloat16).storage().tolist()
torch.FloatTensor(torch.FloatStorage([1, 2, 3]))
torch.empty(0).set_(x.storage()), torch.empty(0).set_(x.storage(), 1, (2,), (1,))
torch.empty(0).set_(x.untyped_storage(), 2, (2, 2))
torch.FloatStorage.from_buffer(b"\\x00\\x00\\x80?", "little").tolist()
copy.copy(x.storage()).tolist(), copy.deepcopy(x.storage()).tolist(), pickle.loads(pickle.dumps(x.storage())).tolist()
torch.UntypedStorage([1, 2]).tolist(), torch.UntypedStorage(4).nbytes(), x.untyped_storage().element_size()
x.untyped_storage().clone().tolist(), x.untyped_storage().type()
(x.untyped_storage().fill_(0).nbytes(), x)
""".strip().splitlines()

METHODS = """
x.resize(3, 2)
x.resize_as(torch.ones(6))
x.resize(1, 6).grad_fn, p.resize(4).requires_grad
x.volatile
x.map2_(torch.ones(2, 3), torch.full((2, 3), 2.0), lambda a, b, c: a + b * c)
x.map_(torch.ones(3), lambda a, b: a + b)
x.apply_(lambda a: a * 2)
torch.ones(2, dtype=torch.int32).apply_(lambda a: 2.5)
x.module_load(torch.zeros(2, 3)), x
x.module_load(torch.zeros(2, 3), assign=True), x
torch.tensor([True, False])._is_all_true(), torch.tensor([True, False])._is_any_true()
x._is_zerotensor(), x._has_symbolic_sizes_strides
torch.tensor([1 + 2j])._conj(), torch.tensor([1 + 2j])._conj_physical()
p._grad, (p * 2)._grad_fn.name(), p._grad_fn
x.const_data_ptr() == x.data_ptr()
""".strip().splitlines()

SETTINGS = """
torch.get_deterministic_debug_mode()
[torch.set_deterministic_debug_mode("warn"), torch.get_deterministic_debug_mode(), torch.set_deterministic_debug_mode(0)]
[torch.set_deterministic_debug_mode(2), torch.are_deterministic_algorithms_enabled(), torch.set_deterministic_debug_mode(0)]
[torch.set_anomaly_enabled(True, False), torch.is_anomaly_enabled(), torch.set_anomaly_enabled(False)]
torch.is_vulkan_available(), torch.has_lapack, torch.has_spectral
[c.__name__ for c in torch.OutOfMemoryError.__mro__], [c.__name__ for c in torch.AcceleratorError.__mro__]
torch.get_device_module().__name__.split(".")[-1], torch.get_device_module("cuda").__name__.split(".")[-1]
torch.autograd.is_multithreading_enabled(), torch.autograd.is_view_replay_enabled()
[A.set_multithreading_enabled(False), A.is_multithreading_enabled(), A.set_multithreading_enabled(True)][1]
torch.autograd.grad_mode.no_grad is torch.no_grad, torch.autograd.grad_mode.inference_mode is torch.inference_mode
torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(True)
torch.from_dlpack(torch.to_dlpack(x))
torch.torch_version.TorchVersion("2.1") < "2.2"
torch.functional.unravel_index(torch.tensor([5]), (3, 4))
torch.sym_int(3.7), torch.sym_max(1, 2.0), torch.sym_min(3, 1)
torch.sym_float(3), torch.sym_not(True), torch.sym_ite(True, 1, 2), torch.sym_sum([1, 2]), torch.sym_sqrt(4)
[C.enable_flash_sdp(False), C.flash_sdp_enabled(), C.enable_flash_sdp(True), C.math_sdp_enabled()]
torch.backends.mps.is_built(), torch.backends.mps.is_available()
isinstance(3, torch.SymInt), isinstance(True, torch.SymBool)
""".strip().splitlines()

WINDOWS = [
    f"torch.signal.windows.{call}"
    for name in ("bartlett", "blackman", "cosine", "exponential", "gaussian", "hamming", "hann", "kaiser", "nuttall",
                 "general_hamming")
    for call in (f"{name}(7)", f"{name}(6, sym=False, dtype=torch.float64)", f"{name}(1)", f"{name}(0)")
]  # fmt: skip
WINDOWS += [
    "torch.signal.windows.general_cosine(5, a=[.4, .3, .3])",
    "torch.signal.windows.exponential(5, center=1., tau=2., sym=False)",
    "torch.signal.windows.gaussian(5, std=2.)",
]

REFUSED = """
x.storage()[1:3]
x.storage()[9]
x.storage()['a']
x.storage().copy_(torch.ones(2).storage())
torch.FloatStorage(2, dtype=torch.float64)
x.resize(2)
x.resize(2, 2)
x.reinforce(1)
x.coalesce()
x.is_coalesced()
x.indices()
x.values()
x.record_stream(1)
x.map_(torch.ones(4), lambda a, b: a)
x.map_(torch.ones(3, dtype=torch.int32), lambda a, b: a)
x.map_(3, lambda a, b: a)
x.map2_(torch.ones(4), torch.ones(3), lambda a, b, c: a)
p.map2_(torch.ones(2, 2), torch.ones(2, 2), lambda a, b, c: a)
x.apply_(lambda a: 'x')
x.apply_(lambda a: None)
torch.set_deterministic_debug_mode('x')
torch.set_deterministic_debug_mode(5)
torch.set_deterministic_debug_mode([])
torch.set_flush_denormal(3)
torch.set_anomaly_enabled(0)
torch.autograd.graph.region_activation_memory_budget(0.5)
torch.signal.windows.cosine(-1)
torch.signal.windows.exponential(5, center=1.)
torch.signal.windows.gaussian(5, std=-2.)
torch.signal.windows.hann(5, dtype=torch.int64)
torch.signal.windows.general_cosine(5, a=3)
""".strip().splitlines()


def evaluated(torch, program):
    names = {
        "torch": torch, "A": torch.autograd, "C": torch.backends.cuda, "copy": copy, "pickle": pickle,
        "x": torch.arange(6.0).reshape(2, 3).clone(), "p": torch.ones(2, 2, requires_grad=True),
    }  # fmt: skip
    return eval(program, names)


@pytest.fixture(autouse=True)
def warned_already():
    """Both libraries warn of typed storages once per process; here they have."""
    for library in (real_torch, undertow):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.ones(1).storage()


NO_CUDA = [
    "[torch.backends.cudnn.is_available(), torch.backends.cudnn.version(), torch.backends.cudnn.benchmark_limit]"
]


@pytest.mark.parametrize("program", STORAGES + METHODS + SETTINGS + without_cuda(NO_CUDA))
def test_same(program):
    agree(lambda torch, log: log(evaluated(torch, program)), raises=False)


@pytest.mark.parametrize("program", WINDOWS)
def test_windows(program):
    agree(lambda torch, log: log(evaluated(torch, program)), raises=False, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("program", REFUSED)
def test_refused(program):
    agree_error(lambda torch, log: log(evaluated(torch, program)), words=6)


def test_typed_storages_are_called_deprecated_once():
    typed_storage._warned.clear()
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        undertow.ones(2).storage()
    undertow.ones(2).storage()  # a second warning would be an error


def test_late_methods_are_functions_of_the_class():
    assert undertow.Tensor.lu.__qualname__ == "Tensor.lu"
    assert undertow.Tensor.lu is not undertow.lu

    class Named(undertow.Tensor):
        seen: list[str] = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func.__qualname__)
            return super().__torch_function__(func, types, args, kwargs)

    undertow.ones(2, 2).as_subclass(Named).narrow_copy(0, 0, 1)
    assert "Tensor.narrow_copy" in Named.seen


@pytest.mark.parametrize("library", ["cudnn", "mkldnn"])
def test_switches_hold_for_a_block(library):
    def program(torch, log):
        switches = getattr(torch.backends, library)
        with switches.flags(enabled=False):
            log(switches.enabled)
        log(switches.enabled)

    agree(program, raises=False)


@pytest.mark.parametrize(
    "name", "is_autocast_cpu_enabled get_autocast_cpu_dtype get_autocast_gpu_dtype set_autocast_cpu_enabled".split()
)
def test_old_names_of_autocast(name):
    arguments = (False,) if name.startswith("set") else ()
    agree(lambda torch, log: log(getattr(torch, name)(*arguments)), raises=False)


def test_attention_kernels_are_chosen_for_a_block():
    def program(torch, log):
        attention, switches = torch.nn.attention, torch.backends.cuda
        asked = lambda: (
            switches.flash_sdp_enabled(),
            switches.math_sdp_enabled(),
            switches.mem_efficient_sdp_enabled(),
        )
        with attention.sdpa_kernel(attention.SDPBackend.MATH):
            log(asked())
            with attention.sdpa_kernel([attention.SDPBackend.FLASH_ATTENTION, attention.SDPBackend.MATH]):
                log(asked())
                log(torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 4)] * 3))
            log(asked())
        log(asked())

    agree(program, raises=False)


@pytest.mark.parametrize("kernels", ["MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH FLASH_ATTENTION"])
def test_attention_uses_the_allowed_kernels(kernels):
    """One node, or small steps; an error if no allowed kernel takes the arguments."""

    def program(torch, log):
        backends = [getattr(torch.nn.attention.SDPBackend, name) for name in kernels.split()]
        given = [torch.arange(24.0).view(1, 2, 3, 4).div(24).requires_grad_() for _ in range(3)]
        masks = torch.zeros(3, 3), torch.ones(3, 3).tril() > 0, torch.zeros(3, 3, requires_grad=True)
        calls = {"plain": {}, "causal": {"is_causal": True}, "dropout": {"dropout_p": 0.5}}
        calls |= {f"mask {nr}": {"attn_mask": mask} for nr, mask in enumerate(masks)}
        for label, options in calls.items():

            def attend(options=options):
                found = torch.nn.functional.scaled_dot_product_attention(*given, **options)
                return found, torch.autograd.grad(found.sum(), given)

            with torch.nn.attention.sdpa_kernel(backends):
                attempt(log, label, attend, words=4)

    agree(program, raises=False, graph=True)


DETERMINED = """
torch.empty(2), torch.empty(2, dtype=torch.int16), torch.empty(1, dtype=torch.bool), torch.empty(1, dtype=torch.complex64)
torch.empty_like(torch.ones(2)), torch.empty_strided((2,), (2,)), torch.ones(2).new_empty(1), torch.Tensor(2)
torch.ones(2).resize_(4)
torch.ones(4).put_(torch.tensor([0, 0]), torch.ones(2))
torch.ones(4).put(torch.tensor([0, 0]), torch.ones(2), accumulate=True)
F.max_unpool1d(torch.ones(1, 1, 2), torch.tensor([[[0, 2]]]), 2)
torch.ones(4).scatter(0, torch.tensor([0, 0]), torch.ones(2), reduce="add")
"""


@pytest.mark.parametrize("code", DETERMINED.strip().splitlines())
def test_deterministic_algorithms(code: str) -> None:
    def program(torch: Any, log: Any) -> None:
        for fills in (True, False):
            for warn_only in (False, True):
                if not fills and ("torch.empty" in code or "resize_" in code):
                    continue
                torch.use_deterministic_algorithms(True, warn_only=warn_only)
                torch.utils.deterministic.fill_uninitialized_memory = fills
                try:
                    attempt(log, warn_only, lambda: eval(code, {"torch": torch, "F": torch.nn.functional}))
                finally:
                    torch.use_deterministic_algorithms(False)
                    torch.utils.deterministic.fill_uninitialized_memory = True

    agree(program, warns=True)


def test_timed_statements_find_torch():
    def program(torch, log):
        log(torch.utils.benchmark.Timer("torch.ones(x)", globals={"x": 2}).timeit(3).number_per_run)

    agree(program)
