"""Leaves: who is one, what `requires_grad` and `.grad` may be set to, and what shares memory."""

from __future__ import annotations

import copy

import numpy as np

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, function, leaf, succeeds

cases = Table()


@cases.test
def test_leaves(program):
    agree(program, graph=True, warns=True)


# --- requires_grad -------------------------------------------------------------------------------------------------------


@cases
def who_is_a_leaf(torch, log):
    x = leaf(torch)
    plain = torch.ones(2)
    with torch.no_grad():
        in_no_grad = x * 2
        view_in_no_grad = x[0]
    for label, tensor in {
        "leaf": x,
        "plain": plain,
        "product": x * 2,
        "plain product": plain * 2,
        "detached": (x * 2).detach(),
        "data": x.data,
        "in no_grad": in_no_grad,
        "view in no_grad": view_in_no_grad,
        "view": x[0],
        "plain view": plain[0],
        "clone": x.clone(),
        "comparison": x > 1,
        "argmax": x.argmax(),
        "integer cast": x.long(),
        "zeros_like": torch.zeros_like(x),
        "new_tensor": x.new_ones(2),
    }.items():
        log(label, tensor, tensor.is_leaf, tensor.requires_grad, tensor.grad_fn is None)


@cases
def requires_grad_of_results(torch, log):
    x, plain = leaf(torch), torch.ones(2)
    log((x + plain).requires_grad, (plain + plain).requires_grad, torch.cat([plain, x]).requires_grad)
    log(torch.where(plain > 0, plain, x).requires_grad, (plain == x).requires_grad, x.sort().indices.requires_grad)


@cases
def switching_requires_grad(torch, log):
    x = torch.ones(2)
    log(x.requires_grad_() is x, x.requires_grad)
    x.requires_grad = False
    log(x.requires_grad)
    x.requires_grad = True
    log(x.requires_grad_(False).requires_grad)
    y = leaf(torch) * 2
    attempt(log, "method on", lambda: y.requires_grad_())
    attempt(log, "attribute on", lambda: setattr(y, "requires_grad", True))
    attempt(log, "method off", lambda: y.requires_grad_(False))
    attempt(log, "attribute off", lambda: setattr(y, "requires_grad", False))


@cases
def only_floats_may_require_grad(torch, log):
    for dtype in (torch.int64, torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.complex64):
        succeeds(log, ("requires_grad_", dtype), lambda dtype=dtype: torch.ones(2, dtype=dtype).requires_grad_())
        succeeds(log, ("factory", dtype), lambda dtype=dtype: torch.ones(2, dtype=dtype, requires_grad=True))
    succeeds(log, "tensor", lambda: torch.tensor([1, 2], requires_grad=True))
    succeeds(log, "attribute", lambda: setattr(torch.tensor([1, 2]), "requires_grad", True))
    succeeds(log, "attribute off", lambda: setattr(torch.tensor([1, 2]), "requires_grad", False))


@cases
def requires_grad_takes_a_bool(torch, log):
    attempt(log, "string", lambda: setattr(torch.ones(2), "requires_grad", "yes"))
    attempt(log, "number", lambda: setattr(torch.ones(2), "requires_grad", 1))
    for value in (1, 0, None, "a", 1.0):
        attempt(log, value, lambda value=value: torch.ones(2).requires_grad_(value))


@cases
def requires_grad_of_a_base_after_its_view(torch, log):
    plain = torch.ones(3)
    view = plain[:2]
    plain.requires_grad_()
    log(view.requires_grad, plain[:2].requires_grad)
    plain = torch.ones(3)
    view = plain[:2]
    view.requires_grad_()
    log(plain.requires_grad, view.is_leaf)
    (view * 3).sum().backward()
    log(view.grad, plain.grad)


# --- .grad ---------------------------------------------------------------------------------------------------------------


@cases
def grad_may_be_set(torch, log):
    x = leaf(torch)
    x.grad = torch.tensor([5.0, 6.0])
    (x * 2).sum().backward()
    log(x.grad)
    x.grad = None
    log(x.grad)
    plain = torch.ones(2)
    plain.grad = torch.ones(2)
    log(plain.grad)
    del x.grad
    log(x.grad)


@cases
def grad_of_the_wrong_kind(torch, log):
    x = leaf(torch)
    for label, value in {
        "number": 3.0,
        "list": [1.0, 2.0],
        "array": np.ones(2),
        "longer": torch.ones(3),
        "other shape": torch.ones(2, 1),
        "scalar": torch.tensor(1.0),
        "float64": torch.ones(2, dtype=torch.float64),
        "int64": torch.ones(2, dtype=torch.int64),
        "itself": x,
    }.items():
        attempt(log, label, lambda value=value: setattr(x, "grad", value))
        log(x.grad)


@cases
def grad_is_kept_as_the_object_that_was_set(torch, log):
    x = leaf(torch)
    mine = torch.zeros(2)
    x.grad = mine
    (x * 2).sum().backward()
    log(x.grad is mine, mine)
    twice = mine * 2
    x.grad = twice
    log(x.grad is twice)


@cases
def grad_of_a_non_leaf_may_be_set(torch, log):
    y = leaf(torch) * 2
    y.grad = torch.ones(2)
    log(y.grad)
    y.sum().backward()
    log(y.grad)


@cases
def grad_has_the_dtype_of_its_tensor(torch, log):
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    half = torch.ones(2, dtype=torch.float16, requires_grad=True)
    (x.float() * half.float() * leaf(torch)).sum().backward()
    log(x.grad, half.grad)


# --- detach, data, clone, copies -----------------------------------------------------------------------------------------


@cases
def detach_shares_memory_and_version(torch, log):
    x = leaf(torch)
    d = x.detach()
    d[0] = 100.0
    log(x, x._version, d._version, d.requires_grad, d.is_leaf, d._base is None)


@cases
def data_shares_memory_but_not_the_version(torch, log):
    x = leaf(torch)
    y = x.exp()
    x.data.mul_(10)
    log(x, x._version, x.data._version, x.data.requires_grad)
    y.data.zero_()
    y.sum().backward()
    log(x.grad)


@cases
def writes_to_detached_values_are_noticed(torch, log):
    x = leaf(torch)
    y = x.exp()
    y.detach().mul_(2)
    attempt(log, "detach", lambda: y.sum().backward())
    y = x.sin()
    x.detach().mul_(2)
    attempt(log, "detached input", lambda: y.sum().backward())


@cases
def data_may_be_set(torch, log):
    x = leaf(torch)
    x.data = torch.tensor([5.0, 6.0])
    log(x, x.is_leaf, x._version)
    x.data = torch.ones(3, 2)
    log(x)
    attempt(log, "other dtype", lambda: setattr(x, "data", torch.ones(2, dtype=torch.float64)))
    log(x)
    attempt(log, "not a tensor", lambda: setattr(x, "data", [1.0]))
    y = leaf(torch) * 2
    y.data = torch.zeros(2)
    log(y)


@cases
def detach_in_place(torch, log):
    x = leaf(torch)
    y = x * 2
    z = y * 3
    log(y.detach_() is y, y.requires_grad, y.is_leaf, y.grad_fn)
    z.sum().backward()
    log(x.grad, y.grad)
    log(x.detach_().requires_grad, x.is_leaf)


@cases
def detach_in_place_of_saved_tensors(torch, log):
    x = leaf(torch)
    for name in ("square", "exp", "sin", "sum", "relu"):
        y = x * 2
        z = getattr(y, name)()
        y.detach_()
        succeeds(log, name, lambda z=z: z.sum().backward())
    y = x * 2
    z = y * y
    y.add_(1).detach_()
    succeeds(log, "written to as well", lambda: z.sum().backward())
    y = x.exp()
    z = y * 1
    y.detach_()
    succeeds(log, "saved by its own node", lambda: z.sum().backward())
    z = x * x
    x.detach_()
    succeeds(log, "leaf", lambda: z.sum().backward())


@cases
def detach_in_place_of_a_custom_functions_input(torch, log):
    square = function(
        torch,
        lambda ctx, a: (ctx.save_for_backward(a), a * a)[1],
        lambda ctx, g: g * 2 * ctx.saved_tensors[0],
    )
    x = leaf(torch)
    y = x * 2
    z = square.apply(y)
    y.detach_()
    z.sum().backward()
    return x.grad


@cases
def detach_in_place_of_views(torch, log):
    x = leaf(torch)
    y = x * 2
    attempt(log, "view", lambda: y[0].detach_())
    attempt(log, "view of a leaf", lambda: x[0].detach_())
    attempt(log, "part", lambda: y.unbind()[0].detach_())
    attempt(log, "plain view", lambda: torch.ones(2)[0].detach_())


@cases
def clone_is_differentiable(torch, log):
    x = leaf(torch)
    y = x.clone()
    y.mul_(3)
    y.sum().backward()
    log(x, x.grad, y._version)


@cases
def deepcopy_of_leaves_and_others(torch, log):
    x = leaf(torch)
    x.grad = torch.tensor([7.0, 8.0])
    twin = copy.deepcopy(x)
    log(twin, twin.grad, twin.is_leaf, twin.grad is x.grad)
    twin.data.zero_()
    log(x)
    attempt(log, "non-leaf", lambda: copy.deepcopy(x * 2))
    attempt(log, "in a dict", lambda: copy.deepcopy({"loss": (x * 2).sum()}))
    attempt(log, "detached", lambda: copy.deepcopy((x * 2).detach()))
    with torch.no_grad():
        attempt(log, "made in no_grad", lambda: copy.deepcopy(x * 2))


@cases
def deepcopy_keeps_shared_tensors_shared(torch, log):
    x = leaf(torch)
    a, b = copy.deepcopy([x, x])
    log(a is b, a)


@cases
def shallow_copy(torch, log):
    x = leaf(torch)
    twin = copy.copy(x)
    log(twin, twin is x)


@cases
def numpy_of_tensors_that_require_grad(torch, log):
    x = leaf(torch)
    attempt(log, "leaf", lambda: x.numpy())
    attempt(log, "non-leaf", lambda: (x * 2).numpy())
    attempt(log, "detached", lambda: x.detach().numpy())
    attempt(log, "forced", lambda: x.numpy(force=True))
    attempt(log, "tolist", lambda: x.tolist())
    attempt(log, "item", lambda: (x[0] * 2).item())
    attempt(log, "float", lambda: float((x[0] * 2).detach()))


@cases
def converting_a_tensor_that_requires_grad_to_a_number(torch, log):
    x = leaf(torch)
    attempt(log, "float", lambda: float(x.sum()))
    attempt(log, "int", lambda: int(x.sum()))
    attempt(log, "bool", lambda: bool(x.sum() > 0))
    attempt(log, "vector", lambda: float(x))


@cases
def tensor_of_a_tensor_warns(torch, log):
    x = leaf(torch)
    twin = torch.tensor(x)
    log(twin, twin.requires_grad)
    log(torch.as_tensor(x) is x)


@cases
def assigning_grad_fn_or_leaf(torch, log):
    x = leaf(torch)
    attempt(log, "grad_fn", lambda: setattr(x, "grad_fn", None), words=0)
    attempt(log, "is_leaf", lambda: setattr(x, "is_leaf", False), words=0)
    attempt(log, "_version", lambda: setattr(x, "_version", 3), words=0)


@cases
def a_leaf_that_became_a_result(torch, log):
    for cut in ("requires_grad_", "detach_"):
        x = leaf(torch)
        y = x * 2
        getattr(x, cut)(*[False] * (cut == "requires_grad_"))
        x.mul_(leaf(torch))
        attempt(log, cut, lambda: y.sum().backward(), words=8)
