"""Random training steps with hooks and Python state, changed between calls: does a compiled step do what eager code does?

A seed gives the source of a program: a model, hooks, a step, and the changes a user makes between the calls. The program
runs three times (undertow eager, undertow compiled and, if asked for, PyTorch), and everything that can be seen after each
call is compared: results, parameters, gradients, optimizer state, logs, kept tensors, counters, what was printed.

    python -m tests.xla.step_fuzzer 0 1000            # seeds 0 to 999, a line for each class of outcome at the end
    python -m tests.xla.step_fuzzer 17 18 --source    # shows a program
    python -m tests.xla.step_fuzzer 17 18 --shrink    # and, if engines differ, what is needed of it
    python -m tests.xla.step_fuzzer 0 100 --torch     # eager undertow against PyTorch as well
    python -m tests.xla.step_fuzzer 0 100 --pretend   # the program says `import torch`, as under `undertow run`
    python -m tests.xla.step_fuzzer 0 100 --on-device # its tensors are on a JAX device, as on a GPU
    python -m tests.xla.step_fuzzer 0 100 --interpret # programs are interpreted, not compiled by XLA, which is faster
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import io
import linecache
import random
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.xla.twins import differences

CALLS = 5
WIDE = 100_000  # seeds from here on: see `wide_steps`
WIDER = 1_000_000  # and from here on: see `wider_steps`
LOCAL = 10_000_000  # and from here on: see `local_steps`
DECIDING = 100_000_000  # and from here on: see `deciding_steps`
EVERYDAY = 1_000_000_000  # and from here on: see `everyday_steps`

PRELUDE = """
import collections, functools
nn = torch.nn
LOG, KEPT, HANDLES, OUT = [], [], {}, {}
COUNT, PHASE = 0, "warm"
S = {"n": 0, "sum": 0.0, "factor": 0.5, "last": None, "names": []}
TALLY = collections.Counter()
RECENT = collections.deque(maxlen=3)
SEEN = set()

class Config:
    gain = 1.5
    calls = 0
    def __init__(self):
        self.limit, self.active, self.n, self.best = 0.2, True, 0, None
CFG = Config()

def keep(x):
    KEPT.append(x)

def note(*what):
    LOG.append(what)

def counting(start):
    calls = start
    def hook(g):
        nonlocal calls
        calls += 1
        return g / calls
    return hook
"""

# Statements of hooks and of the step. `{t}` is a tensor there; `{i}` tells one occurrence from another.
EFFECTS = [
    'LOG.append(("{i}", {t}.sum().item()))', 'note("{i}", float({t}.abs().max()))', 'S["n"] += 1', "CFG.n += 1",
    "global COUNT; COUNT += 1", 'LOG.append(S["n"])', "LOG.append(CFG.n)", "LOG.append(COUNT)", 'TALLY["{i}"] += 1',
    'RECENT.append({t}.mean().item())', 'SEEN.add("{i}")', 'S["sum"] += {t}.abs().sum().item()', "KEPT.append({t})",
    "KEPT.append({t}.detach())", "keep({t}.detach().clone())", 'S["last"] = {t}.detach()', "CFG.best = {t}.detach().mean()",
    'print("{i}", tuple({t}.shape))', 'S["names"].append("{i}")', "Config.calls += 1", "LOG.append(Config.calls)",
    'print("{i}", COUNT, S["n"])', 'OUT["{i}"] = {t}.detach()', "LOG.append((PHASE, CFG.active))",
    "LOG.append({t}.requires_grad)", 'if S["n"] % 2 == 0: LOG.append("even {i}")', "KEPT.append({t}.detach().numpy())",
    'OUT.setdefault("{i}", []).append({t}.norm().item())', "LOG.append(len(LOG))", 'LOG.append(S["factor"])',
    'S["factor"] *= 0.9', "LOG.append({t}.data)", "LOG.append(len(KEPT))", 'if {t}.norm() > 0.5: LOG.append("large {i}")',
    'LOG.append("{i} %.2f" % (9 + {t}.mean().item()))', "KEPT[:] = KEPT[-3:]", "CFG.n = len(LOG)", "TALLY.update(a=1)",
]  # fmt: skip
CHANGES = [  # of a tensor `{t}`, giving a new one
    "{t} * 0.5", "{t}.clamp(-0.1, 0.1)", '{t} * S["factor"]', "{t} * CFG.gain", "{t} + torch.randn_like({t}) * 0.01",
    "{t} / (1 + COUNT)", '{t} * (1 if S["n"] % 2 else 0.5)', "torch.where({t}.abs() > CFG.limit, {t}, {t} * 0.1)",
    "{t} * scale", "{t} if CFG.active else -{t}", '{t} * (2 if PHASE == "warm" else 1)', "{t} / ({t}.norm() + 1)",
    "{t} * (CFG.n % 3 + 1)", "{t}.clone()", "{t}", "{t}.flip(0)",
]  # fmt: skip
WRITES = ["{t}.mul_(0.5)", "{t}.clamp_(-0.2, 0.2)", "{t}.add_(0.01)", '{t}.mul_(S["factor"])', "{t}.neg_()"]
BETWEEN = [
    'S["n"] = 7', 'S["factor"] = 0.25', "CFG.gain = 0.5", "CFG.limit = 0.05", "CFG.active = not CFG.active",
    'PHASE = "cold"', "COUNT = 10", "Config.gain = 3.0", "LOG.clear()", "KEPT.clear()", 'S["names"] = []', "CFG.n = 4",
    "model.eval()", "model.train()", "optimizer.param_groups[0]['lr'] = 0.02", "model[0].weight.requires_grad_(False)",
    "model[0].weight.requires_grad_(True)", "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)",
    "scale.fill_(0.7)", "model[0].bias.data.add_(0.1)", "torch.manual_seed(5)", "KEPT.append(model[0].weight.grad)",
    "KEPT.append(model[0].weight.detach())", "optimizer.load_state_dict(optimizer.state_dict())",
    "model.load_state_dict({k: v * 0.9 for k, v in model.state_dict().items()})", "S['last'] = None", "TALLY.clear()",
    "model[0].weight.grad = torch.ones_like(model[0].weight)", "model[0].weight.grad = None", "S.update(sum=1.0)",
    "CFG.__dict__.update(limit=0.3)", "model[0].weight.data = model[0].weight.data * 0.5", "OUT.clear()",
    "with torch.no_grad(): model[0].weight.mul_(0.9)", "RECENT.clear()", "note = lambda *what: LOG.append(('new', what))",
    "model[1].forward = lambda x: x.tanh() * 0.5", "vars(model[1]).pop('forward', None)", "Config.calls = 3",
    "KEPT and isinstance(KEPT[0], torch.Tensor) and KEPT[0].is_leaf and KEPT[0].detach().zero_()",
]  # fmt: skip
LAYERS = ["nn.Tanh()", "nn.ReLU()", "nn.ReLU(inplace=True)", "nn.BatchNorm1d(3)", "nn.Dropout(0.3)", "nn.LayerNorm(3)"]
OPTIMIZERS = [  # a large eps: a gradient that is nothing but rounding errors must not become a step
    "SGD(model.parameters(), lr=0.1)", "SGD(model.parameters(), lr=0.1, momentum=0.5)",
    "Adam(model.parameters(), lr=0.01, eps=0.1)",
]  # fmt: skip
SCHEDULERS = ["StepLR(optimizer, 2)", "ExponentialLR(optimizer, 0.9)"]
STATE = ("LOG", "KEPT", "OUT", "COUNT", "PHASE", "S", "TALLY", "RECENT", "SEEN", "CFG", "scale")
OBJECTS = ("Stats", "Knobs", "Average", "History", "Trainer")  # of `everyday_steps`
RETURNS = ["return loss", "return loss.item()", "return loss, y.detach()", "return {'loss': loss.detach()}", "pass"]


class Writer:
    """Write the source of one program."""

    prelude, effect_choices, change_choices, between_choices = PRELUDE, EFFECTS, CHANGES, BETWEEN
    layers, optimizers, schedulers = LAYERS, OPTIMIZERS, SCHEDULERS
    forwards: Sequence[str] = ["y = model(x)"]
    backwards: Sequence[str] = ["loss.backward()"]
    declared: Sequence[str] = ("COUNT",)  # globals that statements of hooks and of the step set
    rebound = "COUNT, PHASE, note"  # those that changes between calls do
    state: Sequence[str] = STATE

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.handles: list[str] = []

    def pick(self, choices: Sequence[str]) -> str:
        return self.random.choice(choices)

    def pick_lines(self, choices: Sequence[str]) -> list[str]:
        """Pick statements, which may take several lines; no draw is made where there is no choice."""
        return (choices[0] if len(choices) == 1 else self.pick(choices)).split("\n")

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def effects(self, tensor: str, most: int) -> list[str]:
        chosen = [self.pick(self.effect_choices) for _ in range(self.random.randrange(most + 1))]
        filled = [each.replace("{t}", tensor).replace("{i}", self.name("e")) for each in chosen]
        return [line for each in filled for line in each.split("\n")]

    def change(self, tensor: str) -> str:
        return self.pick(self.change_choices).format(t=tensor)

    def function(self, head: str, body: list[str]) -> str:
        lines = [line.split("; ") for line in body]
        marks = [f"global {name}" for name in self.declared]
        declared = [mark for mark in marks if any(each[0] == mark for each in lines)]
        plain = [statement for each in lines for statement in each if statement not in marks]
        return f"def {head}:\n" + "".join(f"    {line}\n" for line in [*declared, *plain] or ["pass"])

    # Hooks: the source of a function, and the expression that registers it.

    def gradient_hook(self) -> tuple[str, str, str]:
        name = self.name("hook")
        if self.chance(0.1):
            return name, f"{name} = counting({self.random.randrange(3)})\n", self._on_tensor(name)
        body = self.effects("g", 2)
        if self.chance(0.2):
            body.append(self.pick(WRITES).format(t="g"))
        if self.chance(0.5):
            body.append(f"g = {self.change('g')}")
            body += self.effects("g", 1)
            body.append("return g")
        return name, self.function(f"{name}(g)", body), self._on_tensor(name)

    def _on_tensor(self, name: str) -> str:
        return f"{self.pick(['model[0].weight', 'model[0].bias', 'model[2].weight'])}.register_hook({name})"

    def leaf_hook(self) -> tuple[str, str, str]:
        name = self.name("leaf")
        tensor = self.pick(["p.grad", "p"])
        body = self.effects(tensor, 2)
        if self.chance(0.4):
            body.append("p.grad" + self.pick([".mul_(0.5)", ".clamp_(-0.1, 0.1)", " = p.grad * 0.5", ".add_(0.01)"]))
        where = self.pick(["model[0].weight", "model[2].weight"])
        return name, self.function(f"{name}(p)", body), f"{where}.register_post_accumulate_grad_hook({name})"

    def forward_hook(self) -> tuple[str, str, str]:
        name, where = self.name("forward"), self.pick(["model", "model[0]", "model[1]", "model[2]"])
        if self.chance(0.3):
            body = self.effects("inputs[0]", 2)
            if self.chance(0.4):
                body.append(f"return ({self.change('inputs[0]')},)")
            return name, self.function(f"{name}(module, inputs)", body), f"{where}.register_forward_pre_hook({name})"
        body = self.effects("output", 2)
        if self.chance(0.4):
            body.append(f"return {self.change('output')}")
        return name, self.function(f"{name}(module, inputs, output)", body), f"{where}.register_forward_hook({name})"

    def backward_hook(self) -> tuple[str, str, str]:
        name, where = self.name("backward"), self.pick(["model", "model[1]", "model[2]"])
        if self.chance(0.3):
            body = self.effects("grads[0]", 2)
            if self.chance(0.3):
                body.append(f"return ({self.change('grads[0]')},)")
            text = self.function(f"{name}(module, grads)", body)
            return name, text, f"{where}.register_full_backward_pre_hook({name})"
        body = self.effects("outer[0]", 2)
        if self.chance(0.3):
            body.append("return tuple(g if g is None else g * 0.5 for g in inner)")
        return (
            name,
            self.function(f"{name}(module, inner, outer)", body),
            f"{where}.register_full_backward_hook({name})",
        )

    def optimizer_hook(self) -> tuple[str, str, str]:
        name, when = self.name("stepping"), self.pick(["pre", "post"])
        body = self.effects("model[0].weight", 2)
        return (
            name,
            self.function(f"{name}(optimizer, args, kwargs)", body),
            f"optimizer.register_step_{when}_hook({name})",
        )

    def hook(self) -> tuple[str, str, str]:
        often = [self.gradient_hook, self.gradient_hook, self.leaf_hook, self.forward_hook]
        return self.random.choice([*often, *often, self.backward_hook, self.optimizer_hook])()

    def registered(self, registration: str) -> str:
        handle = self.name("h")
        self.handles.append(handle)
        return f"HANDLES[{handle!r}] = {registration}"

    # The parts of the program.

    def model(self) -> str:
        middle = self.pick(self.layers)
        text = f"model = nn.Sequential(nn.Linear(2, 3), {middle}, nn.Linear(3, 2))\nscale = torch.tensor(0.5)\n"
        text += f"optimizer = torch.optim.{self.pick(self.optimizers)}\n"
        scheduler = f"torch.optim.lr_scheduler.{self.pick(self.schedulers)}" if self.chance(0.2) else "None"
        return text + f"scheduler = {scheduler}\n"

    def step(self, scheduled: bool) -> str:
        body = self.effects("x", 1)
        zero = self.pick(["optimizer.zero_grad()", "optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)",
                          "if COUNT % 2 == 0: optimizer.zero_grad()", "model.zero_grad()", ""])  # fmt: skip
        body += [zero] if zero else []
        body += self.pick_lines(self.forwards)
        if self.chance(0.2):
            name, text, _ = self.gradient_hook()
            body += [*text.rstrip().split("\n"), f"y.register_hook({name})"]
        if self.chance(0.2):
            body.append(f"y = {self.change('y')}")
        body += self.effects("y", 1)
        body.append("loss = y.pow(2).mean()")
        if self.chance(0.1):
            body.append("KEPT.append(loss)")
        body += self.effects("loss", 1)
        body += self.pick_lines(self.backwards)
        body += self.effects("loss", 1)
        if self.chance(0.2):
            body.append("nn.utils.clip_grad_norm_(model.parameters(), 0.3)")
        body.append("optimizer.step()")
        if scheduled:
            body.append("scheduler.step()")
        if self.chance(0.2):
            body.append("with torch.no_grad(): scale.mul_(0.9)")
        body += self.effects("loss", 1)
        body.append(self.pick(RETURNS))
        return self.function("step(x)", body)

    def program(self) -> str:
        text = self.prelude + self.model()
        lines: list[str] = []
        for _ in range(self.random.randrange(4)):
            _, source, registration = self.hook()
            text += source
            lines.append(self.registered(registration))
        text += "\n".join(lines) + "\n" + self.step("scheduler = None" not in text)
        for call in range(CALLS - 1):
            changes: list[str] = []
            for _ in range(self.random.choice([0, 0, 1, 1, 2])):
                kind = self.random.random()
                if kind < 0.35:
                    _, source, registration = self.hook()
                    text += source
                    changes.append(self.registered(registration))
                elif kind < 0.6 and self.handles:
                    changes.append(f"HANDLES[{self.pick(self.handles)!r}].remove()")
                else:
                    changes += self.pick(self.between_choices).split("; ")
            text += self.function(f"between{call}()", [f"global {self.rebound}", *changes])
        return text


class OnDevice:
    """Whether programs run on a JAX device; set by `--on-device`."""

    chosen = False


def look(value: Any, torch: Any) -> Any:
    """Plain data to compare."""
    if isinstance(value, torch.Tensor):
        shown = {
            "value": value.detach().cpu().numpy().copy(),
            "requires_grad": value.requires_grad,
            "leaf": value.is_leaf,
        }
        return shown | ({"grad": look(value.grad, torch)} if value.is_leaf else {})
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {str(key): look(each, torch) for key, each in value.items()}
    if isinstance(value, set):
        return sorted(value)
    if type(value).__name__ in ("Record", "SimpleNamespace", "Meter", "Holder"):
        return look(vars(value), torch)
    if isinstance(value, (list, tuple, collections.deque)):
        return [look(each, torch) for each in value]
    if type(value).__name__ == "Config":
        return look({**vars(value), "gain": value.gain, "calls": value.calls}, torch)
    if type(value).__name__ in OBJECTS:
        slots = [name for name in getattr(type(value), "__slots__", ()) if not name.startswith("__")]
        return look({name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {}), torch)
    return value


def run(
    source: str, name: str, torch: Any, compiled: bool, shown: Sequence[str] = STATE, nudge: float = 0.0, draw: int = 0
) -> list[Any]:
    """Return what can be seen after each call; an exception that is not the program's own ends the list.

    With a nudge, the elements of each input are a little larger or smaller, by up to that part of them. Each `draw` has
    its own.
    """
    with torch.device("xla" if OnDevice.chosen else "cpu"):
        return _run(source, name, torch, compiled, shown, nudge, draw)


def _run(
    source: str, name: str, torch: Any, compiled: bool, shown: Sequence[str], nudge: float, draw: int
) -> list[Any]:
    torch.manual_seed(0)
    world: dict[str, Any] = {"torch": torch, "__name__": "fuzzed"}
    exec(compile(source, name, "exec", dont_inherit=True), world)
    step = torch.compile(world["step"], **world.get("OPTIONS", {})) if compiled else world["step"]
    seen: list[Any] = []
    try:
        _run_calls(world, step, torch, shown, seen, nudge, draw)
    except Exception as error:
        seen.append(error)
    finally:
        for handle in world["HANDLES"].values():  # some hang on all modules
            handle.remove()
    return seen


def _run_calls(
    world: dict[str, Any], step: Any, torch: Any, shown: Sequence[str], seen: list[Any], nudge: float, draw: int
) -> None:
    nudges = np.random.default_rng(draw)
    for call in range(CALLS):
        printed = io.StringIO()
        shape = world.get("SIZES", [3] * CALLS)[call], 2
        x = torch.randn(shape)
        if nudge:
            x = x * (1 + nudge * torch.from_numpy(nudges.uniform(-1, 1, shape)).to(x))
        result: Any
        try:
            with contextlib.redirect_stdout(printed):
                result = step(x)
        except ValueError as error:  # which hooks raise
            result = f"raised {error}"
        seen.append({"result": look(result, torch), "printed": printed.getvalue(), **_state(world, torch, shown)})
        if call < CALLS - 1:
            world[f"between{call}"]()
            seen[-1]["then"] = _state(world, torch, shown)  # aliases of what was written to have changed, too


def _state(world: dict[str, Any], torch: Any, shown: Sequence[str]) -> dict[str, Any]:
    """What can be seen of a program now."""
    model, optimizer = world["model"], world["optimizer"]
    return {
        "state": {key: look(world[key], torch) for key in shown},
        "model": look([*model.parameters(), *model.buffers()], torch), "optimizer": look(optimizer.state_dict(), torch),
        "random": torch.get_rng_state().cpu().numpy().copy(),
    }  # fmt: skip


def compare(
    expected: list[Any], found: list[Any], refusal: type[Exception], tolerance: float = 2e-3
) -> tuple[str, str]:
    """The class of outcome, and the first differences."""
    for call, (a, b) in enumerate(zip(expected, found)):
        if isinstance(b, refusal):
            return "refused", str(b).split("\n")[0]
        if isinstance(a, Exception) or isinstance(b, Exception):
            same = type(a) is type(b) or type(a).__name__ == type(b).__name__
            return (
                ("both raise", str(a))
                if same
                else ("DIFFERENT ERROR", f"call {call}: {str(a)[:300]!r} and {b!r}"[:900])
            )
        differing = differences(a, b, f"call {call} ", tolerance=tolerance)
        if differing:
            return "SILENT", "\n    ".join(differing[:4])
    return "same", ""


def check(seed: int, with_torch: bool = False) -> tuple[str, str]:
    """Run the program of a seed on all engines."""
    writer = writer_of(seed)
    return check_source(writer.program(), f"<step {seed}>", with_torch, writer.state)


def writer_of(seed: int) -> Writer:
    """Return what writes the program of a seed. From WIDE on, programs have more kinds of everything."""
    if seed < WIDE:
        return Writer(seed)
    from tests.xla.deciding_steps import Deciding
    from tests.xla.everyday_steps import Everyday
    from tests.xla.local_steps import Local
    from tests.xla.wide_steps import Wide
    from tests.xla.wider_steps import Wider

    kinds = ((WIDER, Wide), (LOCAL, Wider), (DECIDING, Local), (EVERYDAY, Deciding))
    return next((kind for most, kind in kinds if seed < most), Everyday)(seed)


def shrink(source: str, outcome: str, shown: Sequence[str] = STATE) -> str:
    """Leave statements out of a program as long as its outcome stays what it is: whole functions and classes first."""

    def serves(fewer: str) -> bool:
        try:
            return check_source(fewer, "<shrunk>", False, shown)[0] == outcome
        except Exception:  # what is left is no program
            return False

    place, removed = 0, False
    while True:
        fewer = _without(source, place)
        if fewer is None and not removed:
            return source
        if fewer is None:
            place, removed = 0, False
        elif serves(fewer):
            source, removed = fewer, True
        else:
            place += 1


def _without(source: str, place: int) -> str | None:
    """Return a program without one of its statements: those of the module come first, the last one of all before others."""
    tree = ast.parse(source)
    blocks = [value for node in ast.walk(tree) for _, value in ast.iter_fields(node) if isinstance(value, list)]
    found = [
        (block, each) for block in blocks for each in block if isinstance(each, ast.stmt) and type(each) is not ast.Pass
    ]
    if place == len(found):
        return None
    block, statement = sorted(found, key=lambda pair: (pair[1].col_offset, -pair[1].lineno))[place]
    block[block.index(statement)] = ast.copy_location(ast.Pass(), statement)
    return ast.unparse(tree)


def check_source(source: str, name: str, with_torch: bool, shown: Sequence[str] = STATE) -> tuple[str, str]:
    """Run one program on all engines."""
    import undertow
    from undertow._src.compile import CompileError

    tolerance = 5e-2 if "bfloat16" in source else 2e-3
    if OnDevice.chosen:
        source = source.replace(".numpy()", ".cpu().numpy()")
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            eager = run(source, name, undertow, False, shown)
            if with_torch:
                import torch

                outcome = compare(run(source, name, torch, False, shown), eager, CompileError, tolerance)
                if outcome[0] in ("SILENT", "DIFFERENT ERROR"):
                    return f"eager {outcome[0]}", outcome[1]
            outcome = compare(eager, run(source, name, undertow, True, shown), CompileError, tolerance)
            if outcome[0] == "SILENT" and _is_rounding(source, name, shown, outcome[1], tolerance):
                return "rounding", outcome[1]
            uncompiled = [str(each.message) for each in warned if "eagerly, without a program" in str(each.message)]
            return ("not compiled", uncompiled[0]) if outcome[0] == "same" and uncompiled else outcome
    finally:
        linecache.cache.pop(name, None)


NUDGE, NUDGE32 = 1e-13, 1e-6  # some hundred and some ten times the rounding errors of float64 and float32
NUDGES = 10  # which part of a sum rounds away, and so the sign of what is left, does not change each time


def _is_rounding(source: str, name: str, shown: Sequence[str], detail: str, tolerance: float) -> bool:
    """Whether engines agree in float64, up to the call in which they differ in float32.

    Sums that cancel (a bias in front of a batch norm) leave nothing but rounding errors, and a step that diverges makes
    large numbers of them, in float64 as well. How large is found out: eager mode runs again, with inputs that differ
    in the last digits. Only what that changes may differ, and no more than by what it changes. The same must hold in
    float32: other draws in float64 may lead elsewhere. If not, JAX's functions may round otherwise than NumPy's (`tanh`
    near 1): then eager mode differs in the same way where it computes with JAX, and nothing differs in float64.
    """
    import undertow

    calls = int(detail.split()[1]) + 1  # "call 2 .model..."

    def runs(nudge: float) -> list[list[Any]]:
        plain = [run(source, name, undertow, compiled, shown)[:calls] for compiled in (False, True)]
        return plain + [run(source, name, undertow, False, shown, nudge, each)[:calls] for each in range(NUDGES)]

    def explained(seen: list[list[Any]], least: float) -> bool:
        return min(map(len, seen)) == calls and all(rounding_explains(a, b, n, least) for a, b, *n in zip(*seen))

    in_float32 = runs(NUDGE32)
    undertow.set_default_dtype(undertow.float64)
    try:
        in_float64 = runs(NUDGE)
    finally:
        undertow.set_default_dtype(undertow.float32)
    if explained(in_float32, tolerance):
        return explained(in_float64, 1e-6)
    return not differences(in_float64[0], in_float64[1], tolerance=1e-6) and not differences(
        _run_on_jax(source, name, shown)[:calls], in_float32[1], tolerance=tolerance
    )


def _run_on_jax(source: str, name: str, shown: Sequence[str]) -> list[Any]:
    """Run a program in eager mode with tensors on a JAX device."""
    import undertow

    chosen, OnDevice.chosen = OnDevice.chosen, True
    try:
        return run(source.replace(".numpy()", ".cpu().numpy()"), name, undertow, False, shown)
    finally:
        OnDevice.chosen = chosen


def rounding_explains(a: Any, b: Any, nudged: Sequence[Any], least: float = 1e-6) -> bool:
    """Whether what is seen of two runs differs by no more than a few times what nudges of the inputs change."""
    if any(type(each) is not type(a) for each in (b, *nudged)):
        return False
    if isinstance(a, dict):
        return all(list(each) == list(a) for each in (b, *nudged)) and all(
            rounding_explains(a[k], b[k], [each[k] for each in nudged], least) for k in a
        )
    if isinstance(a, list):
        return all(len(each) == len(a) for each in (b, *nudged)) and all(
            rounding_explains(one, other, more, least) for one, other, *more in zip(a, b, *nudged, strict=True)
        )
    if isinstance(a, float) or (isinstance(a, np.ndarray) and a.dtype.kind in "fc"):
        one, other, *more = map(np.asarray, (a, b, *nudged))
        if any(each.shape != one.shape for each in (other, *more)):
            return False
        changed = [np.abs(one - each)[np.isfinite(one) & np.isfinite(each)].max(initial=0.0) for each in more]
        room = least + 30 * max(changed)
        return np.allclose(one, other, rtol=least, atol=room, equal_nan=True)
    if isinstance(a, str) and _NUMBER.search(a):  # formatted numbers
        texts = [_NUMBER.sub("", each) for each in (a, b, *nudged)]
        one, other, *more = [[float(number) for number in _NUMBER.findall(each)] for each in (a, b, *nudged)]
        return len({*texts}) == 1 and rounding_explains(one, other, more, least)
    return not differences(a, b)


_NUMBER = re.compile(r"-?\d+\.\d+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--source", action="store_true", help="print the programs")
    parser.add_argument("--shrink", action="store_true", help="print what is needed of programs that differ")
    parser.add_argument("--torch", action="store_true", help="compare eager undertow with PyTorch as well")
    parser.add_argument("--pretend", action="store_true", help="answer `import torch` with undertow")
    parser.add_argument("--on-device", action="store_true", help="make all tensors on a JAX device")
    parser.add_argument("--interpret", action="store_true", help="interpret programs instead of compiling them")
    options = parser.parse_args()
    OnDevice.chosen = options.on_device
    if options.pretend:
        from undertow.pretend import pretend_torch

        pretend_torch()
    if options.interpret:
        from tests.xla.interpreted import interpreted

        contextlib.ExitStack().enter_context(interpreted())
    outcomes: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for seed in range(options.first, options.last):
        if options.source:
            print(writer_of(seed).program())
        kind, detail = check(seed, options.torch)
        outcomes[kind] += 1
        if kind == "refused":
            reasons[detail[:150]] += 1
        if kind.isupper() or kind.startswith("eager"):
            print(f"{seed}: {kind}\n    {detail}", flush=True)
            if options.shrink:
                print(shrink(writer_of(seed).program(), kind, writer_of(seed).state), flush=True)
    for reason, count in reasons.most_common(25):
        print(f"{count:5} {reason}")
    print(dict(outcomes))
    sys.exit(any(kind.isupper() for kind in outcomes))


if __name__ == "__main__":
    main()
