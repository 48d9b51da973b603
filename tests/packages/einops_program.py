"""Tensors rearranged by einops."""

import copy
import pickle

import einops
import torch
from einops import asnumpy, einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)
x = torch.randn(2, 3, 4, 6, requires_grad=True)
patches = rearrange(x, "b c (h p) (w q) -> b (h w) (c p q)", p=2, q=3)
print(patches.shape, patches.grad_fn.name())
patches.pow(2).sum().backward()
print(x.grad.sum())

for operation in ("mean", "sum", "max", "min", "prod"):
    print(operation, reduce(x, "b c h w -> b c", operation))
print(reduce(x > 0, "b c h w -> b", "any"), reduce(x > -9, "b c h w -> b", "all"))
print(repeat(torch.arange(3), "i -> i j", j=2), parse_shape(x, "b c _ w"))
print(einsum(x, torch.randn(6, 5), "b c h w, w d -> b c h d").sum())
packed, shapes = pack([torch.randn(2, 3), torch.randn(2, 3, 5)], "b c *")
print(packed.shape, shapes, [part.shape for part in unpack(packed, shapes, "b c *")])
print(rearrange([torch.ones(2), torch.zeros(2)], "a b -> b a"), asnumpy(x.detach()).dtype)
try:
    rearrange(x, "a b -> b a")
except einops.EinopsError as error:
    print(str(error).splitlines()[0])

model = torch.nn.Sequential(
    Rearrange("b c h w -> b (c h w)"),
    torch.nn.Linear(72, 8),
    Rearrange("b (k l) -> b k l", k=2),
    Reduce("b k l -> b k", "mean"),
)
output = model(x)
output.sum().backward()
print(model, output, model[1].weight.grad.sum())
print(torch.equal(pickle.loads(pickle.dumps(model))(x), output), torch.equal(copy.deepcopy(model)(x), output))
mix = EinMix("b c h w -> b w d", weight_shape="c h d", bias_shape="d", c=3, h=4, d=5)
print(mix, mix(x).sum())
