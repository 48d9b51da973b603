"""What `grad_fn` is called after each function, and which `_saved_…` values the common nodes show."""

from __future__ import annotations

import pytest

from tests.oracle.harness import agree


class Given:
    """The tensors that the functions of the table are called with."""

    def __init__(self, torch):
        self.torch, self.nn = torch, torch.nn.functional
        self.x = torch.tensor([[0.3, 0.7], [0.6, 0.2]], requires_grad=True)
        self.y = torch.tensor([[0.5, 0.1], [0.4, 0.9]], requires_grad=True)
        self.v = torch.tensor([0.25, 0.75], requires_grad=True)
        self.square = torch.tensor([[2.0, 0.5], [0.5, 3.0]], requires_grad=True)
        self.image = torch.ones(1, 2, 4, 4, requires_grad=True)
        self.index = torch.tensor([[0, 1], [1, 0]])
        self.mask = torch.tensor([[True, False], [False, True]])


METHODS = """abs neg exp expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh tanh
sigmoid erf erfc erfinv sign round floor ceil trunc relu nan_to_num t clone sum mean prod max min amax amin var std median
norm flatten contiguous diag diagonal tril triu squeeze double half bfloat16 float det inverse""".split()

FUNCTIONS = {
    "add": lambda g: g.x + g.y,
    "add number": lambda g: g.x + 1,
    "sub": lambda g: g.x - g.y,
    "number sub": lambda g: 1 - g.x,
    "rsub": lambda g: g.torch.rsub(g.x, g.y),
    "mul": lambda g: g.x * g.y,
    "mul number": lambda g: g.x * 2,
    "div": lambda g: g.x / g.y,
    "div number": lambda g: g.x / 2,
    "number div": lambda g: 2 / g.x,
    "div floor": lambda g: g.torch.div(g.x, g.y, rounding_mode="floor"),
    "div trunc": lambda g: g.torch.div(g.x, g.y, rounding_mode="trunc"),
    "floor_divide": lambda g: g.x // g.y,
    "remainder": lambda g: g.x % g.y,
    "remainder number": lambda g: g.x % 2,
    "fmod": lambda g: g.torch.fmod(g.x, g.y),
    "fmod number": lambda g: g.torch.fmod(g.x, 2),
    "pow number": lambda g: g.x**2,
    "pow tensor": lambda g: g.x**g.y,
    "number pow": lambda g: 2**g.x,
    "atan2": lambda g: g.torch.atan2(g.x, g.y),
    "maximum": lambda g: g.torch.maximum(g.x, g.y),
    "minimum": lambda g: g.torch.minimum(g.x, g.y),
    "max of two": lambda g: g.torch.max(g.x, g.y),
    "min of two": lambda g: g.torch.min(g.x, g.y),
    "clamp": lambda g: g.x.clamp(0.1, 0.5),
    "clamp min": lambda g: g.x.clamp(min=0.1),
    "clamp max": lambda g: g.x.clamp(max=0.1),
    "clamp tensors": lambda g: g.x.clamp(g.y, g.y),
    "clamp_min": lambda g: g.x.clamp_min(0.1),
    "clamp_max": lambda g: g.x.clamp_max(0.1),
    "lerp number": lambda g: g.torch.lerp(g.x, g.y, 0.5),
    "lerp tensor": lambda g: g.torch.lerp(g.x, g.y, g.v),
    "addcmul": lambda g: g.torch.addcmul(g.x, g.y, g.y),
    "addcdiv": lambda g: g.torch.addcdiv(g.x, g.y, g.y),
    "where": lambda g: g.torch.where(g.mask, g.x, g.y),
    "where number": lambda g: g.torch.where(g.mask, g.x, 0.0),
    "masked_fill": lambda g: g.x.masked_fill(g.mask, 0.0),
    "masked_fill tensor": lambda g: g.x.masked_fill(g.mask, g.v.sum()),
    "masked_select": lambda g: g.x.masked_select(g.mask),
    "masked_scatter": lambda g: g.x.masked_scatter(g.mask, g.y),
    "logaddexp": lambda g: g.torch.logaddexp(g.x, g.y),
    "sum dim": lambda g: g.x.sum(0),
    "sum dtype": lambda g: g.x.sum(dtype=g.torch.float64),
    "mean dim": lambda g: g.x.mean(1, keepdim=True),
    "prod dim": lambda g: g.x.prod(0),
    "max dim": lambda g: g.x.max(0).values,
    "min dim": lambda g: g.x.min(0).values,
    "amax dim": lambda g: g.x.amax(0),
    "median dim": lambda g: g.x.median(0).values,
    "var dim": lambda g: g.x.var(0),
    "std dim": lambda g: g.x.std(0),
    "var_mean": lambda g: g.torch.var_mean(g.x)[0],
    "norm dim": lambda g: g.x.norm(dim=0),
    "norm p": lambda g: g.x.norm(3),
    "norm fro": lambda g: g.x.norm("fro"),
    "logsumexp": lambda g: g.x.logsumexp(0),
    "cumsum": lambda g: g.x.cumsum(0),
    "cumprod": lambda g: g.x.cumprod(0),
    "softmax": lambda g: g.x.softmax(1),
    "log_softmax": lambda g: g.x.log_softmax(1),
    "matmul": lambda g: g.x @ g.y,
    "matmul vector": lambda g: g.x @ g.v,
    "vector matmul": lambda g: g.v @ g.x,
    "vector vector": lambda g: g.v @ g.v,
    "matmul batches": lambda g: g.x[None] @ g.y[None],
    "matmul batch and matrix": lambda g: g.image[0] @ g.image[0, 0],
    "mm": lambda g: g.torch.mm(g.x, g.y),
    "bmm": lambda g: g.torch.bmm(g.x[None], g.y[None]),
    "mv": lambda g: g.torch.mv(g.x, g.v),
    "dot": lambda g: g.torch.dot(g.v, g.v),
    "outer": lambda g: g.torch.outer(g.v, g.v),
    "addmm": lambda g: g.torch.addmm(g.x, g.x, g.y),
    "baddbmm": lambda g: g.torch.baddbmm(g.x[None], g.x[None], g.y[None]),
    "view": lambda g: g.x.view(4),
    "view_as": lambda g: g.x.view_as(g.y),
    "reshape": lambda g: g.x.reshape(4),
    "reshape with a copy": lambda g: g.x.t().reshape(4),
    "unflatten": lambda g: g.v.unflatten(0, (2, 1)),
    "permute": lambda g: g.x.permute(1, 0),
    "transpose": lambda g: g.x.transpose(0, 1),
    "movedim": lambda g: g.x.movedim(0, 1),
    "squeeze dim": lambda g: g.x[None].squeeze(0),
    "squeeze dims": lambda g: g.x[None].squeeze((0, 1)),
    "unsqueeze": lambda g: g.x.unsqueeze(0),
    "expand": lambda g: g.v.expand(2, 2),
    "expand_as": lambda g: g.v.expand_as(g.x),
    "broadcast_to": lambda g: g.torch.broadcast_to(g.v, (2, 2)),
    "repeat": lambda g: g.v.repeat(2),
    "tile": lambda g: g.torch.tile(g.v, (2,)),
    "repeat_interleave": lambda g: g.v.repeat_interleave(2),
    "chunk": lambda g: g.x.chunk(2)[1],
    "split": lambda g: g.x.split(1)[1],
    "split sizes": lambda g: g.x.split([1, 1])[1],
    "unbind": lambda g: g.x.unbind(1)[1],
    "cat": lambda g: g.torch.cat([g.x, g.y]),
    "stack": lambda g: g.torch.stack([g.x, g.y]),
    "hstack": lambda g: g.torch.hstack([g.x, g.y]),
    "vstack": lambda g: g.torch.vstack([g.v, g.v]),
    "flip": lambda g: g.x.flip(0),
    "roll": lambda g: g.x.roll(1, 0),
    "narrow": lambda g: g.x.narrow(0, 0, 1),
    "select": lambda g: g.x.select(0, 1),
    "diag of a vector": lambda g: g.v.diag(),
    "diag_embed": lambda g: g.v.diag_embed(),
    "diagonal dims": lambda g: g.x.diagonal(0, 1, 0),
    "gather": lambda g: g.x.gather(1, g.index),
    "scatter": lambda g: g.x.scatter(1, g.index, g.y),
    "scatter number": lambda g: g.x.scatter(1, g.index, 1.0),
    "scatter_add": lambda g: g.x.scatter_add(1, g.index, g.y),
    "scatter_reduce": lambda g: g.x.scatter_reduce(1, g.index, g.y, "sum"),
    "index_select": lambda g: g.x.index_select(0, g.torch.tensor([0])),
    "index_add": lambda g: g.x.index_add(0, g.torch.tensor([0, 1]), g.y),
    "index_copy": lambda g: g.x.index_copy(0, g.torch.tensor([0, 1]), g.y),
    "index_put": lambda g: g.x.index_put((g.torch.tensor([0]),), g.v),
    "take_along_dim": lambda g: g.torch.take_along_dim(g.x, g.index, 1),
    "getitem number": lambda g: g.x[0],
    "getitem numbers": lambda g: g.x[0, 1],
    "getitem slice": lambda g: g.x[:1],
    "getitem whole slice": lambda g: g.x[:],
    "getitem ellipsis": lambda g: g.x[...],
    "getitem none": lambda g: g.x[None],
    "getitem tensor": lambda g: g.x[g.torch.tensor([0])],
    "getitem mask": lambda g: g.x[g.mask],
    "getitem list": lambda g: g.x[[0, 1]],
    "getitem mixed": lambda g: g.x[:, g.torch.tensor([0])],
    "sort": lambda g: g.x.sort().values,
    "topk": lambda g: g.v.topk(1).values,
    "as_strided": lambda g: g.x.as_strided((2,), (1,)),
    "to float64": lambda g: g.x.to(g.torch.float64),
    "linalg.norm": lambda g: g.torch.linalg.norm(g.x),
    "linalg.vector_norm": lambda g: g.torch.linalg.vector_norm(g.x),
    "linalg.det": lambda g: g.torch.linalg.det(g.square),
    "linalg.slogdet": lambda g: g.torch.linalg.slogdet(g.square)[1],
    "linalg.inv": lambda g: g.torch.linalg.inv(g.square),
    "linalg.solve": lambda g: g.torch.linalg.solve(g.square, g.v),
    "linalg.cholesky": lambda g: g.torch.linalg.cholesky(g.square),
    "linalg.qr": lambda g: g.torch.linalg.qr(g.square)[0],
    "linalg.svd": lambda g: g.torch.linalg.svd(g.square)[1],
    "linalg.eigh": lambda g: g.torch.linalg.eigh(g.square)[0],
    "linear": lambda g: g.nn.linear(g.x, g.y, g.v),
    "linear without bias": lambda g: g.nn.linear(g.x, g.y),
    "relu": lambda g: g.nn.relu(g.x),
    "gelu": lambda g: g.nn.gelu(g.x),
    "gelu tanh": lambda g: g.nn.gelu(g.x, approximate="tanh"),
    "silu": lambda g: g.nn.silu(g.x),
    "leaky_relu": lambda g: g.nn.leaky_relu(g.x),
    "elu": lambda g: g.nn.elu(g.x),
    "softplus": lambda g: g.nn.softplus(g.x),
    "layer_norm": lambda g: g.nn.layer_norm(g.x, (2,)),
    "group_norm": lambda g: g.nn.group_norm(g.image, 1),
    "batch_norm": lambda g: g.nn.batch_norm(g.x, None, None, training=True),
    "conv1d": lambda g: g.nn.conv1d(g.image[0], g.torch.ones(1, 4, 1)),
    "conv2d": lambda g: g.nn.conv2d(g.image, g.torch.ones(1, 2, 1, 1)),
    "conv_transpose2d": lambda g: g.nn.conv_transpose2d(g.image, g.torch.ones(2, 1, 1, 1)),
    "max_pool2d": lambda g: g.nn.max_pool2d(g.image, 2),
    "avg_pool2d": lambda g: g.nn.avg_pool2d(g.image, 2),
    "adaptive_avg_pool2d": lambda g: g.nn.adaptive_avg_pool2d(g.image, 2),
    "adaptive_avg_pool2d to one": lambda g: g.nn.adaptive_avg_pool2d(g.image, 1),
    "embedding": lambda g: g.nn.embedding(g.torch.tensor([0]), g.x),
    "dropout": lambda g: g.nn.dropout(g.x, 0.5),
    "dropout off": lambda g: g.nn.dropout(g.x, 0.5, training=False) * 1,
    "pad": lambda g: g.nn.pad(g.x, (1, 1)),
    "pad reflect": lambda g: g.nn.pad(g.image, (1, 1, 1, 1), mode="reflect"),
    "interpolate nearest": lambda g: g.nn.interpolate(g.image, scale_factor=2),
    "interpolate bilinear": lambda g: g.nn.interpolate(g.image, scale_factor=2, mode="bilinear"),
    "cross_entropy": lambda g: g.nn.cross_entropy(g.x, g.torch.tensor([0, 1])),
    "nll_loss": lambda g: g.nn.nll_loss(g.x, g.torch.tensor([0, 1])),
    "mse_loss": lambda g: g.nn.mse_loss(g.x, g.y),
    "l1_loss": lambda g: g.nn.l1_loss(g.x, g.y),
    "smooth_l1_loss": lambda g: g.nn.smooth_l1_loss(g.x, g.y),
    "huber_loss": lambda g: g.nn.huber_loss(g.x, g.y),
    "binary_cross_entropy": lambda g: g.nn.binary_cross_entropy(g.x, g.torch.ones(2, 2)),
    "bce_with_logits": lambda g: g.nn.binary_cross_entropy_with_logits(g.x, g.torch.ones(2, 2)),
    "kl_div": lambda g: g.nn.kl_div(g.x, g.torch.ones(2, 2), reduction="sum"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_name_after_a_function(name):
    agree(lambda torch: _name(FUNCTIONS[name](Given(torch))))


@pytest.mark.parametrize("name", METHODS)
def test_name_after_a_method(name):
    agree(lambda torch: _name(getattr(Given(torch).x, name)()))


def _name(result):
    return None if result.grad_fn is None else result.grad_fn.name()


IN_PLACE = {
    "add_": lambda g, y: y.add_(1),
    "sub_": lambda g, y: y.sub_(g.y),
    "mul_": lambda g, y: y.mul_(g.y),
    "div_": lambda g, y: y.div_(2),
    "pow_": lambda g, y: y.pow_(2),
    "exp_": lambda g, y: y.exp_(),
    "relu_": lambda g, y: y.relu_(),
    "clamp_": lambda g, y: y.clamp_(0.1, 0.5),
    "zero_": lambda g, y: y.zero_(),
    "fill_": lambda g, y: y.fill_(3.0),
    "copy_": lambda g, y: y.copy_(g.y),
    "copy_ plain": lambda g, y: y.copy_(g.y.detach()),
    "masked_fill_": lambda g, y: y.masked_fill_(g.mask, 0.0),
    "index_add_": lambda g, y: y.index_add_(0, g.torch.tensor([0, 1]), g.y),
    "index_copy_": lambda g, y: y.index_copy_(0, g.torch.tensor([0, 1]), g.y),
    "index_put_": lambda g, y: y.index_put_((g.torch.tensor([0]),), g.v),
    "scatter_": lambda g, y: y.scatter_(1, g.index, g.y),
    "scatter_add_": lambda g, y: y.scatter_add_(1, g.index, g.y),
    "setitem number": lambda g, y: y.__setitem__(0, 1.0) or y,
    "setitem slice": lambda g, y: y.__setitem__((slice(None), 0), g.v) or y,
    "setitem whole": lambda g, y: y.__setitem__(slice(None), g.y) or y,
    "setitem ellipsis": lambda g, y: y.__setitem__(..., g.y) or y,
    "setitem mask": lambda g, y: y.__setitem__(g.mask, 0.0) or y,
    "setitem tensor": lambda g, y: y.__setitem__(g.torch.tensor([0]), g.v) or y,
    "t_": lambda g, y: y.t_(),
    "unsqueeze_": lambda g, y: y.unsqueeze_(0),
    "transpose_": lambda g, y: y.transpose_(0, 1),
    "normal_": lambda g, y: y.normal_(),
    "uniform_": lambda g, y: y.uniform_(),
    "detach_": lambda g, y: y.detach_(),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_name_after_an_in_place_function(name):
    def program(torch, log):
        given = Given(torch)
        y = given.x * 1
        log(IN_PLACE[name](given, y) is y)
        log(_name(y), y._version, y.requires_grad)

    agree(program)


# The values that a node shows as `_saved_…`: tensors, and the arguments of the function that its gradient needs.
SAVED = {
    "mul": ("self", "other"),
    "mul number": ("self", "other"),
    "div": ("self", "other"),
    "add": ("alpha",),
    "sub": ("alpha",),
    "pow number": ("self", "exponent"),
    "pow tensor": ("self", "exponent", "result"),
    "number pow": ("self", "exponent", "result"),
    "atan2": ("self", "other"),
    "maximum": ("self", "other"),
    "clamp": ("self", "min", "max"),
    "clamp min": ("self", "min", "max"),
    "lerp number": ("weight",),
    "lerp tensor": ("self", "end", "weight"),
    "addcmul": ("tensor1", "tensor2", "value"),
    "addcdiv": ("tensor1", "tensor2", "value"),
    "where": ("condition",),
    "masked_fill": ("mask",),
    "sum dim": ("dim", "keepdim"),
    "mean dim": ("dim", "keepdim"),
    "prod dim": ("self", "result", "dim", "keepdim"),
    "max dim": ("indices", "dim", "keepdim"),
    "amax dim": ("self", "result", "dim", "keepdim"),
    "logsumexp": ("self", "result", "dim", "keepdim"),
    "cumsum": ("dim",),
    "cumprod": ("self", "result", "dim"),
    "softmax": ("result", "dim"),
    "log_softmax": ("result", "dim"),
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "mv": ("self", "vec"),
    "dot": ("self", "tensor"),
    "addmm": ("mat1", "mat2", "alpha", "beta"),
    "view": ("self_sym_sizes",),
    "reshape with a copy": ("self_sym_sizes",),
    "expand": ("self_sym_sizes",),
    "squeeze dim": ("self_sym_sizes", "dim"),
    "split": ("dim", "split_size"),
    "permute": ("dims",),
    "transpose": ("dim0", "dim1"),
    "unsqueeze": ("dim",),
    "repeat": ("repeats", "self_sym_sizes"),
    "cat": ("dim",),
    "stack": ("dim",),
    "flip": ("dims",),
    "roll": ("shifts", "dims"),
    "select": ("dim", "index", "self_sym_sizes"),
    "getitem slice": ("dim", "start", "end", "step", "self_sym_sizes"),
    "getitem tensor": ("indices", "self_sym_sizes"),
    "gather": ("dim", "index"),
    "scatter": ("dim", "index"),
    "scatter_add": ("dim", "index"),
    "index_select": ("dim", "index", "self_sym_sizes"),
    "linalg.inv": ("inverse",),
    "gelu": ("self", "approximate"),
    "leaky_relu": ("self", "negative_slope"),
    "mse_loss": ("self", "target", "reduction"),
    "relu": ("result",),
}


@pytest.mark.parametrize("name", SAVED)
def test_saved_values(name):
    def program(torch, log):
        node = FUNCTIONS[name](Given(torch)).grad_fn
        for attribute in SAVED[name]:
            log(attribute, getattr(node, f"_saved_{attribute}"))

    agree(program)


@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "sin", "tanh", "sigmoid", "abs", "reciprocal", "prod", "var", "max"]
)
def test_saved_values_of_methods(name):
    def program(torch, log):
        node = getattr(Given(torch).x, name)().grad_fn
        log({a: getattr(node, a) for a in ("_saved_self", "_saved_result") if hasattr(node, a)})

    agree(program)


def test_gradients_of_softmax_are_steps_of_their_own():
    def program(torch, log):
        for name in ("softmax", "log_softmax"):
            x = torch.tensor([[0.1, 0.7, -0.2], [1.0, 0.3, 0.5]], dtype=torch.float64, requires_grad=True)
            v = torch.tensor([[0.3, 0.1, 0.9], [0.2, -1.0, 0.4]], dtype=torch.float64, requires_grad=True)
            (g,) = torch.autograd.grad(getattr(x, name)(1), x, v, create_graph=True)
            log(g.grad_fn.name(), [node.name() for node, _ in g.grad_fn.next_functions], g.grad_fn._saved_dim)
            second = torch.autograd.grad((g**2).sum(), [x, v], create_graph=True)
            log(g, second, torch.autograd.grad((second[0] ** 2).sum() + (second[1] ** 3).sum(), [x, v]))

    agree(program, requires_grad=False)


# What PyTorch's backward computes with one kernel is one node when it is recorded.
ONE_KERNEL = """g.x.tanh() | g.x.sigmoid() | g.nn.gelu(g.x) | g.nn.gelu(g.x, approximate="tanh") | g.nn.elu(g.x)
g.nn.leaky_relu(g.x) | g.nn.softplus(g.x) | g.nn.logsigmoid(g.x) | g.nn.hardtanh(g.x) | g.nn.relu6(g.x) | g.nn.selu(g.x)
g.nn.softshrink(g.x) | g.nn.hardshrink(g.x) | g.nn.prelu(g.x, g.v) | g.nn.glu(g.x) | g.nn.mse_loss(g.x, g.y)
g.nn.smooth_l1_loss(g.x, g.y) | g.nn.huber_loss(g.x, g.y) | g.nn.nll_loss(g.x, g.index[0]) | g.nn.max_pool2d(g.image, 2)
g.nn.avg_pool2d(g.image, 2) | g.nn.adaptive_avg_pool2d(g.image, 2) | g.nn.adaptive_max_pool2d(g.image, 2)
g.nn.interpolate(g.image, scale_factor=2) | g.nn.interpolate(g.image, scale_factor=2, mode="bilinear")
g.nn.pad(g.image, (1, 1, 1, 1), mode="reflect") | g.nn.pad(g.image, (1, 1, 1, 1), mode="replicate") | g.nn.softmax(g.x, 1)
g.nn.layer_norm(g.x, (2,)) | g.nn.batch_norm(g.x, None, None, training=True) | g.torch.bmm(g.image[0], g.image[0])
g.nn.hardswish(g.x) | g.nn.rrelu(g.x) | g.x.log_softmax(1) | g.nn.silu(g.x) | g.nn.relu(g.x)"""


@pytest.mark.parametrize("text", [text.strip() for line in ONE_KERNEL.split("\n") for text in line.split("|")])
def test_nodes_of_recorded_gradients(text):
    def program(torch):
        given = Given(torch)
        result = eval(text, {"g": given})
        leaves = [given.x, given.y, given.v, given.image]
        gradients = torch.autograd.grad(result.sum(), leaves, create_graph=True, allow_unused=True)
        return [None if each is None or each.grad_fn is None else each.grad_fn.name() for each in gradients]

    agree(program)


STEPS = """maximum|minimum|max of two|min of two|lerp tensor|max dim|min dim|median dim|vector matmul|matmul batches|bmm
baddbmm|reshape with a copy|squeeze dim|squeeze dims|unsqueeze|expand|expand_as|broadcast_to|repeat_interleave|index_put
getitem none|getitem tensor|getitem mask|getitem list|getitem mixed|sort|topk|as_strided|linear|linear without bias
binary_cross_entropy|permute|movedim|t"""


@pytest.mark.parametrize("name", STEPS.replace("\n", "|").split("|"))
def test_last_step_of_a_recorded_gradient(name):
    def program(torch):
        given = Given(torch)
        result = FUNCTIONS[name](given) if name in FUNCTIONS else getattr(given.x, name)()
        result = result[0] if isinstance(result, tuple) else result
        leaves = [value for value in vars(given).values() if isinstance(value, torch.Tensor) and value.requires_grad]
        seed = torch.ones_like(result).requires_grad_()
        gradients = torch.autograd.grad(result, leaves, seed, create_graph=True, allow_unused=True)
        return [None if each is None or each.grad_fn is None else each.grad_fn.name() for each in gradients]

    agree(program)


# --- the graph of a recorded gradient -----------------------------------------------------------------------------------

SECOND = {
    "mul": lambda torch, x, y: x * y,
    "div": lambda torch, x, y: x / y,
    "pow": lambda torch, x, y: x**2,
    "pow of tensors": lambda torch, x, y: x**y,
    "sqrt": lambda torch, x, y: x.sqrt(),
    "exp": lambda torch, x, y: x.exp(),
    "sum": lambda torch, x, y: x.sum() * y,
    "mean": lambda torch, x, y: x.mean() * x,
    "var": lambda torch, x, y: x.var(1),
    "dot": lambda torch, x, y: x[0].dot(y[0]),
    "square": lambda torch, x, y: x.square(),
    "number over tensor": lambda torch, x, y: 3 / x,
    "tensor over number": lambda torch, x, y: x**2 / 3,
    "lerp": lambda torch, x, y: x.lerp(y, 0.3) * x,
    "addcmul": lambda torch, x, y: torch.addcmul(x, x, y, value=2),
    "sub": lambda torch, x, y: torch.sub(x, y, alpha=2) * x,
}


@pytest.mark.parametrize("name", SECOND)
def test_names_in_a_recorded_gradient(name):
    def tree(node):
        if node is None or "AccumulateGrad" in node.name():
            return None if node is None else "leaf"
        return (node.name(), [tree(before) for before, _ in node.next_functions])

    def program(torch, log):
        x = torch.rand(2, 3, requires_grad=True)
        y = torch.rand(2, 3, requires_grad=True)
        result = SECOND[name](torch, x, y).sum()
        for gradient in torch.autograd.grad(result, [x, y], create_graph=True, allow_unused=True):
            log(None if gradient is None else tree(gradient.grad_fn))
        gradient.sum().backward() if gradient is not None and gradient.requires_grad else None
        log(x.grad, y.grad)

    agree(program)
