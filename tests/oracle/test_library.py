"""Operators of a program's own: `torch.library` makes them, `torch.ops` finds them."""

from __future__ import annotations

import gc
import importlib
import inspect
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import agree, agree_error

_numbers = itertools.count()


def fresh() -> str:
    """A namespace that neither library has seen."""
    return f"undertow_test_{next(_numbers)}"


def scaled_sin(torch: Any, space: str) -> Any:
    def compute(x, factor=2.0):
        return torch.sin(x) * factor

    compute.__annotations__ = {"x": torch.Tensor, "factor": float, "return": torch.Tensor}
    return torch.library.custom_op(f"{space}::scaled_sin", mutates_args=())(compute)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1]


def differentiate(ctx: Any, grad: Any) -> Any:
    assert ctx.needs_input_grad[0]
    return grad * ctx.saved_tensors[0].cos() * ctx.factor, None


def test_a_custom_operator_is_one_step_of_the_graph() -> None:
    space = fresh()

    def program(torch: Any, log: Any) -> Any:
        op = scaled_sin(torch, space)
        x = torch.ones(2, requires_grad=True)
        log(repr(op), op(x), op(x, factor=3.0), op(x.detach()))
        op.register_autograd(differentiate, setup_context=save)
        found = getattr(torch.ops, space).scaled_sin
        log(str(found), str(found.default), str(found.default._schema), found.default.name())
        assert found.default is found.default
        log(found(x), found.default(x, factor=3.0), found(x).grad_fn.name())
        found(x).sum().backward()
        return x.grad

    agree(program)


def test_backward_without_a_formula() -> None:
    space = fresh()
    agree_error(lambda torch: scaled_sin(torch, space)(torch.ones(1, requires_grad=True)).backward())


def test_an_operator_that_writes_counts_the_write() -> None:
    space = fresh()

    def program(torch: Any) -> Any:
        def fill(x):
            x.fill_(1)

        fill.__annotations__ = {"x": torch.Tensor, "return": None}
        op = torch.library.custom_op(f"{space}::fill", mutates_args={"x"})(fill)
        x = torch.zeros(2)
        op(x)
        return x, x._version > 0, str(getattr(torch.ops, space).fill.default._schema)

    agree(program)


def test_a_result_may_not_be_an_input() -> None:
    space = fresh()

    def program(torch: Any) -> Any:
        def same(x):
            return x

        same.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
        torch.library.custom_op(f"{space}::same", mutates_args=())(same)(torch.ones(1))

    agree_error(program, words=0)


def optional(kind: Any) -> Any:
    return kind | None


SIGNATURES = [
    lambda torch: {"a": torch.Tensor, "b": optional(torch.Tensor), "c": Sequence[int], "return": torch.Tensor},
    lambda torch: {"a": int, "b": float | None, "c": list[torch.Tensor], "return": tuple[torch.Tensor, torch.Tensor]},  # type: ignore[name-defined]
    lambda torch: {"a": str, "b": bool, "c": list[float], "return": None},
    lambda torch: {"a": torch.dtype, "b": torch.device, "c": torch.types.Number, "return": int},
    lambda torch: {"a": torch.Tensor, "b": dict, "c": int, "return": int},
    lambda torch: {"a": torch.Tensor, "c": int, "return": int},
]


@pytest.mark.parametrize("number", range(len(SIGNATURES)))
@pytest.mark.parametrize("written", [(), ("a",)])
def test_schemas_follow_from_annotations(number: int, written: Any) -> None:
    def program(torch: Any) -> str:
        def function(a, b, *, c=1.0): ...

        function.__annotations__ = SIGNATURES[number](torch)
        tensors = "Tensor" in str(function.__annotations__)
        return torch.library.infer_schema(function, mutates_args=written if tensors else ())

    agree(program, words=6)


def test_a_library_by_schema_and_key() -> None:
    space = fresh()

    def program(torch: Any, log: Any) -> Any:
        library = torch.library.Library(space, "DEF")
        log(library.define("times(Tensor x, int n=2, *, float s=1.5) -> Tensor"))
        library.impl("times", lambda x, n=2, *, s=1.5: x * n * s, "CompositeImplicitAutograd")
        times = getattr(torch.ops, space).times
        x = torch.ones(1, requires_grad=True)
        for args in ((x,), (x, 3), (), (x, 2.5), (3,)):
            try:
                log(times(*args, s=2.0), times(*args))
            except RuntimeError as error:
                log(str(error).split("\n")[0].split(" Declaration")[0])
        times(x, 4).backward()
        library._destroy()
        return x.grad

    agree(program)


def test_an_operator_by_name() -> None:
    space = fresh()

    def program(torch: Any, log: Any) -> Any:
        torch.library.define(f"{space}::add_one", "(Tensor x) -> Tensor")

        @torch.library.impl(f"{space}::add_one", "cpu")
        def add_one(x: Any) -> Any:
            return x + 1

        @torch.library.register_fake(f"{space}::add_one")
        def fake(x: Any) -> Any:
            return torch.empty_like(x)

        torch.library.register_autograd(f"{space}::add_one", lambda ctx, grad: grad * 7)
        x = torch.ones(1, requires_grad=True)
        result = getattr(torch.ops, space).add_one(x)
        result.backward()
        return result, x.grad

    agree(program)


@pytest.mark.parametrize("name", ["torch.ops.aten.nonesuch", "torch.ops.nowhere.nothing", "torch.ops.aten.add.nope"])
def test_missing_operators(name: str) -> None:
    agree_error(lambda torch: eval(name, {"torch": torch}))


ATEN = """
add.Tensor(x, 2) mul(x, x) relu.default(x) sum.dim_IntList(x, [0]) mm.default(x, x) view.default(x, [9]) t.default(x)
_softmax.default(x, 1, False) slice.Tensor(x, 1, 0, 2) linalg_inv(x) special_expit(x) fft_fft(x) addmm(x, x, x)
index.Tensor(x, [None, y]) native_layer_norm(x, [3], None, None, 1e-5) _unsafe_view(x, [9]) gelu(x) sym_size.int(x, 0)
""".replace("\n", " ").strip()


@pytest.mark.parametrize("call", inspect.cleandoc(ATEN).replace(") ", ")\n").split("\n"))
def test_operators_of_aten(call: str) -> None:
    values = np.random.RandomState(0).randn(3, 3)

    def program(torch: Any) -> Any:
        x = torch.tensor(values) + 3 * torch.eye(3, dtype=torch.float64)
        return eval(f"torch.ops.aten.{call}", {"torch": torch, "x": x, "y": torch.tensor([0, 2])})

    agree(program)


def test_overloads() -> None:
    space = fresh()

    def program(torch: Any, log: Any) -> Any:
        library = torch.library.Library(space, "FRAGMENT")
        log(
            library.define("plus(Tensor x, int n) -> Tensor"), library.define("plus.pair(Tensor x, Tensor y) -> Tensor")
        )
        library.impl("plus", lambda x, n: x + n, "CPU")
        library.impl("plus.pair", lambda x, y: x + y + 1, "CPU")
        plus = getattr(torch.ops, space).plus
        log(sorted(plus.overloads()), str(plus.pair), plus.pair.name(), str(plus.pair._schema))
        log(plus.default(torch.ones(1), 2), plus.pair(torch.ones(1), torch.ones(1)), plus(torch.ones(1), 2))
        assert getattr(torch.ops, space).plus.pair is plus.pair
        library._destroy()

    agree(program)


def test_operators_over_many_examples() -> None:
    space = fresh()

    def program(torch: Any, log: Any) -> Any:
        schema = "(Tensor x, Tensor y, *, float by=1.0) -> Tensor"

        @torch.library.custom_op(f"{space}::scaled", mutates_args=(), schema=schema)
        def scaled(x: Any, y: Any, *, by: float = 1.0) -> Any:
            return torch.from_numpy(np.asarray(x.detach().numpy() * y.detach().numpy() * by))

        x, y = torch.arange(6.0).reshape(2, 3), torch.arange(3.0)
        log(torch.vmap(lambda x: scaled(x, y))(x))  # one call for each example

        @scaled.register_vmap
        def _(info: Any, in_dims: Any, x: Any, y: Any, *, by: float = 1.0) -> Any:
            log(info.batch_size, info.randomness, in_dims, by)
            first = [
                x.unsqueeze(0) if dim is None else x.movedim(dim, 0) for x, dim in zip((x, y), in_dims, strict=True)
            ]
            return scaled(*first, by=by), 0

        log(torch.vmap(lambda x: scaled(x, torch.tensor(2.0), by=3.0), in_dims=1, out_dims=1)(x.contiguous()))
        return torch.vmap(torch.vmap(scaled, in_dims=(None, 0)), in_dims=(0, None))(y, y)

    agree(program, warns=False)


REFUSED = {
    "no annotation": "infer_schema(lambda x: x, mutates_args=())",
    "no annotation of the result": "infer_schema((plain.__annotations__.pop('return'), plain)[1], mutates_args=())",
    "any number of arguments": "infer_schema(many, mutates_args=())",
    "a tuple": "infer_schema(pair, mutates_args=())",
    "a name that is not there": "infer_schema(plain, mutates_args={'z'})",
    "gradients of a write": "custom_op(f'{space}::write', plain, mutates_args={'x'}).register_autograd(lambda ctx, g: g)",
    "no shapes without values": "custom_op(f'{space}::shapeless', plain, mutates_args=())(torch.ones(2, device='meta'))",
    "words for a number": "custom_op(f'{space}::number', number, mutates_args=())(torch.ones(2), 'a')",
    "a namespace of two": "Library(space + 'd', 'DEF'), Library(space + 'd', 'DEF')",
    "PyTorch's own namespace": "Library('prim', 'DEF')",
    "an unknown check": "opcheck(custom_op(f'{space}::op', plain, mutates_args=()), (torch.ones(2),), test_utils='nope')",
    "a wrong schema": "opcheck(custom_op(f'{space}::w', writing, mutates_args=()), (torch.ones(2),), test_utils=schema)",
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_what_a_library_refuses(code: str) -> None:
    space = fresh()

    def program(torch: Any) -> Any:
        def typed(function: Any, **kinds: Any) -> Any:
            function.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor, **kinds}
            return function

        scope = {
            "plain": typed(lambda x: x.clone()), "many": typed(lambda *x: x[0]),
            "writing": typed(lambda x: x.add_(1).clone()),
            "pair": typed(lambda x: x, x=tuple[int, int]), "number": typed(lambda x, n: x * n, n=float), "space": space,
            "schema": "test_schema",
        }  # fmt: skip
        return eval(code, {"torch": torch, **vars(torch.library), **scope})

    agree(program, raises=True, warns=False, words=5)


def test_a_library_that_nobody_has_is_forgotten() -> None:
    space = fresh()

    def program(torch: Any, log: Any) -> Any:
        library = torch.library.Library(space, "DEF")
        library.impl("later", lambda x: x + 1, "CPU")
        library.define("later(Tensor x) -> Tensor")
        log(getattr(torch.ops, space).later(torch.ones(1)))
        del library
        gc.collect()
        log(hasattr(getattr(torch.ops, space), "later"))
        again = torch.library.Library(space, "DEF")
        log(again.define("later(Tensor x) -> Tensor"))
        again._destroy()

    agree(program)


def test_functions_of_one_device_are_switched_off() -> None:
    space = fresh()

    def program(torch: Any) -> Any:
        @torch.library.custom_op(f"{space}::one", mutates_args=(), schema="(Tensor x) -> Tensor")
        def one(x: Any) -> Any:
            return x + 1

        @one.register_kernel("cpu")
        def _(x: Any) -> Any:
            return x + 5

        found = [one(torch.ones(1))]
        with one.set_kernel_enabled("cpu", False):
            found.append(one(torch.ones(1)))
        checks = torch.library.opcheck(one, (torch.ones(2),), test_utils=("test_schema", "test_autograd_registration"))
        return [*found, one(torch.ones(1)), checks]

    agree(program)


QUESTIONS = """
u.parse_namespace("a::b"), u.is_builtin(A.add.Tensor), str(u.lookup_op("aten::add.Tensor")), u.Kernel(abs, "here")(-2)
[u.is_functional_schema(op._schema) for op in (A.add.Tensor, A.add_.Tensor, A.view.default, A.copy_.default)]
[u.mutates_and_returns_first_arg(op) for op in (A.add.Tensor, A.add_.Tensor, A.view.default, A.copy_.default)]
[u.mutated_args_kwargs(op._schema) for op in (A.add.Tensor, A.add_.Tensor)], u.has_kwarg_only_args(A.add.Tensor._schema)
u.fill_defaults(A.add.Tensor._schema, (x, x), {}), len(list(u.iter_tensors((x, [x, x], 3), {"k": x})))
[(a.name, v) for a, v in u.zip_schema(A.add.Tensor._schema, (x, x), {"alpha": 2})]
[str(i.tuple_to_list(kind)) for kind in (tuple[int, int], tuple[int, ...], tuple, tuple[int, float], tuple[()])]
u.parse_namespace("ab")
"""


@pytest.mark.parametrize("code", QUESTIONS.strip().splitlines())
def test_questions_about_schemas(code: str) -> None:
    def program(torch: Any) -> Any:
        inside = [importlib.import_module(f"{torch.__name__}._library.{name}") for name in ("utils", "infer_schema")]
        return eval(code, {"u": inside[0], "i": inside[1], "A": torch.ops.aten, "x": torch.ones(1)})

    agree(program)
