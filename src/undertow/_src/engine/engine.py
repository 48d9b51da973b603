"""The backward pass.

Count how many gradients each node waits for, then run nodes as they become ready, latest made first, adding up what
arrives. Gradients are raw arrays and become tensors only where they are visible: in a hook, `.grad`, a custom Function;
or everywhere, when the pass is itself recorded (create_graph). A gradient that has been seen stays that tensor, so that
later hooks see the same object, with the writes to it counted.

At one node, in this order: tensor hooks; `retain_grad`; the capture for `grad(inputs=...)`; node pre-hooks; the node (a
leaf's accumulator adds to `.grad`, then runs post-accumulate hooks); node post-hooks.
"""

from __future__ import annotations

import itertools
import re
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.array import DeviceArray
from undertow._src.arrays.device.placement import Home, HostedArray, accelerator_among, off_host
from undertow._src.arrays.namespaces import DeviceNamespace, is_batched, namespace_of, tensor_namespace
from undertow._src.arrays.numpy import namespace as numpy_xp
from undertow._src.arrays.quiet import quietly
from undertow._src.base import hooks, tracer
from undertow._src.base.lazy import late_function
from undertow._src.base.modes import local, slow_path
from undertow._src.base.sites import user_site
from undertow._src.engine import backward_hooks
from undertow._src.engine.accumulate import accumulate, added, cast_to_leaf, stays_tensor
from undertow._src.engine.arguments import broadcast_two
from undertow._src.engine.node import AccumulateGrad, Edge, Node, bind_node_caller
from undertow._src.engine.rule_node import MultiOutputNode, RuleNode
from undertow._src.engine.saved import Freed
from undertow._src.tensor.core import NOT_ARRAYS, TensorCore, ndarray, tensor_class, wrap
from undertow.autograd import anomaly_mode as anomaly

if TYPE_CHECKING:
    from undertow._src.rules.array import Namespace

_passes = itertools.count()


class BackwardPass:
    """One run of the engine: which nodes it may reach, and what it has to return."""

    __slots__ = (
        "xp", "freed", "executed", "captures", "captured", "callbacks", "running", "reached", "recorded", "silent",
        "number", "roots", "accumulates", "shared", "is_batched", "__weakref__",
    )  # fmt: skip

    def __init__(self, keep_graph: bool, create_graph: bool) -> None:
        self.recorded = create_graph
        self.number = next(_passes)
        self.silent = False  # no hook fires: the pass is internal
        self.is_batched = False  # gradients are `BatchedArray`s, recorded or not
        self.xp: Namespace = tensor_namespace() if create_graph else numpy_xp
        self.freed = None if keep_graph else Freed(user_site())
        self.executed: set[Node] | None = None  # nodes that lead to the requested inputs; None: all
        self.captures: dict[Node, list[tuple[int, int]]] = {}  # node -> (its output number, index in captured)
        self.captured: list[Any] = []
        self.callbacks: list[Callable[[], None]] = []
        self.running: Node | None = None  # known in anomaly mode, and where hooks fire
        self.reached: Collection[Node] = ()  # every node reachable from the roots, and those; see `reaches`
        self.roots: Sequence[Edge] = ()
        self.accumulates = True  # accumulates into `.grad`; otherwise it returns gradients
        # Arrays that hooks have seen and that are held elsewhere: no leaf may take them over.
        self.shared: list[Any] = []

    @property
    def lone_root(self) -> Node | None:
        """The node that the pass begins at, if there is only one: PyTorch does not count it among those it reaches."""
        return self.roots[0][0] if len(self.roots) == 1 else None

    def reaches(self, node: Node) -> bool:
        """Whether there is a path from the roots to a node."""
        return node in self.reached and node is not self.lone_root

    def tensor(self, value: object) -> Any:
        """Return a gradient as users see it."""
        if type(value) is ndarray or type(value) in (DeviceArray, HostedArray) or is_batched(value):
            return wrap(value)
        return value if value is None or isinstance(value, TensorCore) else wrap(np.asarray(value))

    def value(self, tensor: object) -> Any:
        """Return a gradient in the form in which the nodes of this pass compute."""
        if not isinstance(tensor, TensorCore) or stays_tensor(tensor):
            return tensor
        return tensor if self.xp.RECORDED and not self.is_batched else off_host(tensor._array)

    def as_carried(self, value: Any) -> Any:
        """Return a gradient as it is passed on: one that a hook saw stays that tensor, unless of a user's class."""
        return value if type(value) is tensor_class() else self.value(value)


def run(
    roots: Sequence[Edge], grads: Sequence[Any], keep_graph: bool, create_graph: bool,
    inputs: Sequence[Edge] | None = None, accumulates: bool = True, silent: bool = False,
) -> list[Any]:  # fmt: skip
    """Run backward from the roots; with `inputs`, only along paths to them, capturing or accumulating there."""
    if not silent and is_logged():
        end = log_nodes(roots)
        try:
            return _run(roots, grads, keep_graph, create_graph, inputs, accumulates)
        finally:
            end()
    return _run(roots, grads, keep_graph, create_graph, inputs, accumulates, silent)


def is_logged() -> bool:
    """Whether backward passes are logged: never before the program has imported `logging`."""
    logging = sys.modules.get("logging")
    return logging is not None and logging.getLogger("torch.autograd.graph").isEnabledFor(logging.DEBUG)


log_nodes = late_function(__name__, "undertow._src.engine.pass_log", "log_nodes")


def _run(
    roots: Sequence[Edge], grads: Sequence[Any], keep_graph: bool, create_graph: bool, inputs: Sequence[Edge] | None,
    accumulates: bool, silent: bool = False,
) -> list[Any]:  # fmt: skip
    if slow_path.duals is None or silent:
        return _begin(roots, grads, keep_graph, create_graph, inputs, accumulates, silent)
    with slow_path.duals.without_hidden():
        return _begin(roots, grads, keep_graph, create_graph, inputs, accumulates, silent)


def _begin(
    roots: Sequence[Edge], grads: Sequence[Any], keep_graph: bool, create_graph: bool, inputs: Sequence[Edge] | None,
    accumulates: bool, silent: bool,
) -> list[Any]:  # fmt: skip
    task = BackwardPass(keep_graph, create_graph)
    task.silent, task.accumulates = silent, accumulates
    task.roots = roots
    if slow_path.dispatcher is not None and slow_path.dispatcher.watches(grads):
        task.xp = tensor_namespace()  # dispatch modes are shown tensors
        grads = [task.tensor(g) for g in grads]
    elif create_graph or len(grads) != 1 or type(grads[0]) is not ndarray:
        task.is_batched = any(map(is_batched, grads))
        if task.is_batched or not create_graph:
            task.xp = namespace_of([task.value(g) for g in grads])
    waiting, parents = count_dependencies(roots, inputs is not None)
    task.reached = waiting.keys()
    if inputs is not None:
        aim_at(task, roots, inputs, parents, accumulates)
    if local.modes.backward_depth < MAX_DEPTH:
        run_pass(task, roots, grads, waiting)
    else:
        _run_in_a_thread(task, roots, grads, waiting)
    return task.captured


MAX_DEPTH = 16  # nesting of backward passes on one thread's stack


def run_pass(task: BackwardPass, roots: Sequence[Edge], grads: Sequence[Any], waiting: dict[Node, int]) -> None:
    """Run a prepared pass under its modes; then call the callbacks queued in it."""
    modes = local.modes
    before, outer = modes.grad_enabled, modes.backward_pass
    packing, modes.saved_hooks = (
        modes.saved_hooks,
        modes.saved_hooks.copy(),
    )  # so that what is entered or left stays inside
    modes.grad_enabled, modes.backward_pass = task.recorded, task
    modes.backward_depth += 1
    try:
        quietly(traverse, task, roots, grads, waiting)
        for callback in task.callbacks:
            hooks.fire(callback)
    except ValueError as error:
        _refuse_shapes(error)
        raise
    finally:
        modes.grad_enabled, modes.backward_pass, modes.saved_hooks = before, outer, packing
        modes.backward_depth -= 1


def _refuse_shapes(error: ValueError) -> None:
    """Raise PyTorch's error for shapes that do not broadcast, for example after a leaf's data was replaced."""
    found = re.match(r"operands could not be broadcast together with shapes \(([\d,]*)\) \(([\d,]*)\)", str(error))
    if found is not None:
        one, two = (tuple([int(size) for size in shape.split(",") if size]) for shape in found.groups())
        broadcast_two(one, two)


def _run_in_a_thread(task: BackwardPass, roots: Sequence[Edge], grads: Sequence[Any], waiting: dict[Node, int]) -> None:
    """Run a deeply nested pass on a fresh stack, so that nesting never hits Python's recursion limit."""
    modes, failed = local.modes, []

    def run_here() -> None:
        local.modes = modes  # the thread that started this one waits, so its modes are free to use
        depth, modes.backward_depth = modes.backward_depth, 0
        try:
            run_pass(task, roots, grads, waiting)
        except BaseException as error:
            failed.append(error)
        finally:
            modes.backward_depth = depth

    thread = threading.Thread(target=run_here, name="undertow backward")
    thread.start()
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt as error:  # raised once the modes are no longer in use
            failed.append(error)
    if failed:
        raise failed[-1]


def traverse(task: BackwardPass, roots: Sequence[Edge], grads: Sequence[Any], waiting: dict[Node, int]) -> None:
    """Run the main loop: take the latest ready node, run it, deliver its results."""
    xp, freed, executed = task.xp, task.freed, task.executed
    arrived: dict[Node, Any] = {}
    ready: list[tuple[int, Node]] = []
    for (node, nr), g in zip(roots, grads, strict=True):
        deliver(arrived, node, nr, g)
    for node in list(arrived):
        # A lone root is always visited, and its tensor's hooks fire, even if it leads to no requested input.
        if not waiting[node] and (executed is None or node in executed or len(roots) == 1):
            heappush(ready, (-node._order, node))
    plain, captures = not slow_path.count, task.captures
    modes, recorded, listeners = local.modes, task.recorded, slow_path.listeners
    unusual = {type(None)} if xp.RECORDED else NOT_ARRAYS
    only: Node | None = None  # the only ready node, which is not in the heap
    while ready or only is not None:
        if only is None:
            node = heappop(ready)[1]
        else:
            node, only = only, None
        g = arrived.pop(node)
        array = shown = None
        if (
            plain
            and node._tensor_hooks is None
            and node._extras is None
            and type(g) not in unusual
            and (executed is None or (node in executed and node not in captures))
        ):
            if type(node) is AccumulateGrad:
                meta = node.variable._meta
                if meta.hooks:
                    g = backward_hooks.fire_tensor_hooks(task, node, g)
                accumulate(task, node, g)
                if meta.hooks or meta.post_hooks:
                    modes.grad_enabled = recorded
                continue
            # A node with a single edge is only executed for that edge.
            needs = None if executed is None or len(node._edges) == 1 else needs_of(node, executed)
            results = node._run(xp, g, needs)
            if listeners:
                listeners[-1](node, g, results)
            if node._extras is not None:
                results = backward_hooks.fire_late_hooks(task, node, results)
        elif plain and executed is None and g is not None:
            g = backward_hooks.fire_tensor_hooks(task, node, g)
            if node._extras is None and node._n_outputs == 1 and node._edges:  # checked now: hooks may add hooks
                array = task.value(g)
                results = node._run(xp if type(array) not in unusual else tensor_namespace(), array, None)
                if listeners:
                    listeners[-1](node, array, results)
                if node._extras is not None:
                    results = backward_hooks.fire_late_hooks(task, node, results)
                shown = g if type(g) in unusual else array
            else:
                results = run_node(task, node, g)
            modes.grad_enabled = recorded  # a hook may have switched it
        elif (
            plain
            and type(node) is AccumulateGrad
            and node in captures
            and node._extras is None
            and not node.variable._meta.hooks
        ):
            _capture(task, node, captures[node], g)
            continue
        else:
            around = run_watched(task, node, g) if slow_path.anomaly else run_with_hooks(task, node, g)
            modes.grad_enabled = recorded
            if around is None:
                continue
            results, around = around, None
        if freed is not None:
            node._release(freed)
        for edge, g in zip(node._edges, results):
            if edge is None:
                continue
            if g is array:
                g = shown
            target = edge[0]
            if executed is not None and target not in executed:
                continue
            if target._n_outputs == 1:
                earlier = arrived.get(target)
                if earlier is None:
                    arrived[target] = g
                elif g is not None:
                    arrived[target] = earlier + g if type(earlier) is type(g) else _sum(earlier, g)
            else:
                deliver(arrived, target, edge[1], g)
            left = waiting.get(target, 1) - 1
            if left:
                waiting[target] = left
            elif only is None and not ready:
                only = target
            else:
                if only is not None:
                    heappush(ready, (-only._order, only))
                    only = None
                heappush(ready, (-target._order, target))
        results = ()  # so that the accumulator does not count a reference from here


def run_with_hooks(task: BackwardPass, node: Node, g: object, more_references: int = 0) -> tuple[Any, ...] | None:
    """Run one node with all its hooks and captures; return None if the pass ends here.

    `more_references`, here and in `run_node`: how many callers beyond the first refer to `g`.
    """
    executed, incoming = task.executed, g
    if slow_path.count and type(node) is AccumulateGrad and g is not None:
        g = cast_to_leaf(node.variable, g)
    if executed is None:
        g = backward_hooks.fire_tensor_hooks(task, node, g, more_references + 2)
    else:
        captures = task.captures.get(node, ())
        last = bool(captures) and not _leads_to_inputs(task, node)
        if not last:
            g = _capture(task, node, captures, g)
        g = backward_hooks.fire_tensor_hooks(task, node, g, more_references + 2)
        if last:  # hooks change what is captured only where the pass ends
            _capture(task, node, captures, g)
            return None
        if node not in executed:
            return None
    return run_node(task, node, g, more_references + 2 if g is incoming else 0)


def run_node(task: BackwardPass, node: Node, g: Any, more_references: int = 0) -> tuple[Any, ...]:
    """Run a node between its own hooks."""
    executed, extras, incoming = task.executed, node._extras, g
    if extras is not None and extras.pre_hooks:
        g = backward_hooks.fire_pre_hooks(task, node, g)
    hooked = extras is not None and bool(extras.post_hooks)
    single = node._n_outputs == 1
    if type(node) is AccumulateGrad:
        accumulate(task, node, g, more_references + 2 if g is incoming else 0)
        results: tuple[Any, ...] = ()
    elif node._takes(values := task.value(g) if single else [task.value(part) for part in g]):
        needs = None if executed is None else needs_of(node, executed)
        if slow_path.count:
            results = _run_where_it_lies(task, node, values, needs)
        else:
            results = node._run(namespace_for(task, values), values, needs)
        if slow_path.listeners:
            slow_path.listeners[-1](node, values, results)
        if single:
            results = tuple([g if result is values else result for result in results])
    else:
        node._passed_by()
        results = (None,) * len(node._edges)
    extras = node._extras
    if extras is not None and not task.silent:
        for function in extras.before_post_hooks:
            function()
        if extras.post_hooks:
            if node._edges == (None,):
                results = (None,)
            results = backward_hooks.fire_post_hooks(task, node, results, g, late=not hooked)
        for function in extras.after_post_hooks:
            function()
    return tuple([task.as_carried(result) for result in results])


def needs_of(node: Node, executed: set[Node]) -> tuple[bool, ...] | None:
    """Return which of a node's gradients lead to requested inputs; None if all of them do."""
    for edge in node._edges:
        if edge is not None and edge[0] not in executed:
            return tuple([edge is not None and edge[0] in executed for edge in node._edges])
    return None


def namespace_for(task: BackwardPass, values: object) -> Namespace:
    """Return the array functions that a node computes with: a sparse gradient has only tensors' functions."""
    if task.xp.RECORDED or not any(
        isinstance(part, TensorCore) for part in (values if type(values) is list else [values])
    ):
        return task.xp
    return tensor_namespace()


def _run_where_it_lies(task: BackwardPass, node: Node, values: Any, needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
    """Run a node on the device of its incoming gradients: a graph may cross devices."""
    given = [values] if node._n_outputs == 1 else values
    if task.xp.RECORDED:  # constants of a formula are tensors, on the same device
        with Home(accelerator_among([part.raw if is_batched(part) else part for part in given])):
            return node._run(task.xp, values, needs)
    if not task.is_batched and any(isinstance(part, TensorCore) for part in given):
        return node._run(tensor_namespace(), values, needs)
    if tracer.current is not None or task.is_batched:  # a program runs on one device
        return node._run(task.xp, values, needs)
    xp = namespace_of(given)
    if type(xp) is DeviceNamespace and isinstance(node, RuleNode) and not isinstance(node, MultiOutputNode):
        return RuleNode._run(node, xp, values, needs)  # all of its gradients in one program
    return node._run(xp, values, needs)


def run_watched(task: BackwardPass, node: Node, g: Any) -> tuple[Any, ...] | None:
    """Run `run_with_hooks` in anomaly mode: an error at a node, or in its hooks, reports the node's origin."""
    before, task.running = task.running, node
    try:
        stepper = slow_path.stepper
        results = run_with_hooks(task, node, g, 1) if stepper is None else stepper(task, node, g)
        if results is not None and slow_path.anomaly_check_nan:
            anomaly.check_nan(node, results)
        return results
    except Exception as error:
        anomaly.explain(error, node)
        raise
    finally:
        task.running = before


def _capture(task: BackwardPass, node: Node, captures: Sequence[tuple[int, int]], g: Any) -> Any:
    """Capture the requested gradient at a node; from then on it counts as a tensor that has been seen."""
    single = node._n_outputs == 1
    seen: Callable[[Any], Any] = task.as_carried if task.is_batched else task.tensor  # rows are no tensor to users
    for nr, place in captures:
        if single:
            g = task.captured[place] = seen(g)
        else:
            g[nr] = task.captured[place] = seen(g[nr])
    return g


def _leads_to_inputs(task: BackwardPass, node: Node) -> bool:
    """Whether a captured node leads to further requested inputs."""
    assert task.executed is not None
    return any(edge is not None and edge[0] in task.executed for edge in node._edges)


def deliver(arrived: dict[Node, Any], node: Node, nr: int, g: Any) -> None:
    """Add a gradient to what has arrived at one output of a node."""
    if node._n_outputs == 1:
        arrived[node] = _sum(arrived.get(node), g)
        return
    parts = arrived.get(node)
    if parts is None:
        parts = arrived[node] = [None] * node._n_outputs
    parts[nr] = _sum(parts[nr], g)


def _sum(earlier: Any, g: Any) -> Any:
    """Add two gradients that arrived at one output; either may be undefined, or a tensor where the other is raw."""
    if earlier is None or g is None:
        return g if earlier is None else earlier
    if isinstance(earlier, TensorCore) != isinstance(g, TensorCore):
        tensor, raw = (earlier, g) if isinstance(earlier, TensorCore) else (g, earlier)
        if is_batched(raw):
            return raw + tensor
        if stays_tensor(tensor):
            earlier, g = (each if each is tensor else wrap(each) for each in (earlier, g))
        else:
            earlier, g = (each._array if each is tensor else each for each in (earlier, g))
    return added(earlier, g)


def count_dependencies(roots: Sequence[Edge], want_parents: bool) -> tuple[dict[Node, int], dict[Node, list[Node]]]:
    """Return how many gradients each reachable node waits for, and optionally which nodes send them."""
    waiting = dict.fromkeys([root for root, _ in roots], 0)
    parents: dict[Node, list[Node]] = {}
    stack = list(waiting)
    while stack:
        node = stack.pop()
        for edge in node._edges:
            if edge is not None:
                child = edge[0]
                if child in waiting:
                    waiting[child] += 1
                    if want_parents:
                        parents.setdefault(child, []).append(node)
                else:
                    waiting[child] = 1
                    stack.append(child)
                    if want_parents:
                        parents[child] = [node]
    return waiting, parents


def aim_at(
    task: BackwardPass, roots: Sequence[Edge], inputs: Sequence[Edge], parents: dict[Node, list[Node]],
    accumulates: bool,
) -> None:  # fmt: skip
    """Restrict the pass to nodes that lead to a requested input, or may do so."""
    executed: set[Node] = set()
    stack = [node for node, _ in inputs]
    stack += [node for node in (*parents, *[root for root, _ in roots]) if node._hides_inputs]
    while stack:
        node = stack.pop()
        if node not in executed:
            executed.add(node)
            stack.extend(parents.get(node, ()))
    task.executed = executed
    if tracer.current is not None:
        tracer.current.note_targets([*parents, *[root for root, _ in roots]], [node for node, _ in inputs])
    if not accumulates:
        task.captured = [None] * len(inputs)
        for place, (node, nr) in enumerate(inputs):
            task.captures.setdefault(node, []).append((nr, place))


def call_node(node: Node, grads: tuple[Any, ...]) -> Any:
    """Run one node by hand, `grad_fn(grad)`, without hooks."""
    if len(grads) != node._n_outputs:
        raise TypeError(f"expected {node._n_outputs} arguments, got {len(grads)} instead")
    for place, grad in enumerate(grads):
        if grad is not None and not isinstance(grad, TensorCore):
            raise TypeError(f"argument {place} is not a Variable")
    task = BackwardPass(keep_graph=True, create_graph=local.modes.grad_enabled)
    values = [task.value(grad) for grad in grads]
    g = values[0] if node._n_outputs == 1 else values
    if type(node) is AccumulateGrad:
        accumulate(task, node, g if g is None or task.xp.RECORDED else g.copy())
        return ()
    results = quietly(node._run, task.xp, g, None) if node._takes(g) else (None,) * len(node._edges)
    shown = tuple([task.tensor(value) for value in results])
    return shown[0] if len(shown) == 1 else shown


bind_node_caller(call_node)


def queue_callback(callback: Callable[[], None]) -> None:
    """Call a function when the current backward pass has finished."""
    task = local.modes.backward_pass
    if task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    task.callbacks.append(callback)
