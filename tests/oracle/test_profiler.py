"""Profilers: schedules, what each cycle records, averages, and the errors of unfinished profilers."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt

cases = Table()


@cases.test
def test_profilers(program):
    agree(program)


@cases
def schedules(torch, log):
    log([repr(action) for action in torch.profiler.ProfilerAction])
    for options in (
        {"wait": 1, "warmup": 1, "active": 2}, {"wait": 0, "warmup": 1, "active": 1, "repeat": 2},
        {"wait": 2, "warmup": 1, "active": 1, "skip_first": 3, "skip_first_wait": 1},
        {"wait": -1, "warmup": 1, "active": 1}, {"wait": 1, "warmup": 1, "active": 0},
        {"wait": 1, "warmup": 1, "active": 1, "repeat": -1},
    ):  # fmt: skip
        attempt(log, "schedule", lambda options=options: actions(torch, options))
    attempt(log, "a step below 0", lambda: torch.profiler.schedule(wait=1, warmup=1, active=1)(-1))


def actions(torch, options):
    planned = torch.profiler.schedule(**options)
    return [planned(step).name for step in range(12)]


@cases
def cycles(torch, log):
    """Each cycle is handed over once, with its steps; the profiler says what it does at each."""
    cycles = []

    def ready(profiler):
        rows = {event.key: event.count for event in profiler.key_averages()}
        steps = [event.trace_name for event in profiler.events() if event.name == "ProfilerStep*"]
        cycles.append((profiler.step_num, rows["aten::exp"], rows["ProfilerStep*"], steps))

    planned = torch.profiler.schedule(wait=1, warmup=1, active=2)
    with torch.profiler.profile(schedule=planned, on_trace_ready=ready) as profiler:
        for _ in range(9):
            torch.ones(2).exp()
            log(profiler.step_num, profiler.current_action.name)
            profiler.step()
    log(cycles, profiler.step_num, profiler.current_action.name)


@cases
def options_of_the_profiler(torch, log):
    x = torch.ones(3, 2)
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as profiler:
        x.exp()
    (event,) = [event for event in profiler.events() if event.name == "aten::exp"]
    log(event.input_shapes, event.cpu_memory_usage)
    log(profiler.record_shapes, profiler.profile_memory, profiler.with_stack, profiler.with_flops, profiler.acc_events)
    log([row.input_shapes for row in profiler.key_averages(group_by_input_shape=True) if row.key == "aten::exp"])
    idle = torch.profiler.profile()
    for label, call in {
        "events": idle.events, "averages": idle.key_averages, "no activity": lambda: torch.profiler.profile(activities=[]),
        "stacks": lambda: torch.profiler.profile().export_stacks("/nowhere"),
    }.items():  # fmt: skip
        attempt(log, label, call, words=4)


@cases
def only_its_own_thread(torch, log):
    def elsewhere():
        with torch.autograd.profiler.record_function("elsewhere"):
            torch.ones(2).sin()

    with torch.autograd.profiler.profile() as profiler:
        with torch.autograd.profiler.record_function("here"):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
    names = [event.name for event in profiler.function_events]
    log("here" in names, "elsewhere" in names, "aten::sin" in names)


@cases
def averages_of_events(torch, log):
    util = torch.autograd.profiler_util
    events = [
        util.FunctionEvent(nr, "ab"[nr % 2], nr // 4, nr * 10, nr * 10 + 25 - 5 * nr, stack=[]) for nr in range(5)
    ]
    found = util.EventList(events)
    attempt(log, "no tree", found.key_averages)
    found._build_tree()
    log([(row.key, row.count, row.cpu_time_total, row.self_cpu_time_total) for row in found.key_averages()])
    total = found.total_average()
    log(total.key, total.count, total.node_id, total.self_cpu_time_total)
    part = torch.autograd.profiler.record_function("part")
    log(part.record is None)
    attempt(log, "not entered", lambda: part._call_end_callbacks_on_future(torch.futures.Future()), words=4)
    attempt(log, "no CPU", lambda: torch.autograd.profiler.profile(use_cpu=False), words=6)


@pytest.mark.parametrize("metadata", [{}, {"run": "one"}])
def test_the_trace_file(tmp_path: Path, metadata: dict[str, str]) -> None:
    def program(torch, log):
        with torch.profiler.profile() as profiler:
            torch.ones(2).exp()
            for name, value in metadata.items():
                profiler.add_metadata(name, value)
        profiler.export_chrome_trace(str(tmp_path / "trace.json"))
        trace = json.loads((tmp_path / "trace.json").read_text())
        log({name: trace[name] for name in metadata})
        log("aten::exp" in [event.get("name") for event in trace["traceEvents"]])

    agree(program)
