"""Classes with `__torch_dispatch__`: LoggingTensor, TwoTensor, wrappers and subclasses of a program's own."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.oracle.harness import agree


@pytest.fixture(autouse=True)
def unheard() -> Iterator[None]:
    """What is logged outside a block that captures it is no text, which pytest's own handler would stumble over."""
    logger = logging.getLogger("LoggingTensor")
    before = logger.parent, logger.handlers[:], logger.propagate
    logger.parent, logger.handlers = logging.Logger("nobody"), []
    yield
    logger.parent, logger.handlers, logger.propagate = before


def internal(torch: Any, name: str) -> Any:
    return import_module(f"{torch.__name__}.testing._internal.{name}")


def test_logging_tensor() -> None:
    def program(torch: Any, log: Any) -> Any:
        logs = internal(torch, "logging_tensor")
        with logs.capture_logs() as lines:
            x = logs.LoggingTensor(torch.tensor([3.0]), requires_grad=True)
            logs.log_input("x", x)
            y = x * x
            total = torch.add(y, 2.0, alpha=3).sum()
            (gradient,) = torch.autograd.grad(total, (x,))
            logs.log_input("gradient", gradient)
        for line in lines:
            log(line)
        return repr(x), repr(y), repr(gradient), type(gradient).__name__

    agree(program, raises=False)


def test_a_logged_network() -> None:
    def program(torch: Any, log: Any) -> Any:
        logs, F = internal(torch, "logging_tensor"), torch.nn.functional
        with logs.capture_logs() as lines:
            x = logs.LoggingTensor(torch.ones(2, 3))
            weight = logs.LoggingTensor(torch.ones(4, 3), requires_grad=True)
            bias = logs.LoggingTensor(torch.zeros(4), requires_grad=True)
            hidden = F.layer_norm(F.linear(x, weight, bias), (4,)).relu()
            F.cross_entropy(hidden, torch.tensor([0, 1])).backward()
            hidden.view(2, 2, 2)[0].t()
            written = x.add_(1)
            x[0] = 1
            x.max(1)
            x.split(1)
        for line in lines:
            log(line)
        return written is x, x._version, repr(weight.grad), repr(bias.grad)

    agree(program, raises=False)


def test_logging_mode() -> None:
    def program(torch: Any, log: Any) -> Any:
        logs = internal(torch, "logging_tensor")
        with logs.capture_logs_with_logging_tensor_mode() as lines:
            x = torch.ones(2, requires_grad=True)
            (x.exp() * 2).sum().backward()
            torch.cat([x, x]).split(2)
        for line in lines:
            log(line)
        return x.grad

    agree(program, raises=False)


def test_logging_tensor_inside_a_mode() -> None:
    def program(torch: Any, log: Any) -> None:
        logs = internal(torch, "logging_tensor")

        class Seen(import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log(str(func), [each.__name__ for each in types], type(args[0]).__name__)
                return func(*args, **(kwargs or {}))

        x = logs.LoggingTensor(torch.ones(2), requires_grad=True)
        with Seen():
            x.sin().sum().backward()

    agree(program, raises=False)


def test_two_tensors() -> None:
    def program(torch: Any) -> Any:
        TwoTensor = internal(torch, "two_tensor").TwoTensor
        dispatch = import_module(f"{torch.__name__}.utils._python_dispatch")
        x = TwoTensor(torch.ones(2), torch.full((2,), 3.0)).requires_grad_()
        ((x * x).exp() / 100).sum().backward()
        y = TwoTensor(torch.ones(2), torch.zeros(2))
        written = y.add_(1)
        view = y.view(2, 1)
        view.mul_(2)
        turned = TwoTensor(torch.ones(2, 3), torch.zeros(2, 3)).t_().unsqueeze_(0).squeeze_()
        texts = [
            y, view, turned, turned.shape, x.grad, torch.cat([y, y]), y.max(), y.clone(), y.detach(), torch.zeros_like(y),
            y.exp(), y.softmax(0), y[0], y[1:], -y, y > 0, y.mean(), torch.nn.Linear(2, 1, bias=False)(y).detach() * 0,
            y.sort()[0], y.unbind()[0], dispatch.transform_subclass(y, lambda name, inner: inner + 1),
        ]  # fmt: skip
        facts = [written is y, y._version, type(x.grad).__name__, y.to(torch.float64).b.dtype, y.__tensor_flatten__()]
        return [repr(text) for text in texts], facts, dispatch.is_traceable_wrapper_subclass(y)

    agree(program, raises=False)


def test_two_tensor_mode() -> None:
    def program(torch: Any) -> Any:
        with internal(torch, "two_tensor").TwoTensorMode():
            return repr(torch.ones(2) + 1)

    agree(program, raises=False)


def wrapper(torch: Any, answer: Any) -> Any:
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls: Any, inner: Any) -> Any:
            made = torch.Tensor._make_wrapper_subclass(
                cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, requires_grad=inner.requires_grad
            )
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return answer(cls, func, types, args, kwargs or {})

    return Wrapper


def test_what_a_wrapper_shows() -> None:
    def program(torch: Any) -> Any:
        x = wrapper(torch, None)(torch.ones(3, 2).t())
        return x.shape, x.dtype, str(x.device), x.stride(), x.requires_grad, x.numel(), x.is_contiguous(), x.is_leaf

    agree(program, raises=False)


def test_what_a_wrapper_refuses() -> None:
    for text in ("x.sum()", "x.clone()", "x.view(-1)", "x.detach()", "torch.cat([x, x])", "x.numpy()", "x.tolist()"):

        def program(torch: Any, text: str = text) -> Any:
            x = wrapper(torch, lambda *given: NotImplemented)(torch.ones(2, 3))
            eval(text, {"torch": torch, "x": x})

        agree(program, raises=True)


def test_types_and_order() -> None:
    def program(torch: Any, log: Any) -> Any:
        def answer(cls: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            log(cls.__name__, str(func), [each.__name__ for each in types])
            return NotImplemented if cls.__name__ == "Refusing" else torch.zeros(2)

        first = wrapper(torch, answer)
        second = type("Refusing", (wrapper(torch, answer),), {})
        third = type("Narrower", (first,), {})
        a, b, c = first(torch.ones(2)), second(torch.ones(2)), third(torch.ones(2))
        return torch.add(b, a), torch.stack([a, c]), torch.add(a, 1)

    agree(program, raises=False)


def test_a_subclass_with_memory() -> None:
    def program(torch: Any, log: Any) -> Any:
        class Noted(torch.Tensor):
            @classmethod
            def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log(str(func), [each.__name__ for each in types])
                return super().__torch_dispatch__(func, types, args, kwargs or {})

        x = torch.Tensor._make_subclass(Noted, torch.arange(3.0), True)
        y = x * 2
        z = x.view(3, 1)
        y.sum().backward()
        return type(y).__name__, y.detach(), type(z).__name__, type(x.grad).__name__, x.grad

    agree(program, raises=False)


def test_two_tensors_in_the_graph() -> None:
    """Saved-tensor hooks, checkpoints, custom functions, writes through views, second derivatives, sums into `.grad`."""

    def program(torch: Any, log: Any) -> None:
        TwoTensor = internal(torch, "two_tensor").TwoTensor
        checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint

        def pair(*shape: int) -> Any:
            return TwoTensor(torch.ones(*shape), torch.full(shape, 2.0)).requires_grad_()

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * ctx.saved_tensors[0]

        x = pair(2)
        with torch.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value):
            y = (x * x).exp().sum()
        y.backward()
        checkpoint(lambda x: (x * x).exp(), x, use_reentrant=False).sum().backward()
        Double.apply(x).sum().backward()
        x.sum().backward()
        log(repr(x.grad))
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        log(repr(torch.autograd.grad(first.sum(), x)[0]))
        z = pair(2, 2)
        written = z.clone()
        written[0] = 0
        written[:, 1].mul_(3)
        written.sum().backward()
        log(repr(z.grad))
        plain = torch.ones(2, requires_grad=True)
        (plain * x.detach()).sum().backward()
        log(repr(plain.grad))
        log(repr(copy.deepcopy(pair(2))))

    agree(program, raises=False)


def test_a_wrapper_without_values() -> None:
    def program(torch: Any, log: Any) -> None:
        Wrapper = wrapper(torch, None)
        made = torch.Tensor._make_wrapper_subclass(Wrapper, (2, 3), device="meta", strides=(1, 2))
        log(str(made.device), made.is_meta, made.is_cpu, made.stride(), made.shape, repr(made))
        huge = torch.Tensor._make_wrapper_subclass(Wrapper, (2**20, 2**20), device="meta")
        log(huge.numel(), huge.stride())
        for arguments in ((torch.Tensor, (2,)), (Wrapper, (2,), "elsewhere")):
            try:
                torch.Tensor._make_wrapper_subclass(*arguments[:2], dispatch_sizes_strides_policy=(*arguments, None)[2])
            except (TypeError, ValueError) as error:
                log(type(error).__name__, str(error)[:30])

    agree(program)
