"""Arguments that are refused, defaults that are filled in, and switches, as PyTorch has them."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from tests.oracle.harness import agree, agree_error
from tests.oracle.programs import attempt

REFUSED = {
    "no gradient in a batch": lambda torch, x: torch.autograd.grad(
        [x.sum(), x * 2], x, [None, torch.eye(2)], is_grads_batched=True
    ),
    "a batch without a dim": lambda torch, x: torch.autograd.grad(x, x, torch.tensor(1.0), is_grads_batched=True),
    "retain_graph, a word": lambda torch, x: torch.autograd.grad(x.sum(), x, retain_graph="yes"),
    "create_graph, a fraction": lambda torch, x: x.sum().backward(create_graph=0.5),
    "allow_unused, a list": lambda torch, x: torch.autograd.grad(x.sum(), x, allow_unused=[1]),
    "an ordered dict": lambda torch, x: torch.autograd.grad(x.sum(), OrderedDict(x=x)),
    "an ordered dict for backward": lambda torch, x: x.sum().backward(inputs=OrderedDict(x=x)),
    "a dict of lists": lambda torch, x: torch.autograd.grad(x.sum(), {"x": [x]}),
    "a dict of nothing": lambda torch, x: torch.autograd.grad(x.sum(), {}),
    "an unknown device": lambda torch, x: torch.nn.Identity().to("nowhere"),
    "anomaly mode": lambda torch, x: torch.autograd.set_detect_anomaly(1),
    "a variable of a number": lambda torch, x: torch.autograd.Variable(1),
    "a history of one's own": lambda torch, x: setattr(x, "_grad_fn", 1),
    "a gradient of another dtype": lambda torch, x: setattr(x, "grad", torch.ones(2).double()),
    "a parameter of an inference tensor": lambda torch, x: torch.nn.Parameter(inference_tensor(torch)),
}


def inference_tensor(torch):
    with torch.inference_mode():
        return torch.ones(2)


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused(call):
    agree_error(lambda torch: REFUSED[call](torch, torch.ones(2, requires_grad=True)))


def test_inputs_in_a_dict():
    def program(torch, log):
        x, unused = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
        y = x * 3
        log(torch.autograd.grad(y.sum(), {"y": y, "x": x}, retain_graph=True))
        log(torch.autograd.grad(y, {"x": x}, torch.eye(2), is_grads_batched=True, retain_graph=True))
        log(torch.autograd.grad(y.sum(), {"none": unused}, retain_graph=True, materialize_grads=True))
        y.sum().backward(inputs={"x": x})
        log(x.grad, x.grad_fn)

    agree(program)


def test_a_mode_entered_inside_itself():
    def program(torch, log):
        for mode in (torch.no_grad(), torch.set_grad_enabled(False)):
            with mode:
                with mode:
                    log(torch.is_grad_enabled())
                log(torch.is_grad_enabled(), mode.prev)
            log(torch.is_grad_enabled())
            torch.set_grad_enabled(True)

    agree(program)


def test_a_history_can_be_dropped():
    def program(torch):
        x = torch.ones(2, requires_grad=True) * 2
        x._grad_fn = None
        return x.requires_grad, x.grad_fn, x.is_leaf

    agree(program)


def test_defaults_of_forward():
    def program(torch, log):
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(x, k=2, offset=1.0):
                return x * k + offset

            @staticmethod
            def setup_context(ctx, inputs, output):
                log(inputs)
                ctx.k = inputs[1]

            @staticmethod
            def backward(ctx, g):
                return g * ctx.k, None, None

        x = torch.ones(2, requires_grad=True)
        for given, named in (((x,), {}), ((x, 3), {}), ((x,), {"k": 4}), ((x, 3, 2.0), {}), ((x,), {"offset": 5.0})):
            result = Scaled.apply(*given, **named)
            log(result, torch.autograd.grad(result.sum(), x))
        attempt(log, "nothing", lambda: Scaled.apply())
        attempt(log, "too many", lambda: Scaled.apply(x, 1, 2, 3))
        attempt(log, "unknown", lambda: Scaled.apply(x, unknown=3))

    agree(program)


@pytest.mark.parametrize("how", ["subclass", "mode"])
def test_grad_asks_for_overrides(how):
    def program(torch, log):
        def noted(function, args, kwargs):
            if function is torch.autograd.grad:
                log(len(args[0]), len(args[1]), sorted(kwargs or {}))

        class Noting(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                noted(function, args, kwargs)
                return super().__torch_function__(function, types, args, kwargs or {})

        class NotingMode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                noted(function, args, kwargs)
                return function(*args, **(kwargs or {}))

        x = torch.ones(2, requires_grad=True)
        if how == "subclass":
            y = torch.ones(2).as_subclass(Noting).requires_grad_()
            return [type(g).__name__ for g in torch.autograd.grad((y * x).sum(), [x, y])]
        with NotingMode():
            return torch.autograd.grad((x * 2).sum(), x)

    agree(program)


@pytest.mark.parametrize("replayed", [False, True])
def test_views_can_be_taken_again_by_their_functions(replayed):
    def program(torch):
        x = torch.ones(2, 3, requires_grad=True)
        with torch.autograd._force_original_view_tracking(replayed):
            y = x * 1
            view = y[0].view(3, 1)
            view.mul_(2)
            node, names = view.grad_fn, []
            while node is not None:
                names.append(node.name())
                node = node.next_functions[0][0] if node.next_functions else None
            (view * y.sum()).sum().backward()
        return names, x.grad, torch._C._is_view_replay_enabled()

    agree(program)


def test_gradients_of_stretched_pairs():
    def program(torch):
        z = torch.tensor([1 + 1j, 2 - 1j], requires_grad=True)
        torch.view_as_real(z).sum().backward()
        return z.grad

    agree(program)


def test_whole_numbers_carry_no_gradient():
    def program(torch):
        x = torch.tensor([1.5, 2.5], requires_grad=True)
        whole, parts = torch.zeros(2, dtype=torch.long), torch.zeros(2, dtype=torch.long)
        whole.copy_(x)
        parts[0] = x[1]
        return whole, parts, whole.requires_grad, parts.requires_grad

    agree(program)


def test_the_angle_at_the_origin():
    def program(torch):
        y = torch.tensor([0.0, 0.0, 1.0], requires_grad=True)
        x = torch.tensor([0.0, 1.0, 0.0], requires_grad=True)
        first = torch.autograd.grad(torch.atan2(y, x).sum(), [y, x], create_graph=True)
        return first, torch.autograd.grad((first[0] + first[1]).sum(), [y, x])

    agree(program)


def test_phrases_that_programs_look_for():
    """Not the opening words, but what stands further on in a message and is searched for."""

    def program(torch, log):
        x = torch.ones(2, requires_grad=True)

        def twice():
            y = (x * x).sum()
            y.backward()
            y.backward()

        def saved_twice():
            y = x * x
            saved = y.grad_fn._raw_saved_self
            y.sum().backward()
            saved.register_hooks(lambda t: t, lambda t: t)

        def overwritten():
            y = x * 2
            z = y * y
            y.add_(1)
            z.sum().backward()

        def viewed_unrecorded():
            y = x.clone()
            with torch.no_grad():
                view = y[:1]
            view.add_(1)

        def viewed_in_inference():
            y = x.clone()
            with torch.inference_mode():
                view = y[:1]
            view.add_(1)

        def one_of_several_views():
            x.clone().split(1)[0].add_(1)

        def of_a_function():
            made = type("Made", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, a: a)})
            made.apply(x.clone()).add_(1)

        def inference_tensor():
            with torch.inference_mode():
                made = torch.ones(2)
            made.add_(1)

        def inference_tensor_saved():
            with torch.inference_mode():
                made = torch.ones(2)
            x * made

        def unused():
            torch.autograd.grad((x * 2).sum(), torch.ones(2, requires_grad=True))

        for action, phrase in {
            twice: "Specify retain_graph=True",
            saved_twice: "Specify retain_graph=True",
            overwritten: "Hint: enable anomaly detection to find the operation",
            viewed_unrecorded: "use case is ambiguous and error-prone",
            viewed_in_inference: "both inside the inference_mode block",
            one_of_several_views: "replace the inplace operation by an out-of-place one",
            of_a_function: "cloning the output of the custom Function",
            inference_tensor: "make a clone to get a normal tensor",
            inference_tensor_saved: "make a clone to get a normal tensor",
            unused: "allow_unused=True if this is the desired behavior",
        }.items():
            try:
                action()
            except RuntimeError as error:
                log(action.__name__, phrase in str(error))
            else:
                log(action.__name__, "no error")

    agree(program)


def test_batches_of_gradients_have_one_size():
    def program(torch, log):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        for rows in (2, 3):
            given = [torch.eye(2), torch.ones(rows, 2)]
            try:
                log(torch.autograd.grad([x**2, x**3], x, given, is_grads_batched=True))
            except ValueError as error:
                log(str(error)[:50])

    agree(program)
