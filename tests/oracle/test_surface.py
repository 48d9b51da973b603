"""What programs ask of PyTorch besides computing: GPUs that are not there, switches, profilers, benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import undertow
from tests.oracle.harness import agree, without_cuda

CUDA = """
is_available() device_count() is_initialized() manual_seed(3) manual_seed_all(3) seed() seed_all() manual_seed('a')
stream(None).__enter__() device(-1).__enter__() device('cpu') device_of(torch.ones(1)).__enter__() empty_cache()
memory_allocated() max_memory_allocated() memory_reserved() max_memory_reserved() memory_stats() memory_cached()
get_rng_state_all() set_rng_state_all([]) is_bf16_supported() is_tf32_supported() has_half default_generators
""".split()

NO_CUDA = """
synchronize() current_device() get_device_name() get_device_name(0) get_device_properties(0) get_device_capability()
current_stream() default_stream() Stream() Event() device(0).__enter__() mem_get_info() get_rng_state() initial_seed()
ipc_collect() init() get_arch_list() get_gencode_flags() FloatTensor(2) CUDAGraph() nvtx.range_push('a') nvtx.mark('a')
set_per_process_memory_fraction(0.5) can_device_access_peer(0,1) set_sync_debug_mode(0)
""".split()


@pytest.mark.parametrize("call", CUDA + without_cuda(NO_CUDA))
def test_cuda(call: str) -> None:
    agree(lambda torch: eval(f"torch.cuda.{call}", {"torch": torch}))


def test_an_out_of_memory_error_is_a_runtime_error() -> None:
    assert issubclass(undertow.cuda.OutOfMemoryError, RuntimeError)
    assert not isinstance(undertow.ones(1), undertow.cuda.FloatTensor)


SETTINGS = """
torch.backends.cudnn.enabled
torch.backends.cudnn.benchmark
torch.backends.mps.is_available()
torch.version.hip
torch.mps.is_available()
torch.xpu.is_available()
torch.cpu.is_available()
torch.cpu.device_count()
torch.cpu.current_device()
torch.cpu.synchronize()
torch.get_float32_matmul_precision()
torch.are_deterministic_algorithms_enabled()
torch.is_deterministic_algorithms_warn_only_enabled()
torch.distributed.is_initialized()
torch.jit.is_scripting()
torch.jit.is_tracing()
torch.compiler.is_compiling()
torch.set_num_threads(0)
torch.set_num_threads('a')
torch.get_default_device()
""".strip().split("\n")


NO_CUDA_SETTINGS = ["torch.backends.cudnn.is_available()", "torch.backends.cuda.is_built()", "torch.version.cuda"]


@pytest.mark.parametrize("text", SETTINGS + without_cuda(NO_CUDA_SETTINGS))
def test_settings(text: str) -> None:
    agree(lambda torch: repr(eval(text, {"torch": torch})))


def test_profiler_times_functions_and_stretches(tmp_path: Path) -> None:
    profiler = undertow.profiler
    layer = undertow.nn.Linear(3, 3)
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], record_shapes=True) as found:
        with profiler.record_function("step"):
            loss = layer(undertow.ones(2, 3)).relu().sum()
        loss.backward()
    rows = {row.key: row for row in found.key_averages()}
    assert [rows[name].count for name in ("step", "aten::linear", "aten::relu", "aten::sum", "SumBackward0")] == [1] * 5
    inside = sum(rows[name].cpu_time_total for name in ("aten::linear", "aten::relu", "aten::sum"))
    assert 0 < rows["step"].self_cpu_time_total < rows["step"].cpu_time_total
    assert rows["step"].cpu_time_total >= inside
    table = found.key_averages().table(sort_by="cpu_time_total", row_limit=2)
    assert (
        len([line for line in table.splitlines() if line.strip().startswith((*rows,))]) == 2
    )  # some names have spaces
    assert "Self CPU time total" in table
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    assert {event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]} == set(rows)


def test_profilers_of_both_find_the_same_names() -> None:
    def names(torch: Any) -> list[Any]:
        x = torch.ones(2, 3, requires_grad=True)
        with torch.autograd.profiler.profile(record_shapes=True) as found:
            with torch.autograd.profiler.record_function("forward"):
                loss = (x * 2).relu().sum()
            loss.backward()
        wanted = ("forward", "aten::mul", "aten::relu", "aten::sum")
        last = loss.grad_fn._sequence_nr()
        backward = [
            (event.name, event.scope, event.sequence_nr - last, event.cpu_parent and event.cpu_parent.name)
            for event in found.function_events
            if "Backward" in event.name
        ]
        averages = {row.key: row.count for row in found.key_averages() if row.key == "forward" or "Backward" in row.key}
        forward = [
            (event.name, event.scope, event.input_shapes[:1], event.cpu_parent and event.cpu_parent.name)
            for event in found.function_events
            if event.name in wanted and getattr(event.cpu_parent, "name", "forward") == "forward"
        ]
        table = found.key_averages().table(sort_by="count").split("\n")
        return [forward, backward, averages, table[1].split(), found.total_average().key]

    agree(names)


def test_profiler_follows_its_schedule() -> None:
    rounds: list[list[str]] = []

    def ready(found: Any) -> None:
        rounds.append([event.key for event in found.events()])

    plan = undertow.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    with undertow.profiler.profile(schedule=plan, on_trace_ready=ready) as found:
        for number in range(6):
            undertow.full((1,), number).exp()
            found.step()
    assert rounds == [["ProfilerStep*", "aten::full", "aten::exp"] * 2]
    actions = [plan(step).name for step in range(6)]
    assert actions == ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]


def test_nothing_is_recorded_outside_a_profiler() -> None:
    with undertow.profiler.record_function("alone"):
        undertow.ones(1).exp()
    with undertow.profiler.profile() as found:
        pass
    assert found.events() == []


def test_timer() -> None:
    timer = undertow.utils.benchmark.Timer(
        "x + 1", globals={"x": undertow.ones(3)}, label="adding", sub_label="3", description="undertow"
    )
    once = timer.timeit(20)
    assert once.number_per_run == 20 and len(once.times) == 1 and 0 < once.median == once.mean < 1
    several = timer.blocked_autorange(min_run_time=0.01)
    assert sum(several.raw_times) >= 0.01 and several.title == "adding: 3"
    assert "adding: 3" in repr(several) and "runs" in repr(once)
    table = str(undertow.utils.benchmark.Compare([several]))
    assert "adding" in table and "undertow" in table and "Times are in" in table
