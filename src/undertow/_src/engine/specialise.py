"""Straight-line code for running a rule, forward and backward, generated once per rule when it is first used.

The general code handles every case by lookups in the rule; in the usual case the lookups cost more than the arithmetic,
so they are done here, ahead of time. The generated code is a shortcut, never a second behaviour.

The usual backward case: nothing is done to the gradients afterwards, except that they are summed to the shapes of their
inputs. In a recorded pass, the saved values are tensors. For `mul`, `specialised_run` generates

    def run(node, xp, g, needs):
        after = node.post_grad
        recorded = xp.RECORDED
        if (after and (after != MATCH_INPUT or slow_path.count)) or (recorded and slow_path.dispatcher is not None):
            return general(node, xp, g, needs)
        saved = node.saved
        if saved.__class__ is Freed:
            raise freed(node)
        v_other, v_self = saved
        e_self, e_other = node._edges if needs is None else needed(node._edges, needs)
        if recorded:
            if v_other is not None:
                v_other = opened(v_other, node)
            if v_self is not None:
                v_self = opened(v_self, node)
            modes = local.modes
            modes.in_formula = True
            try:
                results = (d_self(g, v_other) if e_self is not None else None,
                           d_other(g, v_self) if e_other is not None else None)
                if after:
                    results = fitted(xp, results, node.specs)
            finally:
                modes.in_formula = False
            return results
        if isinstance(v_other, SavedValue):
            v_other = v_other.raw(node)
        if isinstance(v_self, SavedValue):
            v_self = v_self.raw(node)
        results = (d_self(g, v_other) if e_self is not None else None,
                   d_other(g, v_self) if e_other is not None else None)
        if after:
            results = fitted(xp, results, node.specs)
        return results

The usual forward case: plain tensors (or None) of one float dtype, no rare mode on. For `sum`, `specialised_apply`
generates

    def run(self, *, dim, keepdim):
        if self.__class__ in PLAIN and not slow_path.count:
            a_self = self._array
            dtype_ = a_self.dtype
            if a_self.__class__ is ndarray and dtype_ in FAST_DTYPES:
                try:
                    computed_ = silently(forward, xp, a_self, dim=dim, keepdim=keepdim)
                except (ValueError, TypeError, RuntimeError, MemoryError):
                    return general(rule, (self,), {'dim': dim, 'keepdim': keepdim})
                if computed_.__class__ is ndarray:
                    result_ = new(Tensor)
                    result_._array = computed_
                    result_._edge = result_._storage = result_._view = result_._meta = None
                    result_._requires_grad = False
                else:
                    result_ = wrap(computed_)
                modes_ = local.modes
                if modes_.grad_enabled:
                    if self._view is not None:
                        refresh_view(self)
                    r_self = self._requires_grad
                    if r_self:
                        post_grad_ = 0
                        node_ = (rule.node_class or node_class(rule))(
                            ((self._edge or edge_of(self)) if r_self else None,), next(modes_.sequence), (),
                            (dim, keepdim,), (Spec(a_self.shape, a_self.dtype),), post_grad_)
                        result_._edge = (node_, 0)
                        result_._requires_grad = True
                return result_
        return general(rule, (self,), {'dim': dim, 'keepdim': keepdim})
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow._src.base.modes import local, slow_path
from undertow._src.engine.saved import Freed, SavedValue
from undertow._src.engine.shown_names import ONE_KERNEL
from undertow._src.rules.rule import Gradient, Rule
from undertow._src.tensor.core import TensorCore

# Rules that are one call of NumPy.
ONE_CALL = {"mm": "silently(a_self.dot, a_mat2)", "t": "a_self.T"}

_HERE = __file__.removesuffix(".py") + ", written out"  # inside undertow, so that it is no user's line


def can_specialise(rule: Rule) -> bool:
    """Whether a rule has one output and one gradient per input; joint rules do enough work of their own."""
    return rule.joint is None and rule.pushed is None and not rule.variadic and rule.outputs == 1


def specialised_run(rule: Rule, general: Callable[..., Any], scope: dict[str, Any]) -> Callable[..., Any]:
    """Return the `run` method for a rule's node class. `scope` holds the names that the generated code uses."""
    scope = {**scope, "general": general, "Freed": Freed, "SavedValue": SavedValue, "TensorCore": TensorCore}
    scope |= {"local": local, "slow_path": slow_path}
    as_ops = bool(rule.recorded)
    records = not rule.hidden and (as_ops or not rule.stepwise)
    one_kernel = rule.node_name in ONE_KERNEL and not as_ops
    rare = "slow_path.dispatcher is not None" + (" or not isinstance(g, TensorCore)" if as_ops else "")
    recorded = f"(recorded and ({rare}))" if records else "recorded"
    lines = [
        "def run(node, xp, g, needs):",
        "    after = node.post_grad",
        "    recorded = xp.RECORDED",
        f"    if (after and (after != MATCH_INPUT or slow_path.count)) or {recorded}:",
        "        return general(node, xp, g, needs)",
    ]
    if rule.saves:
        lines += [
            "    saved = node.saved",
            "    if saved.__class__ is Freed:",
            "        raise freed(node)",
            f"    {_targets('v_', rule.saves)} = saved",
        ]
    if rule.uses_specs:
        lines += [f"    {_targets('v_', [given + '_spec' for given in rule.inputs])} = node.specs"]
    if rule.statics:
        lines += [f"    {_targets('v_', rule.statics)} = node.statics"]
    differentiated = rule.inputs[: rule.slots]
    if len(differentiated) == 1:
        lines += ["    if needs is not None and not needs[0]:", "        return (None,)"]
    else:
        edges = "node._edges if needs is None else needed(node._edges, needs)"
        lines += [f"    {_targets('e_', differentiated)} = {edges}"]
    if records:
        lines += ["    if recorded:"]
        for name in rule.saves:
            lines += [f"        if v_{name} is not None:", f"            v_{name} = opened(v_{name}, node)"]
        lines += [
            "        modes = local.modes",
            *(["        begun = next(modes.sequence)"] if one_kernel else []),
            "        modes.in_formula = True",
            "        try:",
            *["            " + line for line in _formulas(rule, rule.recorded or rule.gradients, "r_", scope)],
            "        finally:",
            "            modes.in_formula = False",
            *(["        renamed(results, begun, node.rule)"] if one_kernel else []),
            "        return results",
        ]
    for name in rule.saves:
        lines += [f"    if isinstance(v_{name}, SavedValue):", f"        v_{name} = v_{name}.raw(node)"]
    lines += ["    " + line for line in _formulas(rule, rule.gradients, "d_", scope)]
    lines += ["    return results"]
    return _execute(rule, "back", lines, scope)


def _formulas(rule: Rule, gradients: Sequence[Gradient | None], prefix: str, scope: dict[str, Any]) -> list[str]:
    """Return the lines that compute the gradients."""
    results = []
    for given, gradient in zip(rule.inputs[: rule.slots], gradients):
        if gradient is None:
            results.append("None")
            continue
        scope[prefix + given] = gradient.formula
        arguments = ", ".join(name if name in ("xp", "g", "needs") else f"v_{name}" for name in gradient.names)
        wanted = "" if rule.slots == 1 else f" if e_{given} is not None else None"
        results.append(f"{prefix}{given}({arguments}){wanted}")
    return [f"results = ({', '.join(results)},)", "if after:", "    results = fitted(xp, results, node.specs)"]


class _Source:
    """Lets tracebacks and debuggers find the lines of generated code."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_source(self, name: str) -> str:
        return self.text


def _execute(rule: Rule, way: str, lines: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """Execute the generated code of a rule, forward or backward, which defines `run`."""
    text = "\n".join(lines)
    scope |= {"__name__": f"{__name__} of {rule.name}", "__loader__": _Source(text)}
    exec(compile(text, f"{_HERE}: {rule.name}, {way}", "exec"), scope)
    return scope["run"]


def _targets(prefix: str, names: Sequence[str]) -> str:
    return ", ".join(prefix + name for name in names) + ","


def specialised_apply(rule: Rule, general: Callable[..., Any], scope: dict[str, Any]) -> Callable[..., Any]:
    """Return `apply` for one rule. `scope` holds the names that the generated code uses.

    Its own names end in an underscore, apart from those of inputs and statics.
    """
    scope = {**scope, "rule": rule, "forward": rule.forward, "general": general}
    inputs = rule.inputs
    first = next(name for name in inputs if name != rule.mask)
    rest = [name for name in inputs if name != first]
    statics = "{" + ", ".join(f"{name!r}: {name}" for name in rule.statics) + "}"
    generally = f"return general(rule, ({', '.join(inputs)},), {statics})"
    plain = " and ".join(
        [
            f"{first}.__class__ in PLAIN",
            *[f"({name}.__class__ in PLAIN or {name} is None)" for name in rest],
            "not slow_path.count",
        ]
    )
    usual = f"a_{first}.__class__ is ndarray"
    if rule.promote is not None:
        usual += " and dtype_ in FAST_DTYPES"
        usual += "".join(f" and (a_{name} is None or a_{name}.dtype is dtype_)" for name in rest if name != rule.mask)
    single = rule.outputs == 1 and not rule.hidden
    body = [*_computing(rule, generally), *_laying_out(rule, first, rest)]
    if single:
        body += [
            "if computed_.__class__ is ndarray:",
            "    result_ = new(Tensor)",
            "    result_._array = computed_",
            "    result_._edge = result_._storage = result_._view = result_._meta = None",
            "    result_._requires_grad = False",
            "else:",
            "    result_ = wrap(computed_)",
        ]
    else:
        body += [
            "results_ = [wrap(each) for each in computed_]",
            f"shown_ = results_[:{-len(rule.hidden)}]" if rule.hidden else "shown_ = results_",
            "result_ = results_[0]",
        ]
    recording = _recording(rule, single)
    if recording or rule.view:
        body += ["modes_ = local.modes"]
    if recording:
        body += ["if modes_.grad_enabled:", *["    " + line for line in recording]]
    if rule.view and single:
        body += [
            f"storage_ = {first}._storage or {first}._get_storage()",
            f"if {first}._view is None and modes_.grad_enabled and storage_.__class__ is Storage:",
            "    result_._storage = storage_",
            "    view_ = result_._view = new(View)",
            f"    view_.base = {first}",
            f"    view_.steps = ((rule, {statics}, Spec(a_{first}.shape, dtype_), 0),)",
            f"    view_.whole = a_{first}",
            "    view_.version = storage_.version",
            "    view_.borrows = False",
            "    view_.origin = None",
            "else:",
            f"    link_view(rule, {first}, (result_,), {statics})",
        ]
    elif rule.view:
        body += [f"link_view(rule, {first}, tuple(shown_), {statics})"]
    lines = [
        f"def run({', '.join([*inputs, *(['*'] if rule.statics else []), *rule.statics])}):",
        f"    if {plain}:",
        f"        a_{first} = {first}._array",
        *[f"        a_{name} = None if {name} is None else {name}._array" for name in rest],
        f"        dtype_ = a_{first}.dtype",
        f"        if {usual}:",
        *["            " + line for line in body],
        f"            return {'result_' if rule.outputs == 1 else 'tuple(shown_)'}",
        f"    {generally}",
    ]
    return _execute(rule, "forward", lines, scope)


def _computing(rule: Rule, generally: str) -> list[str]:
    """Return the lines that run the forward."""
    arguments = ", ".join([f"a_{name}" for name in rule.inputs] + [f"{name}={name}" for name in rule.statics])
    if rule.view:
        return [f"computed_ = {ONE_CALL.get(rule.name) or f'forward(xp, {arguments})'}"]
    # Shapes that do not broadcast, a number given as a tensor, or a second thread computing: left to the general path.
    return [
        "try:",
        f"    computed_ = {ONE_CALL.get(rule.name) or f'silently(forward, xp, {arguments})'}",
        "except (ValueError, TypeError, RuntimeError, MemoryError):",
        f"    {generally}",
    ]


def _laying_out(rule: Rule, first: str, rest: list[str]) -> list[str]:
    """Return the lines that give an elementwise result the layout of its inputs."""
    if rule.outputs != 1 or rule.hidden or rule.rows or rule.promote not in ("numeric", "float"):
        return []
    if not rest:
        return [
            f"if 0 in a_{first}.strides and computed_.ndim > 1:",
            f"    computed_ = ordered(computed_, (a_{first},))",
        ]
    arrays = [f"a_{name}" for name in sorted(rule.inputs, key=lambda name: name != rule.mask or rule.name != "where")]
    in_rows = f"a_{first}.size == computed_.size and " + " and ".join(
        f"({array} is None or {array}.flags.c_contiguous)" for array in arrays
    )
    return [f"if computed_.ndim > 1 and not ({in_rows}):", f"    computed_ = ordered(computed_, ({', '.join(arrays)}))"]


def _recording(rule: Rule, single: bool) -> list[str]:
    """Return the lines that give the results their node."""
    inputs = rule.inputs
    recorded = [
        name for name, gradient in zip(inputs, rule.gradients) if rule.joint is not None or gradient is not None
    ]
    if not recorded:
        return []
    lines = []
    for name in recorded:
        if name == inputs[0]:
            lines += [f"if {name}._view is not None:", f"    refresh_view({name})", f"r_{name} = {name}._requires_grad"]
        else:
            lines += [
                f"if {name} is None:", f"    r_{name} = False", "else:",
                f"    if {name}._view is not None:", f"        refresh_view({name})",
                f"    r_{name} = {name}._requires_grad",
            ]  # fmt: skip
    edges = [
        f"({name}._edge or edge_of({name})) if r_{name} else None" if name in recorded else "None"
        for name in inputs[: rule.slots]
    ]
    arrays = [f"a_{name}" for name in inputs]
    fits = rule.promote in ("numeric", "float") and len(inputs) > 1
    asked = set().union(*[gradient.names for gradient in (rule.joint, *rule.gradients) if gradient is not None])
    specs = ", ".join(
        "None" if not fits and f"{name}_spec" not in asked else
        f"None if {array} is None else Spec({array}.shape, {array}.dtype)" if place else
        f"Spec({array}.shape, {array}.dtype)" for place, (name, array) in enumerate(zip(inputs, arrays))
    )  # fmt: skip
    lines += [f"if {' or '.join([f'r_{name}' for name in recorded])}:"]
    if fits:
        stretched = " or ".join(f"{array} is not None and {array}.shape != {arrays[0]}.shape" for array in arrays[1:])
        lines += [f"    post_grad_ = MATCH_INPUT if {stretched} else 0"]
        specs_made = f"({specs},)" if rule.uses_specs else f"({specs},) if post_grad_ else ()"
    else:
        lines += ["    post_grad_ = 0"]
        specs_made = f"({specs},)" if rule.uses_specs else "()"
    saved = "".join(f"{_saving(rule, name, recorded)}, " for name in rule.saves)
    lines += [
        "    node_ = (rule.node_class or node_class(rule))(",
        f"        ({', '.join(edges)},), next(modes_.sequence), ({saved}), ({''.join(f'{s}, ' for s in rule.statics)}),",
        f"        {specs_made}, post_grad_)",
    ]
    packing = ["    if modes_.saved_hooks:", "        pack_saved(node_)"] if rule.saves else []
    if single:
        if rule.promote is None:
            return [*lines, *["    " + line for line in _claim("result_", 0)], *packing]
        return [*lines, "    result_._edge = (node_, 0)", "    result_._requires_grad = True", *packing]
    several = "shown_" if rule.outputs == 0 else f"results_[:{rule.differentiable}]"
    if rule.outputs != 1:
        lines += [
            f"    node_._n_outputs = len({several})",
            f"    node_.outputs = [Spec(each._array.shape, each._array.dtype) for each in {several}]",
        ]
    lines += [f"    for place, each in enumerate({several}):", *["        " + line for line in _claim("each", "place")]]
    return [*lines, *packing]


def _claim(result: str, place: int | str) -> list[str]:
    return [
        f"if {result}._array.dtype is dtype_ or DTYPE_OF[{result}._array.dtype].is_inexact:",
        f"    {result}._edge = (node_, {place})",
        f"    {result}._requires_grad = True",
    ]


def _saving(rule: Rule, name: str, recorded: list[str]) -> str:
    """Return the expression that saves one value, if the gradient of an input that requires one reads it."""
    if name == "result":
        if rule.outputs == 1:
            value = "SavedOutput(result_)"
        else:
            value = "tuple([SavedOutput(each, nr) for nr, each in enumerate(shown_)])"
    elif name in rule.names and rule.outputs == 1:
        value = "SavedOutput(result_)"
    elif name in rule.names:
        value = f"SavedOutput(results_[{rule.names.index(name)}], {rule.names.index(name)})"
    elif name in rule.hidden:
        place = f"len(shown_) + {rule.hidden.index(name)}"
        value = f"SavedOutput(results_[{place}], {place})"
    else:
        value = f"SavedInput({name})" + ("" if name == rule.inputs[0] else f" if {name} is not None else None")
    if rule.joint is not None:
        return f"({value})"
    wanting = [given for given, needed in zip(rule.inputs, rule.needed) if given in recorded and name in needed]
    return f"(({value}) if {' or '.join(f'r_{given}' for given in wanting)} else None)"
