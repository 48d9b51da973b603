"""Names inside PyTorch's autograd that packages and tests import: what they answer and how they refuse."""

from __future__ import annotations

import logging
import re
import sys
from types import ModuleType
from typing import Any

import pytest

from tests.oracle.harness import agree


def names(torch: Any) -> dict[str, Any]:
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(a: Any) -> Any:
            return a * 3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    x = torch.arange(4.0, dtype=torch.double).reshape(2, 2).requires_grad_()
    y = torch.ones(2, dtype=torch.double, requires_grad=True)
    own = torch.__name__
    return {
        "torch": torch, "x": x, "y": y, "z": y.detach(), "pair": lambda a, b: (a * b, a.sum()), "Triple": Triple,
        "is_tensor": lambda value: isinstance(value, torch.Tensor), "ag": torch.autograd,
        "f": sys.modules[f"{own}.autograd.function"], "F": __import__(f"{own}.autograd.functional").autograd.functional,
        "g": sys.modules[f"{own}.autograd.gradcheck"], "graph": torch.autograd.graph,
    }  # fmt: skip


FUNCTION = """
f._nested_map(is_tensor, lambda t: t.shape)([x, (y, None), {'a': x}])
f._nested_map(is_tensor, lambda t: t.shape, 'Tensors')([x, 3])
f._nested_map(is_tensor, lambda t: t.shape)([x, 3])
list(f._iter_tensors([x, (y, None), {'a': x}]))
list(f._iter_tensors([x, 3]))
list(f._iter_tensors_permissive([z, 3, 'a']))
list(f._iter_None_tensors([z, (None, z)]))
list(f._iter_filter(lambda v: isinstance(v, int), conversion=lambda v: v * 2)([1, [2, (3,)]]))
list(f._iter_filter(lambda v: isinstance(v, int), condition_msg='ints')([1, 'a']))
f._map_tensor_data([x, (y,)])
f._unflatten([1, 2, 3], [0, (0, 0)]), f._unflatten([1, 2, 3], [x, [x, x]])
f._is_setup_context_defined(ag.Function.setup_context), f._is_setup_context_defined(Triple.setup_context)
f.custom_function_call(Triple, y)
[*f._HookMixin._register_hook(None, print)[0].values()] == [print]
f._ContextMethodMixin is f.FunctionCtx, issubclass(ag.Function, f._SingleLevelFunction)
ag._calculate_shape(x, torch.ones(3, 2, 2), True)
ag._calculate_shape(graph.get_gradient_edge(y.sum()), torch.ones(()), False)
ag._tensor_or_tensors_to_tuple(None, 2), ag._tensor_or_tensors_to_tuple(z, 1), ag._tensor_or_tensors_to_tuple([1, 2], 2)
ag._make_grads((y.sum(), z), (None, None), False)
ag._make_grads((x,), (None,), False)
ag._make_grads((x,), (torch.ones(3),), False)
ag._make_grads((x,), (torch.ones(3, 3),), True)
ag._make_grads((x,), ('x',), False)
ag._make_grads((y.sum(),), (torch.ones((), dtype=torch.complex64),), False)
ag._is_checkpoint_valid()
graph._engine_run_backward((y.sum(),), (torch.ones((), dtype=torch.double),), False, False, (y,), allow_unreachable=True)
graph._engine_run_backward((y.sum(),), (z.sum(),), False, False, (), accumulate_grad=True), y.grad
graph._get_sid(y)[1], len(graph._get_tid(y))
""".strip().splitlines()

FUNCTIONAL = """
F._check_requires_grad((z,), 'outputs', True)
F._check_requires_grad((z,), 'jacobian', True)
F._check_requires_grad((y, z), 'grad_inputs', True)
F._check_requires_grad((z,), 'hessian', True)
F._check_requires_grad((z,), 'other', True)
F._check_requires_grad((None,), 'outputs', False)
F._check_requires_grad((None,), 'outputs', True)
F._validate_v((torch.ones(2),), (torch.ones(3),), False)
F._validate_v((torch.ones(2),), (torch.ones(3), torch.ones(2)), True)
F._validate_v((torch.ones(2),), (torch.ones(3),), True)
F._autograd_grad(((y * 2).sum(), z.sum()), (y,))
F._autograd_grad((z,), (y,))
F._autograd_grad((y * 2,), (y,), ())
F._fill_in_zeros((None,), (y,), False, False, 'back')
F._fill_in_zeros((None,), (y,), True, False, 'back_trick')
F._fill_in_zeros((None,), (y,), True, False, 'zz')
F._jacfwd(lambda a: a * 2, z, vectorize=True)
F._jacfwd(lambda a: a * 2, z)
F._jacfwd(lambda a: a * 2, z, strict=True, vectorize=True)
""".strip().splitlines()

GRADCHECK = """
g._get_numerical_jacobian(pair, (x, y))
g._get_numerical_jacobian(pair, (x, y), pair(x, y), x, 1e-6)
g.get_numerical_jacobian_wrt_specific_input(pair, 1, (x, y), pair(x, y), 1e-6)
g._check_analytical_jacobian_attributes((x, y), pair(x, y)[0], 0.0, True)
g._get_analytical_jacobian((x, y), pair(x, y), 0, 1)
g._as_tuple([1, 2]), g._as_tuple(3), g._transpose([[1, 2], [3, 4]])
list(g._iter_tensors([x, (y,)])), list(g._iter_tensors([x, z], True))
[(index, number) for _, index, number in g._iter_tensor(x)]
g._to_real_dtype(torch.complex64), g._to_real_dtype(torch.float16)
g._allclose_with_type_promotion(x, x + 1j, 0, 1e-3), g._dot_with_type_promotion(y, y + 1j)
g._mul_tensor_or_tuple((y, y), 2), g._reshape_tensor_or_tuple(x, (4,))
float(g._adjusted_atol(0.1, y, y)), float(g._adjusted_atol(0.1, (y, y), None))
g._densify([z, (3,)]), g._allocate_jacobians_with_inputs((x, z, y), 3), g._allocate_jacobians_with_outputs((x, y), 3)
g._get_inp_tensors((x, 3, z, y)), g._check_jacobians_equal([x], [x + 1], 0.5), g._check_inputs((x, y))
g._check_outputs((x,))
g._differentiable_outputs((x, z)), g._is_sparse_any_tensor(x), g._is_sparse_compressed_tensor(x)
g._test_backward_mul_by_grad_output(pair(x, y), (x, y), False), g._test_undefined_backward_mode(pair, pair(x, y), (x, y))
g._test_batched_grad((x, y), pair(x, y)[0], 0), g._test_batched_grad_forward_ad(pair, (x, y))
g._get_notallclose_msg(z, z, 0, 1, [0], True, False), g._get_notallclose_msg(z, z, 0, 1, [], True, True)
""".strip().splitlines()


@pytest.mark.parametrize("text", FUNCTION + FUNCTIONAL + GRADCHECK)
def test_answers(text: str) -> None:
    agree(lambda torch: eval(text, names(torch)))


def test_a_backward_pass_is_logged_node_by_node() -> None:
    log = logging.getLogger("torch.autograd.graph")

    def program(torch: ModuleType) -> list[str]:
        lines: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(re.sub(" at 0x[0-9a-f]*", "", record.getMessage()))  # type: ignore[method-assign]
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
        try:
            x = torch.ones(2, 3, requires_grad=True)
            first = (x * 2).exp().unbind(0)[0].sum()
            torch.autograd.graph._engine_run_backward(
                (first,), (torch.ones(()),), True, False, (), accumulate_grad=True
            )
            end = torch.autograd.graph._register_logging_hooks_on_whole_graph([first])
            end()
        finally:
            log.setLevel(logging.NOTSET)
            log.removeHandler(handler)
        return lines

    agree(program)
