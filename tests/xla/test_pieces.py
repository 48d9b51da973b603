"""Statements in pieces: the same happens in the same order, and values are looked at in the middle of a line."""

from __future__ import annotations

import ast
from typing import Any

import pytest

import undertow as torch
from tests.xla.twins import Case, agree
from undertow import nn
from undertow._src.compile.splitting.anf import take_apart, written

STATEMENTS = [
    "return f(1)(f(2), *f(3).list, k=f(4), **f(5).dict)",
    "return f(1).a, [f(2) + f(3) * -f(4)], {f(5): f(6), **f(7).dict}",
    "return f(1).b[f(2).n : f(3).n, f(4).n].m(f(5))",
    "return f(1) < f(2) < f(3), f(4) and f(5), f(6) if f(7) else f(8), (lambda: f(9))",
    "return f'{f(1).n:>{f(2).n}} {f(3).item()}', tuple(f(each) for each in f(4).list), {f(5) for each in f(6).list}",
    "f(1).c = f(2).d.m(f(3))",
    "assert f(1).m(f(2)), f(3)",
    "if not f(1).m(f(2)).zero: return f(3).m(f(4))",
    "for each in f(1).m(f(2)).list: f(each)",
]


class Noting:
    """Notes what is done with it, and with all that comes of it. Looking for a method, or at a value, is nothing."""

    def __init__(self, log: list[Any], name: str) -> None:
        self.__dict__.update(log=log, name=name)

    def noted(self, name: str) -> Any:
        self.log.append(name)
        return Noting(self.log, name)

    n = property(lambda self: self("n") and 1)
    zero = property(lambda self: self("zero") and 0)
    list = property(lambda self: [self("list")])
    dict = property(lambda self: {"d": self("dict")})

    def __getattr__(self, name: str) -> Any:
        return Noting(self.log, f"{self.name}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        self.log.append((self.name, name, value.name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = [getattr(each, "name", each) for each in (*args, *kwargs, *kwargs.values())]
        return self.noted(f"{self.name}{given}")

    def item(self) -> Any:
        return 1.0

    __getitem__ = __add__ = __mul__ = __lt__ = __call__
    __neg__ = __repr__ = lambda self: self("unary") and "repr"  # type: ignore[operator]
    __hash__ = lambda self: hash(self.name)  # type: ignore[attr-defined]
    __bool__ = lambda self: True
    __eq__ = lambda self, other: self is other


@pytest.mark.parametrize("source", STATEMENTS)
def test_pieces_do_the_same_in_the_same_order(source: str) -> None:
    def run(apart: bool) -> list[Any]:
        tree = ast.parse(f"def function(f):\n    {source}")
        node: Any = tree.body[0]
        if apart:
            statement = node.body[0]
            assert take_apart(node, statement) is (len(node.body) > 1)
            assert len(node.body) > 1 and all(written(each) == ast.unparse(ast.parse(source)) for each in node.body)
        names: dict[str, Any] = {}
        exec(compile(tree, "pieces", "exec"), names)
        log: list[Any] = []
        names["function"](Noting(log, "f"))
        return log

    assert run(True) == run(False)


def test_values_are_looked_at_in_the_middle_of_a_line(capsys: Any) -> None:
    def build() -> Case:
        model = nn.Linear(3, 2)
        log: list[Any] = []
        model.register_forward_hook(lambda module, given, result: log.append("forward"))

        def step(x: Any) -> Any:
            print(f"{model(x).mean():.4f}", model(x).sum())
            log.append({"sum": (x - model(x).sum()).pow(2).mean().item()})
            log.append((model(x) * 2).detach().numpy().tolist())
            if model(x).sum().item() > -100.0:
                log.append("positive")
            assert torch.isfinite(model(x)).all()
            return model(x).sum().item(), [row.sum().item() for row in model(x)], {"x": x.sum()}

        return Case(step, model, args=lambda turn: (torch.randn(2, 3),), log=log)

    agree(build, steps=2, programs=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[:2] == lines[2:]


def test_the_report_has_the_statement_as_it_was_written() -> None:
    model = nn.Linear(3, 2)

    @torch.compile
    def step(x: Any) -> Any:
        return model(x).sum().item()

    step(torch.ones(1, 3))
    (said,) = torch.compile.explain(step).data[0]["programs"][0]["statements"]
    assert said["source"] == "`return model(x).sum().item()`" and said["runs"] == "after the program"


def test_what_goes_on_with_a_value_in_the_middle_of_a_line() -> None:
    def build() -> Case:
        model = nn.Linear(3, 2)

        def step(x: Any) -> Any:
            (model(x) * model(x).sum().item()).sum().backward()

        return Case(step, model, args=lambda turn: (torch.full((1, 3), turn + 1.0),))

    agree(build)
