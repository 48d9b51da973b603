"""TorchDispatchMode: what a mode is handed, what its answers do, how modes nest, and what is off inside a handler."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tests.oracle.harness import agree
from tests.oracle.optim_cases import ONE_OF_EACH, Training, case_name, result


def dispatch(torch: Any) -> Any:
    return import_module(f"{torch.__name__}.utils._python_dispatch")


def shown(torch: Any, value: Any) -> Any:
    """An argument in words that both libraries share."""
    if isinstance(value, torch.Tensor):
        return f"tensor{tuple(value.shape)}{' asks' if value.requires_grad else ''}"
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *[shown(torch, part) for part in value]]
    return repr(value).replace("undertow", "torch")


def watching(torch: Any, log: Any) -> Any:
    """A mode that logs each operator with its arguments."""

    class Watching(dispatch(torch).TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = {name: shown(torch, value) for name, value in (kwargs or {}).items()}
            log(str(func), [shown(torch, value) for value in args], named)
            return func(*args, **(kwargs or {}))

    return Watching()


ARGUMENTS = (
    """
x*2.; x+1; torch.add(x,x,alpha=2); x.sum(1,keepdim=True); x.sum((0,1)); x.sum(dtype=torch.float64); x.max(1)
x.to(torch.float64); x.clone(); x.view(3,2); x.permute(1,0); x.transpose(0,1); x[0]; x[torch.tensor([0,1])]; torch.zeros(2)
torch.ones(2,dtype=torch.int64); torch.empty(2); torch.full((2,),1.); torch.rand(2); torch.randn(2,requires_grad=True)
torch.randint(3,(2,)); torch.arange(3); torch.arange(0,3); torch.arange(0,4,2); torch.linspace(0,1,3); torch.zeros_like(x)
x.new_zeros(2); F.layer_norm(x,(3,)); F.linear(x,torch.ones(4,3),torch.ones(4)); F.cross_entropy(x,torch.tensor([0,1]))
F.conv2d(torch.ones(1,1,3,3),torch.ones(1,1,2,2)); F.max_pool2d(torch.ones(1,1,4,4),2); F.gelu(x); F.dropout(x)
F.gelu(x,approximate='tanh'); F.mse_loss(x,x); x.clamp(min=0); torch.cat([x,x]); torch.stack([x,x]); torch.where(x>0,x,0.)
x.masked_fill(x>0,0.); x.detach().clone().fill_(1.); x.split(1); x.cumsum(0); x.sum().item(); x.repeat(2,2); x.argmax(1)
torch.addmm(torch.ones(4),x,torch.ones(3,4),beta=.5); x.expand(2,2,3); F.embedding(torch.tensor([0]),x)
F.softplus(x); F.leaky_relu(x); F.elu(x); x.pow(2); torch.full_like(x,1.); torch.eye(2); x.squeeze(0); x.unsqueeze(0)
x.logsumexp(1); x.round(decimals=1); x.t(); x.roll(1,0); x.tril(); x.any(); x.gather(1,torch.tensor([[0]])); x==x; x>1; 1-x
x.div(2,rounding_mode='floor'); torch.bernoulli(x.detach()); x.detach().clone().bernoulli_(.3); x.diagonal(); x.nan_to_num()
x.index_put((torch.tensor([0]),),torch.ones(3)); F.binary_cross_entropy_with_logits(x,x); torch.lerp(x,x,.5); x.addcmul(x,x)
F.batch_norm(x,None,None,training=True); F.avg_pool2d(x[None,None],2); x.detach().clone().uniform_()
x.t().contiguous(); x.t().clone(memory_format=torch.contiguous_format); x.t().reshape(6); x.t().to(torch.float64)
x.t().to(torch.float64,memory_format=torch.contiguous_format); x[None,None].clone(memory_format=torch.channels_last)
""".strip()
    .replace("\n", ";")
    .split(";")
)


@pytest.mark.parametrize("part", range(4))
def test_arguments(part: int) -> None:
    for text in ARGUMENTS[part::4]:

        def program(torch: Any, log: Any, text: str = text) -> None:
            names = {"torch": torch, "F": torch.nn.functional, "x": torch.ones(2, 3, requires_grad=True)}
            with watching(torch, log):
                eval(text.strip(), names)

        agree(program, raises=False)


def test_a_training_step() -> None:
    def program(torch: Any, log: Any) -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        for _ in range(2):
            with watching(torch, log):
                torch.nn.functional.mse_loss(model(torch.ones(5, 3)), torch.zeros(5, 2)).backward()
        return [parameter.grad for parameter in model.parameters()]

    agree(program, raises=False)


def test_results_of_a_handler_take_the_place_of_the_operators() -> None:
    def program(torch: Any) -> Any:
        class Doubled(dispatch(torch).TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return func(*args, **kwargs) * 2

        x = torch.ones(2, requires_grad=True)
        with Doubled():
            y = x * 3
        y.sum().backward()
        return y, y.grad_fn.name(), x.grad

    agree(program, raises=False)


def test_a_saved_result_is_the_handlers() -> None:
    def program(torch: Any) -> Any:
        class Zeros(dispatch(torch).TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                out = func(*args, **(kwargs or {}))
                return torch.zeros_like(out) if func is torch.ops.aten.exp.default else out

        x = torch.ones(2, requires_grad=True)
        with Zeros():
            x.exp().sum().backward()
        return x.grad

    agree(program, raises=False)


def test_nesting() -> None:
    def program(torch: Any, log: Any) -> None:
        module, no_dispatch = dispatch(torch), import_module(f"{torch.__name__}.utils._mode_utils").no_dispatch
        current = module._get_current_dispatch_mode

        class Named(module.TorchDispatchMode):  # type: ignore[name-defined]
            def __init__(self, name: str) -> None:
                super().__init__()
                self.name = name

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log(self.name, str(func), len(types), current() and current().name)
                return func(*args, **(kwargs or {}))

        log(current(), module._get_current_dispatch_mode_stack())
        with Named("a") as first, Named("b"):
            log(current().name, [mode.name for mode in module._get_current_dispatch_mode_stack()])
            torch.ones(1) + 1
            with module._disable_current_modes() as before:
                log([mode.name for mode in before], current())
                torch.ones(1)
            with no_dispatch():
                torch.ones(1)
            with first:
                torch.zeros(1)
        torch.ones(1)

    agree(program, raises=False)


def test_errors() -> None:
    def answering(answer: Any) -> Any:
        def program(torch: Any) -> Any:
            class Answering(dispatch(torch).TorchDispatchMode):  # type: ignore[misc]
                def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                    return answer

            with Answering():
                return torch.ones(2).sum()

        return program

    agree(answering(3), raises=True)

    def unfinished(torch: Any) -> Any:
        class Unfinished(dispatch(torch).TorchDispatchMode):  # type: ignore[misc]
            pass

        with Unfinished():
            return torch.ones(2)

    agree(unfinished, raises=True)

    def failing(torch: Any) -> Any:
        class Failing(dispatch(torch).TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                raise ValueError("no")

        x = torch.ones(2)
        try:
            with Failing():
                x * 2
        except ValueError as error:
            return str(error), x * 2, dispatch(torch)._len_torch_dispatch_stack()

    agree(failing, raises=False)


def test_what_an_overload_tells() -> None:
    def program(torch: Any) -> Any:
        func = torch.ops.aten.mul.Tensor
        schema = func._schema
        return [
            str(func), repr(func), func.name(), func.namespace, schema.name, str(schema), str(func.overloadpacket),
            func.overloadpacket is torch.ops.aten.mul, func is torch.ops.aten.mul.Tensor, func == torch.ops.aten.mul.Scalar,
            {func: 1}[torch.ops.aten.mul.Tensor], [argument.name for argument in schema.arguments], len(schema.returns),
            schema.is_mutable, torch.ops.aten.mul_.Tensor._schema.is_mutable, func.__name__, func._overloadname,
            [part.alias_info and part.alias_info.is_write for part in torch.ops.aten.add_.Tensor._schema.arguments],
            torch.ops.aten.view.default._schema.returns[0].alias_info.before_set,
        ]  # fmt: skip

    agree(program, raises=False)


def test_handlers_are_not_recorded() -> None:
    def program(torch: Any) -> Any:
        seen = []

        class Looking(dispatch(torch).TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                out = func(*args, **(kwargs or {}))
                seen.append((args[0].requires_grad, out.requires_grad, (out + args[0]).requires_grad))
                return out

        x = torch.ones(2, requires_grad=True)
        with Looking():
            y = x.sin()
        return seen, y.requires_grad, y.grad_fn.name()

    agree(program, raises=False)


def test_custom_operators() -> None:
    def program(torch: Any, log: Any) -> Any:
        import_module(f"{torch.__name__}.library")

        def triple(x):
            return x * 3

        triple.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
        triple = torch.library.custom_op("undertow_test::triple", triple, mutates_args=())
        triple.register_autograd(lambda ctx, g: g * 3)  # type: ignore[attr-defined]
        x = torch.ones(2, requires_grad=True)
        with watching(torch, log):
            y = torch.ops.undertow_test.triple(x)
        y.sum().backward()
        return y, x.grad

    agree(program, raises=False)


def test_views_and_writes_of_results() -> None:
    def program(torch: Any) -> Any:
        x = torch.ones(3, requires_grad=True)
        with dispatch(torch).BaseTorchDispatchMode():
            y = x * 2
            view = y.view(3, 1)
            view.mul_(3)
            part = y[1:]
            part.add_(x[:2])
        y.sum().backward()
        return y, y._version, view._base is y, part.grad_fn.name(), x.grad

    agree(program, raises=False)


def test_first_gradients() -> None:
    """Kept where nobody else holds them and they lie as the leaf does, else copied; a write to `.grad` reaches nobody."""

    def program(torch: Any, log: Any) -> Any:
        x, given, held = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3), []
        found = []
        for text in ("x.sum()", "x * 2", "x.clone()", "x.t() * torch.ones(3, 2)", "x + x"):
            x.grad = None
            with watching(torch, log):
                y = eval(text, {"x": x, "torch": torch})
                y.backward(given.reshape(y.shape) if y.ndim else None)
                x.grad.add_(1)
            found.append((x.grad, x.grad.stride()))
        x.grad = None
        x.register_hook(lambda g: held.append(g))
        with dispatch(torch).BaseTorchDispatchMode():
            (x * 2).backward(given)
            x.grad.add_(1)
        return found, given, held

    agree(program, raises=False)


# --- steps of optimizers


def test_steps_of_sgd_are_pytorchs_operators() -> None:
    def program(torch: Any, log: Any) -> Any:
        def without_the_profiler(name: str, *facts: Any) -> None:
            if not name.startswith("profiler."):
                log(name, *facts)

        for options in ({}, {"weight_decay": 0.1}, {"maximize": True}, {"momentum": 0.9, "nesterov": True}):
            training = Training(torch, shapes=((2, 3), (4,)))
            optimizer = torch.optim.SGD(training.params, lr=0.1, **options)
            training.run(optimizer, 1)  # in which momentum begins
            with watching(torch, without_the_profiler):
                optimizer.step()
            log(result(training, optimizer))

    agree(program)


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=case_name)
def test_watched_steps_do_what_others_do(case: Any) -> None:
    def program(torch: Any) -> Any:
        training, seen = Training(torch), []
        optimizer = getattr(torch.optim, case[0])(training.params, **case[1])
        training.run(optimizer, 1)
        with watching(torch, lambda name, *facts: seen.append(name)):
            training.run(optimizer, 2)
        training.run(optimizer, 1)
        return result(training, optimizer), any(name.startswith("aten.") and "_." in name for name in seen)

    agree(program)
