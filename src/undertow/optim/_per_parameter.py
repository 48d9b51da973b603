"""The base of optimizers that are a rule for one parameter: the loop over parameters and their state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from undertow._src.arrays.device.memory import Buffer
from undertow._src.arrays.quiet import quietly
from undertow._src.base import tracer
from undertow._src.base.modes import enable_grad, set_grad_enabled
from undertow._src.engine.apply import place_operands
from undertow._src.engine.outputs import bump
from undertow._src.engine.writes import guards
from undertow._src.tensor.core import TensorCore
from undertow.optim._arithmetic import Blocks, Recorded, Rule, blocks_for, on_tensors
from undertow.optim._checks import fused as check_fused
from undertow.optim._helpers import CAPTURABLE, CAPTURABLE_FOREACH, _device_dtype_check_for_fused
from undertow.optim._on_device import OnDevice
from undertow.optim._state import State, count_from, has_own_dispatch, next_count, zeros_for
from undertow.optim.optimizer import Optimizer, ParamsT

Group = dict[str, Any]
Steps = Blocks | Recorded


class PerParameter(Optimizer):
    """Subclasses define the buffers of a parameter and what one step does with them.

    _buffers(group)              names of the state tensors that a rule is given, in order
    _begin(group, param, state)  fills the state of a parameter that is seen for the first time
    _advance(group, state)       counts the step; returns its age: what, besides the group, a rule's numbers depend on
    _rule(x, group, age)         the rule: (param, grad, *buffers) -> the new param and buffers, in steps of x
    """

    _foreach_differentiable = False  # SGD alone takes both options

    # Options added after an optimizer's first release, with the defaults for groups that lack them.
    _later_options: dict[str, Any] = {}
    # The devices that can capture a step, single-tensor and foreach.
    _capturable_devices: tuple[tuple[str, ...], tuple[str, ...]] = (CAPTURABLE, CAPTURABLE_FOREACH)

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        check_fused(defaults)

    def _buffers(self, group: Group) -> tuple[str, ...]:
        raise NotImplementedError

    def _begin(self, group: Group, param: Any, state: State) -> None:
        state["step"] = count_from(0.0)
        for name in self._buffers(group):
            state[name] = zeros_for(param)

    def _begins_with_zeros(self, group: Group) -> bool:
        """Whether a first step with the state that `_begin` makes, at any time before it, is an ordinary step."""
        return type(self)._begin is PerParameter._begin

    def _advance(self, group: Group, state: State) -> Any:
        return next_count(state)

    def _prepare(self, group: Group, param: Any) -> tuple[Any, Any]:
        """Return the age of this step of a parameter, and the buffers for its rule."""
        state = self.state[param]
        if not state:
            self._begin(group, param, state)
        return self._advance(group, state), [state[name] for name in self._buffers(group)]

    def _rule(self, x: Steps, group: Group, age: Any) -> Rule:
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._later_options.items():
                group.setdefault(name, value)
            for param in group["params"]:
                self._revive(self.state.get(param) or {})

    def _revive(self, state: State) -> None:
        """Convert step counts, which are plain numbers in old checkpoints."""
        if "step" in state and not isinstance(state["step"], TensorCore):
            state["step"] = count_from(float(state["step"]))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient; `closure`, if given, recomputes the loss first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        quietly(self._step_groups)
        return loss

    def _step_groups(self) -> None:
        for group in self.param_groups:
            on_device = OnDevice(partial(self._rule, group=group))
            try:
                self._step_group(group, on_device)
            finally:
                on_device.run()

    def _step_group(self, group: Group, on_device: OnDevice) -> None:
        special, differentiable = group.get("capturable") or group.get("fused"), group.get("differentiable")
        dtype: Any = None  # these six belong to the previous parameter, and mostly fit the next one too
        kind: Any = None
        x: Blocks | None = None
        rule: Rule | None = None
        age: Any = None
        steps: Any = None
        for param in group["params"]:
            meta = param._meta
            if meta is None or meta.grad is None:
                continue
            if not meta.grad._is_strided:
                self._step_sparse(group, param, meta.grad)
                continue
            if special:
                self._check(group, param)
            if Buffer.any_made:
                state = self.state.get(param, {})  # its step count may stay on the host
                place_operands((param, meta.grad, *[state[name] for name in state if name != "step"]))
            array, before = param._array, age
            age, buffers = self._prepare(group, param)
            if has_own_dispatch(param, meta.grad):  # it need not have memory: each operation is dispatched to it
                dtype, kind, x, rule = None, None, None, None
            elif array.dtype is not dtype or type(array) is not kind:
                dtype, kind, x, rule = array.dtype, type(array), blocks_for(array), None
            if differentiable and group.get("foreach") and not self._foreach_differentiable:
                raise AssertionError("_foreach ops don't support autograd. Leave out foreach, or differentiable.")
            if x is None and not differentiable and on_device.put_off(age, [param, meta.grad, *buffers]):
                rule = None
                continue
            if x is None or differentiable:
                steps, last = on_tensors(param, meta.grad, bool(differentiable)), steps
                same_age = age is before or (tracer.current is not None and type(age) is float and age == before)
                if rule is None or steps is not last or not same_age:
                    rule = self._rule(steps, group, age)
                with set_grad_enabled(bool(self.defaults.get("differentiable"))):
                    steps.run(rule, [param, meta.grad, *buffers])
                continue
            if rule is None or age != before:
                rule = self._rule(x, group, age)
            for guard in guards:
                guard.before_write(param)
            x.run(rule, [array, meta.grad._array, *[buffer._array for buffer in buffers]])
            bump(param)

    def _step_sparse(self, group: Group, param: Any, grad: Any) -> None:
        """Make the step of a parameter with a sparse gradient, which most optimizers refuse."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def _check(self, group: Group, param: Any) -> None:
        if group.get("fused"):
            _device_dtype_check_for_fused(param)
        if group.get("capturable") and param.device.type not in CAPTURABLE:
            devices = self._capturable_devices[bool(group.get("foreach"))]
            raise AssertionError(
                f"If capturable=True, {self._captured(group)} must be on supported devices: {list(devices)}."
            )

    def _captured(self, group: Group) -> str:
        return "params and state_steps"
