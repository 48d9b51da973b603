"""Programs for `step_fuzzer` with more kinds of hooks, state and changes than the first hundred thousand seeds have."""

from __future__ import annotations

from collections.abc import Sequence

from tests.xla import step_fuzzer

PRELUDE = (
    step_fuzzer.PRELUDE
    + """
import copy, dataclasses, importlib, types
import numpy as np
optimizers = importlib.import_module(torch.optim.Optimizer.__module__)
TIMES, HISTORY, BEST = {}, (), 0.0
GROUPS = collections.defaultdict(list)
ORDERED = collections.OrderedDict(a=1, b=2)
NUMBERS = np.zeros(3)
SPACE = types.SimpleNamespace(n=0, last=None)

@dataclasses.dataclass
class Record:
    n: int = 0
    last: object = None
    values: list = dataclasses.field(default_factory=list)
RECORD = Record()

class Slotted:
    __slots__ = ("n", "last")
    def __init__(self):
        self.n, self.last = 0, None
SLOTTED = Slotted()

class Meter:
    total = 0.0
    def __init__(self):
        self.count = 0
    def update(self, value):
        self.total += value
        self.count += 1
    @property
    def mean(self):
        return self.total / max(self.count, 1)
METER = Meter()

def made_counter():
    n, seen = 0, []
    def bump():
        nonlocal n
        n += 1
        seen.append(n)
    def count():
        return n
    return bump, count, seen
bump, count, BUMPS = made_counter()

def limited(name, most):
    TIMES[name] = TIMES.get(name, 0) + 1
    if TIMES[name] == most:
        raise ValueError(name)

def pack(x):
    TIMES["pack"] = TIMES.get("pack", 0) + 1
    return x

def unpack(x):
    LOG.append("unpack")
    return x.clone()
"""
)

EFFECTS = [
    *step_fuzzer.EFFECTS, "RECORD.n += 1", "RECORD.values.append({t}.mean().item())", "RECORD.last = {t}.detach()",
    "LOG.append(RECORD.n)", 'GROUPS["{i}"].append({t}.sum().item())', 'GROUPS["{i}"]', "NUMBERS[0] += 1",
    "NUMBERS[1] = {t}.mean().item()", "LOG.append(float(NUMBERS[0]))", "METER.update({t}.mean().item())",
    "METER.update(1.0)", "LOG.append(METER.mean)", "LOG.append(METER.count)", "SPACE.last = {t}.detach()",
    "SPACE.n += 1", "SPACE.new{i} = SPACE.n", "SLOTTED.n += 1", "SLOTTED.last = {t}.detach()",
    "LOG.append(SLOTTED.n)", "bump()", "LOG.append(count())", 'ORDERED["{i}"] = len(LOG)', 'ORDERED.move_to_end("a")',
    "LOG.append([*ORDERED])", 'LOG.insert(0, "{i}")', "LOG and LOG.pop()", "RECENT.rotate(1)",
    "LOG.append([*RECENT])", 'S.pop("last", None)', 'S["last"] = S["n"]', 'S.update(last={t}.detach())',
    "global HISTORY; HISTORY = (*HISTORY[-3:], COUNT)", "global BEST; BEST = max(BEST, {t}.abs().max().item())",
    "global BEST; BEST += 0.5", "LOG.append(BEST)", "LOG.append(HISTORY)", "for key in [*S]: LOG.append(key)",
    'try: limited("{i}", 3)\nexcept ValueError: LOG.append("caught {i}")', "LOG.append({t}.grad_fn is None)",
    'LOG.append(({t}.is_leaf, {t}.dtype == torch.float32))', "LOG.append(tuple({t}.shape)[::-1])",
    "LOG[-2:] = [S['n']]", 'vars(SPACE)["n"] = 3', 'setattr(RECORD, "n", COUNT)',
    "KEPT.append(({t}.detach(), S['n']))", 'LOG.append({**S, "last": 0})', "OUT.clear()",
    'OUT["{i}"] = [{t}.detach().sum()]', "LOG.append(sorted(OUT))", "SEEN.clear()", "del LOG[:1]",
    "RECORD.values = []", "LOG.append(model.training)", "LOG.append(optimizer.param_groups[0]['lr'])",
    "LOG.append(len(optimizer.state))", "LOG.append(torch.is_grad_enabled())", 'LOG.append(("{i}", scale.item()))',
    "scale.data.mul_(0.9)",
]  # fmt: skip
CHANGES = [
    *step_fuzzer.CHANGES, "{t} * (RECORD.n % 2 + 1)", "{t} * (1 + float(NUMBERS[0]))", "{t} / (1 + count())",
    "{t} * (0.5 if SPACE.n > 2 else 1)", "{t} * (1 + SLOTTED.n)", "{t} + BEST", "{t} * len(HISTORY)",
    "{t} * (1 + METER.count)", "{t} * torch.rand(())", "torch.dropout({t}, 0.3, True)",
    "{t}.to(torch.float64).to({t}.dtype)", "{t}.masked_fill({t} > 1, 0)",
    "({t} + KEPT[0].mean()) if KEPT and isinstance(KEPT[0], torch.Tensor) else {t}", "{t} * scale.detach() + S['n']",
]  # fmt: skip
BETWEEN = [
    *step_fuzzer.BETWEEN, "RECORD.n = 5", "RECORD.values.clear()", "RECORD = Record(2)", "GROUPS.clear()",
    "NUMBERS[:] = 2", "NUMBERS = np.ones(3)", "METER.total = 1.0", "METER = Meter()",
    "Meter.update = lambda self, value: None", "SPACE.n = 7", "SLOTTED.n = 3", "bump()", "BUMPS.clear()",
    "ORDERED.clear(); ORDERED.update(a=0)", "HISTORY = (1, 2)", "BEST = 0.25",
    "optimizer.param_groups[0]['weight_decay'] = 0.1", "optimizer.param_groups[0]['lr'] *= 0.5", "TIMES.clear()",
    "optimizer.add_param_group({'params': [nn.Parameter(torch.ones(2))], 'lr': 0.5})", "model.requires_grad_(False)",
    "model.requires_grad_(True)", "model[1] = nn.Sigmoid()", "model.append(nn.Tanh())", "scale = torch.tensor(0.3)",
    "model = copy.deepcopy(model); optimizer = torch.optim.SGD(model.parameters(), lr=0.05)",
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)", "optimizer.state.clear()", "model[0].bias = None",
    "model[2].weight = nn.Parameter(torch.ones(2, 3) * 0.1)", "model[2].weight.data.zero_()", "model.zero_grad()",
    "model[0].eval()", "S.clear(); S.update(n=1, sum=0.0, factor=0.5, last=None, names=[])", "LOG = []", "KEPT = []",
    "OUT = {}", "CFG = Config()", "Config.gain = 0.1", "scheduler and scheduler.step()", "torch.rand(2)",
    "model[0].weight.grad *= 2", "for p in model.parameters(): p.grad = None",
    "for p in model.parameters(): p.grad = torch.zeros_like(p)",
    "state = copy.deepcopy(model.state_dict()); model.load_state_dict(state)", "SPACE.last = None",
    "S['last'] = scale",
]  # fmt: skip
MIDDLES = [
    *step_fuzzer.LAYERS, "nn.Identity()", "nn.GELU()", "nn.Sequential(nn.Tanh(), nn.Dropout(0.2))",
    "nn.GroupNorm(1, 3)",
]  # fmt: skip
OPTIMIZERS = [
    *step_fuzzer.OPTIMIZERS, "AdamW(model.parameters(), lr=0.01, eps=0.1)",
    "RMSprop(model.parameters(), lr=0.01, eps=0.1)",
    "SGD([{'params': model[0].parameters(), 'lr': 0.05}, {'params': model[2].parameters()}], lr=0.1)",
]  # fmt: skip
SCHEDULERS = [
    *step_fuzzer.SCHEDULERS, "LambdaLR(optimizer, lambda epoch: 0.9**epoch)", "CosineAnnealingLR(optimizer, 5)",
    "LinearLR(optimizer, 0.5, total_iters=3)", "OneCycleLR(optimizer, 0.2, total_steps=20)",
]  # fmt: skip
FORWARD = [
    "y = model(x)", "y = model(x)", "y = model(x)", "y = model(x) + model(x * 2)",
    "with torch.autograd.graph.saved_tensors_hooks(pack, unpack): y = model(x)",
    "with torch.autocast('cpu', torch.bfloat16): y = model(x).float()",
    "with torch.no_grad(): quiet = model(x)\ny = model(x) - quiet",
    "with torch.inference_mode(): quiet = model(x).sum().item()\ny = model(x)",
    "model.eval()\nquiet = model(x).detach()\nmodel.train()\ny = model(x) + quiet",
    "y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)",
    "x = x.clone().requires_grad_(True)\ny = model(x)",
    "with torch.set_grad_enabled(COUNT % 2 == 0 or True): y = model(x)",
    "h = model[0](x)\nh.retain_grad()\ny = model[2](model[1](h))",
]  # fmt: skip
BACKWARD = [
    "loss.backward()", "loss.backward()", "loss.backward()", "loss.backward(retain_graph=True)\nloss.backward()",
    'for p, g in zip(model.parameters(), torch.autograd.grad(loss, [*model.parameters()], '
    'allow_unused=True)): p.grad = g',
    'gs = torch.autograd.grad(loss, [model[0].weight, model[2].weight], create_graph=True)\n'
    '(loss + sum(g.pow(2).sum() for g in gs)).backward()',
    "(loss * 0.5).backward()\nmodel(x).sum().backward()", "y.backward(torch.ones_like(y) * 0.1)",
    "if COUNT < 3: loss.backward()", "torch.autograd.backward([loss, y.mean()])",
    "model[2].requires_grad_(False)\nloss.backward()\nmodel[2].requires_grad_(True)",
]  # fmt: skip


class Wide(step_fuzzer.Writer):
    """Write the source of one program."""

    prelude, effect_choices, change_choices, between_choices = PRELUDE, EFFECTS, CHANGES, BETWEEN
    layers, optimizers, schedulers, forwards, backwards = MIDDLES, OPTIMIZERS, SCHEDULERS, FORWARD, BACKWARD
    declared: Sequence[str] = ("COUNT", "HISTORY", "BEST")
    rebound = "COUNT, PHASE, note, RECORD, NUMBERS, METER, HISTORY, BEST, scale, model, optimizer, LOG, KEPT, OUT, CFG"
    state: Sequence[str] = (
        *step_fuzzer.STATE, "TIMES", "HISTORY", "BEST", "GROUPS", "ORDERED", "NUMBERS", "SPACE", "RECORD", "METER", "BUMPS",
    )  # fmt: skip

    def hook(self) -> tuple[str, str, str]:
        kind = self.random.randrange(10)
        others = [
            self.keyword_hook,
            self.global_hook,
            self.many_hook,
            self.raising_hook,
            self.method_hook,
            self.leaf_hook,
        ]
        return super().hook() if kind < 5 else self.random.choice(others)()

    def keyword_hook(self) -> tuple[str, str, str]:
        """Forward hooks with keywords: first of all, after errors, with keyword arguments."""
        name, source, registration = self.forward_hook()
        option = self.pick(["prepend=True", "with_kwargs=True", "prepend=False"])
        if option == "with_kwargs=True":
            source = source.replace("(module, inputs", "(module, inputs, kwargs")
            if "return (" in source:  # of a pre-hook
                option = "prepend=True"
                source = source.replace("inputs, kwargs", "inputs")
        return name, source, registration.replace(f"({name})", f"({name}, {option})")

    def global_hook(self) -> tuple[str, str, str]:
        name, kind = self.name("everywhere"), self.random.randrange(3)
        if kind == 0:
            head, where = f"{name}(module, inputs, output)", "nn.modules.module.register_module_forward_hook"
        elif kind == 1:
            head, where = f"{name}(module, inputs)", "nn.modules.module.register_module_forward_pre_hook"
        else:
            head, where = f"{name}(optimizer, args, kwargs)", "optimizers.register_optimizer_step_post_hook"
        body = self.effects("scale" if kind == 2 else "inputs[0]", 2)
        return name, self.function(head, body), f"{where}({name})"

    def many_hook(self) -> tuple[str, str, str]:
        name = self.name("many")
        if self.chance(0.5):
            body = self.effects("g", 2)
            mode = ', mode="any"'
        else:
            body, mode = self.effects("gs[0]", 2), ""
        head = f"{name}(g)" if mode else f"{name}(gs)"
        body = [each for each in body if "grad_fn" not in each]
        params = "[model[0].weight, model[2].bias]"
        return name, self.function(head, body), f"torch.autograd.graph.register_multi_grad_hook({params}, {name}{mode})"

    def raising_hook(self) -> tuple[str, str, str]:
        """A hook that raises at one of its turns, after its other effects or before them."""
        name, source, registration = self.random.choice([self.gradient_hook, self.forward_hook, self.leaf_hook])()
        lines, line = source.rstrip("\n").split("\n"), f'    limited("{name}", {self.random.randrange(2, 5)})'
        if source.startswith("def") and "return" not in source:
            lines.insert(self.random.choice([1, len(lines)]) if "global" not in lines[1] else len(lines), line)
        return name, "\n".join(lines) + "\n", registration

    def method_hook(self) -> tuple[str, str, str]:
        """A hook that is an object with state of its own, or a method, or a partial call."""
        name = self.name("object")
        change = self.change("g")
        body = f"        self.n += 1\n        self.seen.append(g.sum().item())\n        return {change}\n"
        if self.chance(0.5):
            body = "        self.n += 1\n        self.last = g.detach()\n        LOG.append(self.n)\n"
        text = f"class {name.title()}:\n    def __init__(self):\n        self.n, self.seen, self.last = 0, [], None\n"
        text += f"    def __call__(self, g):\n{body}"
        text += "    def other(self, scaled, g):\n        self.n += 1\n        return g * scaled\n"
        text += f"{name} = {name.title()}()\n"
        given = self.pick([name, f"{name}.__call__", f"functools.partial({name}.other, 0.5)"])
        return name, text, self._on_tensor(given)
