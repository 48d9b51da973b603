"""Loggers under PyTorch's names, and which of them are enabled.

A log has a level; an artifact (a piece of compiler output) is on or off. undertow writes only to the autograd log; the
other names exist so that programs can set them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_LOGS = {
    "dynamo": ["torch._dynamo"], "aot": ["torch._functorch.aot_autograd", "torch._functorch._aot_autograd"],
    "autograd": ["torch.autograd"], "inductor": ["torch._inductor", "torch._inductor.cudagraph_trees"],
    "dynamic": ["torch.fx.experimental.symbolic_shapes", "torch.fx.experimental.sym_node"], "torch": ["torch"],
    "distributed": ["torch.distributed"], "c10d": ["torch.distributed.distributed_c10d"],
    "ddp": ["torch.nn.parallel.distributed"], "fsdp": ["torch.distributed.fsdp"], "dtensor": ["torch.distributed.tensor"],
    "onnx": ["torch.onnx"], "export": ["torch._dynamo", "torch.export"], "fake_tensor": ["torch._subclasses.fake_tensor"],
}  # fmt: skip
_ARTIFACTS = frozenset(
    "bytecode aot_graphs aot_joint_graph ddp_graphs graph graph_code graph_code_verbose graph_breaks side_effects "
    "graph_sizes guards recompiles recompiles_verbose trace_source trace_call trace_bytecode output_code kernel_code "
    "schedule perf_hints pre_grad_graphs post_grad_graphs ir_pre_fusion ir_post_fusion onnx_diagnostics fusion overlap "
    "cudagraphs sym_node compiled_autograd compiled_autograd_verbose cudagraph_static_inputs benchmarking autotuning "
    "incremental graph_region_expansion inductor_metrics hierarchical_compile compute_dependencies caching".split()
)
_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, logging.NOTSET)
LOG_FORMAT = "%(levelname).1s%(asctime)s %(process)d %(name)s:%(lineno)d] %(message)s"


@dataclass
class LogState:
    """Which logs are enabled: the level of each, and the artifacts that are on."""

    log_qname_to_level: dict[str, int] = field(default_factory=dict)
    artifact_names: set[str] = field(default_factory=set)


log_state = LogState()
_handlers: list[logging.Handler] = []


class TorchLogsFormatter(logging.Formatter):
    """Formats a log line: level, time, source and message."""

    def __init__(self, *, trace: bool = False, trace_id_filter: Any = None) -> None:
        super().__init__(LOG_FORMAT)


def set_logs(*, all: int | None = None, modules: dict[str, Any] | None = None, **settings: Any) -> None:
    """Enable these logs at these levels, and these artifacts (True); reset all others.

    `TORCH_LOGS` in the environment takes precedence over this function.
    """
    if os.environ.get("TORCH_LOGS"):
        return
    chosen = LogState()
    if all is not None:
        chosen.log_qname_to_level["torch"] = _level("all", all)
    for name, value in settings.items():
        if name in _ARTIFACTS:
            if not isinstance(value, bool):
                raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
            if value:
                chosen.artifact_names.add(name)
        elif name in _LOGS:
            for logger in _LOGS[name]:
                chosen.log_qname_to_level[logger] = _level(name, value)
        else:
            raise TypeError(f"set_logs() got an unexpected keyword argument {name!r}")
    for module, value in (modules or {}).items():
        importlib.import_module(module)
        chosen.log_qname_to_level[module] = _level(module, value)
    _set_log_state(chosen)
    _init_logs()


def _level(name: str, value: Any) -> int:
    if value not in _LEVELS:
        raise ValueError(
            f"Unrecognized log level for log {name}: {value}, valid level values are: {','.join(map(str, _LEVELS))}"
        )
    return int(value)


def _get_log_state() -> LogState:
    return log_state


def _set_log_state(state: LogState) -> None:
    global log_state
    log_state = state


def _reset_logs() -> None:
    """Reset every log."""
    for names in _LOGS.values():
        for name in names:
            logging.getLogger(name).setLevel(logging.NOTSET)
    root = logging.getLogger("torch")
    for handler in _handlers:
        root.removeHandler(handler)
    _handlers.clear()


def _init_logs(log_file_name: str | None = None) -> None:
    """Apply the state: log to the terminal, and to a file if one is given."""
    _reset_logs()
    for name, level in log_state.log_qname_to_level.items():
        logging.getLogger(name).setLevel(level)
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if log_file_name is not None:
        handlers.append(logging.FileHandler(log_file_name))
    for handler in handlers:
        handler.setFormatter(TorchLogsFormatter())
        logging.getLogger("torch").addHandler(handler)
        _handlers.append(handler)


def get_loggers() -> list[logging.Logger]:
    """Return the loggers that `set_logs` knows by name."""
    return [logging.getLogger(name) for names in _LOGS.values() for name in names]


def register_log(setting_name: str, log_name: str | list[str]) -> None:
    """Register loggers under a name for `set_logs`."""
    _LOGS[setting_name] = [log_name] if isinstance(log_name, str) else log_name


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """Return a module's logger of one artifact."""
    if artifact_name not in _ARTIFACTS:
        raise ValueError(f"Artifact name: {artifact_name!r} not registered, please call register_artifact")
    log = logging.getLogger(f"{module_qname}.__{artifact_name}")
    log.artifact_name = artifact_name  # type: ignore[attr-defined]
    return log


class LazyString:
    """A string that is computed when it is shown."""

    def __init__(self, func: Callable[..., str], *args: Any, **kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


@functools.lru_cache(None)
def warning_once(logger_obj: logging.Logger, *args: Any, **kwargs: Any) -> None:
    """Log a warning, once for the same message."""
    logger_obj.warning(*args, **kwargs)


def user_warning_filter(
    message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
) -> bool:
    """Whether a warning is meant for users."""
    return not issubclass(category, UserWarning)


@contextlib.contextmanager
def hide_warnings(filter_fn: Callable[..., bool] = lambda *args, **kwargs: True) -> Iterator[None]:
    """Show only the warnings that a function accepts inside the block."""
    before = warnings.showwarning

    def show(*args: Any, **kwargs: Any) -> None:
        if filter_fn(*args, **kwargs):
            before(*args, **kwargs)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def trace_structured(name: str, *args: Any, **kwargs: Any) -> None:
    """Do nothing: PyTorch logs the steps of its compiler here."""


dtrace_structured = trace_structured
