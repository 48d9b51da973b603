"""Which tensors a function saves, and in which order pack hooks see them; what its node shows of them."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree, agree_error


class Given:
    """The tensors that the functions are called with."""

    def __init__(self, torch):
        self.torch, self.nn = torch, torch.nn.functional
        self.x = torch.tensor([[0.3, 0.7, 0.1], [0.6, 0.2, 0.4], [0.9, 0.5, 0.8]], requires_grad=True)
        self.weight = torch.ones(3, requires_grad=True)
        self.image = torch.arange(64.0).reshape(1, 4, 4, 4).requires_grad_()
        self.kernel = torch.ones(2, 4, 3, 3)
        self.heads = torch.ones(1, 2, 3, 4, requires_grad=True)
        self.index = torch.tensor([0, 2])
        self.classes = torch.tensor([0, 1, 2])


FUNCTIONS = {
    "mul": lambda g: g.x * g.x,
    "mul number": lambda g: g.x * 2,
    "div": lambda g: g.x / g.weight,
    "div floor": lambda g: g.torch.div(g.x, g.weight, rounding_mode="floor"),
    "exp": lambda g: g.x.exp(),
    "pow": lambda g: g.x**g.x,
    "where": lambda g: g.torch.where(g.x > 0.5, g.x, 0.0),
    "softmax": lambda g: g.x.softmax(0),
    "linear": lambda g: g.nn.linear(g.x, g.x, g.weight),
    "linear of a batch": lambda g: g.nn.linear(g.image.detach(), g.torch.ones(2, 4, requires_grad=True)),
    "nll_loss": lambda g: g.nn.nll_loss(g.x, g.classes),
    "nll_loss with weights": lambda g: g.nn.nll_loss(g.x, g.classes, weight=g.weight.detach()),
    "nll_loss of images": lambda g: g.nn.nll_loss(g.image, g.torch.zeros(1, 4, 4, dtype=g.torch.long)),
    "cross_entropy": lambda g: g.nn.cross_entropy(g.x, g.classes),
    "conv2d": lambda g: g.nn.conv2d(g.image, g.kernel),
    "conv2d by weight": lambda g: g.nn.conv2d(g.image.detach(), g.kernel.requires_grad_()),
    "conv2d by bias": lambda g: g.nn.conv2d(g.image.detach(), g.kernel, g.torch.ones(2, requires_grad=True)),
    "conv_transpose2d": lambda g: g.nn.conv_transpose2d(g.image, g.torch.ones(4, 2, 3, 3)),
    "batch_norm": lambda g: g.nn.batch_norm(
        g.image, g.torch.zeros(4), g.torch.ones(4), g.torch.ones(4, requires_grad=True), training=True
    ),
    "layer_norm": lambda g: g.nn.layer_norm(g.x, [3], g.weight),
    "max_pool2d": lambda g: g.nn.max_pool2d(g.image, 2),
    "avg_pool2d": lambda g: g.nn.avg_pool2d(g.image, 2, 2),
    "avg_pool1d": lambda g: g.nn.avg_pool1d(g.image[0], 2),
    "adaptive_avg_pool2d": lambda g: g.nn.adaptive_avg_pool2d(g.image, 3),
    "pad reflect": lambda g: g.nn.pad(g.image, (1, 1, 1, 1), mode="reflect"),
    "pad replicate": lambda g: g.nn.pad(g.image, (1, 1, 1, 1), mode="replicate"),
    "embedding": lambda g: g.nn.embedding(g.index, g.x),
    "cummax": lambda g: g.x.cummax(0).values,
    "index_add": lambda g: g.x.index_add(0, g.index, g.x[:2]),
    "index_copy": lambda g: g.x.index_copy(0, g.index, g.x[:2]),
    "index_select": lambda g: g.x.index_select(0, g.index),
    "take": lambda g: g.x.take(g.index),
    "put": lambda g: g.x.put(g.index, g.weight[:2]),
    "masked_select": lambda g: g.x.masked_select(g.x > 0.5),
    "rrelu": lambda g: g.nn.rrelu(g.x, training=True),
    "svd": lambda g: g.torch.linalg.svd(g.x)[1],
    "ctc_loss": lambda g: g.nn.ctc_loss(
        g.image[0, :, :1].log_softmax(2), g.torch.tensor([[1, 2]]), g.torch.tensor([4]), g.torch.tensor([2])
    ),
    "split": lambda g: g.x.split(2)[0],
    "mm": lambda g: g.x @ g.x.t(),
    "unfold": lambda g: g.nn.unfold(g.image, 2),
    "grid_sample": lambda g: g.nn.grid_sample(
        g.image, g.torch.zeros(1, 2, 2, 2), mode="nearest", padding_mode="border"
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_packed(name):
    def program(torch):
        seen = []

        def pack(tensor):
            seen.append((tuple(tensor.shape), tensor.dtype, tensor.is_leaf, tensor.requires_grad))
            return tensor

        given = Given(torch)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = FUNCTIONS[name](given)
        result.sum().backward()
        return seen, given.x.grad, given.image.grad

    agree(program)


def test_attention_packs_its_operands_and_its_result():
    def program(torch):
        seen = []
        given = Given(torch)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.numel()) or t, lambda t: t):
            torch.nn.functional.scaled_dot_product_attention(given.heads, given.heads, given.heads)
        return sorted(seen)

    agree(program)


SHOWN = ["nll_loss", "nll_loss of images", "embedding", "index_add", "index_copy", "split", "mm", "unfold", "svd",
         "grid_sample", "avg_pool2d", "adaptive_avg_pool2d", "pad reflect", "cummax", "take", "masked_select",
         "div floor"]  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_node_shows(name):
    def program(torch):
        node = FUNCTIONS[name](Given(torch)).grad_fn
        return {key: getattr(node, key) for key in sorted(dir(node)) if key.startswith("_saved_")}

    agree(program)


NEGATIVE = {
    "slice": lambda torch, x: x[-2:],
    "slice end": lambda torch, x: x[:-1],
    "diagonal": lambda torch, x: x.tril(-1),
    "offset": lambda torch, x: x.diagonal(-1),
    "shifts": lambda torch, x: x.roll(-1, 0),
    "ignored class": lambda torch, x: torch.nn.functional.nll_loss(x, torch.tensor([0, 1]), ignore_index=-5),
    "dim": lambda torch, x: x.softmax(-1),
    "dims": lambda torch, x: x.sum((-1, 0)),
    "dims of a transpose": lambda torch, x: x.transpose(-1, -2),
    "dim of a part": lambda torch, x: x.split(1, -1)[0],
    "dim of a join": lambda torch, x: torch.cat([x, x], -1),
    "squeezed dim": lambda torch, x: x[None].squeeze(-3),
    "index": lambda torch, x: x[-1],
    "indices": lambda torch, x: x[..., -1],
    "selected": lambda torch, x: x.select(-1, -2),
    "moved": lambda torch, x: x.movedim(-1, 0),
    "transformed": lambda torch, x: torch.fft.fft(x, dim=-2),
    "sorted": lambda torch, x: x.sort().values,
    "scalars keep their sign": lambda torch, x: x.clamp(-1),
    "exponent": lambda torch, x: x**-1,
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_negative_numbers_are_shown_as_pytorch_shows_them(name):
    def program(torch):
        node = NEGATIVE[name](torch, torch.ones(2, 3, requires_grad=True)).grad_fn
        return {key: getattr(node, key) for key in sorted(dir(node)) if key.startswith("_saved_")}

    agree(program)


@pytest.mark.parametrize("name", ["avg_pool2d", "nll_loss", "pad reflect", "adaptive_avg_pool2d"])
def test_a_write_to_what_is_kept_is_refused(name):
    def program(torch):
        given = Given(torch)
        given.x, given.image = given.x * 1, given.image * 1
        result = FUNCTIONS[name](given)
        given.x.add_(1)
        given.image.add_(1)
        result.sum().backward()

    agree_error(program)


def test_checkpoint_gives_back_what_only_undertow_saves():
    def program(torch):
        heads = Given(torch).heads
        attend = torch.nn.functional.scaled_dot_product_attention
        torch.utils.checkpoint.checkpoint(attend, heads, heads, heads, use_reentrant=False).sum().backward()
        return heads.grad

    agree(program)


def test_which_object_an_unpacked_tensor_is():
    def program(torch, log):
        found = []
        keeping = type("Made", (torch.autograd.Function,), {
            "forward": staticmethod(lambda ctx, *given: (ctx.save_for_backward(*given), given[0] * 2)[1]),
            "backward": staticmethod(lambda ctx, g: (found.append(ctx.saved_tensors), (g, None))[1]),
        })  # fmt: skip
        a, c = torch.ones(2, requires_grad=True), torch.ones(2)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            packed = keeping.apply(a, c)
            product = a * c
        for y in (packed, keeping.apply(a, c)):
            y.sum().backward()
            of_a, of_c = found.pop()
            log(of_a is a, of_a.is_leaf, of_a.requires_grad, of_a.grad_fn, of_c is c)
        log(product.grad_fn._saved_other is c)

    agree(program)
