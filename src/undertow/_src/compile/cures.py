"""What to write instead of what a compiled step can't do, by the cause."""

from __future__ import annotations

import re

from undertow._src.compile.effects import Effect

_AS_ARGUMENT = "and pass the result to the step as an argument"

# By the field of the effect; see `effects.Effect.field`.
_BY_FIELD = {
    "random": "draw random numbers with torch.rand and the like, or pass them to the step as arguments",
    "clock": "read the clock outside of the step, and pass the time as an argument if the step computes with it",
    "debugger": "debug the step without torch.compile",
    "messages": "call it outside of the step: return what is sent, and pass what is received as an argument",
    "files": f"read it outside, {_AS_ARGUMENT}",
    "iterator": "take the next item outside of the step, and pass it as an argument",
    "reflection": "write the name out in the code, or pass what it reads as an argument",
}
# More exactly, by a pattern in `Effect.what`.
_BY_WORDS = (
    (r"\.(send|asend)`", "keep the running value in an attribute, or advance the generator after the step"),
    (r"sleep`", "wait outside of the step"),
    (r"_Environ\.(__setitem__|__delitem__|pop|update|setdefault)|`os\.(putenv|unsetenv)`", "set it before the step"),
    (
        r"`os\.(getenv|get\w*id|getcwd|getlogin|cpu_count|uname|environ\w*)`|_Environ|`platform\.|`getpass\.",
        "read it before the step, into a variable that the step uses",
    ),
    (r"`os\.(urandom|getrandom)`", _BY_FIELD["random"]),
    (r"(save\w*|dumps?|tofile|to_\w+)`", "save what the step returns, outside of it"),
    (
        r"`(open|pathlib\..*|os\.(listdir|scandir|stat|walk|access)|glob\..*|tempfile\..*|.*\b(load\w*|fromfile|genfromtxt))`",
        f"read it outside, {_AS_ARGUMENT}",
    ),
    (r"`(subprocess\..*|os\.(system|popen|exec\w*|spawn\w*)|socket\..*)`", f"run it outside, {_AS_ARGUMENT}"),
    (r"`input`", f"ask outside, {_AS_ARGUMENT}"),
    (
        r"`(threading\..*|queue\..*|multiprocessing\..*|.*\.(acquire|release|get|put|get_nowait|put_nowait))`",
        "synchronise with other threads outside of the step",
    ),
)
OTHERWISE = (
    "do it before the step (and pass the result as an argument), after it (with what the step returns), or in a hook"
)

VALUE = "keep it a tensor, or return it and use its value outside of the compiled step"
VALUE_FOR_NUMPY = (
    "keep it a tensor and use torch's functions in place of NumPy's, or return it and use its values outside of the "
    "compiled step"
)


def is_elsewhere(field: str) -> bool:
    """Return whether effects of a field differ in each call, so that no guard can watch them."""
    return field in _BY_FIELD


def cure_of(effect: Effect) -> str:
    """Return what to write instead of something that a step does besides tensor work."""
    for words, cure in _BY_WORDS:
        if effect.field != "messages" and re.search(words, effect.what):
            return cure
    return _BY_FIELD.get(effect.field, OTHERWISE)
