"""Programs for `step_fuzzer` with what training scripts have beside the model: averages of weights, histories of gradients,
scalers, objects whose methods are hooks, custom modules with state of their own, checkpoints loaded between calls.
"""
# ruff: noqa: E501  (the lines of programs)

from __future__ import annotations

from tests.xla import deciding_steps, local_steps

PRELUDE = (
    local_steps.PRELUDE
    + """
import contextlib, enum, itertools, math, typing

class Handles(list):
    def remove(self):
        for each in self: each.remove()

class History:
    __slots__ = ("items", "total", "n", "__weakref__")
    def __init__(self, most):
        self.items, self.total, self.n = collections.deque(maxlen=most), None, 0
    def __call__(self, g):
        self.items.append(g.detach().clone())
        return torch.stack(tuple(self.items)).mean(0)
    def keep(self, g):
        self.items.append(g)
        self.n += 1
    def norms(self, g):
        self.items.append(g.norm().item())
    def momentum(self, g):
        self.total = g.detach().clone() if self.total is None else self.total * 0.5 + g.detach()
        return self.total
    def in_place(self, g):
        if self.total is None: self.total = torch.zeros_like(g)
        self.total.mul_(0.9).add_(g, alpha=0.1)
        return g + self.total
    def scaled(self, factor, g):
        self.n += 1
        return g * factor

@dataclasses.dataclass
class Stats:
    step: int = 0
    norms: list = dataclasses.field(default_factory=list)
    peak: float = 0.0
    best: object = None
    @property
    def mean(self):
        return sum(self.norms) / max(len(self.norms), 1)
    def record(self, t):
        self.norms.append(t.detach().norm().item())
        self.peak = max(self.peak, self.norms[-1])
    def __iadd__(self, n):
        self.step += n
        return self
STATS = Stats()

class Clamped:
    def __set_name__(self, owner, name):
        self.slot = "_" + name
    def __get__(self, holder, owner=None):
        return self if holder is None else getattr(holder, self.slot, 1.0)
    def __set__(self, holder, value):
        setattr(holder, self.slot, min(max(value, 0.25), 2.0))

class Knobs:
    gain = Clamped()
    def __init__(self):
        self.calls, self.warm = 0, 2
    @property
    def rate(self):
        return 0.5 if self.calls < self.warm else 1.0
    @rate.setter
    def rate(self, value):
        self.warm = value
    @functools.cached_property
    def table(self):
        LOG.append("table")
        return {"n": 0}
    def __getattr__(self, name):
        if name.startswith("_"): raise AttributeError(name)
        return len(name)
KNOBS = Knobs()

class Watched(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.changes = getattr(self, "changes", 0) + 1
WATCHED = Watched()

class Stage(enum.Enum):
    WARM = 1
    MAIN = 2
STAGE = Stage.WARM

class Point(typing.NamedTuple):
    loss: object
    n: int

def cycle(values):
    while True:
        for value in values: yield value
NEXT, STEPS, FACTORS = cycle([1.0, 0.5, 2.0]), itertools.count(), itertools.cycle([1.0, 0.5])

def running_mean():
    total, n = 0.0, 0
    while True:
        value = yield total / max(n, 1)
        total, n = total + value, n + 1
MEAN = running_mean()
next(MEAN)

class Features:
    def __init__(self, names):
        self.names, self.handles, self.seen = names, [], collections.OrderedDict()
    def see(self, name, module, inputs, output):
        self.seen[name] = output
        self.seen.move_to_end(name, last=False)
    def __enter__(self):
        for name in self.names:
            self.handles.append(model[name].register_forward_hook(functools.partial(self.see, name)))
        return self
    def __exit__(self, *error):
        for each in self.handles: each.remove()
        self.handles.clear()
        return False

@contextlib.contextmanager
def scaled_gradients(factor):
    handles = [p.register_hook(lambda g: g * factor) for p in model.parameters()]
    try:
        yield len(handles)
    finally:
        for each in handles: each.remove()

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))
        self.calls = 0
        self.gain.register_hook(self.on_grad)
        self.seen = []
    def on_grad(self, g):
        self.calls += 1
        self.seen.append(g.sum().item())
    def forward(self, x):
        return x * self.gain

class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.last = None
    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.last = x
        return (x - self.mean).tanh()

class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.h, self.n = None, 0
    def forward(self, x):
        self.n += 1
        h = x.mean(0) if self.h is None else x.mean(0) * 0.5 + self.h * 0.5
        self.h = h.detach()
        return (x + h).tanh()

class Quiet(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            scale_of = x.abs().amax(0, keepdim=True) + 1
        if self.training: LOG.append("quiet")
        return x / scale_of

class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        LOG.append(ctx.factor)
        return -g * ctx.factor, None

class Average:
    def __init__(self, decay):
        self.decay, self.shadow, self.n = decay, {}, 0
    def start(self):
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
    @torch.no_grad()
    def update(self, *given):
        self.n += 1
        for name, p in model.named_parameters():
            if name in self.shadow and self.shadow[name].shape == p.shape:
                self.shadow[name].mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)
    def replace(self, *given):
        decay = min(self.decay, (1 + self.n) / (10 + self.n))
        self.n += 1
        self.shadow = {name: decay * self.shadow.get(name, p.detach()) + (1 - decay) * p.detach()
                       for name, p in model.named_parameters()}
    @contextlib.contextmanager
    def applied(self):
        before = {name: p.data for name, p in model.named_parameters()}
        for name, p in model.named_parameters(): p.data = self.shadow.get(name, p.data)
        yield
        for name, p in model.named_parameters(): p.data = before[name]
AVG = Average(0.9)
"""
)
AFTER = """AVG.start()
SCALER = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
REF = weakref.ref(model)
BY_MODULE = weakref.WeakKeyDictionary()
OPTS = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}
BEFORE = [p.detach().clone() for p in model.parameters()]
"""

EFFECTS = [
    "STATS.record({t})", "STATS.step += 1", "global STATS; STATS += 1", "LOG.append(STATS.mean)", "LOG.append(STATS.peak)",
    "STATS.best = {t}.detach() if STATS.best is None else torch.maximum(STATS.best.mean(), {t}.detach().mean())",
    "KNOBS.calls += 1", "KNOBS.gain = KNOBS.gain * 0.5", "KNOBS.gain += 0.5", "LOG.append(KNOBS.rate)", "KNOBS.rate = 3",
    "KNOBS.table['n'] += 1", "LOG.append(KNOBS.table['n'])", "LOG.append(KNOBS.unknown)", "WATCHED['{i}'] = COUNT",
    "WATCHED['{i}'] = {t}.detach()", "LOG.append(getattr(WATCHED, 'changes', 0))", "global STAGE; STAGE = Stage.MAIN",
    "LOG.append(STAGE.name)", "LOG.append(STAGE is Stage.WARM)", "LOG.append(next(STEPS))", "LOG.append(next(NEXT))",
    "LOG.append(next(FACTORS))", "LOG.append(MEAN.send({t}.mean().item()))", "LOG.append(MEAN.send(1.0))",
    "LOG.append(REF() is model)", "BY_MODULE[model] = COUNT", "BY_MODULE[model[0]] = {t}.detach()",
    "LOG.append(len(BY_MODULE))", "AVG.update()", "AVG.replace()", "LOG.append(AVG.n)",
    "LOG.append(AVG.shadow['2.bias'].sum().item() if '2.bias' in AVG.shadow else 0)",
    "LOG.append(SCALER.get_scale())", "if not torch.isfinite({t}).all(): LOG.append('skip')",
    "if math.isfinite({t}.sum().item()): S['n'] += 1", "LOG.append(f'{COUNT:03d}')",
    "match COUNT:\n    case 0: LOG.append('zero')\n    case _: LOG.append('more')",
    "if (n := len(LOG)) > 3: LOG.append(n)", "try:\n    S['sum'] += {t}.mean().item()\nfinally:\n    S['n'] += 1",
    "assert {t}.ndim < 5", "OUT.setdefault('{i}', collections.deque(maxlen=2)).append({t}.detach())",
    "OUT.setdefault('{i}', collections.deque(maxlen=2)).append({t}.detach().mean().item())",
    "S['names'] += ['{i}']", "S.setdefault('{i}', 0); S['{i}'] += 1", "S['last'], S['n'] = {t}.detach(), S['n'] + 1",
    "S.pop('{i}', None); S['{i}'] = len(S)", "SEEN.add(tuple({t}.shape))", "SEEN.discard('{i}')",
    "TALLY.update({'{i}': 2})", "LOG.append(TALLY.most_common(1))", "RECENT.extend([COUNT, S['n']])",
    "KEPT.extend([{t}.detach(), {t}.detach().sum()])", "KEPT.extend([{t}.detach().clone()])", "KEPT and KEPT.pop(0)",
    "GROUPS[COUNT % 2].append({t}.detach().sum())", "LOG.append({k: len(v) for k, v in GROUPS.items()})",
    "LOG.append(sum(p.grad.norm().item() for p in model.parameters() if p.grad is not None))",
    "LOG.append(max((p.detach().abs().max().item() for p in model.parameters()), default=0))",
    "LOG.append([(p.detach() - b).norm().item() for p, b in zip(model.parameters(), BEFORE) if p.shape == b.shape])",
    "BEFORE[:] = [p.detach().clone() for p in model.parameters()]", "LOG.append(sorted({t}.detach().flatten().tolist())[:1])",
    "model.calls = getattr(model, 'calls', 0) + 1", "LOG.append(getattr(model, 'calls', None))",
    "model[0].last = {t}.detach()", "LOG.append('last' in vars(model[0]))", "LOG.append(optimizer.param_groups[0]['lr'])",
    "optimizer.param_groups[0]['lr'] *= 0.9", "for group in optimizer.param_groups: group['lr'] = 0.1 / (1 + COUNT)",
    "if {t}.norm().item() > STATS.peak: STATS.peak = {t}.norm().item()", "LOG.append(type(model[1]).__name__)",
    "LOG.append([p.requires_grad for p in model.parameters()])", "LOG.append(Point({t}.detach().sum(), COUNT))",
    "print(f'{i}: {len(LOG)} {KNOBS.gain:.2f}')", "global COUNT; COUNT += 1", "S['n'] += 1",
]  # fmt: skip
CHANGES = [
    "{t} * KNOBS.gain", "{t} * KNOBS.rate", "{t} * next(NEXT)", "{t} * next(FACTORS)", "{t} / (1 + STATS.step)",
    "{t} * (1 + STATS.mean)", "{t} + (0 if STATS.best is None else STATS.best.mean())", "{t} * 0.5", "{t}.clone()",
    "{t} * (2 if STAGE is Stage.WARM else 1)", "{t} * (1 + AVG.n)", "{t} * REF()[0].weight.detach().norm()",
    "{t} + sum(k.mean() for k in OUT.get('h', []))", "torch.nan_to_num({t}).clamp(-1, 1)", "Reversed.apply({t}, 0.5)",
    "{t} / {t}.detach().norm().clamp(min=1)", "torch.where(torch.isfinite({t}), {t}, torch.zeros_like({t}))",
    "{t} * (WATCHED.changes if hasattr(WATCHED, 'changes') else 1)", "{t} + model[2].bias.detach().mean()",
    "{t} * (0.5 ** COUNT)", "{t} * math.cos(COUNT)", "{t} * scale", "{t} + 0.1 * AVG.shadow['0.weight'].mean()",
    "{t} / max(1.0, {t}.norm().item())", "{t} * min(1.0, 0.2 / ({t}.norm() + 1e-6))", "{t} - {t}.mean()",
]  # fmt: skip
BETWEEN = [
    *deciding_steps.BETWEEN, "STATS = Stats()", "STATS.norms.clear()", "STATS.best = None", "KNOBS.gain = 5",
    "KNOBS.rate = 0", "vars(KNOBS).pop('table', None)", "WATCHED.clear()", "WATCHED['n'] = 1", "STAGE = Stage.MAIN",
    "next(NEXT)", "next(STEPS)", "MEAN.send(4.0)", "BY_MODULE.clear()", "AVG.decay = 0.5", "AVG.start()", "AVG.shadow = {}",
    "for n, p in AVG.shadow.items(): p.zero_()", "SCALER.update(8.0)", "SCALER.load_state_dict(SCALER.state_dict())",
    "Stats.record = lambda self, t: self.norms.append(0.0)", "Knobs.rate = 0.25", "model[1] = Running()",
    "model[0] = nn.Linear(2, 3)", "model[1] = nn.Sequential(nn.Tanh(), Hidden())", "model[0].train(not model[0].training)",
    "model[0].requires_grad_(False); model[0].requires_grad_(True)", "model[1].eval()", "del optimizer.state[model[0].weight]",
    "for group in optimizer.param_groups: group['weight_decay'] = 0.1", "model.apply(lambda m: m.train())",
    "optimizer.add_param_group({'params': [scale], 'lr': 0.0})", "model.load_state_dict(model.state_dict(), assign=True)",
    "nn.init.ones_(model[2].bias)", "with torch.no_grad(): [p.mul_(0.9) for p in model.parameters()]",
    "torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector(model.parameters()) * 0.9, model.parameters())",
    "model.to(torch.float64).to(torch.float32)", "model[2].bias.grad = None", "optimizer.param_groups[0]['lr'] = torch.tensor(0.05)",
    "for state in optimizer.state.values(): state.pop('momentum_buffer', None)", "del LOG[:]", "LOG.append(len(LOG))",
    "saved = (copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())); model.load_state_dict(saved[0]); optimizer.load_state_dict(saved[1])",
    "for m in model.modules(): getattr(m, 'seen', []).clear()", "setattr(model[1], 'h', None)", "model[0].extra = COUNT",
    "model.calls = 5", "BEFORE.clear()", "REF = weakref.ref(model)", "x = model(torch.ones(1, 2)); x.sum().backward()",
    "torch.set_grad_enabled(True)", "model[0].weight.grad is not None and model[0].weight.grad.mul_(2)",
    "with AVG.applied(): LOG.append(model(torch.ones(1, 2)).sum().item())", "model[0].forward = types.MethodType(lambda self, x: nn.Linear.forward(self, x) * 0.5, model[0])",
    "vars(model[0]).pop('forward', None)", "optimizer.step()", "optimizer.param_groups[0]['params'].pop()",
]  # fmt: skip
MIDDLES = [
    "nn.Tanh()",
    "nn.ReLU()",
    "Scaled()",
    "Running()",
    "Hidden()",
    "Quiet()",
    "nn.BatchNorm1d(3)",
    "nn.Dropout(0.3)",
]
FORWARD = [
    "y = model(x)", "y = model(x)", "y = model(x)",
    "with Features([0, 1]) as features: y = model(x)\nLOG.append({k: v.detach().norm().item() for k, v in features.seen.items()})",
    "with Features([1, 2]) as features: y = model(x)\ny = y + sum(v.mean() for v in features.seen.values())",
    "with Features([0]) as features: y = model(x)\nKEPT.append(features.seen[0].detach())",
    "with AVG.applied(), torch.no_grad(): teacher = model(x)\ny = model(x) - 0.5 * teacher",
    "y = Reversed.apply(model(x), 0.5)", "with contextlib.suppress(ValueError): y = model(x)",
    "outs = [layer(x) for layer in model[:1]]\ny = model[2](model[1](outs[-1]))",
    "h = x\nfor n, layer in enumerate(model): h = layer(h); S['n'] += n\ny = h", "y = REF()(x)",
    "y = functools.reduce(lambda h, layer: layer(h), model, x)", "y = x\nfor layer in model.children(): y = layer(y)",
    "noise = torch.randn_like(x) * 0.1\ny = model(x + noise)", "y = torch.stack([model(row[None])[0] for row in x])",
]  # fmt: skip
LOSSES = [
    "loss = y.pow(2).mean()", "loss = y.pow(2).mean()", "loss = nn.functional.mse_loss(y, torch.zeros_like(y))",
    "loss = nn.functional.cross_entropy(y, torch.arange(len(y)) % 2)", "loss = nn.SmoothL1Loss()(y, x.detach() * 0.1)",
    "loss = y.pow(2).mean() + 0.01 * sum(p.pow(2).sum() for p in model.parameters())",
    "loss, parts = y.pow(2).mean(), {}\nparts['mean'] = y.mean().abs()\nloss = loss + sum(parts.values())",
]  # fmt: skip
BACKWARD = [
    "loss.backward()", "loss.backward()", "loss.backward()", "SCALER.scale(loss).backward()", "SCALER.scale(loss).backward()\nSCALER.unscale_(optimizer)",
    "try: loss.backward()\nexcept ValueError as error: LOG.append(str(error))",
    "try:\n    loss.backward()\nexcept ValueError as error:\n    note('caught', str(error))\n    optimizer.zero_grad()",
    "with scaled_gradients(0.5): loss.backward()", "(loss / 2).backward(retain_graph=True)\n(loss / 2).backward()",
    "if not torch.isfinite(loss): return None\nloss.backward()", "if loss.item() > STATS.peak: STATS.peak = loss.item()\nloss.backward()",
    "for part in y.split(1): part.pow(2).mean().backward(retain_graph=True)",
    "with contextlib.ExitStack() as stack:\n    handle = model[2].weight.register_hook(lambda g: g * 2)\n    stack.callback(handle.remove)\n    loss.backward()",
]  # fmt: skip
STEPPING = [
    "optimizer.step()", "optimizer.step()", "optimizer.step()", "if COUNT % 2 == 0: optimizer.step()",
    "with torch.no_grad():\n    for p in model.parameters():\n        if p.grad is not None: p -= 0.1 * p.grad",
    "with torch.no_grad():\n    for p, b in zip(model.parameters(), BEFORE):\n        if p.shape == b.shape: p.add_(b, alpha=0.01)\noptimizer.step()",
    "optimizer.step()\nAVG.update()", "optimizer.step()\nAVG.replace()", "if not any(p.grad is None for p in model.parameters()): optimizer.step()",
    "total = nn.utils.clip_grad_norm_(model.parameters(), 0.5)\nLOG.append(total.item())\noptimizer.step()",
    "total = nn.utils.clip_grad_norm_(model.parameters(), 0.5)\nif total < 10: optimizer.step()",
    "nn.utils.clip_grad_value_(model.parameters(), 0.1)\noptimizer.step()",
    "optimizer.step()\nfor group in optimizer.param_groups: group['lr'] *= 0.95",
    "optimizer.step()\nif STATS.best is None or loss.item() < S['sum']: STATS.best = copy.deepcopy(model.state_dict())['0.weight']",
]  # fmt: skip
SCALED = [
    "SCALER.step(optimizer)\nSCALER.update()",
    "SCALER.step(optimizer)\nLOG.append(SCALER.get_scale())\nSCALER.update()",
]
RETURNS = [
    "return loss", "return loss.item()", "return Point(loss.detach(), S['n'])", "return {'loss': loss.detach(), 'n': COUNT}",
    "return loss.detach(), [y.detach()]", "pass", "return STATS.mean", "return f'{loss.item():.3f}'",
]  # fmt: skip
LOOPS = [  # registrations of many hooks at once
    "Handles(p.register_hook(lambda g, n=n: OUT.__setitem__(n, g.norm().item())) for n, p in model.named_parameters())",
    "Handles(p.register_hook(lambda g: OUT.__setitem__('all', g.sum().item())) for n, p in model.named_parameters())",
    "Handles(p.register_hook(lambda g, n=n: g * (1 + n)) for n, p in enumerate(model.parameters()))",
    "Handles(m.register_forward_hook(lambda m, i, o, n=n: LOG.append((n, o.detach().mean().item()))) for n, m in model.named_children())",
    "Handles(m.register_forward_hook(functools.partial(lambda n, m, i, o: OUT.update({n: o.detach()}), n)) for n, m in model.named_children())",
    "Handles(m.register_full_backward_hook(lambda m, gi, go, n=n: S.update({n: go[0].norm().item()})) for n, m in model.named_children())",
    "Handles(p.register_post_accumulate_grad_hook(lambda p, n=n: LOG.append((n, p.grad.norm().item()))) for n, p in model.named_parameters())",
    "Handles(p.register_post_accumulate_grad_hook(lambda p: (OPTS[p].step(), OPTS[p].zero_grad()) if p in OPTS else None) for p in model.parameters())",
    "Handles(p.register_post_accumulate_grad_hook(lambda p, avg=[]: avg.append(p.detach().clone()) or KEPT.append(len(avg))) for p in model.parameters())",
    "Handles(p.register_hook(functools.partial(torch.mul, 0.5)) for p in model.parameters())",
    "Handles(map(lambda p: p.register_hook(lambda g: torch.clamp(g, -0.1, 0.1)), model.parameters()))",
    "Handles(p.register_hook(History(2)) for p in model.parameters())",
    "Handles([optimizer.register_step_post_hook(AVG.update)])", "Handles([optimizer.register_step_post_hook(AVG.replace)])",
    "Handles([optimizer.register_step_pre_hook(lambda o, args, kwargs: STATS.record(model[0].weight))])",
    "Handles([model.register_forward_pre_hook(lambda m, args: (args[0] * KNOBS.gain,))])",
]  # fmt: skip


class Everyday(deciding_steps.Deciding):
    """Write the source of one program."""

    prelude, effect_choices, change_choices, between_choices = PRELUDE, EFFECTS, CHANGES, BETWEEN
    layers, forwards, backwards = MIDDLES, FORWARD, BACKWARD
    declared = (*deciding_steps.Deciding.declared, "STATS", "STAGE")
    rebound = deciding_steps.Deciding.rebound + ", STATS, STAGE, REF"
    state = (*deciding_steps.Deciding.state, "STATS", "KNOBS", "WATCHED", "AVG", "BEFORE")

    def model(self) -> str:
        return super().model() + AFTER

    def hook(self) -> tuple[str, str, str]:
        kind = self.random.randrange(10)
        if kind < 3:
            return self.history_hook()
        if kind < 5:
            return self.name("many"), "", self.pick(LOOPS)
        if kind == 5:
            return self.made_hook()
        if kind == 6 and self.chance(0.3):
            return self.turning_hook()
        return super().hook()

    def history_hook(self) -> tuple[str, str, str]:
        """A hook that is an object with slots, or a method of it."""
        name = self.name("history")
        given = self.pick([name, f"{name}.keep", f"{name}.norms", f"{name}.momentum", f"{name}.in_place",
                           f"functools.partial({name}.scaled, 0.5)", f"lambda g: {name}.momentum(g) * KNOBS.gain"])  # fmt: skip
        source = f"{name} = History({self.random.randrange(1, 4)})\nOUT['{name}'] = {name}\n"
        return name, source, self._on_tensor(given)

    def made_hook(self) -> tuple[str, str, str]:
        """A hook that a generator, a weak reference or a decorator is behind."""
        name = self.name("made")
        body = self.effects("g", 2)
        inner = self.function("hook(g)", [*body, f"return {self.change('g')}"]).replace("\n", "\n    ").rstrip()
        start = f"def {name}():\n    {inner}\n"
        wrap = self.pick(["functools.wraps(hook)(lambda g: hook(g))", "torch.no_grad()(hook)", "weakref.ref(hook)() or hook",
                          "functools.partial(hook)", "hook"])  # fmt: skip
        return name, f"{start}    return {wrap}\n{name} = {name}()\n", self._on_tensor(name)

    def turning_hook(self) -> tuple[str, str, str]:
        """A hook that changes which hooks there are."""
        name = self.name("turning")
        body = self.effects("g", 1) + [
            f"if {name.upper()}: {name.upper()}.pop().remove()",
            f"else: {name.upper()}.append(model[2].bias.register_hook(lambda g: LOG.append('turned') or g * 2))",
        ]
        source = f"{name.upper()} = []\n" + self.function(f"{name}(g)", body)
        return name, source, self._on_tensor(name)

    def step(self, scheduled: bool) -> str:
        body = self.effects("x", 1) + [self.pick(["optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)", "model.zero_grad()"])]  # fmt: skip
        body += self.pick(FORWARD).split("\n")
        if self.chance(0.25):
            name, text, _ = self.gradient_hook()
            body += [*text.rstrip().split("\n"), f"y.register_hook({name})"]
        body += self.effects("y", 2) + self.pick(LOSSES).split("\n") + self.effects("loss", 1)
        backward = self.pick(BACKWARD)
        body += backward.split("\n") + self.effects("loss", 1)
        body += self.pick(SCALED if "SCALER" in backward else STEPPING).split("\n")
        body += ["scheduler.step()"] if scheduled else []
        body += [*self.effects("loss", 2), self.pick(RETURNS)]
        if self.chance(0.3):  # a method
            method = self.function("step(self, x)", ["self.calls += 1", *body]).replace("\n", "\n    ").rstrip()
            return (
                f"class Trainer:\n    calls = 0\n    {method}\nOUT['trainer'] = Trainer()\nstep = OUT['trainer'].step\n"
            )
        return self.function("step(x)", body)
