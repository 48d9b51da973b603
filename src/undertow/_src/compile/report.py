"""The report of `compile.explain()`: what was compiled, where hooks run, what was compiled again and why."""

from __future__ import annotations

import os
from typing import Any

from undertow._dynamo import OptimizedModule
from undertow._src.compile.callbacks.registrations import where_defined
from undertow._src.compile.compiled import KEPT, MOST, Compiled, everything
from undertow._src.compile.program import Program
from undertow.nn.modules.module import Module


class Report:
    """A report that prints well; `data` is the same as plain dicts and lists."""

    def __init__(self, compiled: list[Compiled]) -> None:
        self.data = [_facts(each) for each in compiled]

    def __str__(self) -> str:
        text = "\n\n".join(_text(facts) for facts in self.data) or "Nothing has been compiled."
        return text.replace(os.getcwd() + os.sep, "")  # paths relative to the working directory

    __repr__ = __str__


def _facts(compiled: Compiled) -> dict[str, Any]:
    programs = [program for programs in compiled.programs.values() for program in programs]
    programs.sort(key=lambda program: -program.turn)
    return {
        "name": compiled.name,
        "where": where_defined(_code_of(compiled.function)),
        "programs": [_program(program) for program in programs],
        "recompiles": list(compiled.causes),
        "evicted": compiled.evicted,
        "refused": compiled.refused,
        "as_written": list(compiled.as_written),
        "eager": list(dict.fromkeys(compiled.eager.values())),
    }


def _code_of(function: Any) -> Any:
    """Return a function, or a module's forward."""
    module = getattr(function, "__self__", None)
    return module.forward if isinstance(module, Module) and function == module.__call__ else function


def _program(program: Program) -> dict[str, Any]:
    summary = program.summary
    hooks: dict[tuple[str, ...], int] = {}
    statements: dict[tuple[str, ...], int] = {}
    for placed in program.summary.placed:
        if placed.what == "piece":
            continue
        if placed.what == "statement":
            line = (placed.where, placed.name, placed.runs, placed.why)
            statements[line] = statements.get(line, 0) + 1
            continue
        key = (placed.name, placed.where, placed.registered, placed.runs, placed.why)
        hooks[key] = hooks.get(key, 0) + 1
    return {
        "operations": summary.operations,
        "captured": [{"shape": list(array.shape), "dtype": str(array.dtype)} for array in summary.captured],
        "written": summary.written,
        "numbers": summary.numbers,
        "decisions": [{"where": where, "answer": answer} for where, answer in program.decisions.listed()],
        "guards": _watched(program),
        "draws": summary.draws,
        "trace_seconds": summary.trace_seconds,
        "compile_seconds": program.compile_seconds,
        "runs_once": summary.runs_once,
        "hooks": [
            {"name": name, "where": where, "registered": registered, "runs": runs, "why": why, "times": times}
            for (name, where, registered, runs, why), times in hooks.items()
        ],
        "statements": [
            {"where": where, "source": source, "runs": runs, "why": why, "times": times}
            for (where, source, runs, why), times in statements.items()
        ],
    }


def _watched(program: Program) -> list[str]:
    """Return what a program depends on: a line for each kind of thing, with its number."""
    numbers: dict[str, int | None] = {}
    for guard in program.guards:
        number = guard.number
        numbers[guard.watches] = number if number is None else number + (numbers.get(guard.watches) or 0)
    return [what if number is None else f"{what}: {number:,}" for what, number in numbers.items()]


def _text(facts: dict[str, Any]) -> str:
    none = "none compiled" if facts["refused"] else "not called yet"
    made = _count(len(facts["programs"]), "program") if facts["programs"] else none
    lines = [f"{facts['name']} ({facts['where']}): {made}"]
    shown: list[str] = []
    for program in facts["programs"]:
        compiled = program["compile_seconds"]
        lines.append(
            f"  program of {_count(program['operations'], 'operation')}, traced in {program['trace_seconds']:.2f} s"
            + (f", compiled in {compiled:.2f} s" if compiled is not None else "")
        )
        size = sum(_elements(each["shape"]) for each in program["captured"])
        inputs = [f"{_count(len(program['captured']), 'tensor')} ({size:,} numbers)"]
        inputs += [_count(program["numbers"], "optimizer option")] if program["numbers"] else []
        inputs += [_count(program["draws"], "random draw")] if program["draws"] else []
        lines.append(f"    reads {', '.join(inputs)}; writes {_count(program['written'], 'tensor')}")
        if program["runs_once"] and compiled is None:
            lines.append("    ran eagerly: it gave the optimizer its first state, so no later step is like it")
        for decision in program["decisions"]:
            lines.append(
                f"    for calls in which the value is {decision['answer']} where {decision['where']}, asks for it"
            )
        for hook in program["hooks"]:
            times = f" ({hook['times']} times a step)" if hook["times"] > 1 else ""
            registered = hook["registered"] and f"registered at {hook['registered']}"
            places = ", ".join(filter(None, (hook["where"], registered)))
            lines.append(f"    {hook['name']} ({places}) runs {hook['runs']}{times}: {hook['why']}")
        for line in program["statements"]:
            times = f" ({line['times']} times a step)" if line["times"] > 1 else ""
            lines.append(f"    {line['source']} ({line['where']}) runs {line['runs']}{times}: {line['why']}")
        kinds = [line.rstrip("0123456789,") for line in program["guards"]]  # without the number
        if kinds == shown:
            lines.append("    depends on the same kinds of things as the program above")
        else:
            lines += [
                "    is compiled again if one of these changes:",
                *[f"      {line}" for line in program["guards"]],
            ]
        shown = kinds
    for cause in facts["recompiles"]:
        lines.append(f"  compiled again because {cause}")
    if facts["evicted"]:
        kept = f"the {KEPT} that were used last are kept"
        lines.append(
            f"  {_count(facts['evicted'], 'program')} evicted: {kept}, {MOST} for arguments with one signature"
        )
    for reason in facts["as_written"]:
        lines.append(f"  a call ran eagerly: {reason}")
    for reason in facts["eager"]:
        lines.append(f"  runs eagerly: {reason.splitlines()[0]}")
    if facts["refused"] and not facts["eager"]:
        lines.append(f"  refused: {facts['refused'].splitlines()[0]}")
    return "\n".join(lines)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def _elements(shape: list[int]) -> int:
    product = 1
    for n in shape:
        product *= n
    return product


def explain(compiled: Any = None) -> Report:
    """Return a report on one compiled function or module, or on all of them, in the order in which they were made."""
    if compiled is None:
        return Report(sorted(everything, key=lambda each: each.turn))
    step = compiled._forward if isinstance(compiled, OptimizedModule) else compiled
    if not isinstance(step, Compiled):
        raise TypeError(
            f"explain() takes what undertow.compile returned, or nothing for a report on all of it, not "
            f"{type(compiled).__name__}, which was not compiled"
        )
    return Report([step])


def runs_of(hook: Any) -> list[str]:
    """Return where a hook runs in compiled steps, in words: a sentence for each step."""
    found: dict[str, None] = {}
    for compiled in everything:
        for programs in compiled.programs.values():
            for program in programs:
                for placed in program.summary.placed:
                    if placed.hook is hook:
                        found[f"in the compiled {compiled.name} it runs {placed.runs}: {placed.why}"] = None
    return list(found)
