"""The owner of a function's code, and the outside code that is known to have no effects: mathematics, builtins, NumPy."""

from __future__ import annotations

import bisect
import cmath
import collections
import contextlib
import copy
import dataclasses
import functools
import heapq
import importlib.machinery
import inspect
import itertools
import math
import operator
import os
import sys
import sysconfig
import types
import typing
import weakref
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeGuard

import numpy as np

from undertow._src.base.ownership import is_own_class, module_name
from undertow._src.base.sites import PACKAGE
from undertow._src.compile.guards.settings import ANSWERED
from undertow._tensor import Tensor

_NUMPY_FOLDER = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_STANDARD_FOLDER = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED_FOLDERS = tuple(sysconfig.get_paths()[name] + os.sep for name in ("purelib", "platlib"))
_COMPILED = tuple(importlib.machinery.EXTENSION_SUFFIXES)  # modules whose classes are no Python code
# Also of other environments.
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))

# Builtins whose result is a number, a string or the like.
PLAIN_RESULT = {
    id(function)
    for function in (
        len, isinstance, issubclass, callable, id, hash, repr, str, int, float, bool, complex, ascii, bin, hex, oct,
        ord, chr, format, range, slice, bytes, all, any,
        *(value for name, value in vars(math).items() if not name.startswith("_")),
        *(value for name, value in vars(cmath).items() if not name.startswith("_")),
        operator.index, operator.not_, operator.truth, operator.is_, operator.is_not, operator.contains,
    )
}  # fmt: skip
# Those that return an argument, an element of one, or something computed from them.
ELEMENT_RESULT = {
    id(function)
    for function in (
        min, max, sum, abs, round, pow, divmod, functools.reduce, operator.add, operator.sub, operator.mul,
        operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.neg, operator.pos, operator.abs,
        operator.matmul, operator.getitem, operator.and_, operator.or_, operator.xor, operator.invert, operator.eq,
        operator.ne, operator.lt, operator.le, operator.gt, operator.ge, copy.copy, copy.deepcopy,
    )
}  # fmt: skip
# Those that only read their arguments, and whose result depends on these alone.
EVALUATED = {
    id(function)
    for function in (
        dataclasses.fields, dataclasses.is_dataclass, inspect.signature, inspect.isclass, inspect.isfunction,
        inspect.ismethod, typing.get_origin, typing.get_args, issubclass, callable,
    )
}  # fmt: skip
# Those that make a container, an iterator or a function from their arguments.
MAKERS = {
    id(function)
    for function in (
        list, tuple, dict, set, frozenset, sorted, reversed, zip, enumerate, map, filter, object, iter, bytearray,
        collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter, collections.ChainMap,
        contextlib.nullcontext, contextlib.suppress, contextlib.ExitStack, contextlib.closing, functools.partial,
        functools.wraps,
        operator.itemgetter, operator.attrgetter,
        *(value for value in vars(itertools).values() if isinstance(value, type)),
    )
}  # fmt: skip
# Those among them that call a function argument, at once or when the result is iterated over.
CALLERS = {
    id(function)
    for function in (map, filter, sorted, min, max, functools.reduce, itertools.starmap, itertools.accumulate,
                     itertools.takewhile, itertools.dropwhile, itertools.filterfalse, itertools.groupby, iter,
                     collections.defaultdict)
}  # fmt: skip

# Those that only change their first argument, besides what its own code does.
CHANGERS = {
    id(function)
    for function in (
        bisect.insort_left, bisect.insort_right, heapq.heapify, heapq.heappop, heapq.heappush, heapq.heappushpop,
        heapq.heapreplace, operator.iadd, operator.iand, operator.iconcat, operator.ifloordiv, operator.ilshift,
        operator.imatmul, operator.imod, operator.imul, operator.ior, operator.ipow, operator.irshift, operator.isub,
        operator.itruediv, operator.ixor,
    )
}  # fmt: skip

ALIASES = (types.GenericAlias, type(typing.List[int]))  # classes with a subscript  # noqa: UP006
CONTEXTS = (contextlib.nullcontext, contextlib.suppress, contextlib.closing)

# Methods of builtin containers that change nothing.
READING_METHODS: tuple[tuple[type, frozenset[str]], ...] = (
    (dict, frozenset("get keys values items copy __getitem__ __contains__ __len__ __iter__".split())),
    (list, frozenset("index count copy __getitem__ __contains__ __len__ __iter__".split())),
    (collections.deque, frozenset("index count copy __getitem__ __contains__ __len__ __iter__".split())),
    (
        set,
        frozenset(
            "copy union difference intersection symmetric_difference issubset issuperset isdisjoint "
            "__contains__ __len__ __iter__".split()
        ),
    ),
    (
        np.ndarray,
        frozenset(
            "all any argmax argmin argsort astype clip compress conj conjugate copy cumprod cumsum diagonal dot flatten "
            "item max mean min nonzero prod ravel repeat reshape round searchsorted squeeze std sum swapaxes take "
            "tobytes tolist trace transpose var view __getitem__ __len__ __iter__".split()
        ),
    ),
)
# The effect of a method of an outside object, in words.
PHRASES = {
    "append": "appends to", "appendleft": "appends to", "extend": "appends to", "insert": "inserts into",
    "add": "adds to", "update": "updates", "setdefault": "may add to", "pop": "takes from", "popleft": "takes from",
    "popitem": "takes from", "remove": "removes from", "discard": "removes from", "clear": "empties",
    "put": "puts into", "put_nowait": "puts into", "get_nowait": "takes from", "write": "writes to",
    "writelines": "writes to", "sort": "sorts", "reverse": "reverses", "fill": "fills",
}  # fmt: skip
# Functions of NumPy that write into their first argument, and those that act elsewhere or call functions.
NUMPY_FILLERS = {"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "at"}
NUMPY_ACTORS = {
    "save", "savez", "savez_compressed",
    "savetxt", "load", "loadtxt", "genfromtxt", "fromfile", "tofile", "dump", "memmap", "open_memmap", "seterr",
    "seterrcall", "set_printoptions", "setbufsize", "errstate", "printoptions", "info", "show_config", "apply_along_axis",
    "apply_over_axes", "vectorize", "frompyfunc", "fromfunction", "piecewise", "nditer", "setflags",
}  # fmt: skip

# Functions and methods that write into what they are given, and those of generators that take an array as third.
FILLERS = frozenset(
    "shuffle permuted readinto readinto1 recv_into recvfrom_into recvmsg_into readv preadv pack_into".split()
)
FILLERS_OF_THIRD = frozenset("random standard_normal standard_exponential standard_gamma".split())
NUMPY_FILES = {"save", "savez", "savez_compressed", "savetxt", "load", "loadtxt", "genfromtxt", "fromfile", "tofile",
               "dump"}  # fmt: skip
# The fields of the standard library's modules; others are unknown.
_FIELDS = {
    "random": "random", "_random": "random", "secrets": "random", "uuid": "random", "numpy.random": "random",
    "time": "clock", "datetime": "clock", "_datetime": "clock", "timeit": "clock",
    "logging": "output", "io": "output", "_io": "output", "subprocess": "output", "socket": "output", "shutil": "output",
    "pickle": "output", "_pickle": "output", "csv": "output", "_csv": "output", "sqlite3": "output", "os": "output",
    "posix": "output", "nt": "output", "pathlib": "output", "tempfile": "output", "pprint": "output", "_queue": "output",
    "queue": "output", "threading": "output", "_thread": "output", "multiprocessing": "output",
    "concurrent": "output", "asyncio": "output", "_asyncio": "output",
    "pdb": "debugger", "ipdb": "debugger",
    "os.path": "harmless", "posixpath": "harmless", "ntpath": "harmless", "genericpath": "files", "re": "harmless",
    "inspect": "harmless", "typing": "harmless", "types": "harmless", "dataclasses": "harmless", "enum": "harmless",
    "abc": "harmless", "_abc": "harmless", "string": "harmless", "textwrap": "harmless", "contextlib": "harmless",
    "functools": "harmless", "copy": "harmless", "decimal": "harmless", "fractions": "harmless", "statistics": "harmless",
    "bisect": "harmless", "operator": "harmless", "warnings": "harmless", "_warnings": "harmless", "weakref": "harmless",
    "numbers": "harmless", "collections.abc": "harmless", "json": "harmless", "importlib": "harmless", "gc": "harmless",
    "sys": "harmless", "json.dump": "output",
    **{
        f"collections.abc.{name}": "unknown"
        for name in "update setdefault pop popitem clear append extend insert remove reverse add discard".split()
    },
}  # fmt: skip
_BUILTIN_FIELDS = {"print": "output", "open": "output", "input": "output", "exec": "unknown", "eval": "unknown",
                   "breakpoint": "debugger"}  # fmt: skip

# Rooms of undertow that act on more than tensors.
_OWN_EFFECTS_IN = ("serialization", "why", "cli", "hub", "multiprocessing", "distributed", "pretend", "profiler",
                   "compat.process_settings", "tensor.printing",
                   "onnx", "utils.benchmark", "utils.data")  # fmt: skip
# Collectives that a program can run itself, functions of `distributed` that only read, and those of a bucket.
_IN_PROGRAMS = {
    "all_reduce", "broadcast", "all_gather", "all_gather_into_tensor", "all_gather_tensor", "all_gather_tensor_autograd",
    "reduce", "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd", "gather", "scatter",
    "all_to_all", "all_to_all_single", "all_to_all_single_autograd", "all_reduce_coalesced", "all_gather_coalesced",
    "wait", "wait_tensor", "get_rank", "get_world_size", "is_initialized", "get_group_rank", "get_global_rank",
    "get_process_group_ranks", "is_available", "get_backend", "get_future", "buffer", "gradients", "index", "is_last",
}  # fmt: skip
# Those that fill their arguments, or need their counterpart on another rank at that moment: they can't happen later.
_MESSAGES = {
    "send", "recv", "isend", "irecv", "batch_isend_irecv", "broadcast_object_list", "all_gather_object", "gather_object",
    "scatter_object_list", "send_object_list", "recv_object_list",
}  # fmt: skip
_OWN_EFFECTS = {
    "manual_seed", "seed", "initial_seed", "default_generator", "use_deterministic_algorithms", "train", "eval",
    "add_module", "load_state_dict", "add_param_group", "share_memory", "register_module",
    "register_parameter", "register_buffer", "set_submodule", "_load_from_state_dict", "compile",
}  # fmt: skip
# Methods that change one of undertow's objects which is not a tensor.
OWN_CHANGES = {"remove", "append", "extend", "insert", "pop", "popitem", "clear", "update", "setdefault", "__setitem__",
               "__delitem__", "__setattr__", "__delattr__", "__enter__", "__exit__"}  # fmt: skip
# Those that only read one, besides those whose names begin with `is_`.
_OWN_READING = {"state_dict", "extra_repr", "get_extra_state", "get_last_lr", "__repr__", "__len__", "__contains__"}
# Functions whose tensor shares the memory of an array.
SHARING = {"from_numpy", "as_tensor", "asarray", "frombuffer", "from_dlpack"}
# Tensor methods that register something which stays; harmless on a tensor that the step itself makes.
REGISTRARS = {"register_hook", "register_post_accumulate_grad_hook"}
# Those that change a tensor's place in the graph, and not its value.
ON_GRAPH = {"retain_grad", "requires_grad_", "detach_"}
_DRAWING = {"bernoulli", "multinomial", "normal", "uniform", "random", "exponential", "geometric", "cauchy", "log_normal",
            "poisson", "rrelu", "gumbel_softmax", "binomial", "sample", "rsample"}  # fmt: skip
CONTAINER_METHODS = {"items", "keys", "values", "get", "index", "count", "copy"}
NO_RESULT = {"backward", "retain_grad", "__setitem__", "record_stream"}
PLAIN_METHODS = {
    "item", "size", "dim", "numel", "nelement", "ndimension", "stride", "is_floating_point", "is_complex", "is_contiguous",
    "element_size", "data_ptr", "storage_offset", "get_device", "equal", "allclose", "is_nonzero", "is_same_size",
    "tolist", "is_signed", "is_conj", "is_neg", "is_inference", "is_pinned", "is_shared", "dim_order", "__len__",
}  # fmt: skip
SAME_METHODS = {"to", "contiguous", "float", "double", "half", "bfloat16", "cpu", "cuda", "type", "type_as", "expand",
                "int", "long", "resolve_conj", "resolve_neg", "positive", "as_subclass", "squeeze"}  # fmt: skip
PLAIN_ATTRIBUTES = {
    "shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "layout", "itemsize", "nbytes", "name", "names",
    "_version", "output_nr", "retains_grad", "is_cuda", "is_sparse", "is_meta", "is_cpu", "is_quantized", "volatile",
    "placements", "device_mesh",
}  # fmt: skip
SETTABLE_ATTRIBUTES = {"grad", "data", "requires_grad", "real", "imag"}
# Fields of the named tuples that functions with several results give.
RESULT_FIELDS = {"values", "indices", "Q", "R", "U", "S", "V", "Vh", "L", "LU", "P", "pivots", "eigenvalues",
                 "eigenvectors", "sign", "logabsdet", "mantissa", "exponent", "solution", "residuals", "min", "max",
                 "hist", "bin_edges"}  # fmt: skip

TENSOR_NAMES = frozenset(dir(Tensor))
_OF_DISTRIBUTED = {"to_local"}  # a method of distributed tensors alone
TENSOR_METHODS = _OF_DISTRIBUTED | {name for name in TENSOR_NAMES if callable(getattr(Tensor, name, None))}


@functools.lru_cache(maxsize=4096)
def origin_of_file(filename: str) -> str:
    """Return the owner of a file: 'own', 'numpy', 'einops', 'standard' or 'user'."""
    if filename.startswith("<"):
        return "standard" if filename.startswith("<frozen ") else "user"
    path = os.path.abspath(filename)
    if path.startswith(PACKAGE):
        return "own"
    if path.startswith(_NUMPY_FOLDER):
        return "numpy"
    if is_installed(path):
        return "einops" if f"{os.sep}einops{os.sep}" in path or f"{os.sep}opt_einsum{os.sep}" in path else "user"
    if path.startswith(_STANDARD_FOLDER):
        return "standard"
    return "user"


_origins: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()


def _origin_of_class(kind: type) -> str:
    if is_own_class(kind):
        return "own"
    name = module_name(kind)
    written = [each for each in vars(kind).values() if isinstance(each, FunctionType)] if not name else []
    if written:
        return origin_of(written[0])
    if name in ("", "builtins") or name.startswith("_cython_"):  # classes of Cython's functions
        return "builtin"
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return "standard" if name.partition(".")[0] in sys.stdlib_module_names else "user"
    whose = origin_of_file(file)
    return "user" if whose == "own" else whose  # a name of undertow that was copied


def origin_of(value: Any) -> str:
    """Return the owner of a function, class or instance. Functions are judged by file: `__module__` can be copied."""
    if isinstance(value, FunctionType):
        return origin_of_file(value.__code__.co_filename)
    if isinstance(value, type):
        if type(value).__hash__ is None:  # by its metaclass
            return _origin_of_class(value)
        found = _origins.get(value)
        if found is None:
            found = _origins[value] = _origin_of_class(value)
        return found
    if isinstance(value, (BuiltinFunctionType, np.ufunc)) or module_name(type(value)).startswith("numpy"):
        root = (getattr(value, "__module__", None) or module_name(type(value))).partition(".")[0]
        return "numpy" if root == "numpy" else "builtin"
    return origin_of(type(value))


def is_users_function(value: Any) -> TypeGuard[FunctionType]:
    """Return whether a value is a Python function of the user, or of an installed package: its body is analyzed."""
    return isinstance(value, FunctionType) and origin_of_file(value.__code__.co_filename) == "user"


def is_users_class(value: Any) -> TypeGuard[type]:
    """Return whether a value is a class of the user, or of an installed package."""
    return isinstance(value, type) and origin_of(value) == "user"


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor, and of undertow's own class."""
    return isinstance(value, Tensor) and origin_of(type(value)) == "own"


@functools.lru_cache(maxsize=1024)
def own_module(filename: str) -> str:
    """Return the name of an undertow file's module: `nn.functional`; `ops.clamp` for a file in a package of `_src`."""
    inside = os.path.abspath(filename).removeprefix(PACKAGE)
    return _part(inside.removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__"))


def _part(module: str) -> str:
    """Return a module's name inside undertow, given with or without the name of the package."""
    package, _, rest = module.partition(".")
    return (rest if package in ("undertow", "torch") else module).removeprefix("_src.")


def own_effect(name: str, module: str) -> bool:
    """Return whether a function of undertow does more than work on tensors."""
    if name in ANSWERED:
        return False
    rest = _part(module)
    if rest.startswith("distributed.") and name in _IN_PROGRAMS:
        return False
    if any(rest == part or rest.startswith(f"{part}.") for part in _OWN_EFFECTS_IN):
        return True
    if rest.startswith(("optim._lr", "optim.lr_scheduler")):
        return not own_reading(name)
    if name == "requires_grad_":
        return rest.startswith("nn")
    return name in _OWN_EFFECTS or (name.startswith("set_") and name != "set_") or name.startswith("register_")


def own_reading(name: str) -> bool:
    """Return whether a function of undertow changes nothing."""
    return name in _OWN_READING or name.startswith("is_")


def own_field(module: str, name: str = "") -> str:
    """Return the field of an effect of undertow's own code."""
    rest = _part(module)
    if rest.startswith("distributed.") and name in _MESSAGES:
        return "messages"
    return "output" if any(rest == part or rest.startswith(f"{part}.") for part in _OWN_EFFECTS_IN) else "own"


def field_of(value: Any) -> str:
    """Return the field of a function of other packages, or of an object with methods that can't be read."""
    if isinstance(value, (list, dict, set, collections.deque, bytearray, np.ndarray)):
        return ""
    if isinstance(value, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
        return "iterator"  # its state can't be restored after a trace
    module = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", value), "__module__", None)
    module = module if isinstance(module, str) else module_name(type(value))
    if module == "builtins":
        return _BUILTIN_FIELDS.get(getattr(value, "__name__", ""), "unknown")
    module = f"{module}.{getattr(value, '__name__', '')}"
    while module:
        if module in _FIELDS:
            return _FIELDS[module]
        module = module.rpartition(".")[0]
    return "unknown"


def calls_back(function: Any) -> bool:
    """Return whether a function of a harmless module calls functions that it is given."""
    return isinstance(function, FunctionType) and function.__module__ in ("re", "json")


def draws(name: str) -> bool:
    """Return whether a function of undertow draws random numbers."""
    return name.startswith("rand") or "dropout" in name or name.removesuffix("_") in _DRAWING


def numpy_effect(name: str, module: str) -> bool:
    """Return whether a function of NumPy writes, reads files or draws random numbers."""
    return name in NUMPY_ACTORS or "random" in module or module.startswith("numpy.testing")


def written_here(value: Any) -> bool:
    """Return whether a function, class or Python module is the user's own code, and not of an installed package."""
    if isinstance(value, FunctionType):
        file: str | None = value.__code__.co_filename
    else:
        module = sys.modules.get(module_name(value)) if isinstance(value, type) else value
        file = getattr(module, "__file__", None)
    whose = origin_of_module(value) if isinstance(value, ModuleType) else origin_of(value)
    return whose == "user" and not is_installed(file or "") and not (file or "").endswith(_COMPILED)


@functools.lru_cache(maxsize=4096)
def is_installed(file: str) -> bool:
    """Return whether a file belongs to an installed package, of this environment or of one that it is added to."""
    return file.startswith(_INSTALLED_FOLDERS) or any(folder in file for folder in _PACKAGES)


def origin_of_module(module: Any) -> str:
    """Return the owner of a Python module's code."""
    file = getattr(module, "__file__", None)
    if file is None:
        return "builtin" if module.__name__.partition(".")[0] in sys.stdlib_module_names else "user"
    return origin_of_file(file)
