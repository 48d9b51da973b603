"""Programs for `step_fuzzer` in which the step makes things at each call: hooks around its tensors, lists, objects.

Statements and hooks on the host then have to find the tensors, lists and objects of their call.
"""

from __future__ import annotations

from tests.xla import wider_steps

PRELUDE = (
    wider_steps.PRELUDE
    + """
class Holder:
    def __init__(self, held, *more):
        self.held, self.more, self.n = held, [*more], 0
    def __call__(self, g):
        self.n += 1
        LOG.append((self.n, self.held.detach().sum().item()))
    def scaled(self, g):
        LOG.append(len(self.more))
        return g * (1 + self.held.detach().mean().abs())
    def each(self):
        return [m.detach().sum().item() for m in (self.held, *self.more)]

def hook_around(t, answers):
    def hook(g):
        note("around", t.detach().sum().item())
        return g * 0.5 if answers else None
    return hook
"""
)

# What the step makes before its backward pass; `{a}` and `{b}` are tensors of its own, `{n}` tells names apart.
LOCALS = [
    "def f{n}(g):\n    LOG.append({a}.detach().sum().item())\ny.register_hook(f{n})",
    "def f{n}(g):\n    LOG.append({a}.detach().mean().item())\n    return g * 0.5\ny.register_hook(f{n})",
    "def f{n}(g):\n    return g + {a}.detach().mean()\ny.register_hook(f{n})",
    "def f{n}(g):\n    KEPT.append({a}.detach())\n    S['n'] += 1\ny.register_hook(f{n})",
    "def f{n}(g, t={a}):\n    LOG.append(t.detach().sum().item())\ny.register_hook(f{n})",
    "def f{n}(g, *, t={a}):\n    LOG.append(S['n'])\n    return g * (1 + t.detach().mean())\ny.register_hook(f{n})",
    "y.register_hook(functools.partial(lambda t, g: LOG.append(t.detach().sum().item()), {a}))",
    "y.register_hook(lambda g: g * (1 + {a}.detach().mean()))",
    "y.register_hook(hook_around({a}, False))", "y.register_hook(hook_around({a}, True))",
    "y.register_hook(Holder({a}))", "h{n} = Holder({a}, {b})\ny.register_hook(h{n}.scaled)",
    "h{n} = Holder({a}, {b})\nLOG.append(h{n}.each())", "h{n} = Holder({a})\nLOG.append(h{n}.held.detach().sum().item())",
    "some{n} = [{a}.detach(), {b}.detach()]\nLOG.append([s.sum().item() for s in some{n}])",
    "some{n} = [{a}, {b}]\ny.register_hook(lambda g: LOG.append([s.detach().sum().item() for s in some{n}]))",
    "some{n} = dict(a={a}.detach(), n=S['n'])\ndef f{n}(g):\n    LOG.append((some{n}['a'].mean().item(), some{n}['n']))\n"
    "y.register_hook(f{n})",
    "pair{n} = ({a}.detach(), COUNT)\ndef f{n}(g):\n    LOG.append((pair{n}[0].sum().item(), pair{n}[1]))\n"
    "    return g * 0.5\ny.register_hook(f{n})",
    "seen{n} = []\ny.register_hook(lambda g: seen{n}.append(g.detach().mean()))\nS['last'] = seen{n}",
    "seen{n} = []\ndef f{n}(g):\n    seen{n}.append(g.detach().sum().item())\n    LOG.append(len(seen{n}))\n"
    "y.register_hook(f{n})",
    "def f{n}():\n    return {a}.detach().sum().item()\nLOG.append(f{n}())",
    "def f{n}():\n    def inner():\n        return {a}.detach().mean().item()\n    return inner\nLOG.append(f{n}()())",
    "LOG.append(list(map(lambda t: t.detach().sum().item(), [{a}, {b}])))",
    "for t in ({a}, {b}): LOG.append(t.detach().mean().item())",
    "if PHASE == 'warm': LOG.append({a}.detach().sum().item())\nelse: LOG.append({b}.detach().mean().item())",
    "class C{n}:\n    held = {a}\nif CFG.active: LOG.append(C{n}.held.detach().sum().item())",
    "calls{n} = 0\ndef f{n}(g):\n    nonlocal calls{n}\n    calls{n} += 1\n"
    "    LOG.append((calls{n}, {a}.detach().sum().item()))\ny.register_hook(f{n})",
    "handle{n} = y.register_hook(lambda g: LOG.append({a}.detach().sum().item()))\nif S['n'] % 2: handle{n}.remove()",
    "h{n} = model[2].weight.register_hook(lambda g: LOG.append({a}.detach().sum().item()))\nhandles.append(h{n})",
    "with torch.no_grad(): z{n} = {a} * 2\ny.register_hook(lambda g: OUT.update(z=z{n}))",
    "OUT['made'] = [{a}.detach(), {{'b': {b}.detach()}}]", "t{n} = {a}.detach().clone()\nt{n}.mul_(0.5)\nKEPT.append(t{n})",
    "z{n} = {a}.detach().requires_grad_(True)\nz{n}.pow(2).sum().backward()\nLOG.append(z{n}.grad.sum().item())",
]  # fmt: skip


class Local(wider_steps.Wider):
    """Write the source of one program."""

    prelude = PRELUDE

    def step(self, scheduled: bool) -> str:
        lines = super().step(scheduled).split("\n")
        place = next(number for number, line in enumerate(lines) if line.startswith("    loss = y"))
        made: list[str] = []
        for _ in range(self.random.randrange(1, 4)):
            a, b = self.pick(["x", "y", "x", "(y * 2)", "x[0]", "scale"]), self.pick(["x", "y", "y.detach()"])
            text = self.pick(LOCALS).format(a=a, b=b, n=self.name("l"))
            made += [f"    {line}" for line in text.split("\n")]
        if any("handles.append" in line for line in made):
            made.insert(0, "    handles = []")
            end = next(number for number, line in enumerate(lines) if line.startswith("    optimizer.step()"))
            lines.insert(end + 1, "    for handle in handles: handle.remove()")
        return "\n".join(lines[:place] + made + lines[place:])
