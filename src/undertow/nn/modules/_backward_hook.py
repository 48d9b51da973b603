"""How a module's full backward hooks see the gradients of its inputs and outputs.

Identity nodes are put around the module: one over the tensor inputs, one over the tensor outputs. The output node fires
first and holds grad_output (pre-hooks may replace it); the input node holds grad_input, and then the hooks run. If no
input asks for gradients, they run right after the output node, with None for each input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from undertow import hooks
from undertow._core import TensorCore
from undertow.autograd.function import Function
from undertow.modes import local


class BackwardHookFunction(Function):
    """The identity, as a place in the graph."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class BackwardHook:
    """One call of a hooked module."""

    def __init__(self, module: Any, user_hooks: Sequence[hooks.Hook], user_pre_hooks: Sequence[hooks.Hook]) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: Any = None
        self.n_inputs = 0
        self.n_outputs = 0
        self.input_places: Sequence[int] | None = None
        self.output_places: Sequence[int] = ()

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        args, self.input_places = self._through_identity(args, self._watch_inputs)
        self.n_inputs = len(args)
        return args

    def setup_output_hook(self, output: Any) -> Any:
        single = not isinstance(output, tuple)
        outputs, places = self._through_identity((output,) if single else tuple(output), self._watch_outputs)
        self.n_outputs = len(outputs)
        self.output_places = places or ()
        if single:
            return outputs[0]
        return type(output)(*outputs) if hasattr(output, "_fields") else outputs

    def _through_identity(
        self, values: tuple[Any, ...], watch: Callable[[Any], None]
    ) -> tuple[tuple[Any, ...], list[int] | None]:
        places = [place for place, value in enumerate(values) if isinstance(value, TensorCore)]
        asks = local.modes.grad_enabled and any(values[place].requires_grad for place in places)
        if not asks:
            return values, None
        passed = BackwardHookFunction.apply(*[values[place] for place in places])
        result = list(values)
        for place, tensor in zip(places, passed, strict=True):
            result[place] = tensor
        watch(next(tensor.grad_fn for tensor in passed if tensor.grad_fn is not None))
        return tuple(result), places

    def _watch_outputs(self, node: Any) -> None:
        def before(grads: tuple[Any, ...]) -> tuple[Any, ...] | None:
            full = self._spread(grads, self.output_places, self.n_outputs)
            replaced = full
            for hook in self.user_pre_hooks:
                answer = hooks.fire(hook, self.module, replaced)
                if answer is not None:
                    replaced = self._same_count(answer, full, "Backward pre hook", "grad_output", len(full))
            self.grad_outputs = replaced
            answered = None
            if replaced is not full:
                answered = tuple([replaced[place] for place in self.output_places])
            if self.input_places is None:  # no gradient will come to the inputs
                nothing = (None,) * self.n_inputs
                for hook in self.user_hooks:
                    answer = hooks.fire(hook, self.module, nothing, self.grad_outputs)
                    if answer is not None and not (isinstance(answer, tuple) and all(part is None for part in answer)):
                        raise RuntimeError(
                            "Backward hook for Modules where no input requires gradient should always return None or "
                            "None for all gradients."
                        )
                self.grad_outputs = None
            return answered

        node.register_prehook(before)

    def _watch_inputs(self, node: Any) -> None:
        def after(grad_inputs: tuple[Any, ...], _: tuple[Any, ...]) -> tuple[Any, ...] | None:
            if self.grad_outputs is None:
                # The output was never differentiated, so the hooks have nothing to be told.
                return None
            assert self.input_places is not None
            full = self._spread(grad_inputs, self.input_places, self.n_inputs)
            replaced = full
            for hook in self.user_hooks:
                answer = hooks.fire(hook, self.module, replaced, self.grad_outputs)
                if answer is not None:
                    replaced = self._same_count(answer, full, "Backward hook", "grad_input", len(full))
            self.grad_outputs = None
            return None if replaced is full else tuple([replaced[place] for place in self.input_places])

        node.register_hook(after)

    @staticmethod
    def _spread(grads: Sequence[Any], places: Sequence[int], count: int) -> tuple[Any, ...]:
        """Gradients at the places of their tensors among all values, None elsewhere."""
        full: list[Any] = [None] * count
        for place, grad in zip(places, grads, strict=True):
            full[place] = grad
        return tuple(full)

    @staticmethod
    def _same_count(answer: Any, full: tuple[Any, ...], kind: str, what: str, count: int) -> tuple[Any, ...]:
        if len(answer) != count:
            raise RuntimeError(
                f"{kind} returned an invalid number of {what}, got {len(answer)}, but expected {count}. "
                f"Return a tuple with one gradient (or None) per {what.removeprefix('grad_')}."
            )
        return tuple(answer)
