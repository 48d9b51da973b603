"""Hooks as people write them, sorted by whether their Python code matters at every step.

Each entry is a hook with the kinds of its arguments. `PURE` hooks only compute; `EFFECTS` lists for each of the others
the kind and words of the first thing it does besides.
"""
# mypy: ignore-errors
# ruff: noqa: B006, B007, B009, C416, C417, F841, RUF015

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import json
import logging
import math
import os
import queue
import random
import time
import types
import warnings
from typing import Any

import numpy as np

import undertow as torch
import undertow.nn.functional as F
from undertow import nn
from undertow.utils._pytree import tree_map
from undertow.utils.checkpoint import checkpoint

LIMIT = 1.5
SCALES = [1.0, 2.0]
TABLE = {"clip": 0.5, "name": "a"}
SETTINGS = types.SimpleNamespace(clip=0.25, log=[])
MASK = torch.tensor([1.0, 0.0])
WEIGHTS = np.array([1.0, 2.0])
BUFFER = np.zeros(3)
EVENTS: list[Any] = []
SEEN: set[Any] = set()
FEATURES: dict[str, Any] = {}
DEFAULTS: dict[str, list[Any]] = collections.defaultdict(list)
RECENT: collections.deque[Any] = collections.deque(maxlen=3)
INBOX: queue.Queue[Any] = queue.Queue()
NUMBERS = itertools.count()
LOGGER = logging.getLogger("hooks")
GENERATOR = np.random.default_rng(0)
TOTAL = 0
PAIR = ([], [])
LISTS = [[], []]


class Mode(enum.Enum):
    CLIP = 1
    SCALE = 2


@dataclasses.dataclass
class Config:
    factor: float = 2.0
    names: tuple[str, ...] = ("a", "b")


@dataclasses.dataclass
class Pending:
    gradient: Any
    notes: list[Any] = dataclasses.field(default_factory=list)


class Point(collections.namedtuple("Point", "x y")):
    __slots__ = ()


CONFIG = Config()


class Scaler:
    """A hook object without effects."""

    rate = 0.5

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.history: list[Any] = []
        self.last: Any = None
        self.count = 0
        self.__secret = 0

    def __call__(self, gradient):
        return self._scaled(gradient)

    def _scaled(self, gradient):
        return gradient * self.factor * self.rate

    @property
    def twice(self):
        return self.factor * 2

    @property
    def counted(self):
        self.count += 1
        return self.count

    @staticmethod
    def halve(gradient):
        return gradient / 2

    @classmethod
    def by_rate(cls, gradient):
        return gradient * cls.rate

    @classmethod
    def bump(cls, gradient):
        cls.rate += 1

    def with_property(self, gradient):
        return gradient * self.twice

    def with_counting_property(self, gradient):
        return gradient * self.counted

    def remember(self, gradient):
        self.last = gradient

    def tally(self, gradient):
        self.count += 1
        return gradient

    def tally_written_out(self, gradient):
        before = self.count
        self.count = before + 1

    def private(self, gradient):
        self.__secret += 1

    def keep(self, gradient):
        self.history.append(gradient.norm().item())


class Stats:
    def __init__(self):
        self.values = []

    def update(self, value):
        self._store(value)

    def _store(self, value):
        self.values.append(value)

    def mean(self):
        return sum(self.values) / max(len(self.values), 1)


class Watcher:
    def __init__(self):
        self.stats = Stats()

    def hook(self, gradient):
        self.stats.update(gradient)

    def scaled_by_mean(self, gradient):
        return gradient * self.stats.mean()


class Loud(Scaler):
    def _scaled(self, gradient):
        print(gradient)
        return super()._scaled(gradient)


class Quiet(Scaler):
    def _scaled(self, gradient):
        return super()._scaled(gradient) + 1


class Adding:
    def __init__(self):
        self.seen = []

    def __mul__(self, other):
        self.seen.append(other)
        return other

    __rmul__ = __mul__

    def __bool__(self):
        self.seen.append(1)
        return True

    def __str__(self):
        self.seen.append(2)
        return ""

    def __len__(self):
        self.seen.append(3)
        return 0


class Magic:
    def __init__(self):
        object.__setattr__(self, "gets", [])

    def __getattr__(self, name):
        self.gets.append(name)
        return 1.0


class Timer:
    def __enter__(self):
        self.start = time.time()
        return self

    def __exit__(self, *error):
        pass


class Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class Sticky:
    def __init__(self):
        self.items = {}

    def __setitem__(self, key, value):
        self.items[key] = value


class Wandb:
    """Like the client of a tracking service."""

    def __init__(self):
        self.run = types.SimpleNamespace(log=lambda values: EVENTS.append(values))

    def log(self, values):
        self.run.log(values)


SCALER, LOUD, QUIET, WATCHER, ADDING, MAGIC, TIMER, WANDB = (
    Scaler(2.0), Loud(2.0), Quiet(2.0), Watcher(), Adding(), Magic(), Timer(), Wandb(),
)  # fmt: skip
STICKY = Sticky()


class Keeping:
    def __call__(self, x):
        EVENTS.append(x)
        return x


class Ordered:
    def __lt__(self, other):
        EVENTS.append(other)
        return True


class Watched(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        EVENTS.append(function)
        return super().__torch_function__(function, kinds, args, kwargs)


ORDERED = Ordered()
WATCHED = torch.ones(2).as_subclass(Watched)


def with_profiler(g):
    with torch.profiler.profile():
        return g * 2


class Clamped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.limit = LIMIT
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= ctx.limit)


class Printing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        print(g)
        return g


class Block(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.act = nn.ReLU()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.register_buffer("offset", torch.ones(width))
        self.scale = 0.5

    def forward(self, x, mask=None):
        h = self.act(self.linear(x)) * self.scale + self.offset
        for layer in self.layers:
            h = layer(h)
        if mask is not None:
            h = h * mask
        if self.training:
            h = F.dropout(h, 0.1)
        return h


class CountingBlock(Block):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class SavingBlock(Block):
    def forward(self, x):
        self.last = x
        return x


BLOCK = Block()
NESTED_COUNTING = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), CountingBlock()))
PARTS = nn.ModuleDict({"a": CountingBlock()})
HANDLE = MASK.clone().requires_grad_().register_hook(lambda g: g)
NESTED = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), Block()))
OPTIMIZER = torch.optim.SGD(BLOCK.parameters(), lr=0.1)
SCHEDULER = torch.optim.lr_scheduler.StepLR(OPTIMIZER, 1)


# --- decorators and makers of hooks


def quiet_wrapper(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


def loud_wrapper(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        print("called")
        return function(*args, **kwargs)

    return inner


@quiet_wrapper
def wrapped_quietly(g):
    return g * 2


@loud_wrapper
def wrapped_loudly(g):
    return g * 2


@quiet_wrapper
def wrapped_printing(g):
    print(g)


@torch.no_grad()
def without_gradients(g):
    return g * 2


@torch.no_grad()
def without_gradients_logging(g):
    EVENTS.append(g)


@functools.lru_cache
def cached_product(*factors):
    result = 1
    for factor in factors:
        result *= factor
    return result


@functools.lru_cache
def cached(name):
    print(name)
    return 2.0


@contextlib.contextmanager
def noted():
    EVENTS.append("in")
    yield
    EVENTS.append("out")


def make_counter():
    n = 0

    def hook(g):
        nonlocal n
        n += 1
        return g

    return hook


def make_counter_written_out():
    n = 0

    def hook(g):
        nonlocal n
        n = n + 1

    return hook


def make_keeper():
    last = None

    def hook(g):
        nonlocal last
        last = g

    return hook


def make_scaled(factor):
    return lambda g: g * factor


def make_local_counter(g):
    n = 0

    def add(x):
        nonlocal n
        n += 1
        return x * n

    return add(add(g))


def clip_value(g):
    return g.clamp(-LIMIT, LIMIT)


def clip_norm(g):
    norm = g.norm()
    if norm > LIMIT:
        g = g * (LIMIT / norm)
    return g


def clip_in_place(g):
    torch.nn.utils.clip_grad_norm_([MASK], 1.0)
    g.mul_(2)
    g[g > 1] = 0


def add_noise(g):
    return g + 0.1 * torch.randn_like(g)


def nan_detector(g):
    if torch.isnan(g).any():
        raise RuntimeError(f"nan in a gradient of shape {tuple(g.shape)}")


def nan_detector_printing(g):
    if torch.isnan(g).any():
        print("nan")


def nan_to_zero(g):
    return torch.where(torch.isnan(g), torch.zeros_like(g), g)


def assert_finite(g):
    assert torch.isfinite(g).all(), "not finite"


def local_list(g):
    parts = []
    for row in g:
        parts.append(row * 2)
    parts.sort(key=lambda row: float(row.sum()))
    table = {"first": parts[0]}
    table["second"] = parts[-1]
    table.update(third=g)
    total, *rest = parts
    return torch.stack(list(table.values())).sum() + total


def alias_of_outside(g):
    mine = EVENTS
    mine.append(g)


def alias_in_tuple(g):
    pair = (EVENTS, g)
    pair[0].append(g)


def alias_in_list(g):
    lists = [[], EVENTS]
    for each in lists:
        each.append(g)


def alias_through_function(g):
    def pick(a, b):
        return b

    pick(g, EVENTS).append(1)


def alias_through_plus(g):
    mine = EVENTS
    mine += [g]


def alias_through_loop(g):
    found = []
    for _ in range(2):
        for each in found:
            each.append(g)
        found.append(EVENTS)


def alias_through_star(g, *rest):
    first, *others = [g, EVENTS]
    others[0].append(1)


def alias_through_dict(g):
    {"a": EVENTS}["a"].append(g)


def alias_through_items(g):
    for name, each in {"a": EVENTS}.items():
        each.append(g)


def alias_through_zip(g):
    for row, each in zip(g, LISTS):
        each.append(row)


def alias_through_max(g):
    max(LISTS, key=len).append(g)


def alias_through_object(g):
    box = types.SimpleNamespace
    pending = Pending(g, EVENTS)
    pending.notes.append(g)


def local_object(g):
    pending = Pending(g)
    pending.notes.append(g)
    pending.gradient = g * 2
    return pending.gradient


def local_scaler(g):
    scaler = Scaler(3.0)
    scaler.count += 1
    scaler.keep(g)
    return scaler(g)


def named_tuple(g):
    point = Point(g, 2)
    return point.x * point.y


def global_counter(g):
    global TOTAL
    TOTAL += 1


def global_store(g):
    global TOTAL
    TOTAL = 5


def through_globals(g):
    globals()["TOTAL"] = 1


def recursive(g, depth=3):
    return g if depth == 0 else recursive(g * 2, depth - 1)


def recursive_with_log(g, depth=3, out=None):
    if out is not None:
        out.append(1)
    return g if depth == 0 else recursive_with_log(g, depth - 1, EVENTS)


def tried(g):
    try:
        scale = 1 / LIMIT
    except ZeroDivisionError:
        scale = 0.0
    finally:
        g = g * 2
    return g * scale


def tried_printing(g):
    try:
        return g * 2
    except Exception as error:
        print(error)
        raise


def with_blocks(g):
    with torch.no_grad(), torch.enable_grad():
        h = g * 2
    with Nothing() as n, contextlib.nullcontext():
        h = h + 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return h @ h.T


def generator(g):
    yield g


def matched(g):
    match TABLE["name"]:
        case "a":
            return g * 2
        case str(other):
            return g
        case _:
            return g + 1


def matched_logging(g):
    match (EVENTS, g):
        case (log, _):
            log.append(1)


def imports_inside(g):
    import math as m

    from undertow.nn import functional as G

    return G.relu(g) * m.sqrt(2.0)


def default_list(g, log=[]):
    log.append(g)


def function_attribute(g):
    function_attribute.calls += 1


function_attribute.calls = 0


def deleting(g):
    del FEATURES["a"]


def walrus(g):
    if (n := g.norm()) > 1:
        return g / n
    return g


def while_loop(g):
    i = 0
    while i < 3:
        i += 1
        g = g * 0.5
    else:
        g = g + 1
    return g


def write_file(g):
    with open("log.txt", "a") as file:
        file.write(str(g))


def loops_over_modules(g):
    for m in NESTED_COUNTING.modules():
        m.seen = True


def loops_over_names(g):
    total = g.sum() * 0
    for name, p in BLOCK.named_parameters():
        if name.endswith("weight"):
            total = total + p.pow(2).sum()
    for child in BLOCK.children():
        total = total + len(list(child.parameters()))
    return g + total


T, TS = ("tensor",), ("tensors",)
M = ("tensors", "tensor")
FORWARD = ("module", "tensors", "tensor")

PURE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "double": (lambda g: g * 2, T),
    "nothing": (lambda g: None, T),
    "clip_value": (clip_value, T),
    "clip_norm": (clip_norm, T),
    "clip_in_place": (clip_in_place, T),
    "noise": (add_noise, T),
    "nan_detector": (nan_detector, T),
    "nan_to_zero": (nan_to_zero, T),
    "assert_finite": (assert_finite, T),
    "function": (lambda g: torch.clamp(g, -1, 1), T),
    "functional": (lambda g: F.softmax(g, dim=-1), T),
    "in_place": (lambda g: g.mul_(2), T),
    "mask": (lambda g: g * MASK, T),
    "numpy_weights": (lambda g: g * torch.from_numpy(WEIGHTS), T),
    "numpy_function": (lambda g: g * float(np.mean(WEIGHTS) + np.sqrt(2)), T),
    "math": (lambda g: g * math.sqrt(LIMIT), T),
    "outside_list": (lambda g: g * SCALES[0] + sum(SCALES) + len(SCALES), T),
    "outside_dict": (lambda g: g.clamp(-TABLE["clip"], TABLE.get("clip")), T),
    "namespace": (lambda g: g.clamp(max=SETTINGS.clip), T),
    "dataclass": (lambda g: g * CONFIG.factor, T),
    "enum": (lambda g: g if Mode.CLIP is Mode.SCALE else g * Mode.CLIP.value, T),
    "item": (lambda g: g * g.norm().item(), T),
    "float": (lambda g: g / float(g.abs().max()), T),
    "text": (lambda g: g * len(f"{g.shape} {LIMIT:.2f} {TABLE['name']!r}".upper().split()), T),
    "shape": (lambda g: g.reshape(g.shape[0], -1).view_as(g), T),
    "default": (lambda g, n="weight", s=2.0: g * s if n.startswith("w") else g, T),
    "closure": (make_scaled(3.0), T),
    "partial": (functools.partial(lambda s, g: g * s, 2.0), T),
    "partial_keyword": (functools.partial(lambda g, s: g * s, s=2.0), T),
    "object": (SCALER, T),
    "method": (SCALER._scaled, T),
    "static": (SCALER.halve, T),
    "class_method": (Scaler.by_rate, T),
    "property": (SCALER.with_property, T),
    "super": (QUIET, T),
    "method_of_outside": (WATCHER.scaled_by_mean, T),
    "wrapped": (wrapped_quietly, T),
    "no_grad": (without_gradients, T),
    "local_list": (local_list, T),
    "local_object": (local_object, T),
    "local_scaler": (local_scaler, T),
    "named_tuple": (named_tuple, T),
    "local_counter": (make_local_counter, T),
    "recursive": (recursive, T),
    "tried": (tried, T),
    "with": (with_blocks, T),
    "match": (matched, T),
    "imports": (imports_inside, T),
    "walrus": (walrus, T),
    "cached_product": (lambda g: g * cached_product(2, 3), T),
    "while": (while_loop, T),
    "names": (loops_over_names, T),
    "comprehension": (lambda g: torch.stack([r * s for r, s in zip(g, SCALES) if s > 0]), T),
    "dict_comprehension": (lambda g: {k: v for k, v in enumerate(g)}[0], T),
    "any_all": (lambda g: g if all(x > 0 for x in SCALES) and any(map(bool, SCALES)) else -g, T),
    "map": (lambda g: sum(map(lambda r: r * 2, g)), T),
    "sorted": (lambda g: g * sorted(SCALES, key=lambda s: -s)[0], T),
    "reduce": (lambda g: functools.reduce(lambda a, b: a + b, [g, g]), T),
    "star": (lambda *gs: gs[0] * 2, T),
    "several_on_a_line": ([lambda g: g.append(1), lambda g: g + 1][1], T),
    "getattr": (lambda g: getattr(g, "abs")() * getattr(SETTINGS, "clip", 1), T),
    "isinstance": (lambda g: g * 2 if isinstance(g, torch.Tensor) and hasattr(g, "grad") else g, T),
    "ternary": (lambda g: g.clamp(0) if LIMIT > 1 else None, T),
    "custom_function": (lambda g: Clamped.apply(g), T),
    "module_call": (lambda g: BLOCK(g), T),
    "nested_modules": (lambda g: NESTED(g), T),
    "checkpoint": (lambda g: checkpoint(lambda x: x * 2, g, use_reentrant=False), T),
    "max_values": (lambda g: g.max(0).values + torch.sort(g)[0] + g.topk(1).indices, T),
    "tuple_of_gradients": (lambda gs: tuple(g * 2 if g is not None else None for g in gs), TS),
    "node_hook": (lambda gi, go: (gi[0] * 2,) + gi[1:], ("tensors", "tensors")),
    "forward": (lambda m, i, o: o * 2, FORWARD),
    "forward_in_place": (lambda m, i, o: o.clamp_(0), FORWARD),
    "forward_pre": (lambda m, i: (i[0] + 1, *i[1:]), ("module", "tensors")),
    "forward_tuple": (lambda m, i, o: (o[0] * 2, o[1]), ("module", "tensors", "tensors")),
    "post_accumulate": (lambda p: p.grad.mul_(0.5), T),
    "gradient_to_none": (lambda p: setattr(p, "grad", None), T),
    "data_clamp": (lambda p: p.data.clamp_(-1, 1), T),
    "optimizer_in_backward": (lambda p: (OPTIMIZER.step(), OPTIMIZER.zero_grad()) and None, T),
    "optimizer_hook": (
        lambda o, a, k: [p.grad.mul_(2) for group in o.param_groups for p in group["params"]] and None,
        ("optimizer", "tensors", "other"),
    ),
}

EFFECTS: dict[str, tuple[Any, tuple[Any, ...], str, str]] = {
    "print": (lambda g: print(g), T, "call", "prints"),
    "print_shape": (lambda g: print(g.shape), T, "call", "prints"),
    "append": (lambda g: EVENTS.append(g), T, "call", "appends to `EVENTS`"),
    "append_itself": (EVENTS.append, T, "call", "appends to"),
    "append_and_scale": (lambda g: (EVENTS.append(1), g * 2)[1], T, "call", "appends to `EVENTS`"),
    "append_or": (lambda g: EVENTS.append(1) or g * 2, T, "call", "appends to `EVENTS`"),
    "append_default": (lambda g, n="a": EVENTS.append(n), T, "call", "appends to `EVENTS`"),
    "append_in_comprehension": (lambda g: [EVENTS.append(r) for r in g][0], T, "call", "appends to `EVENTS`"),
    "append_by_map": (lambda g: list(map(EVENTS.append, g)), T, "call", "appends to `EVENTS`"),
    "append_in_sort_key": (lambda g: sorted(g, key=lambda r: EVENTS.append(r) or 0)[0], T, "call", "appends to"),
    "append_unbound": (lambda g: list.append(EVENTS, g), T, "call", "appends to `EVENTS`"),
    "append_from_tuple": (lambda g: PAIR[0].append(g), T, "call", "appends to `PAIR[0]`"),
    "append_by_getattr": (lambda g: getattr(EVENTS, "append")(g), T, "call", "appends to `EVENTS`"),
    "append_walrus": (lambda g: (e := EVENTS).append(g), T, "call", "appends to `EVENTS`"),
    "append_namespace": (lambda g: SETTINGS.log.append(g), T, "call", "appends to `SETTINGS.log`"),
    "append_default_list": (default_list, T, "call", "appends to `log`"),
    "append_deque": (lambda g: RECENT.append(g), T, "call", "appends to `RECENT`"),
    "append_slice": (lambda g: LISTS[:][0].append(g), T, "call", "appends to"),
    "append_ternary": (lambda g: (EVENTS if LIMIT else []).append(g), T, "call", "appends to `EVENTS`"),
    "alias": (alias_of_outside, T, "call", "appends to"),
    "alias_tuple": (alias_in_tuple, T, "call", "appends to"),
    "alias_list": (alias_in_list, T, "call", "appends to"),
    "alias_function": (alias_through_function, T, "call", "appends to"),
    "alias_plus": (alias_through_plus, T, "update", "updates `EVENTS`"),
    "alias_loop": (alias_through_loop, T, "call", "appends to"),
    "alias_star": (alias_through_star, T, "call", "appends to"),
    "alias_dict": (alias_through_dict, T, "call", "appends to"),
    "alias_items": (alias_through_items, T, "call", "appends to"),
    "alias_zip": (alias_through_zip, T, "call", "appends to"),
    "alias_max": (alias_through_max, T, "call", "appends to"),
    "alias_object": (alias_through_object, T, "call", "appends to"),
    "set_add": (lambda g: SEEN.add(g), T, "call", "adds to `SEEN`"),
    "queue": (lambda g: INBOX.put(g), T, "call", "calls `queue.Queue.put`"),
    "setdefault": (lambda g: FEATURES.setdefault("a", g), T, "call", "may add to `FEATURES`"),
    "dict_update": (lambda g: FEATURES.update(a=g), T, "store", "stores into `FEATURES`"),
    "dict_pop": (lambda g: FEATURES.pop("a", None), T, "call", "takes from `FEATURES`"),
    "dict_store": (lambda m, i, o: FEATURES.__setitem__("a", o), FORWARD, "store", "stores into `FEATURES`"),
    "defaultdict": (lambda g: DEFAULTS["a"].append(g), T, "update", "may add a key"),
    "counter_closure": (make_counter(), T, "update", "updates nonlocal `n`"),
    "counter_closure_2": (make_counter_written_out(), T, "update", "sets nonlocal `n`"),
    "keeper_closure": (make_keeper(), T, "store", "sets nonlocal `last`"),
    "global_counter": (global_counter, T, "update", "updates global `TOTAL`"),
    "global_store": (global_store, T, "store", "sets global `TOTAL`"),
    "globals": (through_globals, T, "store", "sets `globals()['TOTAL']`"),
    "setattr": (lambda g: setattr(SETTINGS, "last", g), T, "store", "sets `SETTINGS.last`"),
    "setattr_name": (lambda g: setattr(SETTINGS, TABLE["name"], g), T, "store", "sets `SETTINGS.a`"),
    "vars": (lambda g: vars(SETTINGS).update(a=g), T, "update", "reaches into `SETTINGS.__dict__`"),
    "dunder_dict": (lambda g: SETTINGS.__dict__.update(a=g), T, "update", "reaches into `SETTINGS.__dict__`"),
    "exec": (lambda g: exec("x = 1"), T, "call", "calls `exec`"),
    "function_attribute": (function_attribute, T, "update", "updates `function_attribute.calls`"),
    "remember": (SCALER.remember, T, "store", "sets `self.last`"),
    "tally": (SCALER.tally, T, "update", "updates `self.count`"),
    "tally_written_out": (SCALER.tally_written_out, T, "update", "sets `self.count`"),
    "private": (SCALER.private, T, "update", "updates `self._Scaler__secret`"),
    "keep": (SCALER.keep, T, "call", "appends to `self.history`"),
    "bump_class": (Scaler.bump, T, "update", "updates `Scaler.rate`"),
    "counting_property": (SCALER.with_counting_property, T, "update", "updates `self.count`"),
    "stats": (WATCHER.hook, T, "call", "appends to `self.stats.values`"),
    "loud_override": (LOUD, T, "call", "prints"),
    "operator": (lambda g: g * ADDING, T, "call", "appends to"),
    "operator_in_test": (lambda g: g if ADDING else -g, T, "call", "appends to"),
    "operator_in_text": (lambda g: g * len(f"{ADDING}"), T, "call", "appends to"),
    "operator_len": (lambda g: g * len(ADDING), T, "call", "appends to"),
    "getattr_method": (lambda g: g * MAGIC.scale, T, "call", "appends to"),
    "setitem_method": (lambda g: STICKY.__setitem__("a", g), T, "store", "stores into"),
    "wandb": (lambda g: WANDB.log({"norm": g.norm()}), T, "call", "appends to `EVENTS`"),
    "logging": (lambda g: LOGGER.info("norm %s", g.norm()), T, "call", "calls `logging.Logger.info`"),
    "logging_module": (lambda g: logging.warning("x"), T, "call", "calls `logging.warning`"),
    "warning": (lambda g: warnings.warn("x"), T, "call", "calls `warnings.warn`"),
    "time": (lambda g: g * time.time(), T, "call", "calls `time.time`"),
    "random": (lambda g: g * random.random(), T, "call", "calls `"),
    "numpy_random": (lambda g: g * np.random.rand(), T, "call", "calls `"),
    "numpy_generator": (lambda g: g * GENERATOR.normal(), T, "call", "calls `GENERATOR.normal`"),
    "environment": (lambda g: os.environ.update(a="1"), T, "call", "calls `"),
    "json": (lambda g: json.dumps({}), T, "call", "calls `json.dumps`"),
    "next": (lambda g: g * next(NUMBERS), T, "call", "takes from the iterator `NUMBERS`"),
    "iterate": (lambda g: [g for _ in zip(g, NUMBERS)], T, "call", "takes from the iterator `NUMBERS`"),
    "file": (write_file, T, "call", "calls `open`"),
    "numpy_store": (lambda g: BUFFER.__setitem__(0, 1), T, "call", "calls `BUFFER.__setitem__`"),
    "numpy_fill": (lambda g: BUFFER.fill(0), T, "call", "fills `BUFFER`"),
    "numpy_out": (lambda g: np.add(1, 2, out=BUFFER), T, "store", "writes into `BUFFER`"),
    "numpy_out_positional": (lambda g: np.add(1, 2, BUFFER), T, "store", "writes into `BUFFER`"),
    "numpy_copyto": (lambda g: np.copyto(BUFFER, 1), T, "store", "writes into `BUFFER`"),
    "numpy_at": (lambda g: np.add.at(BUFFER, 0, 1), T, "store", "writes into `BUFFER`"),
    "numpy_alias": (lambda g: np.asarray(BUFFER).fill(1), T, "call", "fills `BUFFER`"),
    "numpy_save": (lambda g: np.save("x.npy", BUFFER), T, "call", "calls `numpy.save`"),
    "wrapped_loudly": (wrapped_loudly, T, "call", "prints"),
    "wrapped_printing": (wrapped_printing, T, "call", "prints"),
    "no_grad_logging": (without_gradients_logging, T, "call", "appends to `EVENTS`"),
    "cached": (lambda g: g * cached("a"), T, "call", "calls `cached`"),
    "partial": (functools.partial(lambda log, g: log.append(g), EVENTS), T, "call", "appends to"),
    "partial_print": (functools.partial(print, "gradient"), T, "call", "prints"),
    "local_partial": (lambda g: functools.partial(print, "a")(g), T, "call", "prints"),
    "recursive": (recursive_with_log, T, "call", "appends to"),
    "tried": (tried_printing, T, "call", "prints"),
    "nan_printing": (nan_detector_printing, T, "call", "prints"),
    "generator": (generator, T, "call", "yields"),
    "matched": (matched_logging, T, "call", "appends to"),
    "deleting": (deleting, T, "update", "updates `FEATURES`"),
    "timer": (lambda g: TIMER.__enter__(), T, "call", "calls `time.time`"),
    "lambda_called": (lambda g: (lambda x: EVENTS.append(x))(g), T, "call", "appends to"),
    "function_in_list": (lambda g: [print][0](g), T, "call", "prints"),
    "function_in_dict": (lambda g: {"p": print}["p"](g), T, "call", "prints"),
    "tensor_attribute": (lambda g: setattr(g, "note", 1), T, "store", "sets `.note` of a tensor"),
    "outside_tensor_attribute": (lambda g: setattr(MASK, "note", 1), T, "store", "sets `MASK.note`"),
    "custom_function": (lambda g: Printing.apply(g), T, "call", "prints"),
    "checkpoint": (lambda g: checkpoint(lambda x: EVENTS.append(x) or x, g, use_reentrant=False), T, "call", "appends"),
    "apply": (lambda g: BLOCK.apply(lambda m: EVENTS.append(m)), T, "call", "appends to"),
    "module_calls": (lambda g: NESTED_COUNTING(g), T, "update", "updates `a CountingBlock.calls`"),
    "module_loop": (loops_over_modules, T, "store", "sets `"),
    "module_train": (lambda g: BLOCK.train(), T, "store", "calls `BLOCK.train`"),
    "save": (lambda g: torch.save(g, "x.pt"), T, "call", "calls `torch.save`"),
    "seed": (lambda g: torch.manual_seed(0), T, "call", "calls `torch.manual_seed`"),
    "scheduler": (lambda g: SCHEDULER.step(), T, "update", "calls `SCHEDULER.step`"),
    "closure_of_step": (lambda g: OPTIMIZER.step(lambda: EVENTS.append(1)), T, "call", "appends to"),
    "learning_rate": (lambda g: OPTIMIZER.param_groups[0].__setitem__("lr", 1), T, "store", "stores into `"),
    "register": (lambda p: p.register_hook(print), T, "call", "registers a hook"),
    "features": (lambda m, i, o: setattr(m, "features", o), FORWARD, "store", "sets `.features` of an object"),
    "unknown_argument": (lambda g, other: other.append(g), ("tensor", "other"), "call", "reads `.append`"),
    "unknown_function": (lambda f: f(1), ("other",), "call", "calls something unknown"),
    "one_shot": (lambda g: (HANDLE.remove(), g)[1], T, "update", "calls `HANDLE.remove`"),
    "module_list": (lambda g: BLOCK.layers.append(nn.Linear(1, 1)), T, "update", "calls `BLOCK.layers.append`"),
    "module_dict": (lambda g: [m(g) for m in PARTS.values()][0], T, "update", "updates `"),
    "module_dict_items": (lambda g: [m(g) for name, m in PARTS.items()][0], T, "update", "updates `"),
    "shared_memory": (lambda g: torch.from_numpy(BUFFER).fill_(0), T, "update", "writes into `BUFFER`"),
    "shared_memory_index": (
        lambda g: torch.as_tensor(BUFFER).__setitem__(0, 1),
        T,
        "call",
        "calls `BUFFER.__setitem__`",
    ),
    "tree_map": (lambda g: tree_map(lambda box: box.hook(1), [WATCHER]), T, "call", "appends to"),
    "local_callable": (lambda g: checkpoint(Keeping(), g, use_reentrant=False), T, "call", "appends to `EVENTS`"),
    "subclass": (lambda g: torch.add(g, WATCHED), T, "call", "appends to `EVENTS`"),
    "sorted_objects": (lambda g: sorted([ORDERED, ORDERED]), T, "call", "appends to `EVENTS`"),
    "profiled": (with_profiler, T, "call", "calls `torch.profiler.profile`"),
    "unbound": (lambda g: g * not_defined_anywhere, T, "call", "uses `not_defined_anywhere`"),  # noqa: F821
    "with_generator": (lambda g: noted().__enter__(), T, "call", "appends"),
    "methodcaller": (
        lambda g: __import__("operator").methodcaller("append", g)(EVENTS),
        T,
        "call",
        "appends to `EVENTS`",
    ),
}
