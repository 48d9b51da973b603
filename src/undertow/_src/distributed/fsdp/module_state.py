"""The work of `fully_shard` around a module's forward and backward."""

from __future__ import annotations

from typing import Any

from undertow._src.base.modes import is_grad_enabled
from undertow._src.base.modes import local as thread
from undertow._src.base.tree import leaves, map_leaves
from undertow._src.distributed.fsdp.param_group import ParamGroup
from undertow._src.distributed.fsdp.policies import MixedPrecisionPolicy
from undertow._src.distributed.module_tree import Tree
from undertow._src.engine.engine import queue_callback
from undertow._src.tensor.core import TensorCore
from undertow.autograd.function import Function
from undertow.nn.modules.module import Module


class RegisterPostBackwardFunction(Function):
    """The identity on a module's inputs. Its backward runs after that of the module."""

    @staticmethod
    def forward(ctx: Any, state: Any, *inputs: Any) -> Any:
        ctx.state = state
        return inputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.state.post_backward()
        return None, *grads


class ModuleState:
    """The state of one call of `fully_shard`. The one whose forward runs outermost is the root."""

    def __init__(
        self, modules: tuple[Module, ...], group: ParamGroup, policy: MixedPrecisionPolicy, reshards: bool | int | None
    ) -> None:
        self.modules, self.group, self.policy = modules, group, policy
        self.reshards_after_forward = reshards
        self.tree = Tree(self)
        self.is_last_backward = True
        self.waiting: set[Module] = set()  # modules whose forward has begun, where several share one state
        self._callback_queued = False

    def begin(self) -> None:
        """Find, in the first forward, the states inside this one."""
        if self.tree.is_known:
            return
        found: dict[int, ModuleState] = {id(self): self}
        for module in self.modules:
            for part in module.modules():
                state = getattr(part, "_fsdp_state", None)
                if state is not None:
                    found.setdefault(id(state), state)
        for state in found.values():
            state.tree.root = self
            state.tree.is_known = True
        self.tree.states = list(found.values())

    def keeps_after_forward(self) -> bool:
        """Whether parameters stay gathered between forward and backward."""
        return self.tree.root is self if self.reshards_after_forward is None else not self.reshards_after_forward

    def pre_forward(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Gather the parameters, before the module's forward."""
        self.begin()
        if thread.modes.backward_pass is None:
            self.tree.root._callback_queued = (
                False  # otherwise it is still set after a backward pass that raised an error
            )
        if self.policy.cast_forward_inputs and self.policy.param_dtype is not None:
            args, kwargs = map_leaves(lambda value: _cast(value, self.policy.param_dtype), (args, kwargs))
        if len(self.modules) > 1:
            self.waiting = self.waiting or set(self.modules)
        self.group.unshard()
        return self._followed(args, kwargs)

    def _followed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the inputs as outputs of a function whose backward calls `post_backward`."""
        if not is_grad_enabled() or not self.group.params:
            return args, kwargs
        inputs = [value for value in leaves((args, kwargs)) if isinstance(value, TensorCore) and value.requires_grad]
        if not inputs:
            return args, kwargs
        passed = iter(RegisterPostBackwardFunction.apply(self, *inputs))
        return map_leaves(
            lambda value: next(passed) if isinstance(value, TensorCore) and value.requires_grad else value,
            (args, kwargs),
        )

    def post_forward(self, module: Module, args: tuple[Any, ...], output: Any) -> Any:
        """Split the parameters again, and prepare for backward."""
        if self.waiting:
            self.waiting.discard(module)
        if not self.waiting and not self.keeps_after_forward():
            self.group.reshard()
        if is_grad_enabled():
            for value in leaves(_parts(output)):
                if isinstance(value, TensorCore) and value.requires_grad:
                    value.register_hook(self.pre_backward)
        if self.policy.output_dtype is not None:
            output = map_leaves(lambda value: _cast(value, self.policy.output_dtype), output)
        return output

    def pre_backward(self, gradient: Any) -> Any:
        """Gather the parameters, before the module's backward."""
        root = self.tree.root
        if not root._callback_queued:
            root._callback_queued = True
            queue_callback(root.end_backward)
        self.group.waits = True
        self.group.unshard()
        return gradient

    def post_backward(self) -> None:
        """Reduce the gradients, after the module's backward."""
        self.group.post_backward()

    def end_backward(self) -> None:
        """Call `post_backward` at the end of the backward pass for modules whose inputs got no gradient."""
        self._callback_queued = False
        for state in self.tree.states:
            if state.group.waits:
                state.group.post_backward()


def _cast(value: Any, dtype: Any) -> Any:
    return value.to(dtype) if isinstance(value, TensorCore) and value.is_floating_point() else value


def _parts(output: Any) -> Any:
    """Return the fields of a dataclass as a list, and any other output unchanged."""
    if hasattr(output, "__dataclass_fields__") and not isinstance(output, dict):
        return [getattr(output, name) for name in output.__dataclass_fields__]
    return output
