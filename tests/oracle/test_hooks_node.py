"""Hooks on graph nodes: `grad_fn.register_prehook`, `grad_fn.register_hook`, and those of AccumulateGrad."""

from __future__ import annotations

from collections import OrderedDict

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf, note

cases = Table()


@cases.test
def test_node_hooks(program):
    agree(program, graph=True)


def accumulator(tensor):
    """The AccumulateGrad node of a leaf."""
    return tensor.view_as(tensor).grad_fn.next_functions[0][0]


# --- arguments -----------------------------------------------------------------------------------------------------------


@cases
def arguments_of_common_nodes(torch, log):
    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    plain = torch.ones(2)
    results = {
        "tensor * tensor": x * w,
        "tensor * number": x * 2,
        "tensor * plain tensor": x * plain,
        "plain tensor * tensor": plain * x,
        "tensor + number": x + 1,
        "number - tensor": 1 - x,
        "tensor / tensor": x / w,
        "tensor ** 2": x**2,
        "tensor ** tensor": x**w,
        "2 ** tensor": 2**x,
        "exp": x.exp(),
        "sum": x.sum(),
        "mean": x.mean(),
        "matmul": matrix @ matrix,
        "mv": matrix @ x,
        "dot": x @ w,
        "cat": torch.cat([x, plain, w]),
        "stack": torch.stack([x, w, x]),
        "where": torch.where(torch.tensor([True, False]), x, w),
        "index": x[torch.tensor([0, 0, 1])],
        "clone": x.clone(),
        "expand": x.expand(2, 2),
        "broadcast": matrix + x,
        "addmm": torch.addmm(x, matrix, matrix),
        "lerp": torch.lerp(x, w, 0.5),
        "to float64": x.to(torch.float64),
        "relu": x.relu(),
        "softmax": x.softmax(0),
        "maximum": torch.maximum(x, w),
        "prod": x.prod(),
        "cumsum": x.cumsum(0),
    }
    for label, result in results.items():
        result.grad_fn.register_prehook(lambda outputs, label=label: log(label, "pre", outputs))
        result.grad_fn.register_hook(lambda inputs, outputs, label=label: log(label, "post", inputs, outputs))
        result.backward(torch.ones_like(result))


@cases
def none_for_an_output_without_gradient(torch, log):
    x = torch.ones(3, 2, requires_grad=True)
    a, b, c = x.unbind()
    log(a.grad_fn is b.grad_fn, a.output_nr, b.output_nr, c.output_nr)
    a.grad_fn.register_prehook(lambda outputs: log("pre", outputs))
    a.grad_fn.register_hook(lambda inputs, outputs: log("post", inputs, outputs))
    (c * 2).sum().backward()


@cases
def none_for_an_input_that_needs_no_gradient(torch, log):
    x, plain = leaf(torch), torch.ones(2)
    y = torch.addcmul(plain, x, plain)
    y.grad_fn.register_hook(lambda inputs, outputs: log(inputs, outputs))
    y.sum().backward()


@cases
def broadcast_gradients_are_already_summed(torch, log):
    x, w = leaf(torch), torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    y = x * w
    y.grad_fn.register_hook(lambda inputs, outputs: log([g.shape for g in inputs], inputs))
    y.sum().backward()


@cases
def the_root_node(torch, log):
    root = leaf(torch).sum()
    root.grad_fn.register_prehook(lambda outputs: (outputs[0] * 5,))
    root.grad_fn.register_hook(lambda inputs, outputs: log(inputs, outputs))
    root.backward()


# --- results -------------------------------------------------------------------------------------------------------------


@cases
def prehook_replaces_what_comes_in(torch, log):
    x = leaf(torch)
    y = x * 3
    y.register_hook(note(log, "tensor"))
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    y.grad_fn.register_prehook(note(log, "second pre", lambda outputs: (outputs[0] + 1,)))
    y.grad_fn.register_hook(lambda inputs, outputs: log("post", inputs, outputs))
    y.sum().backward()
    return x.grad


@cases
def posthook_replaces_what_goes_out(torch, log):
    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    y = x * w
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, inputs[1] + 100))
    y.grad_fn.register_hook(lambda inputs, outputs: log("second post", inputs, outputs))
    x.register_hook(note(log, "x"))
    w.register_hook(note(log, "w"))
    y.sum().backward()
    return x.grad, w.grad


@cases
def none_in_a_result_removes_the_gradient(torch, log):
    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    y = x * w
    y.grad_fn.register_hook(lambda inputs, outputs: (None, inputs[1]))
    x.register_hook(note(log, "x"))
    y.sum().backward()
    log(x.grad, w.grad)
    y = x * w
    y.grad_fn.register_prehook(lambda outputs: (None,))
    y.grad_fn.register_hook(lambda inputs, outputs: log("post", inputs, outputs))
    y.sum().backward()
    log(x.grad, w.grad)


@cases
def results_of_the_wrong_kind(torch, log):
    ones = torch.ones(2)
    wrong = {
        "number": 3,
        "tensor": ones,
        "list": [ones, None],
        "empty": (),
        "one": (ones,),
        "two": (ones, ones),
        "one and none": (ones, None),
        "three": (ones, ones, ones),
        "numbers": (3,),
        "numbers and none": (3, None),
        "longer": (torch.ones(3),),
        "longer and none": (torch.ones(3), None),
        "float64": (ones.double(),),
        "float64 and none": (ones.double(), None),
        "none": (None,),
        "nones": (None, None),
    }
    for label, result in wrong.items():
        for place in ("prehook", "hook"):
            x = leaf(torch)
            y = x * 3
            getattr(y.grad_fn, f"register_{place}")(lambda *_, result=result: result)
            attempt(log, (label, place), lambda y=y: y.sum().backward())
            log(x.grad)


@cases
def results_of_the_wrong_kind_on_a_leaf(torch, log):
    ones = torch.ones(2)
    for label, result in {"number": 3, "empty": (), "one": (ones * 7,), "two": (ones, ones), "none": (None,)}.items():
        for place in ("prehook", "hook"):
            x = leaf(torch)
            accumulate = accumulator(x)
            getattr(accumulate, f"register_{place}")(lambda *_, result=result: result)
            attempt(log, (label, place), lambda x=x: (x * 3).sum().backward())
            log(x.grad)


@cases
def inputs_may_be_changed_in_place(torch, log):
    x = leaf(torch)
    y = x * 3

    def hook(inputs, outputs):
        inputs[0].mul_(10)

    y.grad_fn.register_hook(hook)
    (y * 1).sum().backward()
    return x.grad


@cases
def exceptions_leave_the_graph_usable(torch, log):
    for place in ("prehook", "hook"):
        x = leaf(torch)
        y = x * 3
        handle = getattr(y.grad_fn, f"register_{place}")(lambda *_: {}["missing"])
        attempt(log, place, lambda y=y: y.sum().backward(retain_graph=True))
        handle.remove()
        y.sum().backward()
        log(x.grad, torch.is_grad_enabled())


# --- AccumulateGrad ------------------------------------------------------------------------------------------------------


@cases
def accumulate_grad_is_one_node_per_leaf(torch, log):
    x = leaf(torch)
    y, z = x * 2, x.exp()
    node = y.grad_fn.next_functions[0][0]
    log(node is z.grad_fn.next_functions[0][0], node is accumulator(x))
    log(node.name(), node.variable is x, node.next_functions, type(node).__name__)
    log(x.grad_fn, x.output_nr)


@cases
def accumulate_grad_hooks(torch, log):
    x = leaf(torch)
    accumulate = accumulator(x)
    accumulate.register_prehook(note(log, "pre", lambda outputs: (outputs[0] * 3,)))
    accumulate.register_hook(lambda inputs, outputs: log("post", inputs, outputs, x.grad))
    for _ in range(2):
        (x * 2 + x).sum().backward()
    return x.grad


@cases
def accumulate_grad_hooks_live_as_long_as_the_node(torch, log):
    x = leaf(torch)
    accumulator(x).register_hook(lambda inputs, outputs: log("gone: nothing kept the node alive"))
    (x * 2).sum().backward()
    y = x * 3
    y.grad_fn.next_functions[0][0].register_hook(lambda inputs, outputs: log("kept by y's graph"))
    y.sum().backward()
    (x * 4).sum().backward()
    del y
    (x * 5).sum().backward()


@cases
def accumulate_grad_of_tensors_made_by_no_op(torch, log):
    x = torch.nn.Parameter(torch.ones(2)) if hasattr(torch, "nn") else leaf(torch)
    y = x * 2
    y.grad_fn.next_functions[0][0].register_prehook(lambda outputs: log(outputs))
    y.sum().backward()


# --- registering and removing --------------------------------------------------------------------------------------------


@cases
def several_hooks_in_order_with_removal(torch, log):
    x = leaf(torch)
    y = x * 2
    node = y.grad_fn
    pre = [node.register_prehook(lambda outputs, index=index: log("pre", index)) for index in range(3)]
    post = [node.register_hook(lambda inputs, outputs, index=index: log("post", index)) for index in range(3)]
    y.sum().backward(retain_graph=True)
    pre[1].remove()
    post[0].remove()
    post[0].remove()
    with pre[0]:
        y.sum().backward(retain_graph=True)
    y.sum().backward()


@cases
def node_objects_are_the_same_at_each_look(torch, log):
    x = leaf(torch)
    y = x * 2
    node = y.grad_fn
    log(node is y.grad_fn, y.sum().grad_fn.next_functions[0][0] is node)
    node.register_hook(lambda inputs, outputs: log("fires"))
    del node
    y.sum().backward()


@cases
def hooks_on_an_inner_node(torch, log):
    x = leaf(torch)
    root = (x * 2).exp().sum()
    inner = root.grad_fn.next_functions[0][0].next_functions[0][0]
    log(inner.name())
    inner.register_prehook(note(log, "pre", lambda outputs: (outputs[0] * 0 + 1,)))
    root.backward()
    return x.grad


@cases
def node_hooks_before_an_in_place_op(torch, log):
    x = leaf(torch)
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: log("first node", inputs, outputs))
    y.mul_(3)
    y.grad_fn.register_hook(lambda inputs, outputs: log("second node", inputs, outputs))
    y.sum().backward()


@cases
def node_hooks_on_copy_slices(torch, log):
    x = leaf(torch)
    y = x * 2
    y[0].mul_(3)
    log(y.grad_fn.name())
    y.grad_fn.register_prehook(lambda outputs: log("pre", outputs))
    y.grad_fn.register_hook(lambda inputs, outputs: log("post", inputs, outputs))
    y.sum().backward()
    return x.grad


@cases
def node_hooks_on_a_custom_function(torch, log):
    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, number, b):
            return a * number, b * number

        @staticmethod
        def backward(ctx, ga, gb):
            log("backward", ga, gb)
            return ga * 2, None, gb * 3

    x, w = leaf(torch), leaf(torch, 3.0, 4.0)
    a, b = Pair.apply(x, 5.0, w)
    log(a.grad_fn.name(), a.grad_fn is b.grad_fn)
    a.grad_fn.register_prehook(note(log, "pre", lambda outputs: tuple(g if g is None else g * 10 for g in outputs)))
    a.grad_fn.register_hook(lambda inputs, outputs: log("post", inputs, outputs))
    a.sum().backward()
    return x.grad, w.grad


@cases
def metadata_is_a_dictionary_of_ones_own(torch, log):
    y = leaf(torch) * 2
    y.grad_fn.metadata["mine"] = 5
    log(y.grad_fn.metadata, (y + 1).grad_fn.metadata)


@cases
def hook_that_is_not_callable(torch, log):
    y = leaf(torch) * 2
    y.grad_fn.register_hook(3)
    attempt(log, "backward", lambda: y.sum().backward())


# --- nodes called by hand ------------------------------------------------------------------------------------------------


@cases
def calling_a_node_runs_it_without_hooks(torch, log):
    x = leaf(torch)
    y = x * 3
    y.grad_fn.register_hook(lambda *_: log("hook"))
    log(y.grad_fn(torch.ones(2)), x.exp().sum().grad_fn(torch.tensor(2.0)))
    y = x * 1
    view = y[:1]
    y[1] = 5.0
    log(y.grad_fn(torch.ones(2)), view.grad_fn(torch.ones(1)))
    log(y.unbind()[0].grad_fn(torch.tensor(1.0), None), (x * x).grad_fn(None))
    return x.grad


@cases
def calling_an_accumulator_adds_to_grad(torch, log):
    x = leaf(torch)
    accumulator = (x * 1).grad_fn.next_functions[0][0]
    x.register_hook(lambda g: log("tensor hook"))
    x.register_post_accumulate_grad_hook(lambda x: log("accumulated", x.grad.detach()))
    given = torch.ones(2)
    with torch.no_grad():
        log(accumulator(given), x.grad)
        log(accumulator(given), x.grad, given)
        log(accumulator(None), x.grad)


@cases
def calling_a_node_with_the_wrong_arguments(torch, log):
    node = (leaf(torch) * 2).grad_fn
    attempt(log, "none", lambda: node())
    attempt(log, "two", lambda: node(torch.ones(2), torch.ones(2)))
    attempt(log, "a number", lambda: node(1.0))
    made = function(torch, lambda ctx, a: a * 2, lambda ctx, g: g * 2).apply(leaf(torch))
    attempt(log, "of a custom function", lambda: made.grad_fn(torch.ones(2)))
    log(made.grad_fn.apply(torch.ones(2)))


@cases
def gradients_of_joined_tensors_that_nobody_asked_for(torch, log):
    for join in (torch.stack, torch.cat, torch.vstack):
        y = join([leaf(torch) * 1, torch.ones(2), torch.arange(2)])
        y.grad_fn.register_hook(lambda inputs, outputs: log("post", inputs[:2]))
        y.sum().backward()
    distances = torch.cdist(leaf(torch)[None] * 1, torch.zeros(1, 2))
    distances.grad_fn.register_hook(lambda inputs, outputs: log("post", inputs))
    distances.sum().backward()


@cases
def gradients_that_nobody_asked_for_are_shown(torch, log):
    made = function(torch, lambda ctx, a, b: a * b, lambda ctx, g: (g * 2, torch.ones(3)))
    y = made.apply(leaf(torch), torch.ones(2))
    y.grad_fn.register_hook(lambda inputs, outputs: log("post", inputs, outputs))
    y.sum().backward()


@cases
def registering_a_tensor_by_hand(torch, log):
    y = leaf(torch) * 2
    y._backward_hooks = OrderedDict({0: lambda gradient: log("tensor", gradient)})
    log(y.grad_fn._register_hook_dict(y), y.grad_fn.requires_grad)
    attempt(log, "no tensor", lambda: y.grad_fn._register_hook_dict({}))
    y.sum().backward()


@cases
def numbers_of_nodes_can_be_set(torch, log):
    x = leaf(torch)
    first, second = x * 2, x * 3
    first.register_hook(lambda gradient: log("first"))
    second.register_hook(lambda gradient: log("second"))
    total = first + second
    total.sum().backward(retain_graph=True)
    first.grad_fn._set_sequence_nr(total.grad_fn._sequence_nr() + 1)
    total.sum().backward()


# --- hooks registered while the node runs -------------------------------------------------------------------------------


@cases
def unpack_hooks_may_register_post_hooks(torch, log):
    def unpack(tensor):
        node = torch._C._current_autograd_node()
        log(node.name())
        node.register_hook(lambda inputs, outputs: (log(inputs, outputs), tuple(g / 2 for g in inputs))[1])
        return tensor

    for compute in (
        lambda x: x.exp().sum(),
        lambda x: sum(torch.var_mean(x, dim=0)).sum(),
        lambda x: x.max(0)[0].sum(),
    ):
        x = torch.arange(6.0).view(2, 3).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            y = compute(x)
        y.backward(retain_graph=True)
        log(x.grad)
        y.backward(retain_graph=True)
        log(x.grad, torch.autograd.grad(y, x))


@cases
def a_function_may_register_hooks_on_itself(torch, log):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log(torch._C._current_autograd_node() is ctx)
            ctx.register_hook(lambda inputs, outputs: log("own", inputs, outputs))
            return g * 2

    x = torch.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    y = Double.apply(x)
    y.grad_fn.register_hook(lambda inputs, outputs: log("first", inputs, outputs))
    y.sum().backward()
    log(torch._C._current_autograd_node())
