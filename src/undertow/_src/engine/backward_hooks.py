"""The points of a backward pass at which hooks fire, and the checks of what hooks return. `base/hooks.py` makes the calls.

Gradients come as the pass carries them (mostly raw arrays). One that a hook has seen is passed on as a tensor, so that
later hooks see the same object; the engine unwraps it where it computes.
"""

from __future__ import annotations

from collections import OrderedDict
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from undertow._src.base import hooks
from undertow._src.engine.arguments import tensor_type
from undertow._src.engine.node import AccumulateGrad, Node
from undertow._src.tensor.core import TensorCore, ndarray, wrap

if TYPE_CHECKING:
    from undertow._src.engine.engine import BackwardPass

own_references = 0  # to a gradient that only the engine holds: see NOTE ownership of gradients, in accumulate.py


def set_own_references(count: int) -> None:
    """Set the reference count that `accumulate` sees for an array held only by the engine."""
    global own_references
    own_references = count


def fire_tensor_hooks(task: BackwardPass, node: Node, g: Any, more_references: int = 0) -> Any:
    """Fire the tensor hooks of a node's outputs (or of a leaf), then store gradients for `retain_grad`.

    `more_references`: the engine's references to `g` beyond the traversal's own.
    """
    if task.silent:
        return g
    task.running = node
    if type(node) is AccumulateGrad:
        own = node.variable._meta.hooks
        return _through(task, own, g, more_references + 1) if own else g
    hooked, single = node._tensor_hooks, node._n_outputs == 1
    if hooked:
        if single:
            g = _through(task, hooked, g, more_references + 1)
        else:
            for nr, own in list(hooked.items()) if node._tells_absence else sorted(hooked.items()):
                if own and (g[nr] is not None or node._tells_absence):
                    g[nr] = _through(task, own, g[nr], 0)
    extras = node._extras
    if extras is None or not extras.retained:
        return g
    for nr, reference in list(extras.retained.items()):
        tensor, value = reference(), g if single else g[nr]
        if tensor is not None and value is not None:
            meta = tensor._get_meta()
            gradient = task.tensor(value)
            meta.grad = gradient.clone() if meta.grad is None else meta.grad + gradient
    return g


def _through(
    task: BackwardPass, own: OrderedDict[int, hooks.Hook], g: object, more_references: int
) -> TensorCore | None:
    shown = wrap(g) if type(g) is ndarray else g if g is None or isinstance(g, TensorCore) else wrap(g)
    if shown is not g and getrefcount(g) > own_references + more_references + 1:  # one more: the tensor's
        task.shared.append(shown)
    for hook in tuple(own.values()):  # read before the first one runs: hooks may add and remove hooks
        answer = hooks.fire(hook, shown)
        if answer is not None:
            shown = check_gradient(hook, shown, answer)
    return shown


def fire_pre_hooks(task: BackwardPass, node: Node, g: Any) -> Any:
    """Fire a node's hooks before it runs; a result replaces its incoming gradients."""
    assert node._extras is not None and node._extras.pre_hooks is not None
    if task.silent:
        return g
    task.running = node
    single = node._n_outputs == 1
    grads = tuple([task.tensor(part) for part in ((g,) if single else g)])
    grads = hooks.thread(node._extras.pre_hooks, grads, _check_tuple)
    return grads[0] if single else list(grads)


def fire_late_hooks(task: BackwardPass, node: Node, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Fire the post-hooks that a node without any got while it ran: as in PyTorch, they see no incoming gradients."""
    if node._extras is None or not node._extras.post_hooks:
        return results
    return tuple([task.as_carried(result) for result in fire_post_hooks(task, node, results, None, late=True)])


def fire_post_hooks(
    task: BackwardPass, node: Node, results: tuple[Any, ...], g: Any, late: bool = False
) -> tuple[Any, ...]:
    """Fire a node's hooks after it ran; a result replaces its results."""
    assert node._extras is not None and node._extras.post_hooks is not None
    if task.silent:
        return results
    task.running = node
    parts = () if late else (g,) if node._n_outputs == 1 else g
    outgoing = tuple([task.tensor(part) for part in parts])
    grads = tuple([task.tensor(part) for part in results])
    for hook in tuple(node._extras.post_hooks.values()):
        answer = hooks.fire(hook, grads, outgoing)
        if answer is not None:
            grads = _check_tuple(hook, grads, answer)
    return grads


def fire_post_accumulate_hooks(leaf: object, own: OrderedDict[int, hooks.Hook]) -> None:
    """Fire a leaf's hooks after its `.grad` was accumulated; they must return None."""
    for hook in tuple(own.values()):
        answer = hooks.fire(hook, leaf)
        if answer is not None and answer is not leaf:
            if isinstance(answer, TensorCore):
                raise RuntimeError(
                    f"Tensor post accumulate grad hooks should return None. {_named(hook)} returned a tensor; "
                    f"to change the gradient, write to param.grad inside the hook.{hooks.defined(hook)}"
                )
            raise TypeError(f"expected Variable, but hook returned '{type(answer).__name__}'.{hooks.defined(hook)}")


def check_gradient(
    hook: hooks.Hook, before: TensorCore | None, after: object, user_hook: hooks.Hook | None = None
) -> TensorCore:
    """Refuse a replaced gradient of a different type, shape or dtype. `user_hook`: the hook to name, if not `hook`."""
    by = user_hook or hook
    if not isinstance(after, TensorCore):
        raise TypeError(f"expected Variable, but hook returned '{type(after).__name__}'.{hooks.defined(by)}")
    if before is None:
        raise RuntimeError(f"can't replace a None gradient with a non-None value.{hooks.defined(by)}")
    if tensor_type(after) != tensor_type(before):
        raise RuntimeError(
            f"hook '{_named(hook)}' has changed the type of value (was {tensor_type(before)} got {tensor_type(after)})."
            f"{hooks.defined(by)}"
        )
    if after.shape != before.shape and not hasattr(hook, "fits_gradient"):
        raise RuntimeError(
            f"hook '{_named(hook)}' has changed the size of value (was {list(before.shape)}, "
            f"got {list(after.shape)}).{hooks.defined(by)}"
        )
    return after


def _check_tuple(hook: hooks.Hook, before: tuple[Any, ...], after: object) -> tuple[Any, ...]:
    if not isinstance(after, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(after).__name__}'.{hooks.defined(hook)}")
    if len(after) != len(before):
        raise RuntimeError(
            f"hook '{_named(hook)}' has returned an incorrect number of values (got {len(after)}, "
            f"but expected {len(before)}).{hooks.defined(hook)}"
        )
    return tuple(
        [
            new if new is old or new is None else check_gradient(hook, old, new)
            for old, new in zip(before, after, strict=True)
        ]
    )


def _named(hook: hooks.Hook) -> str:
    return getattr(hook, "__name__", None) or type(hook).__name__
