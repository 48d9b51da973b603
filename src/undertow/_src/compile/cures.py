"""What to write instead of what a compiled step can't do, by the cause."""

from __future__ import annotations

import re

from undertow._src.compile.effects import Effect

_AS_ARGUMENT = "and give what comes of it to the step as an argument"

# By what an effect has to do with; see `effects.Effect.field`.
_BY_FIELD = {
    "random": "draw random numbers with torch.rand and its like, or give them to the step as arguments",
    "clock": "take the time outside of the step, and give it to the step as an argument if it computes with it",
    "debugger": "debug the step as it is, without torch.compile",
    "files": "look outside, and give what is there to the step as an argument",
    "iterator": "take from it outside, and give what it gives to the step as an argument",
    "reflection": "write down the name of what it reads, or give it to the step as an argument",
}
# More exactly, by what is done, in the words of `Effect.what`.
_BY_WORDS = (
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
        "take turns with other threads outside of the step",
    ),
)
OTHERWISE = (
    "do it outside, before (what it reads may be an argument) or after, with what the step returns, or in a hook"
)

VALUE = "keep it a tensor, return it, and do that with the result, outside of the compiled step"
VALUE_FOR_NUMPY = (
    "keep it a tensor, with torch's functions in the place of NumPy's, or return it and do that outside of the compiled "
    "step"
)


def is_elsewhere(field: str) -> bool:
    """Whether an effect of that field gives something else in each call, so that nothing can watch it."""
    return field in _BY_FIELD


def cure_of(effect: Effect) -> str:
    """Return what to write instead of something that a step does besides tensor work."""
    for words, cure in _BY_WORDS:
        if re.search(words, effect.what):
            return cure
    return _BY_FIELD.get(effect.field, OTHERWISE)
