"""A tour of the hooks that need no module, in the order in which they fire.

One small regression, `loss = mean((tanh(x @ w + b) - target)²)`, with a hook at every place where autograd lets you
hang one. Run it with `python examples/hooks_tour.py`; on PyTorch it prints the same.
"""

import undertow as torch
from undertow.autograd.graph import register_multi_grad_hook, saved_tensors_hooks


def shaped(tensor):
    return f"a tensor of shape {'×'.join(map(str, tensor.shape))}"


def numbers(tensor):
    return "  ".join(f"{value:+.4f}" for value in tensor.flatten().tolist())


def told(who, what):
    print(f"  {who:<22} {what}")


x = torch.tensor([[0.5, -1.0], [1.5, 2.0], [-0.5, 1.0]])
target = torch.tensor([0.0, 1.0, 0.5])
w = torch.tensor([0.3, -0.2], requires_grad=True)
b = torch.tensor(0.1, requires_grad=True)


print("Forward: saved-tensor hooks see what the backward pass will need")


def pack(tensor):
    told("pack", f"{shaped(tensor)} is kept")
    return tensor


def unpack(tensor):
    told("unpack", f"{shaped(tensor)} is needed again")
    return tensor


with saved_tensors_hooks(pack, unpack):
    prediction = (x @ w + b).tanh()
    loss = (prediction - target).square().mean()


# A tensor hook sees the gradient before it flows on. What it returns takes the gradient's place.
def halve(gradient):
    told("tensor hook", f"prediction: {numbers(gradient)}, halved")
    return gradient / 2


prediction.register_hook(halve)
w.register_hook(lambda gradient: told("tensor hook", f"w: {numbers(gradient)}"))


# A post-accumulate hook sees the leaf after its .grad was written: the place for a step of descent without an optimizer.
def step(leaf):
    told("post-accumulate hook", f"w.grad is {numbers(leaf.grad)}: step, and forget it")
    with torch.no_grad():
        leaf -= 0.1 * leaf.grad
    leaf.grad = None


w.register_post_accumulate_grad_hook(step)


# A node's hooks stand around one step of the backward pass.
tanh = prediction.grad_fn
assert tanh is not None  # it was computed
name = tanh.name()
tanh.register_prehook(lambda coming_in: told("node pre-hook", f"{name} is about to run"))
tanh.register_hook(lambda going_out, coming_in: told("node hook", f"{name} ran: {numbers(going_out[0])}"))


# A multi-grad hook waits for several tensors.
register_multi_grad_hook((w, b), lambda gradients: told("multi-grad hook", "w and b both have their gradients"))


print("Backward")
before = numbers(w)
loss.backward()

print("After")
told("w", f"{before}  became  {numbers(w)}")
told("w.grad", w.grad)
told("b.grad", numbers(b.grad))
