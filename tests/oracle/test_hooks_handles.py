"""`RemovableHandle`, and hooks that come and go while a backward pass runs."""

from __future__ import annotations

import copy
import gc
import pickle
from collections import OrderedDict

from tests.oracle.harness import agree
from tests.oracle.programs import Table, attempt, leaf, note

cases = Table()


@cases.test
def test_handles(program):
    agree(program, graph=True)


@cases
def remove_twice(torch, log):
    x = leaf(torch)
    handle = x.register_hook(note(log, "x"))
    handle.remove()
    handle.remove()
    x.sum().backward()
    log(len(x._backward_hooks))


@cases
def remove_out_of_order(torch, log):
    x = leaf(torch)
    handles = [x.register_hook(note(log, index)) for index in range(4)]
    for index in (1, 3, 0):
        handles[index].remove()
        x.sum().backward()


@cases
def remove_between_forward_and_backward(torch, log):
    x = leaf(torch)
    y = x * 2
    handle = y.register_hook(note(log, "y"))
    root = y.sum()
    handle.remove()
    root.backward()


@cases
def register_between_forward_and_backward(torch, log):
    x = leaf(torch)
    y = x * 2
    root = y.sum()
    y.register_hook(note(log, "y"))
    x.register_hook(note(log, "x"))
    root.backward()


@cases
def register_after_the_first_backward(torch, log):
    x = leaf(torch)
    y = x * 2
    root = y.sum()
    root.backward(retain_graph=True)
    y.register_hook(note(log, "y"))
    x.register_hook(note(log, "x"))
    root.backward()
    return x.grad


@cases
def as_a_context(torch, log):
    x = leaf(torch)
    with x.register_hook(note(log, "inside")) as handle:
        log(type(handle).__name__)
        x.sum().backward()
    x.sum().backward()
    return x.grad


@cases
def as_a_context_that_raises(torch, log):
    x = leaf(torch)

    def body():
        with x.register_hook(note(log, "inside")):
            raise ValueError("on purpose")

    attempt(log, "body", body)
    x.sum().backward()


@cases
def removed_inside_its_context(torch, log):
    x = leaf(torch)
    with x.register_hook(note(log, "inside")) as handle:
        handle.remove()
        x.sum().backward()


@cases
def class_and_public_names(torch, log):
    from_hooks = type(leaf(torch).register_hook(print))
    log(from_hooks is torch.utils.hooks.RemovableHandle, from_hooks.__name__)
    x = leaf(torch)
    first, second = x.register_hook(print), x.register_hook(print)
    log(second.id - first.id, list(x._backward_hooks) == [first.id, second.id])
    log(first.hooks_dict_ref() is x._backward_hooks)


@cases
def handle_outlives_its_tensor(torch, log):
    x = leaf(torch)
    handle = x.register_hook(print)
    del x
    gc.collect()
    log(handle.hooks_dict_ref() is None)
    handle.remove()
    with handle:
        log("still usable")


@cases
def pickled_handle(torch, log):
    x = leaf(torch)
    handle = x.register_hook(abs)
    twin = pickle.loads(pickle.dumps(handle))
    log(twin.id == handle.id, type(twin) is type(handle))
    twin.remove()  # it belongs to the pickled copy of the mapping
    (-x).sum().backward()
    log(x.grad)
    handle.remove()
    (-x).sum().backward()
    log(x.grad)


@cases
def pickled_handle_of_a_removed_hook(torch, log):
    x = leaf(torch)
    handle = x.register_hook(abs)
    handle.remove()
    twin = pickle.loads(pickle.dumps(handle))
    twin.remove()
    log(twin.id == handle.id, len(pickle.loads(pickle.dumps(twin)).hooks_dict_ref() or ()))


@cases
def a_hook_that_cannot_be_pickled_keeps_its_handle_from_it(torch, log):
    handle = leaf(torch).register_hook(note(log, "x"))
    attempt(log, "after the tensor is gone", lambda: pickle.loads(pickle.dumps(handle)).id == handle.id)


@cases
def copied_handle(torch, log):
    x = leaf(torch)
    handle = x.register_hook(note(log, "x"))
    twin = copy.copy(handle)
    log(twin.id == handle.id)
    twin.remove()
    x.sum().backward()


@cases
def handle_made_by_hand(torch, log):
    attempt(log, "a plain dict cannot be referred to weakly", lambda: torch.utils.hooks.RemovableHandle({}), words=0)
    hooks = OrderedDict()
    handle = torch.utils.hooks.RemovableHandle(hooks)
    hooks[handle.id] = print
    handle.remove()
    log(len(hooks))


@cases
def handles_of_different_owners_have_different_ids(torch, log):
    x, y = leaf(torch), leaf(torch)
    ids = [x.register_hook(print).id, y.register_hook(print).id]
    ids.append(x.register_post_accumulate_grad_hook(print).id)
    log([later - ids[0] for later in ids])


# --- while hooks run -----------------------------------------------------------------------------------------------------


@cases
def removes_itself(torch, log):
    x = leaf(torch)
    handles = []

    def once(g):
        log("once", g)
        handles[0].remove()

    handles.append(x.register_hook(once))
    x.register_hook(note(log, "always"))
    x.sum().backward()
    x.sum().backward()


@cases
def removes_itself_and_replaces_the_value(torch, log):
    x = leaf(torch)
    handles = []

    def once(g):
        handles[0].remove()
        return g * 10

    handles.append(x.register_hook(once))
    x.register_hook(note(log, "always"))
    x.sum().backward()
    x.sum().backward()
    return x.grad


@cases
def removes_the_next_hook(torch, log):
    x = leaf(torch)
    handles = []

    def first(g):
        log("first")
        handles[1].remove()

    handles.append(x.register_hook(first))
    handles.append(x.register_hook(note(log, "second")))
    handles.append(x.register_hook(note(log, "third")))
    x.sum().backward()
    x.sum().backward()


@cases
def removes_an_earlier_hook(torch, log):
    x = leaf(torch)
    handles = [x.register_hook(note(log, "first"))]
    x.register_hook(lambda g: handles[0].remove())
    x.sum().backward()
    x.sum().backward()


@cases
def adds_a_hook_to_the_same_tensor(torch, log):
    x = leaf(torch)

    def adder(g):
        log("adder")
        x.register_hook(note(log, "added"))

    x.register_hook(adder)
    x.sum().backward()
    x.sum().backward()


@cases
def adds_a_hook_to_a_tensor_that_comes_later(torch, log):
    x = leaf(torch)
    y = x * 2
    z = y * 3

    def adder(g):
        y.register_hook(note(log, "added to y"))
        x.register_hook(note(log, "added to x"))
        y.grad_fn.register_prehook(lambda g: log("pre-hook added"))
        x.register_post_accumulate_grad_hook(lambda t: log("post-accumulate added"))

    z.register_hook(adder)
    z.sum().backward()


@cases
def removes_a_hook_of_a_tensor_that_comes_later(torch, log):
    x = leaf(torch)
    y = x * 2
    z = y * 3
    handle = y.register_hook(note(log, "y"))
    z.register_hook(lambda g: handle.remove())
    z.sum().backward()


@cases
def adds_a_hook_to_a_tensor_that_is_over(torch, log):
    x = leaf(torch)
    y = x * 2
    x.register_hook(lambda g: y.register_hook(note(log, "too late")) and None)
    y.sum().backward(retain_graph=True)
    log("second")
    y.sum().backward()


@cases
def retains_a_gradient_that_comes_later(torch, log):
    x = leaf(torch)
    y = x * 2
    z = y * 3
    z.register_hook(lambda g: y.retain_grad())
    z.sum().backward()
    return y.grad


@cases
def node_hooks_that_remove_themselves(torch, log):
    x = leaf(torch)
    y = x * 2
    handles = []

    def before(outputs):
        log("pre")
        handles[0].remove()

    def after(inputs, outputs):
        log("post")
        handles[1].remove()

    handles += [y.grad_fn.register_prehook(before), y.grad_fn.register_hook(after)]
    y.grad_fn.register_prehook(lambda outputs: log("second pre"))
    y.grad_fn.register_hook(lambda inputs, outputs: log("second post"))
    y.sum().backward(retain_graph=True)
    y.sum().backward()


@cases
def post_accumulate_hook_that_removes_itself(torch, log):
    x = leaf(torch)
    handles = []

    def once(t):
        log("once", t.grad)
        handles[0].remove()

    handles.append(x.register_post_accumulate_grad_hook(once))
    x.register_post_accumulate_grad_hook(lambda t: log("always"))
    x.sum().backward()
    x.sum().backward()


@cases
def removed_hooks_return_nothing_to_the_value(torch, log):
    x = leaf(torch)
    y = x * 3
    first = y.register_hook(lambda g: g * 100)
    y.register_hook(lambda g: g * 2)
    first.remove()
    y.sum().backward()
    return x.grad


@cases
def editing_the_mapping_directly(torch, log):
    x = leaf(torch)
    handle = x.register_hook(note(log, "registered"))
    x._backward_hooks[handle.id] = note(log, "swapped in")
    x._backward_hooks["mine"] = note(log, "put in by hand")
    x.sum().backward()
    x._backward_hooks.clear()
    x.sum().backward()
    log(x.grad)


@cases
def assigning_backward_hooks(torch, log):
    x = leaf(torch)
    x.register_hook(note(log, "x"))
    x._backward_hooks = None
    x.sum().backward()
    log(x._backward_hooks is None)
