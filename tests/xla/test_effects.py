"""`compile.effects`: what is said of a hook before it runs.

The one promise that counts is that nothing called pure has an effect, so the tables are large and random programs, whose
effects are seen by running them, are put beside what was said of them.
"""

from __future__ import annotations

import ast
import linecache
from typing import Any

import pytest
import torch as real_torch
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as torch
from tests.xla import hook_collection as zoo
from tests.xla.random_programs import Outcome
from undertow._src.base.lazy import LateMethod
from undertow._src.compile.effects import Effects, Exactly, analyse, analyzer, kind_of, purity
from undertow._src.compile.effects.objects import in_class
from undertow._src.compile.effects.syntax_trees import definition
from undertow._src.ops.sort import SortMethods


@pytest.mark.parametrize("name", zoo.PURE)
def test_pure(name: str) -> None:
    hook, kinds = zoo.PURE[name]
    found = analyse(hook, kinds)
    assert found.pure, "; ".join(map(str, found.effects))


@pytest.mark.parametrize("name", zoo.EFFECTS)
def test_effects(name: str) -> None:
    hook, kinds, kind, words = zoo.EFFECTS[name]
    found = analyse(hook, kinds)
    assert not found.pure
    said = [(effect.kind, effect.what) for effect in found.effects]
    assert any(k == kind and what.startswith(words) for k, what in said), said


# --- what else is said of a function


NOTED: dict[str, Any] = {}


def maybe(g: Any) -> Any:  # noqa: RET503
    if g.norm() > 1:
        return g * 2


def never(g: Any) -> Any:
    if g.norm() > 1:
        return
    g.mul_(2)


def always(g: Any) -> Any:
    while True:
        if g.norm() > 1:
            return g
        g = g * 2


def raises_or_returns(g: Any) -> Any:
    if torch.isnan(g).any():
        raise RuntimeError
    return g * 2


def returns_an_element(gs: Any) -> Any:
    return gs[0]


@pytest.mark.parametrize(
    ("function", "kinds", "returns"),
    [
        (maybe, ["tensor"], None),
        (never, ["tensor"], False),
        (always, ["tensor"], True),
        (raises_or_returns, ["tensor"], True),
        (returns_an_element, ["tensors"], None),
        (lambda g: g.clamp_(0), ["tensor"], True),
        (lambda g: torch.clamp(g, 0), ["tensor"], True),
        (lambda g: print(g), ["tensor"], False),
        (lambda g: zoo.EVENTS.append(g), ["tensor"], False),
        (lambda g: NOTED.setdefault("events", []).append(g), ["tensor"], False),
        (lambda g: NOTED.setdefault("last", g), ["tensor"], True),
        (lambda g: zoo.DEFAULTS["events"].append(g), ["tensor"], False),
        (lambda g: g.backward(), ["tensor"], False),
        (lambda g: (g, g), ["tensor"], True),
        (lambda g: g if zoo.LIMIT else None, ["tensor"], None),
        (lambda p: p.grad, ["tensor"], None),
        (lambda gs: tuple(g for g in gs), ["tensors"], True),
        (lambda g: zoo.SCALER(g), ["tensor"], True),
        (zoo.without_gradients_logging, ["tensor"], False),
    ],
)
def test_returns(function: Any, kinds: Any, returns: bool | None) -> None:
    assert analyse(function, kinds).returns is returns


def reads(found: Effects) -> dict[str, Any]:
    return {read.name: read.value for read in found.reads}


def test_reads_of_closures_globals_and_attributes() -> None:
    factor, names, settings_of = 2.0, ["a", "b"], zoo.Scaler(3.0)

    def hook(g: Any, power: int = 2) -> Any:
        return g * factor * settings_of.factor * zoo.LIMIT * len(names) * power

    found = analyse(hook, ["tensor"])
    assert found.pure
    expected = {"factor": 2.0, "settings_of.factor": 3.0, "zoo.LIMIT": 1.5, "names": ["a", "b"], "power": 2}
    assert reads(found) == expected
    assert not any(read.changed() for read in found.reads)
    factor = 4.0
    names.append("c")
    settings_of.factor = 5.0
    assert {read.name for read in found.reads if read.changed()} == {"factor", "names", "settings_of.factor"}


def test_a_read_follows_its_path_again() -> None:
    box = zoo.Scaler(3.0)
    found = analyse(lambda g: g * box.factor, ["tensor"])
    box = zoo.Scaler(3.0)
    assert not found.reads[0].changed()
    box = zoo.Scaler(4.0)
    assert found.reads[0].changed()


def test_a_read_tells_a_number_from_an_equal_one_of_another_type() -> None:
    factor: Any = 1
    found = analyse(lambda g: g * factor, ["tensor"])
    factor = True
    assert found.reads[0].changed()


def test_arrays_are_compared_by_what_they_hold() -> None:
    found = analyse(lambda g: g * torch.from_numpy(zoo.WEIGHTS), ["tensor"])
    (read,) = found.reads
    assert not read.changed()
    zoo.WEIGHTS[0] += 1
    try:
        assert read.changed()
    finally:
        zoo.WEIGHTS[0] -= 1


def test_functions_classes_modules_and_tensors_are_no_reads() -> None:
    found = analyse(lambda g: zoo.clip_norm(g) * zoo.MASK + zoo.BLOCK(g), ["tensor"])
    assert "zoo.MASK" not in reads(found)
    assert {read.name for read in found.holds} >= {"zoo.MASK", "zoo.BLOCK"}
    assert reads(found)["LIMIT"] == 1.5
    assert reads(found)["zoo.BLOCK.scale"] == 0.5
    assert reads(found)["zoo.BLOCK.training"] is True


def test_a_list_that_is_only_written_is_not_read() -> None:
    log: list[Any] = []
    found = analyse(lambda g: log.append(g), ["tensor"])
    assert not found.reads
    assert found.effects[0].target is log


def test_one_hook_feeds_another() -> None:
    features: dict[str, Any] = {}
    others: dict[str, Any] = {}
    last = None
    keeper = zoo.Scaler(1.0)

    def keep_last(g: Any) -> None:
        nonlocal last
        last = g

    def keep_feature(g: Any) -> None:
        features["a"] = g

    store = analyse(keep_feature, ["tensor"])
    assert [effect.kind for effect in store.effects] == ["store"]
    assert store.effects[0].target is features
    reader = analyse(lambda g: g * features["a"], ["tensor"])
    assert any(each is features for each in reader.touches)
    assert store.feeds(reader)
    assert not store.feeds(analyse(lambda g: g * others.get("a", 1), ["tensor"]))
    assert analyse(keep_last, ["tensor"]).feeds(analyse(lambda g: g if last is None else last, ["tensor"]))
    assert not analyse(keep_last, ["tensor"]).feeds(reader)
    assert analyse(keeper.remember, ["tensor"]).feeds(analyse(lambda g: keeper.last, ["tensor"]))
    assert not analyse(keeper.remember, ["tensor"]).feeds(analyse(keeper, ["tensor"]))
    assert analyse(zoo.Scaler.bump, ["tensor"]).feeds(analyse(keeper, ["tensor"]))
    assert analyse(zoo.global_store, ["tensor"]).feeds(analyse(lambda g: g * zoo.TOTAL, ["tensor"]))
    assert analyse(lambda g: setattr(zoo, "TOTAL", 3), ["tensor"]).feeds(analyse(lambda g: g * zoo.TOTAL, ["tensor"]))
    assert not analyse(zoo.global_store, ["tensor"]).feeds(analyse(lambda g: g * zoo.LIMIT, ["tensor"]))


def test_an_exact_argument_is_looked_into() -> None:
    hook = lambda module, inputs, output: output * module.scale + module.offset
    kinds: Any = [Exactly(zoo.BLOCK), "tensors", "tensor"]
    found = analyse(hook, kinds)
    assert found.pure
    assert 0.5 in reads(found).values()
    assert not analyse(hook, ["module", "tensors", "tensor"]).pure  # whose scale it is cannot be told


def test_the_rate_of_an_exact_optimizer_is_a_read_of_its_own() -> None:
    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad.mul_(group["lr"])

    found = analyse(hook, [Exactly(zoo.OPTIMIZER), "tensors", "other"])
    assert found.pure
    assert any(name.endswith("['lr']") for name in reads(found))


def test_modules() -> None:
    assert analyse(zoo.BLOCK).pure
    assert analyse(zoo.NESTED).pure
    assert analyse(torch.nn.Transformer(8, 2, 1, 1, 8, batch_first=True), ["tensor", "tensor"]).pure
    assert [effect.what for effect in analyse(zoo.NESTED_COUNTING).effects] == ["updates `a CountingBlock.calls`"]
    assert [effect.kind for effect in analyse(zoo.SavingBlock()).effects] == ["store"]
    noisy = torch.nn.TransformerEncoderLayer(8, 2, 8, activation=zoo.wrapped_loudly)
    assert not analyse(noisy).pure


def test_a_step() -> None:
    model, optimizer, losses = zoo.BLOCK, zoo.OPTIMIZER, []

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        out = model(x)
        out.register_hook(zoo.clip_value)
        loss = torch.nn.functional.mse_loss(out, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    def logging_step(x: Any, y: Any) -> None:
        losses.append(step(x, y))

    x = torch.ones(2, 3)
    kinds = [kind_of(x), kind_of(x)]
    assert analyse(step, kinds).pure, analyse(step, kinds).effects
    found = analyse(logging_step, kinds)
    assert [effect.what for effect in found.effects] == ["appends to `losses`"]
    assert found.effects[0].target is losses


def test_kinds_of_values() -> None:
    x = torch.ones(1)
    assert kind_of(x) == "tensor"
    assert kind_of((x, None)) == "tensors"
    assert kind_of(None) == "none"
    assert isinstance(kind_of(3), Exactly)


# --- finding the source


def test_lambdas_that_share_a_line_are_told_apart() -> None:
    log: list[Any] = []
    first, second, third = lambda g: g * 2, lambda g: log.append(g), lambda g: (lambda h: h + 1)(g)
    assert [analyse(each, ["tensor"]).pure for each in (first, second, third)] == [True, False, True]
    outer = lambda g: lambda g: log.append(g)  # the outer one only makes the inner one
    assert analyse(outer, ["tensor"]).pure
    assert not analyse(outer(0), ["tensor"]).pure


def test_names_that_the_compiler_adds_hide_no_source() -> None:
    def makes_a_class() -> Any:
        class Local(dict[str, int]):
            """A class whose body names a dozen things that nobody wrote."""

            kind: int = 3

            def __init__(self, size: int) -> None:
                super().__init__()
                self.size = size

        async def waits() -> None:
            pass

        return Local(2), waits

    function: Any = makes_a_class
    node = definition(function)
    assert isinstance(node, ast.FunctionDef) and node.name == "makes_a_class"


def test_without_source_nothing_is_pure() -> None:
    made: dict[str, Any] = {}
    exec("def hook(g):\n    return g", made)
    found = analyse(made["hook"], ["tensor"])
    assert [effect.what for effect in found.effects] == ["has no source to read"]
    assert found.returns is None


def test_source_that_is_not_that_of_the_function_is_not_believed() -> None:
    name = "<a file that was edited>"
    made: dict[str, Any] = {"log": []}
    exec(compile("def hook(g):\n    log.append(g)\n", name, "exec"), made)
    linecache.cache[name] = (1, None, ["def hook(g):\n", "    return g\n"], name)
    try:
        assert not analyse(made["hook"], ["tensor"]).pure
    finally:
        del linecache.cache[name]


def test_source_from_a_notebook() -> None:
    name = "<cell 1>"
    text = "scale = 2.0\ndef hook(g):\n    return g * scale\n"
    made: dict[str, Any] = {}
    exec(compile(text, name, "exec"), made)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        found = analyse(made["hook"], ["tensor"])
        assert found.pure
        assert reads(found) == {"scale": 2.0}
    finally:
        del linecache.cache[name]


def test_under_the_name_of_torch() -> None:
    with torch.pretend_torch():
        assert analyse(lambda g: torch.clamp(g, 0) + zoo.BLOCK(g), ["tensor"]).pure
        assert not analyse(lambda g: torch.save(g, "x"), ["tensor"]).pure


def test_nothing_of_the_users_is_run() -> None:
    counted = zoo.Scaler(1.0)
    events, gets = list(zoo.EVENTS), list(zoo.MAGIC.gets)  # other tests, and pytest, look at this collection
    analyse(counted.with_counting_property, ["tensor"])
    analyse(lambda g: zoo.DEFAULTS["never"], ["tensor"])
    analyse(zoo.make_counter(), ["tensor"])
    assert counted.count == 0
    assert "never" not in zoo.DEFAULTS
    assert events == zoo.EVENTS
    assert gets == zoo.MAGIC.gets


def test_an_endless_chain_of_calls_is_given_up() -> None:
    def deeper(g: Any, functions: Any) -> Any:
        return deeper(g, [functions])

    analyse(deeper, ["tensor", "plain"])  # ends


@pytest.mark.parametrize("name", ["clip_value", "double", "object", "clip_norm"])
def test_small_hooks_take_few_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer, "MOST_STEPS", 100)
    hook, kinds = zoo.PURE[name]
    assert analyse(hook, kinds).pure


# --- random programs


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_random_programs_said_to_be_pure_change_nothing(seed: int) -> None:
    try:
        program = Outcome(seed)
    except SyntaxError:  # a nonlocal without its variable, and the like
        return
    with program:
        found = analyse(program.hook, ["tensor"])
        changed, result = program.run(torch.ones(2, 2))
    assert not (found.pure and changed), program.source
    if found.returns is not None and not isinstance(result, Exception):
        assert found.returns == (result is not None), program.source


def test_classes_of_undertow_are_known_by_what_they_are() -> None:
    own = [
        torch.Tensor,
        torch.nn.Parameter,
        torch.autocast,
        torch.device,
        torch.dtype,
        torch.nn.Linear,
        torch.optim.SGD,
    ]
    assert [purity.origin_of(kind) for kind in own] == ["own"] * len(own)
    assert purity.origin_of(real_torch.nn.Linear) == "user"
    assert purity.origin_of(zoo.Scaler) == purity.origin_of(zoo.Block) == purity.origin_of(zoo.Watched) == "user"
    hook = lambda g: g.to(torch.device("cpu")) + torch.FloatTensor([1.0]) + zoo.MASK.to(torch.float64)
    assert analyse(hook, ["tensor"]).pure


@pytest.mark.parametrize(
    ("function", "writes"),
    [
        (lambda g: print(g.norm()), False),
        (lambda g: zoo.EVENTS.append(g.detach().clone()), False),
        (lambda g: print(g.mul_(2)), True),
        (lambda g: print(g.view(-1).add_(1)), True),
        (zoo.clip_in_place, True),
        (lambda p: setattr(p, "grad", None), True),
        (lambda g: torch.relu_(g), True),
        (lambda g: torch.add(g, 1, out=g), True),
        (lambda p: zoo.OPTIMIZER.step(), True),
        (lambda g: zoo.BLOCK(g), True),
        (lambda g: torch.relu(g) * torch.nn.functional.softmax(g, -1), False),
        (zoo.clip_norm, False),
    ],
)
def test_writes(function: Any, writes: bool) -> None:
    assert analyse(function, ["tensor"]).writes is writes


def test_writes_by_statements() -> None:
    def through_index(g: Any) -> None:
        g[0] = 1

    def in_place(g: Any) -> None:
        g *= 2

    assert analyse(through_index, ["tensor"]).writes
    assert analyse(in_place, ["tensor"]).writes


def test_a_method_that_nobody_has_used_yet_is_looked_up_where_it_is() -> None:
    class Late:
        pass

    Late.sort = LateMethod(Late, "undertow._src.ops.sort:SortMethods", "sort", lambda found, name: found)  # type: ignore[attr-defined]
    assert in_class(Late, "sort") is vars(SortMethods)["sort"]
