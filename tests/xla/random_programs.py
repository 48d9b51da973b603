"""Random functions over a small outside world, and what running them does to it."""

from __future__ import annotations

import contextlib
import io
import linecache
import random
from typing import Any

WORLD = """
import functools
class Box:
    rate = 1
    def __init__(self):
        self.items = []
        self.count = 0
        self.table = {"a": [], "b": 1}
        self.inner = None
    def size(self):
        return len(self.items)
    def put(self, x):
        self.items.append(x)
        return self
    def first(self):
        return self.items
    def tick(self):
        self.count += 1
        return self.count
    def same(self, *xs, **ks):
        return xs
    @property
    def seen(self):
        return self.items
    @property
    def ticking(self):
        return self.tick()
    def __add__(self, other):
        return other
    def __mul__(self, other):
        self.items.append(other)
        return other
    def __iter__(self):
        return iter([self.items])
    def __getitem__(self, key):
        return self.table
    def __bool__(self):
        return True
class Sub(Box):
    def put(self, x):
        return super().put([x])
    def first(self):
        return [super().first()]
def identity(x): return x
def second(a, b=None): return b
def pack(*xs, **ks): return (xs, ks)
def add_to(where, what=1): where.append(what)
def make(x):
    def inner(y=x):
        return y
    return inner
def call(f, *xs): return f(*xs)
def wrapped(f):
    @functools.wraps(f)
    def inner(*xs, **ks): return f(*xs, **ks)
    return inner
again = wrapped(identity)
add_again = wrapped(add_to)
LOG = []
NEST = [[1], [2, []]]
TABLE = {"a": [], "b": {"c": []}, "n": 2}
BOX = Box()
BOX.inner = Sub()
PAIR = (LOG, BOX)
COUNT = 0
ITER = iter(range(10**6))
FUNCTIONS = [identity, add_to]
BOUND = BOX.put
PART = functools.partial(second, LOG)
"""
STATE = ("LOG", "NEST", "TABLE", "COUNT", "BOX")
OUTSIDE = ("LOG", "NEST", "TABLE", "BOX", "PAIR", "COUNT", "ITER", "FUNCTIONS", "BOUND", "PART")
FUNCTIONS = ("identity", "second", "pack", "add_to", "make", "call", "again", "add_again", "Box", "Sub", "list", "tuple",
             "len", "max", "dict", "zip", "enumerate", "sorted", "next", "iter", "print", "str", "getattr", "reversed",
             "functools.partial", "map", "filter", "type", "isinstance", "sum", "setattr", "vars", "BOUND",
             "PART")  # fmt: skip
METHODS = ("append", "extend", "pop", "get", "items", "values", "keys", "copy", "setdefault", "update", "size", "put",
           "first", "tick", "same", "sum", "mul", "add", "index", "count", "sort", "clear", "join", "format")  # fmt: skip
_LIST = ("append", "extend", "pop", "copy", "index", "count", "append")
_BOX = ("size", "put", "first", "tick", "same", "inner.put", "items.append", "inner.first", "table.get", "inner.same")
METHODS_OF = {
    "LOG": _LIST, "NEST": _LIST, "TABLE": ("get", "items", "values", "keys", "setdefault", "update", "pop", "copy"),
    "BOX": _BOX, "PAIR": ("index", "count"), "FUNCTIONS": _LIST, "g": ("sum", "mul", "add", "norm", "mul_", "item"),
}  # fmt: skip
ATTRIBUTES = ("items", "count", "table", "inner", "seen", "ticking", "rate", "shape", "grad", "T", "__class__", "x")


class Writer:
    """Writes the source of one function."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.locals = ["g"]

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def name(self) -> str:
        return self.pick(*self.locals, *self.locals, *OUTSIDE)

    def new(self) -> str:
        name = self.pick("u", "v", "w", "z")
        if name not in self.locals:
            self.locals.append(name)
        return name

    def expression(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(self.name(), self.name(), self.name(), "1", "0", "'a'", "[]", "None", "{}")
        e = lambda: self.expression(depth - 1)
        kind = self.random.randrange(22)
        if kind < 4:
            name = self.name()
            return f"{name}.{self.pick(*METHODS_OF.get(name, METHODS))}({self.pick('', e())})"
        if kind < 6:
            return f"{e()}.{self.pick(*METHODS)}({self.pick('', e(), e())})"
        if kind < 8:
            return f"{e()}[{self.pick('0', '-1', chr(39) + 'a' + chr(39), ':', e())}]"
        if kind < 11:
            return f"{self.pick(*FUNCTIONS)}({self.pick('', e(), e(), f'{e()}, {e()}', f'*{e()}')})"
        if kind == 11:
            return f"({e()}).{self.pick(*ATTRIBUTES)}"
        if kind == 12:
            return f"({e()} {self.pick('+', '*', 'or', 'and', '==', 'in', 'is')} {e()})"
        if kind == 13:
            return f"[{e()}, {e()}]"
        if kind == 14:
            return f"({e()}, {e()})"
        if kind == 15:
            return f"{{'a': {e()}, 'b': {e()}}}"
        if kind == 16:
            return f"({e()} if {e()} else {e()})"
        if kind == 17:
            body = self.pick("y", "k", self.expression(depth - 1), "y.append(1)", "k.append(y)")
            return f"(lambda y, k={e()}: {body})({e()})"
        if kind == 18:
            return f"[{self.pick('q', 'q.append(1)', 'q[0]', e())} for q in {e()}]"
        if kind == 19:
            return f"({self.new()} := {e()})"
        if kind == 20:
            function = self.pick(*FUNCTIONS, "(lambda y: y)", "LOG.append")
            return self.pick("call({}, {})", "list(map({}, {}))", "functools.partial({}, {})()").format(function, e())
        return f"f'{{{self.name()}}}'"

    def statement(self, depth: int, indent: str) -> str:
        e = lambda: self.expression(self.random.randrange(3))
        kind = self.random.randrange(15 if depth else 9)
        if kind < 3:
            value = e()
            return f"{indent}{self.new()} = {value}\n"
        if kind < 5:
            return f"{indent}{e()}\n"
        if kind == 5:
            return f"{indent}{self.pick(*self.locals)} {self.pick('+=', '*=')} {e()}\n"
        if kind == 6:
            target = self.pick(f"{self.name()}[{self.pick('0', chr(39) + 'a' + chr(39))}]", f"{self.name()}.x", "COUNT")
            return f"{indent}{target} {self.pick('=', '+=')} {e()}\n"
        if kind == 7:
            value = e()
            return f"{indent}{self.new()}, {self.pick('', '*')}{self.new()} = {value}\n"
        if kind == 8:
            return f"{indent}return {e()}\n"
        inner = indent + "    "
        body = lambda: "".join(self.statement(depth - 1, inner) for _ in range(self.random.randrange(1, 3)))
        if kind == 9:
            source = e()
            name = self.new()
            return f"{indent}for {name} in {source}:\n{body()}{inner}{self.pick('break', 'pass')}\n"
        if kind == 10:
            return f"{indent}if {e()}:\n{body()}{indent}else:\n{body()}"
        if kind in (11, 12):
            function = f"f{self.random.randrange(2)}"
            text = f"{indent}def {function}(p, d={e()}):\n"
            outer = list(self.locals)
            self.locals += ["p", "d"]
            if self.random.random() < 0.3 and outer != ["g"]:
                text += f"{inner}nonlocal {self.pick(*[n for n in outer if n not in ('p', 'd')])}\n"
            text += body()
            self.locals = [*outer, function]
            return text + f"{indent}{function}({e()})\n"
        if kind == 13:
            return f"{indent}try:\n{body()}{indent}except Exception as error:\n{body()}"
        return f"{indent}with contextlib.suppress(Exception):\n{body()}"

    def function(self) -> str:
        text = "def hook(g):\n"
        if self.random.random() < 0.2:
            text += "    global COUNT\n"
        if self.random.random() < 0.3:
            return text + "".join(self.statement(2, "    ") for _ in range(self.random.randrange(1, 5)))
        for _ in range(self.random.randrange(2, 8)):  # most random statements raise: let the next ones run
            text += f"    try:\n{self.statement(2, '        ')}    except Exception: pass\n"
        return text


class Outcome:
    """A random function, in a world of its own."""

    def __init__(self, seed: int) -> None:
        self.name = f"<random program {seed}>"
        self.source = Writer(seed).function()
        self.world: dict[str, Any] = {"contextlib": contextlib, "__name__": "random_program"}
        exec(WORLD_CODE, self.world)
        exec(compile(self.source, self.name, "exec"), self.world)
        self.hook = self.world["hook"]

    def __enter__(self) -> Outcome:
        lines = self.source.splitlines(keepends=True)
        linecache.cache[self.name] = (len(self.source), None, lines, self.name)
        return self

    def __exit__(self, *error: object) -> None:
        linecache.cache.pop(self.name, None)

    def state(self) -> str:
        known: dict[int, str] = {}

        def show(value: Any, depth: int = 0) -> str:
            if id(value) in known or depth > 12:
                return "again"
            if isinstance(value, (list, tuple)):
                known[id(value)] = ""
                return f"[{', '.join(show(each, depth + 1) for each in value)}]"
            if isinstance(value, dict):
                known[id(value)] = ""
                return f"{{{', '.join(f'{show(k)}: {show(v, depth + 1)}' for k, v in value.items())}}}"
            if type(value).__name__ in ("Box", "Sub"):
                known[id(value)] = ""
                return show(vars(value), depth + 1)
            return repr(value) if isinstance(value, (int, str, float)) else f"<{type(value).__name__}>"

        parts = [show(self.world[name]) for name in STATE]
        classes = [repr(sorted(vars(self.world[name]))) for name in ("Box", "Sub")]
        functions = [repr(sorted(vars(self.world[name]))) for name in ("identity", "add_to", "make", "hook")]
        length = self.world["ITER"].__length_hint__()
        return "\n".join([*parts, *classes, *functions, str(length), repr(self.world["Box"].rate)])

    def run(self, argument: Any) -> tuple[bool, Any]:
        """Whether the function changed or printed anything, and what it returned (an exception if it raised)."""
        before = self.state()
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                result = self.hook(argument)
        except (Exception, RecursionError) as error:
            result = error
        return self.state() != before or bool(printed.getvalue()), result


WORLD_FILE = "<the world of random programs>"
WORLD_CODE = compile(WORLD, WORLD_FILE, "exec")
linecache.cache[WORLD_FILE] = (len(WORLD), None, WORLD.splitlines(keepends=True), WORLD_FILE)
