"""What the package `functorch` has: the functions of `torch.func` and the older ones, each with a word on the new name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from undertow import func
from undertow._functorch import make_functional as _make
from undertow._src.base.sites import warn


def get_warning(api: str, new_api: str | None = None, replace_newlines: bool = False) -> str:
    """Return what is said of a function of functorch's."""
    new_api = f"torch.func.{api}" if new_api is None else new_api
    words = (
        "We've integrated functorch into PyTorch. \n"
        f"`functorch.{api}` is an old name, deprecated since 2.0; its new one is `{new_api}`.\n"
    )
    return words.replace("\n", "") if replace_newlines else words


def warn_deprecated(api: str, new_api: str | None = None) -> None:
    warn(get_warning(api, new_api, replace_newlines=True), FutureWarning)


def _warned(function: Callable[..., Any], name: str, new_api: str | None = None) -> Callable[..., Any]:
    @functools.wraps(function)
    def warned(*args: Any, **kwargs: Any) -> Any:
        warn_deprecated(name, new_api)
        return function(*args, **kwargs)

    return warned


vmap = _warned(func.vmap, "vmap", "torch.vmap")
grad = _warned(func.grad, "grad")
grad_and_value = _warned(func.grad_and_value, "grad_and_value")
vjp = _warned(func.vjp, "vjp")
jvp = _warned(func.jvp, "jvp")
jacrev = _warned(func.jacrev, "jacrev")
jacfwd = _warned(func.jacfwd, "jacfwd")
hessian = _warned(func.hessian, "hessian")
functionalize = _warned(func.functionalize, "functionalize")
make_functional = _warned(_make.make_functional, "make_functional", "torch.func.functional_call")
make_functional_with_buffers = _warned(
    _make.make_functional_with_buffers, "make_functional_with_buffers", "torch.func.functional_call"
)
combine_state_for_ensemble = _warned(
    _make.combine_state_for_ensemble, "combine_state_for_ensemble", "torch.func.stack_module_state"
)
