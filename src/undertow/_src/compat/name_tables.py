"""PyTorch's modules that hold nothing but names: each is a row of a table here, not a file.

Some of their names are defined elsewhere (`ELSEWHERE`, `PREFIXED`, `MIRRORED`); the others query libraries and devices
that undertow lacks, and return a constant or raise (`ANSWERS`). `find_spec` gives Python's import system such a module.
"""

from __future__ import annotations

import functools
import importlib
import unittest
from collections.abc import Callable, Iterable
from copy import copy
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any, NoReturn

from undertow._src.base.lazy import lazy_names

Function = Callable[..., Any]

# --- names defined elsewhere: `home: name name; home: name`; a different name there follows an equals sign

ELSEWHERE = {
    "_classes": "undertow: classes",
    "_dynamo.eval_frame": "_dynamo: OptimizedModule; compiler: disable",
    "_functorch.batch_norm_replacement": "func._modules: batch_norm_without_running_stats replace_all_batch_norm_modules_",
    "_functorch.functional_call": "nn.utils._functional_call: construct_stacked_leaf functional_call stack_module_state",
    "_inductor.test_case": "_dynamo.test_case: TestCase run_tests",
    "_library.custom_ops": "library: CustomOpDef custom_op",
    "_lobpcg": "_lowrank: lobpcg",
    "autograd.profiler_legacy": "autograd.profiler: profile EventList FunctionEvent MEMORY_EVENT_NAME",
    "cuda.amp.common": "cuda.amp: amp_definitely_not_available",
    "cuda._utils": "_utils: _get_device_index",
    "nn.utils._expanded_weights": "nn.utils._per_sample_grad: ExpandedWeight",
    "optim._functional": "optim.adadelta: adadelta; optim.adagrad: adagrad; optim.adam: adam; optim.adamax: adamax; "
    "optim.adamw: adamw; optim.asgd: asgd; optim.nadam: nadam; optim.radam: radam; optim.rmsprop: rmsprop; "
    "optim.rprop: rprop; optim.sgd: sgd; optim.sparse_adam: sparse_adam",
    "testing._internal.optests": "_src.overrides.operator_checks: OpCheckError opcheck",
    "utils.model_zoo": "hub: load_state_dict_from_url load_url=load_state_dict_from_url; "
    "_src.compat.progress_bar: tqdm=best",
}

# Modules whose names are those of a different module with a prefix.
PREFIXED = {"_C._fft": ("fft_", "fft"), "_C._linalg": ("linalg_", "linalg"), "_C._special": ("special_", "special")}

# The modules of `torch._refs`: functions of a home module, or else methods of tensors.
MIRRORED = {
    "_refs._conversions": ("", "bfloat16 bool byte cdouble cfloat char double float half int long short"),
    "_refs.fft": (
        "undertow.fft",
        "fft fft2 fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft "
        "rfft2 rfftn",
    ),
    "_refs.linalg": ("undertow.linalg", "cross diagonal matrix_norm norm svd svdvals vecdot vector_norm"),
    "_refs.nn": ("", ""),
    "_refs.nn.functional": (
        "undertow.nn.functional",
        "alpha_dropout celu celu_ channel_shuffle dropout elu elu_ gelu glu group_norm hardshrink hardtanh "
        "hinge_embedding_loss huber_loss l1_loss layer_norm leaky_relu log_softmax margin_ranking_loss mish mse_loss "
        "nll_loss pairwise_distance pdist poisson_nll_loss prelu relu relu6 selu selu_ smooth_l1_loss softmax softmin "
        "softplus softshrink tanhshrink threshold threshold_ triplet_margin_loss",
    ),
    "_refs.special": (
        "undertow.special",
        "bessel_j0 bessel_j1 entr erfcx expit i0e i1 i1e log_ndtr log_softmax logit multigammaln ndtr ndtri softmax "
        "spherical_bessel_j0 xlog1py zeta",
    ),
}

# --- queries about what undertow lacks


def _each(names: Iterable[str], make: Callable[[str], Function]) -> dict[str, Function]:
    made = {name: make(name) for name in names}
    for name, function in made.items():
        function.__name__ = function.__qualname__ = name
    return made


def _answering(value: object, names: str) -> dict[str, Function]:
    """Return functions that give one answer; `name*` takes any arguments, others take none."""

    def answer(name: str) -> Function:
        return (lambda *args, **kwargs: copy(value)) if f"{name}*" in names.split() else (lambda: copy(value))

    return _each(names.replace("*", "").split(), answer)


def _seeding(names: str) -> dict[str, Function]:
    """Return functions that seed the generators of devices that are not here."""
    return _each(names.split(), lambda name: lambda seed: None)


def _refusing(error: type[Exception], words: str, **parts: str) -> dict[str, Function]:
    """Return functions that raise an error with the function's own part in its text."""

    def refusal(name: str) -> Function:
        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise error(words.format(parts[name]))

        return refuse

    return _each(parts, refusal)


def _not_available() -> dict[str, Function]:
    return _answering(False, "is_available")


_SKIPS = {"requires_cuda_and_triton": "cuda and triton", "requires_xpu_and_triton": "xpu and triton",
          "requires_gpu_and_triton": "gpu and triton", "requires_gpu": "gpu"}  # fmt: skip
_COPIES = "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter"
_LISTS = (
    "FIXME_inductor_non_strict dynamo_expected_failures dynamo_skips inductor_expected_failures inductor_skips "
    "compiled_autograd_skips"
)
ANSWERS: dict[str, dict[str, Any]] = {
    "_environment": _answering(False, "is_fbcode is_prod"),
    "backends.cpu": _answering("DEFAULT", "get_cpu_capability"),
    "backends.cusparselt": _not_available() | _answering(None, "version"),
    "backends.kleidiai": _not_available(),
    "backends.mkl": _not_available(),
    "backends.mps": _answering(False, "is_available is_built")
    | _refusing(RuntimeError, "Cannot execute {}() without MPS backend.", is_macos_or_newer="isOnMacOSorNewer"),
    "backends.nnpack": _not_available(),
    "backends.openmp": _not_available(),
    "backends.opt_einsum": _not_available() | {"enabled": False, "strategy": None},
    "backends.quantized": {"engine": "none", "supported_engines": ["none"]},
    "cuda.comm": _refusing(
        AssertionError, "Torch not compiled with CUDA enabled", **dict.fromkeys(_COPIES.split(), "")
    ),
    "cuda.nccl": _answering(False, "is_available*"),
    "distributed.autograd": _not_available(),
    "distributed.rpc": _not_available(),
    "mps": _answering(False, "is_available") | _answering(0, "device_count") | _seeding("manual_seed")
    | _refusing(
        RuntimeError, "Cannot execute {}() without MPS backend.", empty_cache="emptyCache",
        synchronize="deviceSynchronize", current_allocated_memory="getCurrentAllocatedMemory",
        driver_allocated_memory="getDriverAllocatedMemory", recommended_max_memory="getRecommendedMaxMemory",
        set_per_process_memory_fraction="setMemoryFraction", seed="getDefaultGenerator",
        get_rng_state="getDefaultGenerator", set_rng_state="getDefaultGenerator",
    ),
    "mtia": _answering(False, "is_available is_initialized") | _answering(0, "device_count")
    | _seeding("manual_seed manual_seed_all") | _answering({}, "memory_stats*")
    | _refusing(
        RuntimeError, "Cannot execute {}() without MTIA backend.", empty_cache="emptyCache",
        current_device="getCurrentDevice", synchronize="getCurrentDevice",
    ),
    "nn.parallel.comm": _refusing(
        AssertionError, "{} expects all inputs to be on GPUs, and undertow has one device only", broadcast="broadcast",
        broadcast_coalesced="broadcast", reduce_add="reduce_add", reduce_add_coalesced="reduce_add", scatter="scatter",
        gather="gather",
    ),
    "testing._internal.common_mps": {"MACOS_VERSION": 0.0, "mps_ops_modifier": lambda ops, **options: ops},
    "testing._internal.common_xpu": {"TEST_XPU": False, "XPU_ALREADY_INITIALIZED_ON_IMPORT": False}
    | _answering(False, "evaluate_platform_supports_flash_attention") | _answering(None, "get_xpu_codename get_xpu_arch"),
    "testing._internal.dynamo_test_failures": {name: set() for name in _LISTS.split()},
    "testing._internal.triton_utils": dict.fromkeys(("HAS_GPU", "HAS_CUDA_AND_TRITON", "HAS_XPU_AND_TRITON"), False)
    | {name: unittest.skip(f"requires {what}") for name, what in _SKIPS.items()},
    "utils._triton": _answering(
        False,
        "has_triton has_triton_package has_triton_tma has_triton_tma_device has_triton_stable_tma_api "
        "has_triton_experimental_host_tma has_triton_tensor_descriptor_host_tma has_datacenter_blackwell_tma_device "
        "_device_supports_tma",
    ) | {"get_triton_version": lambda fallback=(0, 0): fallback},
}  # fmt: skip

# --- the modules


def _elsewhere(module: str, table: str) -> dict[str, Any]:
    homes = {}
    for entry in table.split(";"):
        home, _, names = entry.strip().partition(": ")
        home = home if home == "undertow" else f"undertow.{home}"
        for each in names.split():
            name, _, there = each.partition("=")
            homes[name] = f"{home}:{there}" if there else home
    find, names_of = lazy_names(module, homes)
    return {"__getattr__": find, "__dir__": names_of, "__all__": [name for name in homes if not name.startswith("_")]}


def _prefixed(module: str, prefix: str, home: str) -> dict[str, Any]:
    def find(name: str) -> Any:
        bare = name.removeprefix(prefix)
        found = getattr(importlib.import_module(f"undertow.{home}"), bare, None) if bare != name else None
        if found is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return found

    return {"__getattr__": find}


def mirrored(module: str, home: str, names: str) -> dict[str, Any]:
    """Return a module's `__getattr__` and `__all__`: names as functions of a home, or else as methods of tensors."""
    known = names.split()

    def find(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(home), name, None) if home else None
        return found if callable(found) and not isinstance(found, type) else _of_tensors(name)

    return {"__getattr__": find, "__all__": known}


@functools.cache
def _of_tensors(name: str) -> Function:
    """Return a method or an attribute of tensors as a function; an in-place draw works on a copy."""
    method = getattr(importlib.import_module("undertow").Tensor, name, None)

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        if method is None:
            return getattr(input.clone(), f"{name}_")(*args, **kwargs)
        return method(input, *args, **kwargs) if callable(method) else getattr(input, name)

    function.__name__ = function.__qualname__ = name
    return function


def _contents(module: str) -> dict[str, Any] | None:
    row = module.removeprefix("undertow.")
    if row in ELSEWHERE:
        return _elsewhere(module, ELSEWHERE[row])
    if row in PREFIXED:
        return _prefixed(module, *PREFIXED[row])
    if row in MIRRORED:
        return mirrored(module, *MIRRORED[row])
    if row in ANSWERS:
        answers = ANSWERS[row]
        for answer in answers.values():
            if isinstance(answer, FunctionType):
                answer.__module__ = module
        return answers | {"__all__": [name for name in answers if not name.startswith("_")]}
    return None


class _Loader:
    """Fills a module from its row."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(
            _contents(module.__name__) or {}, __doc__=f"`torch{module.__name__[8:]}`: see name_tables.py."
        )


def find_spec(name: str) -> ModuleSpec | None:
    """Return the spec of a module that is a row of a table; None for others."""
    row = name.removeprefix("undertow.")
    if not any(row in table for table in (ELSEWHERE, PREFIXED, MIRRORED, ANSWERS)):
        return None
    return ModuleSpec(name, _Loader(), is_package=any(other.startswith(f"{row}.") for other in MIRRORED))  # type: ignore[arg-type]
