"""Programs for `step_fuzzer` with hooks that decide by values, aliases that they keep, and writes to those between calls.

Whether a hook's result is memory that it was given is then known in each call only. More kinds of optimizers get their
first state, hooks note several numbers, and some programs are compiled for sizes that vary (`dynamic`).
"""

from __future__ import annotations

from tests.xla import local_steps, step_fuzzer, wider_steps

# Ways on which a hook returns something, or not; `{t}` is a tensor, `{lim}` a number.
DECISIONS = [
    "if {t}.norm() > {lim}: return {t} * 0.5", "if {t}.norm() > {lim}: return {t} / {t}.norm()\nreturn {t}",
    "if {t}.abs().max().item() > {lim}: return {t}.clamp(-0.1, 0.1)", "return {t} * 0.5 if {t}.norm() > {lim} else None",
    "if {t}.norm() > {lim}: return {t} * 0.5\nreturn {t}.detach()", "return {t} if {t}.sum() < {lim} else {t}.clone()",
    "if {t}.norm() > {lim}: return {t} * 0.5\nreturn {t}.view_as({t})",
    "n = {t}.norm().item()\nif n > {lim}: return {t} / n",
    "if not torch.isfinite({t}).all(): return torch.zeros_like({t})", "if {t}.mean() > {lim}: {t}.mul_(0.5)",
    "if {t}.max() > {lim}: return {t} * 0.5\nif {t}.min() < -0.1: return {t} * 2",
    "if {t}.norm() > {lim}: return {t}.t().contiguous().t() if {t}.ndim == 2 else {t}.clone()",
    'if {t}.norm() > {lim}:\n    LOG.append("large")\n    return {t} * 0.5',
    "while {t}.norm() > 0.5: {t} = {t} / 2\nreturn {t}",
    'if {t}.norm() > {lim}: return {t} * S["factor"]', "if CFG.active and {t}.norm() > {lim}: return {t} * CFG.gain",
    "if {t}.norm() > {lim}: return torch.ones_like({t}) * 0.01\nelse: return None",
]  # fmt: skip
LIMITS = ["0.0", "0.05", "0.1", "0.2", "0.4", "100.0", "CFG.limit"]
KEEPS = [  # aliases of a tensor, or the tensor itself
    "KEPT.append({t}.detach())", 'OUT["{i}"] = {t}.detach()', 'OUT["{i}"] = {t}', 'S["last"] = {t}.detach()',
    "KEPT.append({t})",
    "KEPT.append({t}.data)", "KEPT.append({t}.detach().numpy())", "RECORD.last = {t}.detach()[0]", "SPACE.last = {t}",
    "KEPT.append({t}.detach().view(-1)[:2])", 'OUT["{i}"] = [{t}.detach(), {t}]', "KEPT.append(({t}.detach(), S['n']))",
    "CFG.best = {t}.detach()", 'OUT["{i}"] = {t}.detach().t() if {t}.ndim == 2 else {t}.data', "keep({t}.detach())",
]  # fmt: skip
NOTES = [  # several numbers at once, in branches of Python's
    'LOG.append(("{i}", {t}.norm().item(), {t}.abs().max().item()))',
    'note("{i}", {t}.mean().item(), len(LOG), float({t}.std()))',
    'if S["n"] % 2 == 0: LOG.append({t}.norm().item())', 'OUT.setdefault("{i}", []).append([{t}.norm().item(), COUNT])',
    'LOG.append(f"{{{t}.norm().item():.2f}}")', 'S["sum"] += {t}.norm().item() * S["factor"]',
    "METER.update({t}.norm().item())",
    'LOG.append({t}.norm().item() if CFG.active else {t}.mean().item())', 'RECENT.append(round({t}.sum().item(), 2))',
    'GROUPS["{i}"].append(({t} * scale).sum().item())', 'LOG.append([{t}.norm().item(), {t}.mean().item()][S["n"] % 2])',
]  # fmt: skip
BETWEEN = [
    *wider_steps.BETWEEN,
    *[
        f"g = {leaf}.grad; g is not None and {write}"
        for leaf in ("model[0].weight", "model[2].weight", "model[0].bias")
        for write in ("g.zero_()", "g.mul_(0.5)", "g.add_(1.0)", "g.detach().fill_(0.3)")
    ],
    "for p in model.parameters(): p.grad is not None and p.grad.zero_()",
    "for k in KEPT[-2:]: isinstance(k, torch.Tensor) and not k.requires_grad and k.mul_(0.5)",
    "for k in [*OUT.values()]: isinstance(k, torch.Tensor) and not k.requires_grad and k.zero_()",
    "isinstance(S.get('last'), torch.Tensor) and not S['last'].requires_grad and S['last'].add_(1.0)",
    "for k in KEPT: isinstance(k, np.ndarray) and k.fill(0.25)", "CFG.limit = 0.0", "CFG.limit = 100.0",
    "optimizer.zero_grad(set_to_none=False)", "nn.utils.clip_grad_norm_(model.parameters(), 0.1)",
]  # fmt: skip
OPTIMIZERS = [
    "SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)",
    "SGD(model.parameters(), lr=0.1, momentum=0.5, dampening=0.1)",
    "Adam(model.parameters(), lr=0.01, eps=0.1, amsgrad=True)", "AdamW(model.parameters(), lr=0.01, eps=0.1)",
    "RMSprop(model.parameters(), lr=0.01, eps=0.1, momentum=0.5, centered=True)", "SGD(model.parameters(), lr=0.1)",
    "NAdam(model.parameters(), lr=0.01, eps=0.1)", "RAdam(model.parameters(), lr=0.01, eps=0.1)",
    "Adagrad(model.parameters(), lr=0.05, eps=0.1)", "Adadelta(model.parameters(), lr=0.1, eps=0.1)",
    "Adamax(model.parameters(), lr=0.01, eps=0.1)", "ASGD(model.parameters(), lr=0.05)",
    "Rprop(model.parameters(), lr=0.01)",
]  # fmt: skip
LEAVES = ["model[0].weight", "model[0].weight", "model[0].bias", "model[2].weight"]


class Deciding(local_steps.Local):
    """Write the source of one program."""

    between_choices, optimizers, schedulers = BETWEEN, OPTIMIZERS, step_fuzzer.SCHEDULERS

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.leaf = self.pick(LEAVES)  # on which most hooks are
        if self.chance(0.6):
            self.forwards, self.backwards = ["y = model(x)"], ["loss.backward()"]

    def step(self, scheduled: bool) -> str:
        first = [self.keeping_hook, self.deciding_hook] if self.chance(0.7) else []
        hooks = [(source, self.registered(registration)) for _, source, registration in [each() for each in first]]
        return "".join(f"{source}{line}\n" for source, line in hooks) + super().step(scheduled)

    def program(self) -> str:
        text = super().program()
        if self.chance(0.15):  # batches of several sizes
            sizes = [self.random.choice([3, 3, 4, 5]) for _ in range(5)]
            text += f"SIZES = {sizes}\nOPTIONS = {{'dynamic': {{'x': 0}}}}\n"
        return text

    def hook(self) -> tuple[str, str, str]:
        kinds = [self.deciding_hook, self.keeping_hook, self.noting_hook]
        others = [self.deciding_leaf_hook, self.deciding_module_hook]
        return super().hook() if self.chance(0.2) else self.random.choice([*kinds, *kinds, *others])()

    def lines(self, choices: list[str], tensor: str) -> list[str]:
        text = self.pick(choices).replace("{lim}", self.pick(LIMITS)).replace("{i}", self.name("e"))
        return text.replace("{t}", tensor).replace("{{", "{").replace("}}", "}").split("\n")

    def on_leaf(self, name: str) -> str:
        return f"{self.leaf if self.chance(0.8) else self.pick(LEAVES)}.register_hook({name})"

    def deciding_hook(self) -> tuple[str, str, str]:
        """A hook that returns something or not, as values decide."""
        name = self.name("decides")
        body = self.effects("g", 1) if self.chance(0.3) else []
        return name, self.function(f"{name}(g)", [*body, *self.lines(DECISIONS, "g")]), self.on_leaf(name)

    def keeping_hook(self) -> tuple[str, str, str]:
        name = self.name("keeps")
        body = self.lines(KEEPS, "g")
        if self.chance(0.3):
            body += self.lines(DECISIONS, "g")
        return name, self.function(f"{name}(g)", body), self.on_leaf(name)

    def noting_hook(self) -> tuple[str, str, str]:
        """A hook whose tensor work is in the program, and which notes numbers after it."""
        name = self.name("notes")
        if self.chance(0.5):
            body = [line for _ in range(2) for line in self.lines(NOTES, "g")]
            return name, self.function(f"{name}(g)", body), self.on_leaf(name)
        where, body = self.pick(["model", "model[0]", "model[1]"]), self.lines(NOTES, "output")
        return name, self.function(f"{name}(module, inputs, output)", body), f"{where}.register_forward_hook({name})"

    def deciding_leaf_hook(self) -> tuple[str, str, str]:
        name, lim = self.name("leaf"), self.pick(LIMITS)
        body = self.lines(KEEPS, "p.grad") if self.chance(0.5) else []
        change = self.pick(["p.grad.mul_(0.5)", "p.grad = p.grad * 0.5", "p.grad.clamp_(-0.1, 0.1)", "p.grad = None"])
        body.append(f"if p.grad.norm() > {lim}: {change}")
        where = self.pick(["model[0].weight", "model[2].weight"])
        return name, self.function(f"{name}(p)", body), f"{where}.register_post_accumulate_grad_hook({name})"

    def deciding_module_hook(self) -> tuple[str, str, str]:
        name, lim, where = self.name("module"), self.pick(LIMITS), self.pick(["model", "model[1]", "model[2]"])
        keeps = self.lines(KEEPS, "{g}") if self.chance(0.4) else []
        if self.chance(0.4):
            body = [*keeps, f"if {{g}}.norm() > {lim}: return ({{g}} * 0.5,)"]
            text = self.function(f"{name}(module, grads)", [line.replace("{g}", "grads[0]") for line in body])
            return name, text, f"{where}.register_full_backward_pre_hook({name})"
        if self.chance(0.5):
            body = [*keeps, f"if {{g}} is not None and {{g}}.norm() > {lim}: return ({{g}} * 0.5,)"]
            text = self.function(f"{name}(module, inner, outer)", [line.replace("{g}", "inner[0]") for line in body])
            return name, text, f"{self.pick(['model[1]', 'model[2]'])}.register_full_backward_hook({name})"
        body = [*keeps, f"if {{g}}.detach().norm() > {lim}: return {{g}} * 0.5"]
        text = self.function(f"{name}(module, inputs, output)", [line.replace("{g}", "output") for line in body])
        return name, text, f"{where}.register_forward_hook({name})"
