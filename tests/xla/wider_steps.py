"""Programs for `step_fuzzer` with what `wide_steps` has not: gradients and layouts as state, running tensors, rare hooks.

Seeds below `step_fuzzer.WIDER` keep their programs, so that a seed which once differed can be tried again.
"""

from __future__ import annotations

from tests.xla import wide_steps

PRELUDE = (
    wide_steps.PRELUDE
    + """
import contextvars, weakref
BUFFER, BANK, POINTER = torch.zeros(2), torch.zeros(3, 2), 0
AVERAGE = {}
MODE = contextvars.ContextVar("MODE", default="a")

class Registry:
    entries = {}
    default = None
    @classmethod
    def add(cls, name, value):
        cls.entries[name] = value
        cls.default = name
    @staticmethod
    def size():
        return len(Registry.entries)

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        LOG.append("double")
        return g * 2 + x * 0

def smoothed(name, value, rate=0.9):
    AVERAGE[name] = value if name not in AVERAGE else rate * AVERAGE[name] + (1 - rate) * value
    return AVERAGE[name]

def micro(x, parts):
    return [model(part) for part in x.split(parts)]
"""
)

EFFECTS = [
    *wide_steps.EFFECTS, "LOG.append({t}.stride())", "LOG.append(({t}.is_contiguous(), {t}.ndim))",
    "KEPT.append(model[0].weight.grad)", "S['last'] = model[2].weight.grad", "LOG.append(model[0].weight.grad is None)",
    "SPACE.last = model[0].weight", "BUFFER.mul_(0.9).add_({t}.detach().mean())", "LOG.append(BUFFER.sum().item())",
    "BUFFER[COUNT % 2] = {t}.detach().sum()", "BANK[POINTER] = {t}.detach().mean()",
    "global POINTER; POINTER = (POINTER + 1) % 3", "smoothed('{i}', {t}.detach().mean())",
    "smoothed('{i}', {t}.mean().item())", "LOG.append(smoothed('n', float(COUNT)))", "Registry.add('{i}', COUNT)",
    "Registry.add('{i}', {t}.detach())", "LOG.append(Registry.size())", "LOG.append(MODE.get())",
    "with torch.no_grad(): model[0].bias.add_(0.01 * {t}.detach().mean())", "LOG.append({t}._version)",
    "LOG.append([name for name, p in model.named_parameters() if p.grad is not None])",
    "if {t}.detach().isnan().any(): raise ValueError('nan')", "LOG.append(sum(p.numel() for p in model.parameters()))",
    "OUT['{i}'] = [p.grad for p in model.parameters()]", "KEPT.append({t}.detach().t() if {t}.ndim == 2 else {t}.detach())",
    "KEPT.append({t}.detach().reshape(-1)[:1])", "LOG.append(str({t}.dtype))", "LOG.append(round({t}.norm().item(), 1))",
    "LOG.append({t}.detach().flatten().tolist())", "torch.rand(2)", "LOG.append(torch.rand(()).item())",
    "for group in optimizer.param_groups: LOG.append(len(group['params']))",
    "LOG.append({t}.detach().round(decimals=3).argmax().item())",  # rounded: engines order rounding errors differently
    "NUMBERS[:] = NUMBERS[::-1].copy()", "RECORD.values[-2:] = [COUNT]", "LOG.append(len([*model.modules()]))",
]  # fmt: skip
CHANGES = [
    *wide_steps.CHANGES, "{t} + torch.randn_like({t}.t()).t() * 0.01 if {t}.ndim == 2 else {t}",
    "{t} + BUFFER.mean()", "{t} * (1 + BANK.sum())", "Double.apply({t})", "{t} * (POINTER + 1)",
    "{t} if model[0].weight.grad is None else {t} + model[0].weight.grad.mean()", "torch.nn.functional.dropout({t}, 0.2)",
    "{t} + smoothed('c', {t}.detach().mean())", "{t}.t().contiguous().t() if {t}.ndim == 2 else {t}", "{t}.contiguous()",
    "{t} * (2 if MODE.get() == 'a' else 1)", "{t} + (S['last'].mean() if isinstance(S.get('last'), torch.Tensor) else 0)",
    "{t} * (0.5 if Registry.default is None else 1)",
    "{t} + sum(k.mean() for k in KEPT[-2:] if isinstance(k, torch.Tensor))",
    "{t} * torch.bernoulli(torch.full_like({t}, 0.5))", "{t}.sort(0).values", "{t} + {t}.detach().flatten()[0]",
]  # fmt: skip
BETWEEN = [
    *wide_steps.BETWEEN, "KEPT.append(model[2].weight.grad)", "S['last'] = model[0].weight.grad", "BUFFER.fill_(0.5)",
    "BUFFER = torch.ones(2)", "BANK.zero_()", "POINTER = 2", "AVERAGE.clear()", "MODE.set('b')", "Registry.entries = {}",
    "Registry.add('x', 1)", "model[0].weight.data = model[0].weight.data.t().contiguous().t()",
    "g = model[0].weight.grad; model[0].weight.grad = None if g is None else g.t().contiguous().t()",
    "g = model[0].weight.grad; model[0].weight.grad = None if g is None else g.clone()", "KEPT[:] = KEPT[-1:]",
    "model[2].weight.grad = S['last'] if getattr(S.get('last'), 'shape', 0) == (2, 3) else None", "KEPT.reverse()",
    "KEPT and isinstance(KEPT[-1], torch.Tensor) and KEPT[-1].detach().mul_(0.5)", "KEPT.append(BUFFER)",
    "BUFFER = BANK[0]", "optimizer.param_groups[0]['params'].reverse()", "scale.requires_grad_(True)", "scale.grad = None",
    "Double.backward = staticmethod(lambda ctx, g: g * 3)", "smoothed = lambda name, value, rate=0.5: value",
    "nn.utils.parametrizations.weight_norm(model[0])", "model[1].register_buffer('extra', torch.ones(1))",
    "model[0].weight.data[0].zero_()", "S['last'] = BANK[1]", "OUT['w'] = model[0].weight", "LOG.append(KEPT[:1])",
    "model[0].weight, model[0].bias = nn.Parameter(model[0].weight.detach().clone()), model[0].bias",
]  # fmt: skip
FORWARD = [
    *wide_steps.FORWARD, "y = torch.cat(micro(x, 2))",
    "y = sum(part.sum(0, keepdim=True) for part in micro(x, 1)) + model(x)",
    "y = model(x.t().contiguous().t())", "y = Double.apply(model(x))", "y = model(x)\ny.retain_grad()",
    "y = model(x)\ny.grad_fn.register_hook(lambda inner, outer: LOG.append(len(inner)))",
    "y = model(x)\ny.grad_fn.register_prehook(lambda outer: (outer[0] * 0.5,))", "y = model(x) + BUFFER",
    "h = model[0](x)\nh.mul_(0.5)\ny = model[2](model[1](h))", "y = model(x) if COUNT % 2 else model(x) * 0.5",
    "y = torch.stack([model(x), model(x * 0.5)]).mean(0)", "y = model(x)[:, [1, 0]]", "y = model(x).t().contiguous().t()",
    "y = torch.func.functional_call(model, {k: v * 0.9 for k, v in model.named_parameters()}, (x,))",
]  # fmt: skip
BACKWARD = [
    *wide_steps.BACKWARD, "for part in micro(x, 2): (part.pow(2).mean() * 0.5).backward()",
    "loss.backward(inputs=[model[0].weight, model[2].weight])",
    "(loss + 0.1 * sum(p.pow(2).sum() for p in model.parameters())).backward()",
    "g, = torch.autograd.grad(loss, [model[0].weight], create_graph=True)\n"
    "(loss + g.norm()).backward()\nLOG.append(g.stride())",
    "loss.backward()\nwith torch.no_grad():\n    for p in model.parameters():\n"
    "        if p.grad is not None: p.grad.add_(p, alpha=0.01)",
]  # fmt: skip


class Wider(wide_steps.Wide):
    """Write the source of one program."""

    prelude, effect_choices, change_choices, between_choices = PRELUDE, EFFECTS, CHANGES, BETWEEN
    forwards, backwards = FORWARD, BACKWARD
    declared = (*wide_steps.Wide.declared, "POINTER")
    rebound = wide_steps.Wide.rebound + ", BUFFER, POINTER, smoothed"
    state = (*wide_steps.Wide.state, "BUFFER", "BANK", "POINTER", "AVERAGE")

    def hook(self) -> tuple[str, str, str]:
        if self.chance(0.75):
            return super().hook()
        return self.random.choice([self.once_hook, self.accumulator_hook, self.pair_hook])()

    def once_hook(self) -> tuple[str, str, str]:
        """A hook that removes itself at one of its turns."""
        name = self.name("once")
        body = self.effects("g", 1)
        body += [
            f"TIMES[{name!r}] = TIMES.get({name!r}, 0) + 1",
            f"if TIMES[{name!r}] == 2: {name.upper()}[0].remove()",
        ]
        source = self.function(f"{name}(g)", body) + f"{name.upper()} = []\n"
        return name, source, f"({name.upper()}.append({self._on_tensor(name)}), {name.upper()}[0])[1]"

    def accumulator_hook(self) -> tuple[str, str, str]:
        """A hook on the node that adds to a parameter's gradient, which something has to keep."""
        name = self.name("node")
        body = self.effects("outer[0]", 2)
        text = self.function(f"{name}(inner, outer)", body)
        text += f"{name.upper()} = model[0].weight.expand_as(model[0].weight).grad_fn.next_functions[0][0]\n"
        return name, text, f"{name.upper()}.register_hook({name})"

    def pair_hook(self) -> tuple[str, str, str]:
        """A hook that hands something to another one, in the same step or the next."""
        name = self.name("pair")
        body = [f"OUT[{name!r}] = output.detach()", *self.effects("output", 1)]
        first = self.function(f"{name}(module, inputs, output)", body)
        second = self.function(f"{name}_then(g)", [f"if {name!r} in OUT: g = g + OUT[{name!r}].mean()", "return g"])
        text = first + second
        if self.chance(0.7):
            text += f"model[2].weight.register_hook({name}_then)\n"
        return name, text, f"model[0].register_forward_hook({name})"
