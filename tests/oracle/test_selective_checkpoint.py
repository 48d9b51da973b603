"""Selective checkpoints: which operators run again, what a policy is told, and what is refused."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from tests.oracle.harness import agree


def tools(torch: Any) -> Any:
    return import_module(f"{torch.__name__}.utils.checkpoint")


def operators_run(torch: Any, function: Any, policy: Any, log: Any, **options: Any) -> Any:
    """Runs a function and its backward pass; logs the operators, apart from `detach` and those of the last rerun step."""
    checkpoint = tools(torch)

    class Log(import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not torch.ops.aten.detach.default:
                log(str(func))
            return func(*args, **(kwargs or {}))

    context_fn = functools.partial(checkpoint.create_selective_checkpoint_contexts, policy, **options)
    x = (torch.arange(9.0).reshape(3, 3) / 10).requires_grad_()
    with Log():
        result = checkpoint.checkpoint(function, x, use_reentrant=False, context_fn=context_fn)
        log("backward")
        result.sum().backward()
    return x.grad


def products_and_waves(x: Any) -> Any:
    return x.sin().mm(x).cos().mm(x).exp()


def test_a_policy() -> None:
    def program(torch: Any, log: Any) -> Any:
        policies = tools(torch).CheckpointPolicy

        def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            log("asked about", str(op), ctx.is_recompute, len(args), ctx.op_output.shape)
            keeps = op in (torch.ops.aten.mm.default, torch.ops.aten.sin.default)
            return policies.MUST_SAVE if keeps else policies.PREFER_RECOMPUTE

        return operators_run(torch, products_and_waves, policy, log)

    agree(program, raises=False)


def test_a_list() -> None:
    def program(torch: Any, log: Any) -> Any:
        return operators_run(torch, products_and_waves, [torch.ops.aten.mm.default, torch.ops.aten.exp.default], log)

    agree(program, raises=False)


def test_a_layer() -> None:
    def program(torch: Any) -> Any:
        checkpoint, F = tools(torch), torch.nn.functional
        policies = checkpoint.CheckpointPolicy

        def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            return policies.PREFER_SAVE if op is torch.ops.aten.addmm.default else policies.MUST_RECOMPUTE

        model = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2)
        )
        context_fn = functools.partial(checkpoint.create_selective_checkpoint_contexts, policy)
        x = torch.ones(5, 3)
        F.mse_loss(checkpoint.checkpoint(model, x, use_reentrant=False, context_fn=context_fn), x[:, :2]).backward()
        return [parameter.grad for parameter in model.parameters()]

    agree(program, raises=False)


def test_random_numbers_are_drawn_again() -> None:
    def program(torch: Any) -> Any:
        checkpoint, F = tools(torch), torch.nn.functional
        context_fn = functools.partial(checkpoint.create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
        x = torch.ones(3, 3, requires_grad=True)
        y = checkpoint.checkpoint(
            lambda x: F.dropout(x.mm(x), 0.5).sin(), x, use_reentrant=False, context_fn=context_fn
        )
        y.sum().backward()
        return y, x.grad

    agree(program, raises=False)


def test_a_result_that_was_written_to() -> None:
    def program(torch: Any, log: Any) -> Any:
        return operators_run(torch, lambda x: x.mm(x).sin().mul_(2).sin(), lambda *given, **named: True, log)

    agree(program, raises=True)

    def allowed(torch: Any) -> Any:
        function, keep = lambda x: x.mm(x).sin().mul_(2).sin(), lambda *given, **named: True
        return operators_run(torch, function, keep, lambda *entry: None, allow_cache_entry_mutation=True)

    agree(allowed, raises=False)


def test_once() -> None:
    def program(torch: Any) -> Any:
        checkpoint = tools(torch)
        context_fn = functools.partial(checkpoint.create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
        x = torch.ones(3, 3, requires_grad=True)
        y = checkpoint.checkpoint(lambda x: x.mm(x).sin(), x, use_reentrant=False, context_fn=context_fn)
        y.sum().backward(retain_graph=True)
        y.sum().backward()

    agree(program, raises=True)


def test_refusals() -> None:
    agree(lambda torch: tools(torch).create_selective_checkpoint_contexts(3), raises=True)
    agree(lambda torch: tools(torch).create_selective_checkpoint_contexts([3]), raises=True)
    agree(lambda torch: tools(torch).create_selective_checkpoint_contexts([torch.ops.aten.mm]), raises=True)


def test_policies() -> None:
    agree(lambda torch: [(policy.name, policy.value) for policy in tools(torch).CheckpointPolicy], raises=False)
